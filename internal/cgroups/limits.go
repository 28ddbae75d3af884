package cgroups

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Unlimited is "max" in the kernel's files, and infinity in systemd's properties, whose types are
// uint64.
const Unlimited = math.MaxUint64

// Limits are the limits of a pod's slice that the kubelet sets (ResourceConfigForPod
// and ApplyPodLevelMemoryHigh, pkg/kubelet/cm/helpers_linux.go) and that systemd has properties
// for.
type Limits struct {
	// MemoryMax in bytes (memory.max).
	MemoryMax uint64
	// MemoryHigh in bytes (memory.high). The kubelet sets it with memoryThrottlingFactor for a pod
	// with pod-level resources, and then for none of its containers.
	MemoryHigh uint64
	// cpuWeight is 1 to 10000 (cpu.weight).
	CPUWeight uint64
	// CPUQuotaPerSec is the CPU time per second of wall clock in microseconds, in steps of 10 ms. It
	// is cpu.max rounded up as runc does for systemd, which once accepted whole percents only
	// (addCPUQuota, opencontainers/cgroups systemd/common.go).
	CPUQuotaPerSec uint64
	// CPUQuotaPeriod in microseconds, the second number of cpu.max.
	CPUQuotaPeriod uint64
	// TasksMax is pids.max.
	TasksMax uint64
	// Protection is set by the kubelet with memoryReservationPolicy: TieredReservation.
	Protection Protection
}

// Protection is memory that the kernel does not reclaim, in bytes. It is effective as far as the
// cgroups above have as much (Documentation/admin-guide/cgroup-v2.rst).
type Protection struct {
	// Min is never reclaimed (memory.min), Low only if nothing else is left (memory.low).
	Min uint64 `json:"min"`
	Low uint64 `json:"low"`
}

// Plus returns the sum of the protections of two cgroups.
func (p Protection) Plus(q Protection) Protection {
	return Protection{plus(p.Min, q.Min), plus(p.Low, q.Low)}
}

// AtLeast returns the larger protection in each of the two ways.
func (p Protection) AtLeast(q Protection) Protection {
	return Protection{max(p.Min, q.Min), max(p.Low, q.Low)}
}

// plus adds without an overflow: the largest sum is Unlimited.
func plus(a, b uint64) uint64 {
	if sum := a + b; sum >= a {
		return sum
	}
	return Unlimited
}

// NoLimits holds the values of a slice without limits.
var NoLimits = Limits{
	MemoryMax:      Unlimited,
	MemoryHigh:     Unlimited,
	CPUWeight:      100,
	CPUQuotaPerSec: Unlimited,
	CPUQuotaPeriod: 100_000,
	TasksMax:       Unlimited,
}

// Limits reads the limits of the cgroup at path, relative to the root of the file system. A missing
// file counts as no limit, because its controller is not enabled. If the cgroup is missing, it
// returns an error that is fs.ErrNotExist.
func (f FS) Limits(path string) (Limits, error) {
	limits := NoLimits
	files := files{root: f, cgroup: path}
	for _, file := range []struct {
		name  string
		parse func(string) error
	}{
		{"memory.max", func(s string) (err error) { limits.MemoryMax, err = parseMax(s); return }},
		{"memory.high", func(s string) (err error) { limits.MemoryHigh, err = parseMax(s); return }},
		{"cpu.weight", func(s string) (err error) { limits.CPUWeight, err = strconv.ParseUint(s, 10, 64); return }},
		{"cpu.max", func(s string) (err error) {
			limits.CPUQuotaPerSec, limits.CPUQuotaPeriod, err = parseCPUMax(s)
			return err
		}},
		{"memory.min", func(s string) (err error) { limits.Protection.Min, err = parseMax(s); return }},
		{"memory.low", func(s string) (err error) { limits.Protection.Low, err = parseMax(s); return }},
		{"pids.max", func(s string) (err error) { limits.TasksMax, err = parseMax(s); return }},
	} {
		text, ok := files.read(file.name)
		if !ok {
			continue
		}
		if err := file.parse(strings.TrimSuffix(string(text), "\n")); err != nil {
			files.fail(file.name, err)
		}
	}
	return limits, files.result()
}

// parseMax parses a number or "max".
func parseMax(text string) (uint64, error) {
	if text == "max" {
		return Unlimited, nil
	}
	return strconv.ParseUint(text, 10, 64)
}

// splitCPUMax parses "max 100000" or "20000 100000".
func splitCPUMax(text string) (quota, period uint64, err error) {
	first, second, ok := strings.Cut(text, " ")
	if !ok {
		return 0, 0, fmt.Errorf("%q: want quota and period", text)
	}
	if quota, err = parseMax(first); err != nil {
		return 0, 0, err
	}
	period, err = strconv.ParseUint(second, 10, 64)
	return quota, period, err
}

// parseCPUMax parses cpu.max into microseconds per second and the period.
func parseCPUMax(text string) (perSecond, period uint64, err error) {
	quota, period, err := splitCPUMax(text)
	if err != nil || quota == Unlimited {
		return quota, period, err
	}
	if period == 0 || quota > math.MaxUint64/1_000_000 {
		return 0, 0, fmt.Errorf("%q: out of range", text)
	}
	const step = 10_000
	perSecond = quota * 1_000_000 / period
	return (perSecond + step - 1) / step * step, period, nil
}
