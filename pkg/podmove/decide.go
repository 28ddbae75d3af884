package podmove

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/unitname"
)

// Decision lists what a pass has to do, in this order, and what it found.
type Decision struct {
	// Ensure lists the slices of pods to create or to give other limits.
	Ensure []SliceSpec
	// Weights lists the partition's own slices whose weight changes.
	Weights []WeightSpec
	// Protect lists the partition's own slices whose protected memory changes, and kubepods.slice if
	// that does.
	Protect []ProtectSpec
	// Raised is the protected memory that kubepods.slice has for the partition's floor after the pass.
	Raised cgroupfs.Protection
	// KillScopes lists the scopes to end, with the processes in them: see Pod.Orphans.
	KillScopes []string
	// Outlived lists the scopes with processes that have outlived their pod.
	Outlived []Outlived
	// Stop lists the slices of pods that are gone.
	Stop []StopSpec
	// Move is the one pod to move now. It is nil if there is none or a move is under way.
	Move *Move
	// Wait means that the situation will change soon without an event.
	Wait bool
	// Done means that the partition is switched off and empty.
	Done bool
	// Pods reports the pods, by namespace and name.
	Pods []PodReport
}

// SliceSpec is a slice of a pod in the partition.
type SliceSpec struct {
	Name, Description string
	Limits            cgroupfs.Limits
}

// StopSpec is a slice to stop, and its pod.
type StopSpec struct{ Slice, UID string }

// WeightSpec is a slice of the partition and its cpu.weight.
type WeightSpec struct {
	Slice  string
	Weight uint64
}

// ProtectSpec is a slice, and its memory.min and memory.low.
type ProtectSpec struct {
	Slice  string
	Memory cgroupfs.Protection
}

// Move is a pod to move and the method.
type Move struct {
	UID, Namespace, Name string
	To                   unitname.Partition
	Method               Method
	// Slice is the destination of its containers.
	Slice string
	// Containers lists the misplaced containers in the order in which to move them.
	Containers  []Container
	GracePeriod time.Duration
	// WasReady means that the kubelet reported the pod Ready before the move. The next pod waits until
	// it is Ready again.
	WasReady bool
}

