package podmove

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"nodepartition/internal/unitname"
)

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
