package node

import (
	"errors"
	"slices"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/partition"
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

// Desired is the configuration in the files, for commands that judge it.
type Desired struct {
	*config.Config
	// Deferrals holds, by partition, the limits that the generator has not applied for now.
	Deferrals map[partition.Name]*decision.Deferral
	// NotApplied is why the generator's decision is not about these files, nil if it is.
	NotApplied error
}

// ErrNotApplied means that the files were changed since the generator has decided.
var ErrNotApplied = errors.New("the configuration was changed and is not applied yet: systemctl daemon-reload")

// ReadDesired reads the configuration in the files as the generator does, and compares it with the
// generator's decision. Unlike the generator, which runs before the kubelet, it sees the kubelet's
// command line.
func ReadDesired(node host.Node) (*Desired, error) {
	c, err := config.Load(string(node.Root))
	if missing := missingFacts(node); err != nil && missing != nil {
		err = missing
	}
	desired, err := NewDesired(node, c, err)
	if err != nil && desired.ManagedByKubelet != "" && !desired.AsksOthers() {
		err = nil // what is invalid is the kubelet's business
	}
	decided, readErr := read(node)
	switch {
	case errors.Is(readErr, decision.ErrNone) && (node.Foreign || len(desired.Partitions) == 0 && !AnyActive(node)):
	case readErr != nil:
		desired.NotApplied = readErr
	//guard: a limit that waits is that of the configuration that was decided
	case err == nil && !desired.Off && decided.Identity != desired.Identity():
		desired.NotApplied = ErrNotApplied
	case err == nil:
		desired.defers(decided)
	}
	return desired, err
}

// NewDesired returns the desired state of a configuration that config.Load or config.LoadWith has
// returned.
func NewDesired(node host.Node, c *config.Config, err error) (*Desired, error) {
	d := &Desired{Config: c}
	if why := runningYields(node); why != "" {
		d.LeaveToKubelet(why)
	}
	return d, err
}

// defers adds the limits that wait by the decision about the files.
func (d *Desired) defers(decided *decision.Decision) {
	d.Deferrals = map[partition.Name]*decision.Deferral{}
	for i := range decided.Partitions {
		if p := &decided.Partitions[i]; p.Deferral != nil {
			d.Deferrals[p.Name] = p.Deferral
			d.Warnings = append(d.Warnings, p.Deferral.Warning)
		}
	}
}
