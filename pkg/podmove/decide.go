package podmove

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

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
		if pod.Exists && s.ordered(pod) {
			d.place(s, pod) // its turn is before that of the others
		}
	}
	guests := false
	for _, pod := range pods {
		d.KillScopes = append(d.KillScopes, pod.Orphans...)
		d.slice(s, pod)
		if pod.Exists && !s.ordered(pod) {
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

// move decides how and when misplaced containers of a pod are moved.
func (d *Decision) move(s Snapshot, pod Pod, to unitname.Partition, misplaced []Container, creating bool, report *PodReport) {
	reason := func(r Reason, next string) { report.Reason, report.Next = r, next }
	if s.Moving == pod.UID {
		reason(ReasonMoving, "wait for it")
		return
	}
	if pod.Kubelet != nil && pod.Kubelet.Terminating {
		reason(ReasonTerminating, "nothing: it is being deleted")
		return
	}
	ordered := s.ordered(pod)
	var way Way
	switch {
	case ordered && s.NRI == Working:
		way = Restart
	case s.Config.Mode == Never && !ordered:
		reason(ReasonForbidden, "partition-monitor move "+pod.Namespace+"/"+pod.Name+", or delete the pod, or run the monitor without --move=never")
		return
	case s.Config.Mode == OnlyLive, s.Config.Mode == Auto && s.NRI == Unavailable:
		way = Live
	case s.NRI == Working:
		way = Restart
		if what := spared(pod); what != "" && s.Config.Mode == Auto {
			reason(ReasonNextStart, "wait for its next start or a reboot, or restart it with partition-monitor move "+pod.Namespace+"/"+pod.Name+
				", or run the monitor with --move=restart: "+what+" is not restarted to be moved")
			return
		}
	default:
		// A container that is stopped now would come back to where it was.
		d.Wait = d.Wait || s.NRI == Awaited
		reason(ReasonNoNRI, "wait for the runtime to serve NRI; see --nri-socket")
		return
	}
	if next, r := refused(pod, way, misplaced, creating); r != "" {
		d.Wait = d.Wait || creating
		reason(r, next)
		return
	}
	switch {
	case s.Moving != "" && ordered, d.Move != nil && ordered:
		reason(ReasonPending, oneAtATime)
	case ordered:
		d.begin(pod, to, way, misplaced, report)
	case way == Restart && s.RestartsFail:
		reason(ReasonFailed, "no pod is restarted until the runtime connects over NRI again or the configuration changes: a restarted "+
			"container was not where it was to be; the journal of the monitor says which")
	case way == Restart && s.GivenUp[pod.UID]:
		reason(ReasonFailed, "it is not restarted again; the journal of the monitor says what failed")
	case s.Backoff[pod.UID]:
		reason(ReasonFailed, "it is tried again; the journal of the monitor says what failed")
	case way == Restart && s.Awaited != "":
		reason(ReasonPending, "wait: "+s.Awaited+" was restarted, and is not Ready again")
	case s.Moving != "" || d.Move != nil:
		reason(ReasonPending, oneAtATime)
	default:
		d.begin(pod, to, way, misplaced, report)
	}
}

const oneAtATime = "wait: pods are moved one at a time"

// begin has the pod moved.
func (d *Decision) begin(pod Pod, to unitname.Partition, way Way, misplaced []Container, report *PodReport) {
	report.Reason, report.Next = ReasonPending, "it is moved next"
	d.Move = &Move{
		UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, To: to, Way: way, Slice: pod.slice(to),
		Containers: inOrder(misplaced, way), GracePeriod: gracePeriod(pod), WasReady: pod.Kubelet != nil && pod.Kubelet.Ready,
	}
}

// nodeCritical is the priority of the class system-node-critical, and SystemCriticalPriority + 1000 of
// k8s.io/kubernetes/pkg/apis/scheduling.
const nodeCritical = 2_000_001_000

// spared says what a pod is that is not restarted unless an operator wants it, empty for any other. Where
// the kubelet does not tell its priority a pod is not taken for an unimportant one: critical pods are
// v1.PodQOSGuaranteed more often than not.
func spared(pod Pod) string {
	switch {
	case pod.Static:
		return "a static pod"
	case pod.Kubelet == nil && pod.QoS == v1.PodQOSGuaranteed:
		return "a pod that may be critical for the node"
	case pod.Kubelet != nil && pod.Kubelet.Priority >= nodeCritical:
		return "a pod that is critical for the node"
	}
	return ""
}

// refused tells why the pod cannot be moved that way now, and what can be done about it.
func refused(pod Pod, way Way, misplaced []Container, creating bool) (next string, r Reason) {
	if creating {
		// The runtime is at work on the pod: a scope that changes hands under it is lost to it.
		return "wait until its containers are created", ReasonStarting
	}
	if way == Live {
		for _, c := range misplaced {
			if c.OwnCgroups {
				return "restart the pod: container " + c.Name + " has cgroups of its own, which cannot be moved with it", ReasonOwnCgroups
			}
		}
		return "", ""
	}
	switch {
	case pod.Kubelet == nil:
		return "delete the pod, or use --move=live: the kubelet does not tell its restartPolicy (Pods API, kubelet 1.37)", ReasonUnknownPolicy
	case pod.Kubelet.Initializing:
		return "wait until its init containers have ended", ReasonStarting
	}
	for _, c := range misplaced {
		if !c.Restarts {
			return "wait for its end, delete it, or use --move=live: its restartPolicy does not bring it back", ReasonRestartPolicy
		}
	}
	return "", ""
}

// inOrder sorts containers for a move: restarted are first the main ones, then sidecars from the last to the first, which is
// how the kubelet ends a pod (KEP-753), so that what the others need is there while they come back.
func inOrder(containers []Container, way Way) []Container {
	list := slices.Clone(containers)
	slices.SortStableFunc(list, func(a, b Container) int {
		if a.Sidecar != b.Sidecar {
			if a.Sidecar {
				return 1
			}
			return -1
		}
		if a.Sidecar && way == Restart {
			return cmp.Compare(b.Order, a.Order)
		}
		return cmp.Compare(a.Order, b.Order)
	})
	return list
}

// defaultGracePeriod is what a pod gets that does not say (v1.DefaultTerminationGracePeriodSeconds).
const defaultGracePeriod = 30 * time.Second

func gracePeriod(pod Pod) time.Duration {
	if pod.Kubelet == nil {
		return defaultGracePeriod
	}
	return pod.Kubelet.GracePeriod
}

// weights decides about the weights and the protected memory of the partition and of its burstable slice:
// the requests of the pods that run there. Without any it is the minimum, as for the kubelet's burstable slice
// (setCPUCgroupConfig, pkg/kubelet/cm/qos_container_manager_linux.go).
func (d *Decision) weights(s Snapshot, pods []Pod) {
	if s.Config.Off {
		return // reverted at the end
	}
	whole, burstable := s.Config.Partition.Slice(), s.Config.Partition.QoSSlice(v1.PodQOSBurstable)
	milli := map[string]int64{whole: 0, burstable: 0}
	// What a pod is protected from has an effect as far as the slices above it have as much.
	memory := map[string]cgroupfs.Protection{}
	for _, pod := range pods {
		if !pod.placed() {
			continue
		}
		milli[whole] += pod.MilliCPU
		memory[whole] = memory[whole].Plus(pod.Home.Limits.Protection)
		if pod.QoS == v1.PodQOSBurstable {
			milli[burstable] += pod.MilliCPU
			memory[burstable] = memory[burstable].Plus(pod.Home.Limits.Protection)
		}
	}
	for _, slice := range slices.Sorted(maps.Keys(milli)) {
		weight := s.Formula.Weight(SharesOfMilliCPU(milli[slice]))
		if present, ok := s.Weights[slice]; ok && present != weight {
			d.Weights = append(d.Weights, WeightSpec{slice, weight})
		}
		if present, ok := s.Protected[slice]; ok && present != memory[slice] {
			d.Protect = append(d.Protect, ProtectSpec{slice, memory[slice]})
		}
	}
}

// placed tells whether the pod has a container in the partition.
func (pod Pod) placed() bool {
	return slices.ContainsFunc(pod.Containers, func(c Container) bool { return c.Running && c.Slice == pod.Guest.Slice })
}