// Decide compares the node with its configuration and returns what a pass has to do. It touches
// nothing.
func Decide(s Snapshot) Decision {
	var d Decision
	pods := slices.Clone(s.Pods)
	slices.SortFunc(pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	for _, pod := range pods {
		if pod.Exists && s.Ordered[pod.UID] {
			d.place(s, pod) // ordered pods come first
		}
	}
	inPartition := false
	for _, pod := range pods {
		d.KillScopes = append(d.KillScopes, pod.Orphans...)
		d.Outlived = append(d.Outlived, pod.Outlived...)
		d.Wait = d.Wait || pod.Settling
		d.slice(s, pod)
		if pod.Exists && !s.Ordered[pod.UID] {
			d.place(s, pod)
		}
		inPartition = inPartition || pod.PartitionCgroup.Exists
	}
	slices.SortStableFunc(d.Pods, func(a, b PodReport) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	d.weights(s, pods)
	d.raiseParent(s)
	d.Done = s.Config.Off && !inPartition && s.Moving == ""
	return d
}

// belongs returns the partition that a pod belongs to.
func (s Snapshot) belongs(pod Pod) unitname.Partition {
	if !s.Config.Off && slices.Contains(s.Config.Namespaces, pod.Namespace) {
		return s.Config.Partition
	}
	return unitname.Default
}

// slice decides about the slice of a pod in the partition.
func (d *Decision) slice(s Snapshot, pod Pod) {
	inUse := len(pod.PartitionCgroup.Units) > 0
	switch {
	case pod.Exists && (s.belongs(pod) != unitname.Default && pod.Ready || inUse):
		if !pod.DefaultCgroup.Exists {
			// The kubelet has removed its own slice already, or makes none: nothing to mirror.
			return
		}
		if !pod.PartitionCgroup.Exists || pod.PartitionCgroup.Limits != pod.DefaultCgroup.Limits {
			d.Ensure = append(
				d.Ensure,
				SliceSpec{
					Name:        pod.PartitionCgroup.Slice,
					Description: Description(pod.Namespace, pod.Name),
					Limits:      pod.DefaultCgroup.Limits,
				},
			)
		}
	case pod.PartitionCgroup.Exists && !inUse && !s.holdsMemory(pod):
		// Not while a cgroup is in it: the runtime is removing that container, which wakes us at its end.
		d.Stop = append(d.Stop, StopSpec{pod.PartitionCgroup.Slice, pod.UID})
	}
}

// holdsMemory reports whether the slice of a pod in the partition may still be charged for memory
// that the pod's processes left behind: files in an emptyDir with the medium Memory. The kubelet
// unmounts them before it removes its own slice of the pod (SyncTerminatedPod,
// pkg/kubelet/kubelet.go), 0.9 s after the last container ended (seen with 1.37.0). If the slice
// were stopped before that, its memory would be charged to the slice above, and eviction could only
// hold it against other pods.
func (s Snapshot) holdsMemory(pod Pod) bool {
	// The namespace is unknown once the runtime has forgotten the pod's sandbox.
	return pod.DefaultCgroup.Exists && !s.Config.Off && (pod.Namespace == "" || s.belongs(pod) != unitname.Default)
}

// Description returns the description of a pod's slice, which systemctl status shows. It names the
// pod, because a UID means nothing to people.
func Description(namespace, name string) string { return "Pod " + namespace + "/" + name }

// place reports where a pod is, and decides what to do if that is not where it belongs.
func (d *Decision) place(s Snapshot, pod Pod) {
	want := s.belongs(pod)
	report := PodReport{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, QoS: pod.QoS,
		Member: slices.Contains(s.Config.Namespaces, pod.Namespace),
		Slice:  pod.slice(want),
	}
	var misplaced, foreign []Container
	creating := false
	for _, c := range pod.Containers {
		creating = creating || c.Creating
		if !c.Running || c.Unit == "" && !c.Foreign {
			continue
		}
		report.Containers++
		if c.AlsoSlice != "" && c.Slice == pod.slice(want) {
			// One half is in its place. The other half has to move.
			c.Slice, c.Unit, c.AlsoSlice, c.AlsoUnit = c.AlsoSlice, c.AlsoUnit, c.Slice, c.Unit
		}
		if c.IdleCPUs != "" {
			report.IdleCPUs = strings.TrimPrefix(report.IdleCPUs+","+c.IdleCPUs, ",")
		}
		if unitname.IsLiveMoved(c.Unit) {
			report.LiveMoved++
			report.OutsideBytes = pod.DefaultCgroup.Bytes
		}
		switch {
		case c.Slice == pod.slice(want):
		case c.Slice == pod.slice(s.other(want)):
			misplaced = append(misplaced, c)
		case want != unitname.Default:
			// In the default partition the runtime decides where containers are.
			foreign = append(foreign, c)
			report.Misplaced++
		}
	}
	if len(misplaced) > 0 {
		report.Slice = pod.slice(s.other(want))
		report.Misplaced += len(misplaced)
		d.move(s, pod, want, misplaced, creating, &report)
	} else if len(foreign) > 0 {
		if len(foreign) == report.Containers {
			report.Slice = foreign[0].Slice
		}
		report.Reason = ReasonForeign
		report.Next = fmt.Sprintf(
			"nothing: container %s runs in %s, which is no slice that the kubelet made for it",
			foreign[0].Name, foreign[0].Slice,
		)
	}
	if pod.Ready || report.Containers > 0 {
		d.Pods = append(d.Pods, report)
	}
}

// other returns the partition that is not p.
func (s Snapshot) other(p unitname.Partition) unitname.Partition {
	if p == unitname.Default {
		return s.Config.Partition
	}
	return unitname.Default
}

func (pod Pod) slice(p unitname.Partition) string {
	if p == unitname.Default {
		return pod.DefaultCgroup.Slice
	}
	return pod.PartitionCgroup.Slice
}
