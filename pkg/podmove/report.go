package podmove

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"nodepartition/internal/unitname"
)

// Way is how a container comes to where it belongs.
type Way string

const (
	// Creation is the answer to the runtime's CreateContainer, over NRI.
	Creation Way = "creation"
	// Restart is stopping a container, which the kubelet starts again.
	Restart Way = "restart"
	// Live takes the processes of a running container over into a scope of our own.
	Live Way = "live"
)

// Result is how a placement ended.
type Result string

const (
	// Succeeded means that it is where it belongs.
	Succeeded Result = "success"
	// Failed means that it is where it was; the journal has the reason.
	Failed Result = "failure"
)

// Observer hears what happens, for metrics. Its methods return at once and may be called from any goroutine.
type Observer interface {
	// Placed is called for each container that was placed, or was to be.
	Placed(way Way, to unitname.Partition, result Result, took time.Duration)
	// Reconciled is called after each pass; err is nil where all of it was done.
	Reconciled(took time.Duration, err error)
	// Connected is called when a source of events or answers comes (true) or goes: "systemd", "kubelet", "runtime", "nri".
	Connected(source string, up bool)
}

// Journal hears what an operator may want to read later. Its methods return at once and may be called from any goroutine.
type Journal interface {
	// PassFailed is called when a pass fails for a new reason, PassesAgain when one succeeds after that.
	PassFailed(error)
	PassesAgain()
	// NotPrepared is called when a pod's slice could not be made before its first container; the next pass does it.
	NotPrepared(namespace, pod string, err error)
	// NotPlaced is called for a container that is not where it was to be created.
	NotPlaced(container string, err error)
	// Moving is called before a running container is moved, MoveFailed when that failed; it is tried again later.
	Moving(Move, Container)
	MoveFailed(Move, Container, error)
	// GivenUp is called when a restart did not help: the pod is not restarted again, and no other pod
	// either where all is true.
	GivenUp(m Move, c Container, err error, all bool)
	// NotReady is called when a pod that was restarted is in its place and has not been Ready for long:
	// the others wait for it.
	NotReady(Move)
	// Killing is called before what is left of a container that has ended is killed.
	Killing(scope string)
}

// Report is what the last pass found, after it acted.
type Report struct {
	// Time is the end of the pass.
	Time time.Time `json:"time"`
	// Pods are all pods that run containers on the node, by namespace and name.
	Pods []PodReport `json:"pods"`
}

// PodReport is where a pod is and why.
type PodReport struct {
	Namespace string         `json:"namespace"`
	Name      string         `json:"name"`
	UID       string         `json:"uid"`
	QoS       v1.PodQOSClass `json:"qosClass"`
	// Member tells whether the pod belongs to the system partition.
	Member bool `json:"member"`
	// Slice is the name of the slice that its containers are in, or are to be in where there are none yet;
	// their cgroup, or Nowhere, where all of them are elsewhere.
	Slice string `json:"slice"`
	// Containers counts the running ones, Misplaced those of them that are not where they belong.
	Containers int `json:"containers"`
	Misplaced  int `json:"misplaced"`
	// LiveMoved counts running containers that are in a scope of ours.
	LiveMoved int `json:"liveMoved"`
	// OutsideBytes is memory that a live move left charged to the slice that the pod was in.
	OutsideBytes uint64 `json:"outsideBytes"`
	// IdleCPUs are CPUs that the static CPU manager gave to a container of it alone and that it cannot use,
	// because they are not the partition's.
	IdleCPUs string `json:"idleCPUs,omitempty"`
	// Reason is why it is not where it belongs, in a few words that hold no names (a metric label); empty where it is.
	Reason Reason `json:"reason,omitempty"`
	// Next says what will be done about it, or what the operator can do.
	Next string `json:"next,omitempty"`
}

// Partition is where the pod's containers are: the system partition if any of them is there.
func (p PodReport) Partition() unitname.Partition {
	part, _, _, ok := unitname.ParsePodSlice(p.Slice)
	if !ok {
		return unitname.Default
	}
	return part
}

// Reason is one of a fixed set of reasons why a pod is misplaced.
type Reason string

// The reasons.
const (
	// ReasonPending means that its turn comes: one pod is moved at a time.
	ReasonPending Reason = "pending"
	// ReasonMoving means that it is being moved.
	ReasonMoving Reason = "moving"
	// ReasonNextStart means that it is not restarted to be moved: it is a static pod, or critical for the
	// node. It is placed when it starts the next time.
	ReasonNextStart Reason = "next-start"
	// ReasonStarting means that its containers are being created, or its init containers run.
	ReasonStarting Reason = "starting"
	// ReasonRestartPolicy means that the kubelet would not start its containers again.
	ReasonRestartPolicy Reason = "restart-policy"
	// ReasonUnknownPolicy means that nobody tells its restartPolicy, because the kubelet serves no Pods API.
	ReasonUnknownPolicy Reason = "unknown-restart-policy"
	// ReasonOwnCgroups means that a container has cgroups of its own, which cannot be moved with it.
	ReasonOwnCgroups Reason = "own-cgroups"
	// ReasonTerminating means that it is being deleted.
	ReasonTerminating Reason = "terminating"
	// ReasonNoNRI means that new containers are not placed at the moment, so that a restart would change nothing.
	ReasonNoNRI Reason = "no-nri"
	// ReasonFailed means that moving it failed. Whether it is tried again stands beside it.
	ReasonFailed Reason = "failed"
	// ReasonForbidden means that the operator forbids moves (--move=never).
	ReasonForbidden Reason = "forbidden"
	// ReasonForeign means that it runs in a cgroup that is not one of the kubelet's systemd driver.
	ReasonForeign Reason = "foreign-cgroup"
)

// Reasons are all of them, for metrics that must have a value before the first.
func Reasons() []Reason {
	return []Reason{
		ReasonPending, ReasonMoving, ReasonNextStart, ReasonStarting, ReasonRestartPolicy, ReasonUnknownPolicy, ReasonOwnCgroups,
		ReasonTerminating, ReasonNoNRI, ReasonFailed, ReasonForbidden, ReasonForeign,
	}
}
