package node

import (
	"errors"
	"slices"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/host"
	"nodepartition/internal/membership"
	"nodepartition/internal/thresholds"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/podmove"
	"nodepartition/pkg/slices/config"
	"nodepartition/pkg/slices/decision"
)

// Followed is the configuration that the daemon follows.
type Followed struct {
	// Mode is the method of moving running pods.
	Mode podmove.Mode
	// Partitions lists the partitions that the node may have, in the order of the configuration.
	Partitions []FollowedPartition
	// Workloads lists the workload types.
	Workloads []membership.Workload
	// Allows knows the annotations of namespaces that the service has asked for. It is nil if no type
	// depends on them.
	Allows membership.Allows
	// Section is the SHA-256 of the sections in force, as config.Config.SectionDigest returns it. It
	// is empty if it is not known: an earlier version of the generator has written the units, and the
	// files have changed since.
	Section string
	// Made lists the partitions whose units the generator has written.
	Made []unitname.PartitionName
	// Desired has no partition if the configuration asks for none.
	Desired *Desired
	// Problem is the error of the present configuration. If there is one, the last good one is
	// followed.
	Problem error
	// NotApplied means that the files have changed since, and that no reload of systemd has applied
	// that.
	NotApplied bool
}

// FollowedPartition is the part of the configuration that the daemon follows of one partition.
type FollowedPartition struct {
	// PartitionPolicy is the part that placement needs. A partition that is off has its former
	// namespaces, for the report.
	podmove.PartitionPolicy
	// Thresholds of eviction, nil for a partition that is off or whose limit is not known.
	Thresholds *thresholds.Thresholds
	// Deferral is the generator's decision that a lowered limit waits for evictions; nil for none.
	Deferral *decision.Deferral
}

// Off reports whether all partitions are switched off.
func (f Followed) Off() bool {
	return !slices.ContainsFunc(f.Partitions, func(p FollowedPartition) bool { return !p.Off })
}

// Policy returns the part of the configuration that placement needs.
func (f Followed) Policy() podmove.Policy {
	p := podmove.Policy{Mode: f.Mode, Workloads: f.Workloads, Allows: f.Allows}
	for _, of := range f.Partitions {
		p.Partitions = append(p.Partitions, of.PartitionPolicy)
	}
	return p
}

// Of returns what is followed of a partition, which is off if nothing is.
func (f Followed) Of(name unitname.PartitionName) FollowedPartition {
	for _, p := range f.Partitions {
		if p.Name == name {
			return p
		}
	}
	return FollowedPartition{PartitionPolicy: podmove.PartitionPolicy{Name: name, Off: true}}
}

// Desired is the configuration in the files, which the generator and the daemon are to follow.
type Desired struct {
	*config.Config
	// Deferrals holds, by partition, the limits that the generator has not applied for now.
	Deferrals map[unitname.PartitionName]*decision.Deferral
}

// ReadDesired reads the configuration as the generator does. Unlike the generator, which runs
// before the kubelet, we see its command line.
func ReadDesired(node host.Node) (*Desired, error) {
	desired, err := loadDesired(node)
	decided, readErr := decision.Read(string(node.Root))
	switch {
	case readErr != nil:
	case err == nil:
		desired.compare(decided)
	case decided == nil && !desired.hasOthers(nil), decided != nil && !desired.hasOthers(decided.Partitions):
		err = desired.unlessKubelets(err)
	}
	return desired, err
}

// loadDesired returns the configuration in the files.
func loadDesired(node host.Node) (*Desired, error) {
	c, err := config.Load(string(node.Root))
	if missing := missingFacts(node); err != nil && missing != nil {
		err = missing
	}
	return NewDesired(node, c, err)
}

// NewDesired returns the desired state of a configuration that config.Load or config.LoadWith has
// returned.
func NewDesired(node host.Node, c *config.Config, err error) (*Desired, error) {
	d := &Desired{Config: c}
	if why := RunningYields(node); why != "" {
		d.LeaveToKubelet(why)
	}
	return d, err
}

// hasOthers reports whether there is a partition that the kubelet does not make itself, or the
// files ask for one.
func (d *Desired) hasOthers(partitions []decision.Partition) bool {
	//guard: the first broken section is said beside a kubelet that makes a partition
	return d.AsksOthers() ||
		slices.ContainsFunc(partitions, func(p decision.Partition) bool { return !d.IsKubelets(p.Name) })
}

// unlessKubelets returns an error of the configuration, and nil if the kubelet makes the one
// partition that there is: then what is invalid is the kubelet's business.
func (d *Desired) unlessKubelets(err error) error {
	if d.ManagedByKubelet != "" {
		return nil
	}
	return err
}

// compare completes a valid configuration by what the generator has decided of it, if that is its
// last decision.
func (d *Desired) compare(decided *decision.Decision) {
	//guard: a limit that waits is that of the configuration that was decided
	if decided == nil || decided.Identity != d.Identity() {
		return
	}
	for _, p := range decided.Partitions {
		if p.Deferral == nil {
			continue
		}
		if d.Deferrals == nil {
			d.Deferrals = map[unitname.PartitionName]*decision.Deferral{}
		}
		d.Deferrals[p.Name] = p.Deferral
		d.Warnings = append(d.Warnings, p.Deferral.Warning)
	}
}

