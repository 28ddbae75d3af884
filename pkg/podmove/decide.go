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

// Decision is what a pass has to do, in this order, and what it found.
type Decision struct {
	// Ensure are the slices of pods to make, or to give other limits.
	Ensure []SliceSpec
	// Weights are those of the partition's own slices that are to change.
	Weights []WeightSpec
	// Protect are those whose protected memory is to change.
	Protect []ProtectSpec
	// KillScopes are scopes of ours whose container has ended with processes left.
	KillScopes []string
	// Stop are slices of pods that are gone.
	Stop []StopSpec
	// Move is the one pod to move now; nil where there is none or one is under way.
	Move *Move
	// Wait says that something will be different soon without an event telling.
	Wait bool
	// Done says that the partition is switched off and nothing is left in it.
	Done bool
	// Pods is what was found, by namespace and name.
	Pods []PodReport
}

// SliceSpec is a slice of a pod in the partition.
type SliceSpec struct {
	Name, Description string
	Limits            cgroupfs.Limits
}

// StopSpec is a slice to stop, and the pod it was for.
type StopSpec struct{ Slice, UID string }

// WeightSpec is a slice of the partition and its cpu.weight.
type WeightSpec struct {
	Slice  string
	Weight uint64
}

// ProtectSpec is a slice of the partition and its memory.min and memory.low.
type ProtectSpec struct {
	Slice  string
	Memory cgroupfs.Protection
}

// Move is a pod to move.
type Move struct {
	UID, Namespace, Name string
	To                   unitname.Partition
	Way                  Way
	// Slice is where its containers are to be.
	Slice string
	// Containers are the misplaced ones in the order in which to move them.
	Containers  []Container
	GracePeriod time.Duration
	// WasReady tells whether the kubelet said so before; it is to be Ready again then before the next one.
	WasReady bool
}

// Decide compares what is with what ought to be. It touches nothing.
func Decide(s Snapshot) Decision {
	var d Decision
	pods := slices.Clone(s.Pods)
	slices.SortFunc(pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	for _, pod := range pods {
		if pod.Exists && s.Ordered[pod.UID] {
			d.place(s, pod) // its turn is before that of the others
		}
	}
	guests := false
	for _, pod := range pods {
		d.KillScopes = append(d.KillScopes, pod.Orphans...)
		d.slice(s, pod)
		if pod.Exists && !s.Ordered[pod.UID] {
			d.place(s, pod)
		}
		guests = guests || pod.Guest.Exists
	}
	slices.SortStableFunc(d.Pods, func(a, b PodReport) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	d.weights(s, pods)
	d.Done = s.Config.Off && !guests && s.Moving == ""
	return d
}

// belongs is the partition that a pod is to be in.
func (s Snapshot) belongs(pod Pod) unitname.Partition {
	if !s.Config.Off && slices.Contains(s.Config.Namespaces, pod.Namespace) {
		return s.Config.Partition
	}
	return unitname.Default
}

// slice decides about the slice of a pod in the partition.
func (d *Decision) slice(s Snapshot, pod Pod) {
	inUse := len(pod.Guest.Units) > 0
	switch {
	case pod.Exists && (s.belongs(pod) != unitname.Default && pod.Ready || inUse):
		if !pod.Home.Exists {
			// The kubelet has removed its own already, or makes none: nothing to mirror.
			return
		}
		if !pod.Guest.Exists || pod.Guest.Limits != pod.Home.Limits {
			d.Ensure = append(d.Ensure, SliceSpec{Name: pod.Guest.Slice, Description: Description(pod.Namespace, pod.Name), Limits: pod.Home.Limits})
		}
	case pod.Guest.Exists && !inUse && !s.holdsMemory(pod):
		// Not while it has a cgroup: that of a container which the runtime is removing goes by itself, and wakes us.
		d.Stop = append(d.Stop, StopSpec{pod.Guest.Slice, pod.UID})
	}
}

// holdsMemory tells whether the slice of a pod in the partition may have memory that the pod's processes have left behind: files in an
// emptyDir with the medium Memory. The kubelet unmounts them before it removes its own slice of the pod (SyncTerminatedPod,
// pkg/kubelet/kubelet.go; seen with 1.37.0: 0.9 s after the last container had gone). Stopped before that, the slice would leave its
// memory to the slice above it, and eviction would have nobody to hold it against but other pods.
func (s Snapshot) holdsMemory(pod Pod) bool {
	// Of a pod whose sandbox the runtime has forgotten nobody tells the namespace.
	return pod.Home.Exists && !s.Config.Off && (pod.Namespace == "" || s.belongs(pod) != unitname.Default)
}

// Description is what systemctl status shows of a pod's slice. It says whose it is: a UID tells nobody.
func Description(namespace, name string) string { return "Pod " + namespace + "/" + name }

// place decides whether a pod is where it belongs, and what to do where it is not.
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
			// Half of it is where it belongs. The other half is what is to be moved.
			c.Slice, c.Unit, c.AlsoSlice, c.AlsoUnit = c.AlsoSlice, c.AlsoUnit, c.Slice, c.Unit
		}
		if c.IdleCPUs != "" {
			report.IdleCPUs = strings.TrimPrefix(report.IdleCPUs+","+c.IdleCPUs, ",")
		}
		if unitname.IsLiveMoved(c.Unit) {
			report.LiveMoved++
			report.OutsideBytes = pod.Home.Bytes
		}
		switch {
		case c.Slice == pod.slice(want):
		case c.Slice == pod.slice(s.other(want)):
			misplaced = append(misplaced, c)
		case want != unitname.Default:
			// Where the default partition keeps the containers of its pods is the runtime's business.
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
		report.Next = fmt.Sprintf("nothing: container %s runs in %s, which is no slice that the kubelet made for it", foreign[0].Name, foreign[0].Slice)
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
		return pod.Home.Slice
	}
	return pod.Guest.Slice
}
