package cgroups

import (
	"fmt"
	"strconv"
)

// CPU is the CPU time of a cgroup.
type CPU struct {
	// Weight is 1 to 10000 (cpu.weight), or 0 for a cgroup that only runs when a CPU idles.
	Weight uint64
	// Quota is the CPU time in each Period, both in microseconds (cpu.max). It is Unlimited without a
	// limit.
	Quota, Period uint64
}

// CPU reads the CPU time of a cgroup. It returns an error that is fs.ErrNotExist if the cgroup is
// gone, or has no CPU controller.
func (f FS) CPU(cgroup string) (CPU, error) {
	var cpu CPU
	text, err := f.read(cgroup, "cpu.weight")
	if err != nil {
		return CPU{}, err
	}
	if cpu.Weight, err = strconv.ParseUint(text, 10, 64); err != nil {
		return CPU{}, fmt.Errorf("cpu.weight of %s: %w", cgroup, err)
	}
	if text, err = f.read(cgroup, "cpu.max"); err != nil {
		return CPU{}, err
	}
	if cpu.Quota, cpu.Period, err = splitCPUMax(text); err != nil {
		return CPU{}, fmt.Errorf("cpu.max of %s: %w", cgroup, err)
	}
	return cpu, nil
}