// NotApplied is the message about an edit that was not applied.
const NotApplied = "the configuration was changed and is not applied yet: systemctl daemon-reload"

// LoadConfig reads the configuration in the files, and follows it even if no reload of systemd has
// applied it. If it is broken, LoadConfig is LoadApplied.
func LoadConfig(node host.Node, mode podmove.Mode, keep Keep) (Followed, error) {
	n := readNode(node, mode)
	if n.Problem != nil {
		return n.withSection(n.applied(keep))
	}
	return n.withSection(n.files(keep))
}

// LoadApplied returns the configuration that the generator has applied, from its decision. A
// restart, perhaps after a crash, must not switch to an unapplied configuration. The applied one is
// also followed while the files are broken. An operator's SIGHUP counts until the next decision.
//
// Without a decision LoadApplied follows the files, and the last good ones while they are broken.
// It returns an error if there is nothing to follow.
func LoadApplied(node host.Node, mode podmove.Mode, keep Keep) (Followed, error) {
	n := readNode(node, mode)
	return n.withSection(n.applied(keep))
}

// LoadReloaded is LoadApplied after a reload of systemd, which ends an operator's SIGHUP. The
// decision does not show that if the edit was taken back: then it is the same as before the SIGHUP.
// A file that is broken changes nothing.
func LoadReloaded(node host.Node, mode podmove.Mode, keep Keep) (Followed, error) {
	n := readNode(node, mode)
	return n.withSection(n.reloaded(keep))
}

// reading holds the three sources: the files, the decision, and what was followed.
type reading struct {
	Followed
	node host.Node
	// decided is nil without a decision.
	decided *decision.Decision
	// outdated means that there are units without a decision.
	outdated bool
	last     Members
	lastErr  error
}

// readNode reads the files, the generator's decision, and what we have followed.
func readNode(node host.Node, mode podmove.Mode) *reading {
	n := &reading{node: node}
	n.Mode = mode
	n.Desired, n.Problem = loadDesired(node)
	var err error
	n.decided, err = decision.Read(string(node.Root))
	switch {
	case err == nil && n.decided != nil && n.Problem == nil:
		n.Desired.compare(n.decided)
	case err != nil:
		n.outdated = true
		if !errors.Is(err, decision.ErrNone) {
			n.Problem = errors.Join(n.Problem, err)
		}
	}
	n.last, n.lastErr = readMembers(node.Path(MembersFile))
	followed := slices.Concat(n.last.Partitions, n.last.Former)
	if n.decided != nil {
		followed = append(followed, n.decided.Partitions...)
		for _, p := range n.decided.Partitions {
			n.Made = append(n.Made, p.Name)
		}
	}
	//guard: what is wrong with the other partitions is said beside a kubelet that makes one
	if n.Problem != nil && !n.Desired.hasOthers(followed) {
		n.Problem = n.Desired.unlessKubelets(n.Problem)
	}
	n.follow(nil, nil) // until it is known what to follow
	return n
}

// withSection completes what is followed by the digest of the sections: those that the generator
// has read, whatever the files say since. Without a decision the files are followed.
func (n *reading) withSection(f Followed, err error) (Followed, error) {
	switch {
	//guard: the label is of the file that the generator has read, and not of a later one
	case n.decided != nil && n.decided.Section != "":
		f.Section = n.decided.Section
	case n.Problem == nil && !n.NotApplied:
		f.Section = n.Desired.SectionDigest()
	}
	return f, err
}

// applied follows what the generator has applied.
func (n *reading) applied(keep Keep) (Followed, error) {
	switch {
	case n.decided != nil && n.lastErr == nil && n.last.follows(n.decided):
		n.NotApplied = n.Problem == nil && n.last.Identity != n.Desired.Identity()
		n.follow(n.last.Partitions, n.last.Workloads)
	case n.decided != nil:
		n.NotApplied = n.Problem == nil && n.decided.Identity != n.Desired.Identity()
		n.follow(n.decided.Partitions, n.decided.Workloads)
		return n.Followed, n.keep(keep, n.decided.Partitions, n.decided.Identity)
	case n.Problem != nil:
		if n.lastErr != nil {
			return n.Followed, errors.Join(n.Problem, n.lastErr)
		}
		n.follow(n.last.Partitions, n.last.Workloads)
	case n.outdated && n.lastErr == nil && !n.last.equal(membersOf(n.Desired.Config)):
		n.NotApplied = true
		n.follow(n.last.Partitions, n.last.Workloads)
	default:
		return n.files(keep)
	}
	return n.Followed, nil
}

// reloaded follows what the generator has applied just now.
func (n *reading) reloaded(keep Keep) (Followed, error) {
	//guard: a file that is broken does not end a SIGHUP
	if n.Problem == nil {
		//guard: a reload of systemd ends a SIGHUP whose edit was taken back
		n.last.Over = ""
	}
	return n.applied(keep)
}

