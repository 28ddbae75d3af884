package check

import (
	"fmt"
	"strings"

	"k8s.io/utils/cpuset"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/hostfs"
	"nodepartition/internal/interrupts"
)

// keptOff holds the effect of IRQ_CPUS on the node.
type keptOff struct {
	// on means that it is set.
	on bool
	// lacks says why it is not in effect for new interrupts, for those that are there or for both;
	// empty if it is.
	lacks string
	// forNew means that it is not in effect for new interrupts.
	forNew bool
	// change tells an operator how it comes into effect.
	change string
}

// keptOff reads what keeps interrupts off the exclusive CPUs.
func (c *checks) keptOff(exclusive cpuset.CPUSet) (keptOff, error) {
	if c.desired.Kubelet.Host.IRQCPUs == "" {
		return keptOff{}, nil
	}
	root := c.options.Node.Root
	data, err := root.ReadFile(interrupts.DefaultAffinity, maxSysfs)
	if err != nil {
		return keptOff{}, err
	}
	mask := strings.TrimSpace(string(data))
	affinity, err := interrupts.ParseMask(mask)
	if err != nil {
		return keptOff{}, fmt.Errorf("%s: %q: %w", interrupts.DefaultAffinity, mask, err)
	}
	if !affinity.Intersection(exclusive).IsEmpty() {
		return keptOff{
			on: true, forNew: true, lacks: fmt.Sprintf("%s is %s", interrupts.DefaultAffinity, mask),
			change: "systemctl daemon-reload, and then look at systemctl status partition-generator-interrupts.service; partition-generator has to be installed",
		}, nil
	}
	variables, runs := environment(root, c.cgroups, "system.slice/"+interrupts.Service)
	banned, _ := interrupts.Banned(func(name string) string { return variables[name] })
	switch {
	case !runs:
		return keptOff{
			on: true, lacks: interrupts.Service + " does not run, and nothing else moves the interrupts that are there",
			change: "run irqbalance, or write other CPUs to smp_affinity_list of the interrupts",
		}, nil
	case !exclusive.IsSubsetOf(banned):
		return keptOff{
			on: true, lacks: fmt.Sprintf("%s leaves out %s", interrupts.Service, noneIfEmpty(banned)),
			change: "journalctl -b -u irqbalance says why; a drop-in of " + interrupts.Service + " that sorts after 50-node-partition.conf wins over IRQ_CPUS",
		}, nil
	}
	return keptOff{on: true}, nil
}

func noneIfEmpty(cpus cpuset.CPUSet) string {
	if cpus.IsEmpty() {
		return "no CPU"
	}
	return cpus.String()
}

// environment returns the variables of the first process of a service, by its cgroup: a process
// elsewhere may have any name. It returns false if the service has none.
func environment(root hostfs.FS, cgroups cgroupfs.FS, service string) (map[string]string, bool) {
	pids, err := cgroups.ReadFile(service, "cgroup.procs")
	if err != nil {
		return nil, false
	}
	for pid := range strings.FieldsSeq(string(pids)) {
		data, err := root.ReadFile("/proc/"+pid+"/environ", maxEnvironment)
		if err != nil {
			continue // it has ended
		}
		variables := map[string]string{}
		for entry := range strings.SplitSeq(string(data), "\x00") {
			name, value, _ := strings.Cut(entry, "=")
			variables[name] = value
		}
		return variables, true
	}
	return nil, false
}

// maxEnvironment bounds the environment of a process. One of systemd has a page.
const maxEnvironment = 256 << 10
