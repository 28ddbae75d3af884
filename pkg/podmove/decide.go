package podmove

import (
	"cmp"
	"fmt"
	"path"
	"slices"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// Decision lists what a reconcile has to do, in this order, and what it found.
type Decision struct {
	// Ensure lists the slices of pods to create or to give other limits.
	Ensure []SliceSpec
	// Weights lists the partitions' own slices whose weight changes.
	Weights []WeightSpec
	// Scopes lists the scopes of containers whose CPU time changes.
	Scopes []ScopeSpec
	// CPU is the record after the reconcile.
	CPU CPURecord
	// Protect lists the partitions' own slices whose protected memory changes, and kubepods.slice if
	// that does.
	Protect []ProtectSpec
	// Raised is the protected memory that kubepods.slice has for all floors after the reconcile.
	Raised cgroups.Protection
	// KillScopes lists the scopes to end, with the processes in them: see Pod.Orphans.
	KillScopes []string
	// Outlived lists the scopes with processes that have outlived their pod.
	Outlived []report.Outlived
	// Stop lists the slices of pods that are gone.
	Stop []StopSpec
	// Move is the one pod to move now. It is nil if there is none or a move is under way.
	Move *Move
	// Wait means that the situation will change soon without an event.
	Wait bool
	// Empty lists the partitions that are switched off and have no slice of a pod. It is nil while a
	// pod is being moved.
	Empty []partition.Name
	// Done means that all partitions are switched off and empty.
	Done bool
	// Pods reports the pods, by namespace and name.
	Pods []report.Pod
}

// acts reports whether the reconcile changes something.
func (d *Decision) acts() bool {
	return len(d.Ensure)+len(d.Weights)+len(d.Scopes)+len(d.Protect)+len(d.KillScopes)+len(d.Stop) > 0 || d.Move != nil
}

// SliceSpec is a slice of a pod in a partition.
type SliceSpec struct {
	Name, Description string
	Limits            cgroups.Limits
}

// StopSpec is a slice to stop, and its pod.
type StopSpec struct{ Slice, UID string }

// WeightSpec is a slice of a partition and its cpu.weight.
type WeightSpec struct {
	Slice  string
	Weight uint64
}

// ProtectSpec is a slice, and its memory.min and memory.low.
type ProtectSpec struct {
	Slice  string
	Memory cgroups.Protection
}

// Move is a pod to move and the method.
type Move struct {
	*Pod
	To     partition.Name
	Method Method
	// Slice is the destination of its containers.
	Slice string
	// Containers lists the misplaced containers in the order in which to move them.
	Containers []Container
	// WasReady means that the kubelet reported the pod Ready before the move. The next pod waits until
	// it is Ready again.
	WasReady bool
}

// Decide compares the node with its configuration and returns what a reconcile has to do. It
// touches nothing.
func Decide(s Snapshot) Decision {
	d := Decision{CPU: newCPURecord()}
	s.recorded = s.CPU.byContainer()
	pods := slices.Clone(s.Pods)
	slices.SortFunc(pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	places := make([]partition.Place, len(pods))
	for i := range pods {
		places[i] = s.Rules.Place(pods[i].member())
		if pods[i].Exists && s.Ordered[pods[i].UID] {
			d.place(s, &pods[i], places[i]) // ordered pods come first
		}
	}
	for i := range pods {
		pod, belongs := &pods[i], places[i]
		d.KillScopes = append(d.KillScopes, pod.Orphans...)
		d.Outlived = append(d.Outlived, pod.Outlived...)
		d.Wait = d.Wait || pod.Settling
		for j := range pod.Partitions {
			d.slice(s, pod, belongs, &pod.Partitions[j])
		}
		if pod.Exists {
			d.containerCPU(s, pod, belongs)
		}
		if pod.Exists && !s.Ordered[pod.UID] {
			d.place(s, pod, belongs)
		}
	}
	slices.SortStableFunc(d.Pods, func(a, b report.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	for i := range s.Config.Partitions {
		d.weights(s, &s.Config.Partitions[i], pods, places)
	}
	d.raiseParent(s)
	d.end(s, pods)
	return d
}

// end decides which partitions have come to their end.
func (d *Decision) end(s Snapshot, pods []Pod) {
	if s.Moving != "" {
		return
	}
	for i := range s.Config.Partitions {
		p := &s.Config.Partitions[i]
		if p.Off && !slices.ContainsFunc(pods, func(pod Pod) bool { return pod.Cgroup(p.Name).Exists }) {
			d.Empty = append(d.Empty, p.Name)
		}
	}
	d.Done = len(d.Empty) == len(s.Config.Partitions)
}

// slice decides about the slice, in a partition, of a pod with that place.
func (d *Decision) slice(s Snapshot, pod *Pod, place partition.Place, cgroup *PodCgroup) {
	inUse, to := len(cgroup.Units) > 0, place.Partition
	switch {
	case pod.Exists && (to == cgroup.Partition && pod.Ready || inUse):
		//guard: a slice without the kubelet's beside it is not given limits
		if !pod.DefaultCgroup.Exists {
			// The kubelet has removed its own slice already, or makes none: nothing to mirror.
			return
		}
		if limits := s.limitsIn(pod, place, cgroup.Partition); !cgroup.Exists || cgroup.Limits != limits {
			spec := SliceSpec{cgroup.Slice, Description(pod.Namespace, pod.Name), limits}
			d.Ensure = append(d.Ensure, spec)
		}
	case cgroup.Exists && !inUse && !s.holdsMemory(pod, to, cgroup):
		// Not while a cgroup is in it: the runtime is removing that container, which wakes us at its end.
		d.Stop = append(d.Stop, StopSpec{cgroup.Slice, pod.UID})
	}
}

// holdsMemory reports whether the slice of a pod in a partition may still be charged for memory
// that the pod's processes left behind: files in an emptyDir with the medium Memory, and all that a
// pod has used before it was moved out alive. The kubelet unmounts files before it removes its own
// slice of the pod (SyncTerminatedPod, pkg/kubelet/kubelet.go), 0.9 s after the last container
// ended (seen with 1.37.0). If the slice were stopped before that, its memory would be charged to
// the slice above, and would belong to no pod.
func (s Snapshot) holdsMemory(pod *Pod, to partition.Name, cgroup *PodCgroup) bool {
	// The namespace is unknown once the runtime has forgotten the pod's sandbox.
	//guard: a slice that a pod has left alive stays while memory is charged to it
	stays := pod.Namespace == "" || to == cgroup.Partition || cgroup.Bytes > 0
	//guard: a pod's slice stays while its files in memory are mounted
	return pod.DefaultCgroup.Exists && s.Config.isOn(cgroup.Partition) && stays
}

// Description returns the description of a pod's slice, which systemctl status shows. It names the
// pod, because a UID means nothing to people.
func Description(namespace, name string) string { return "Pod " + namespace + "/" + name }

// placing holds a pod that is looked at, and its containers by where they are.
type placing struct {
	pod *Pod
	// to is the partition that the pod belongs to, and slice its slice there.
	to    partition.Name
	slice string
	// misplaced lists the containers in the pod's slices of other partitions, and foreign those that
	// are in no slice of the pod.
	misplaced, foreign []Container
	// creating means that the runtime has yet to start one of the containers.
	creating bool
}

// place reports where a pod is, and decides what to do if it belongs elsewhere.
func (d *Decision) place(s Snapshot, pod *Pod, belongs partition.Place) {
	to := belongs.Partition
	p := placing{pod: pod, to: to, slice: pod.Cgroup(to).Slice}
	out := report.Pod{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, QoS: pod.QoS,
		Member: to != partition.Default, Belongs: to, Workload: workloadReport(belongs),
		Slice: p.slice,
	}
	s.reportRequested(pod, belongs, out.Workload)
	for _, c := range pod.Containers {
		p.creating = p.creating || c.Creating
		if c.Running && (c.Unit != "" || c.Foreign) {
			p.count(c, &out)
		}
	}
	if len(p.misplaced) > 0 {
		out.Slice = p.misplaced[0].Slice
		out.Misplaced += len(p.misplaced)
		d.move(s, p, &out)
	} else if len(p.foreign) > 0 {
		if len(p.foreign) == out.Containers {
			out.Slice = p.foreign[0].Slice
		}
		out.Reason = report.Foreign
		out.Next = fmt.Sprintf(
			"nothing: container %s runs in %s, which is not a unit that the runtime made for it in a slice of the kubelet's",
			p.foreign[0].Name, path.Join(p.foreign[0].Slice, p.foreign[0].Unit),
		)
	}
	if pod.Ready || out.Containers > 0 {
		d.Pods = append(d.Pods, out)
	}
}

// count adds a running container to its pod and to the report.
func (p *placing) count(c Container, out *report.Pod) {
	out.Containers++
	if c.AlsoSlice != "" && c.Slice == p.slice {
		// One half is in its place. The other half has to move.
		c.Slice, c.Unit, c.AlsoSlice, c.AlsoUnit = c.AlsoSlice, c.AlsoUnit, c.Slice, c.Unit
	}
	if partition.IsLiveMoved(c.Unit) {
		out.LiveMoved++
		out.OutsideBytes = p.pod.DefaultCgroup.Bytes
	}
	switch {
	case c.Slice == p.slice:
	case !c.Foreign && (c.Slice == p.pod.DefaultCgroup.Slice || p.pod.inPartition(c.Slice)):
		p.misplaced = append(p.misplaced, c)
	case p.to != partition.Default:
		// In the default partition the runtime decides where containers are.
		p.foreign = append(p.foreign, c)
		out.Misplaced++
	}
}
