package node

import (
	"errors"
	"fmt"
	"slices"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/slices/config"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// StateDir holds the state files of the monitor, and its lock.
const StateDir = config.StateDir + "/monitor"

// Followed is the configuration that the daemon follows: the generator's decision, without the
// partition that the running kubelet makes itself.
type Followed struct {
	decision.Decision
	// Mode is the method of moving running pods.
	Mode podmove.Mode
	// Problem is why the present files are not in force, nil if the generator has not refused them.
	Problem error
	// Unknown means that a daemon which runs cannot read the decision any more. The rest is of the
	// last one that it has read.
	Unknown bool
}

// Load returns the configuration that the daemon follows. If it is not known, for whatever reason,
// Load returns an error: nothing is switched off then.
func Load(node host.Node, mode podmove.Mode) (Followed, error) {
	f := Followed{Mode: mode}
	if refused := decision.ReadWatch(string(node.Root)).Refused; refused != "" {
		f.Problem = errors.New(refused)
	}
	decided, err := read(node)
	if err != nil {
		f.Problem = errors.Join(err, f.Problem)
		return f, f.Problem
	}
	f.Decision = *decided
	if why := runningYields(node); why != "" {
		f.ManagedByKubelet = why
	}
	//guard: nothing is followed beside a kubelet that makes the partition
	f.Partitions = slices.DeleteFunc(f.Partitions, func(p decision.Partition) bool { return f.IsKubelets(p.Name) })
	//guard: types of the kubelet's partition are not followed
	f.Workloads = slices.DeleteFunc(f.Workloads, func(w partition.Workload) bool { return f.IsKubelets(w.Partition) })
	if len(f.Partitions) == 0 && f.ManagedByKubelet == "" {
		f.Partitions = []decision.Partition{{Name: partition.System, Off: true}}
	}
	return f, nil
}

// read returns the generator's decision. With the off switch on the kernel command line it makes no
// partition, and has nothing to decide.
func read(node host.Node) (*decision.Decision, error) {
	decided, err := decision.Read(string(node.Root))
	if off, offErr := config.SwitchedOff(node.Root); off && offErr == nil {
		return &decision.Decision{}, nil
	}
	return decided, err
}

// IsKubelets reports whether the kubelet makes a partition itself.
func (f Followed) IsKubelets(name partition.Name) bool {
	return name == partition.System && f.ManagedByKubelet != ""
}

// Policy returns the part of the configuration that placement needs.
func (f Followed) Policy() podmove.Policy {
	return podmove.Policy{Partitions: f.Partitions, Workloads: f.Workloads, Mode: f.Mode}
}

// HasCgroup reports whether a partition has a cgroup on a node.
func HasCgroup(node host.Node, name partition.Name) bool {
	return node.Cgroups.Has(partition.CgroupPath(name.Slice()))
}

// AnyActive reports whether a partition of ours has a cgroup: the system partition, or one that the
// generator has decided about. A slice of another name is somebody else's.
func AnyActive(node host.Node) bool {
	if HasCgroup(node, partition.First) {
		return true
	}
	decided, err := decision.Read(string(node.Root))
	return err == nil && slices.ContainsFunc(decided.Partitions, func(p decision.Partition) bool {
		return HasCgroup(node, p.Name)
	})
}

// Types lists the workload types whose pods are members of a partition.
func (f Followed) Types(of partition.Name) []string {
	var types []string
	for _, w := range f.Workloads {
		if w.Partition == of {
			types = append(types, w.Type)
		}
	}
	return types
}

// Advertised lists the workload types whose resource is to be on the Node.
func (f Followed) Advertised() []string {
	var types []string
	for _, w := range f.Workloads {
		if w.Advertise {
			types = append(types, w.Type)
		}
	}
	return types
}

// EvictionOf returns the settings for a partition of a configuration: those of the flags, with its
// thresholds. Without any, eviction is off.
func (f *Followed) EvictionOf(p *decision.Partition, flags EvictionFlags) evict.Settings {
	s := flags.Settings
	if p.Eviction != nil {
		s.Thresholds = *p.Eviction
	}
	s.Lowering = p.Deferral != nil
	//guard: nothing is evicted while it is not known what to follow
	s.Off = s.Off || p.Eviction == nil || f.Unknown
	return s
}

// runningYields returns the reason if the running kubelet of n makes the partition itself, and ""
// if it does not or no kubelet runs. Flags are merged over the configuration
// (kubeletConfigFlagPrecedence, cmd/kubelet/app/server.go, v1.37.0), which may be younger than the
// generator's decision.
func runningYields(n host.Node) string {
	process, err := kubelet.Running(n.Root)
	if err != nil {
		return ""
	}
	files, _ := kubeletconfig.Load(n.Root)
	on, named := process.FeatureGates[config.Gate]
	if !named {
		on = files.Kubelet.FeatureGates[config.Gate]
	}
	if !on {
		return ""
	}
	return fmt.Sprintf(
		"command line and configuration of the running kubelet (process %d): feature gates: %s is on: the kubelet makes the "+
			"system partition itself, leaving it alone", process.PID, config.Gate,
	)
}