// files follows the files.
func (n *reading) files(keep Keep) (Followed, error) {
	partitions := decision.PartitionsOf(n.Desired.Config)
	n.follow(partitions, n.Desired.Workloads)
	return n.Followed, n.keep(keep, partitions, n.Desired.Identity())
}

// follow fills in the configuration to follow. A partition that the node may have and that is not
// among those to follow is off.
func (n *reading) follow(partitions []decision.Partition, workloads []membership.Workload) {
	n.Partitions = nil
	n.Workloads = slices.DeleteFunc(slices.Clone(workloads), func(w membership.Workload) bool {
		//guard: types of the kubelet's partition are not followed
		return n.Desired.IsKubelets(w.Partition)
	})
	if slices.ContainsFunc(n.Workloads, func(w membership.Workload) bool { return w.ByNamespace }) {
		n.Allows = AllowedByFile(n.node)
	}
	for _, p := range partitions {
		//guard: nothing is followed beside a kubelet that makes the partition
		if !n.Desired.IsKubelets(p.Name) {
			n.Partitions = append(n.Partitions, n.followed(p))
		}
	}
	for _, name := range n.names() {
		if !slices.ContainsFunc(n.Partitions, func(p FollowedPartition) bool { return p.Name == name }) {
			off := podmove.PartitionPolicy{Name: name, Off: true, Namespaces: n.last.of(name).Namespaces}
			n.Partitions = append(n.Partitions, FollowedPartition{PartitionPolicy: off})
		}
	}
}

// names lists the partitions that the node may have: by the configuration, and those that were
// followed. If there are others, a partition that is not to be made counts while its cgroup exists.
func (n *reading) names() []unitname.PartitionName {
	names := slices.Clone(n.Desired.Names)
	for _, p := range slices.Concat(n.last.Partitions, n.last.Former) {
		if !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
	}
	return slices.DeleteFunc(names, func(name unitname.PartitionName) bool {
		//guard: slices of a kubelet that makes the partition are not stopped, nor its pods moved
		//guard: a partition that is gone is forgotten
		return n.Desired.IsKubelets(name) || len(n.Partitions) > 0 && !HasCgroup(n.node, name)
	})
}

// HasCgroup reports whether a partition has a cgroup on a node.
func HasCgroup(node host.Node, name unitname.PartitionName) bool {
	return node.Cgroups.Has(unitname.CgroupPath(name.Slice()))
}

// AnyActive reports whether a partition of ours has a cgroup: the system partition, or one that the
// generator has made or the monitor has followed. A slice of another name is somebody else's.
func AnyActive(node host.Node) bool {
	if HasCgroup(node, unitname.First) {
		return true
	}
	last, _ := readMembers(node.Path(MembersFile)) // without it nothing was followed
	known := slices.Concat(last.Partitions, last.Former)
	if decided, err := decision.Read(string(node.Root)); err == nil && decided != nil {
		known = append(known, decided.Partitions...)
	}
	return slices.ContainsFunc(known, func(p decision.Partition) bool { return HasCgroup(node, p.Name) })
}

// followed returns what is followed of a partition.
func (n *reading) followed(p decision.Partition) FollowedPartition {
	f := FollowedPartition{
		PartitionPolicy: podmove.PartitionPolicy{
			Name: p.Name, Namespaces: p.Namespaces, Floor: cgroupfs.Protection(p.Floor),
		},
		Thresholds: p.Eviction,
	}
	if f.Thresholds == nil {
		f.Thresholds = presentThresholds(n.node.Cgroups, p.Name)
	}
	// An operator's SIGHUP may ask for another limit than the one that waits.
	//guard: a limit that an operator asks for by SIGHUP does not wait
	if d := n.deferral(p.Name); d != nil && f.Thresholds != nil && f.Thresholds.Limit == d.Limit {
		f.Deferral = d
	}
	return f
}

// deferral returns the limit of a partition that waits by the generator's last decision.
func (n *reading) deferral(name unitname.PartitionName) *decision.Deferral {
	if n.decided == nil {
		return nil
	}
	for _, p := range n.decided.Partitions {
		if p.Name == name {
			return p.Deferral
		}
	}
	return nil
}

// former lists the partitions that are off and have a cgroup.
func (n *reading) former() []decision.Partition {
	var list []decision.Partition
	for i := range n.Partitions {
		if p := &n.Partitions[i]; p.Off && HasCgroup(n.node, p.Name) {
			list = append(list, decision.Partition{Name: p.Name, Namespaces: p.Namespaces})
		}
	}
	return list
}

// keep stores what is followed, with its identity, if there is anything.
func (n *reading) keep(keep Keep, partitions []decision.Partition, identity string) error {
	if n.Off() {
		return nil
	}
	//guard: a partition that was removed is remembered for as long as its pods are in it
	m := Members{Identity: identity, Workloads: n.Workloads, Former: n.former()}
	for _, p := range partitions {
		//guard: which limit waits is not kept by the monitor
		p.Deferral = nil // which limit waits is the generator's to decide
		m.Partitions = append(m.Partitions, p)
	}
	if n.decided != nil {
		m.Over = n.decided.Identity
	}
	return keep(n.node.Path(MembersFile), m)
}
