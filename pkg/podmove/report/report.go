// Package report has the places of pods as a reconcile of placement finds them. It is plain data,
// which programs decode that place no pod.
package report

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/text"
)

// Report holds the findings of the last reconcile. It is stored after the reconcile acted.
type Report struct {
	// Time is the end of the reconcile.
	Time time.Time `json:"time"`
	// Pods lists the pods with a running sandbox or running containers, by namespace and name.
	Pods []Pod `json:"pods"`
	// Outlived lists the scopes with processes that have outlived their pod.
	Outlived []Outlived `json:"outlived,omitempty"`
	// Empty lists the partitions that are switched off and have no slice of a pod.
	Empty []partition.Name `json:"-"`
}

// Pod is the place of a pod and the reason for it.
type Pod struct {
	Namespace string         `json:"namespace"`
	Name      string         `json:"name"`
	UID       string         `json:"uid"`
	QoS       v1.PodQOSClass `json:"qosClass"`
	// Member means that the pod belongs to a partition other than the default one.
	Member bool `json:"member"`
	// Belongs is the partition that the pod belongs to. It is the same while that is switched off.
	Belongs partition.Name `json:"partition"`
	// Workload is the workload type by which it is a member, or that it asks for in vain. It is nil
	// without one.
	Workload *Workload `json:"workload,omitempty"`
	// Slice is the name of the slice of its misplaced containers if there are some, otherwise of the
	// slice that the pod belongs in. If all of its containers are elsewhere, it is their cgroup, or
	// Nowhere.
	Slice string `json:"slice"`
	// Containers counts the running containers, Misplaced the running containers that are not where
	// they belong.
	Containers int `json:"containers"`
	Misplaced  int `json:"misplaced"`
	// LiveMoved counts running containers that are in a scope of ours.
	LiveMoved int `json:"liveMoved"`
	// OutsideBytes is memory that a live move left charged to the slice that the pod was in.
	OutsideBytes uint64 `json:"outsideBytes"`
	// Reason explains why the pod is misplaced, in a few words without names (a metric label). It is
	// empty if the pod is in its place.
	Reason Reason `json:"reason,omitempty"`
	// Next describes what will be done about it, or what the operator can do.
	Next string `json:"next,omitempty"`
}

// Misplaced counts the pods that are not where they belong. A pod that is being deleted is not
// moved, and does not count.
func (r Report) Misplaced() int {
	count := 0
	for i := range r.Pods {
		//guard: a pod that is being deleted does not make the node unready
		if r.Pods[i].Misplaced > 0 && r.Pods[i].Reason != Terminating {
			count++
		}
	}
	return count
}

// Moves reports whether a pod is moved now, or when its turn comes or it has started or ended.
func (r Report) Moves() bool {
	return slices.ContainsFunc(r.Pods, func(p Pod) bool {
		return slices.Contains([]Reason{Pending, Moving, Starting, Terminating}, p.Reason)
	})
}

// Workload is the workload type of a pod, and the right to it.
type Workload struct {
	Type string `json:"type,omitempty"`
	// By is the right by which the pod is a member; empty if it is not.
	By partition.By `json:"by,omitempty"`
	// Refused is the reason why it does not get the type that it asks for; empty if it does.
	Refused partition.Refusal `json:"refused,omitempty"`
	// MilliCPU is the CPU time that a member has by the resource of its type, in thousandths of a CPU.
	MilliCPU int64 `json:"milliCPU,omitempty"`
	// Flaw describes an annotation about that CPU time that is not followed.
	Flaw string `json:"flaw,omitempty"`
}

// Partition returns the partition of the pod's slice. It returns Default if Slice is not the slice
// of a pod.
func (p Pod) Partition() partition.Name {
	part, _, _, ok := partition.ParsePodSlice(p.Slice)
	if !ok {
		return partition.Default
	}
	return part
}

// Place describes what will be done about a pod that is misplaced, or what is special about the
// place of another. It is empty if there is nothing to say.
func (p Pod) Place() string {
	switch {
	case p.Reason != "":
		return p.Next
	case p.LiveMoved > 0:
		return "moved live, " + text.Bytes(p.OutsideBytes) + " stayed outside"
	}
	return ""
}

// Reason is one of a fixed set of reasons why a pod is misplaced.
type Reason string

// The reasons.
const (
	// Pending means that the pod's turn is still to come: one pod is moved at a time.
	Pending Reason = "pending"
	// Moving means that it is being moved.
	Moving Reason = "moving"
	// NextStart means that the pod is not restarted to be moved: it is a static pod, or critical
	// for the node. It is placed when it starts the next time.
	NextStart Reason = "next-start"
	// Starting means that its containers are being created, or its init containers run.
	Starting Reason = "starting"
	// RestartPolicy means that the kubelet would not start its containers again.
	RestartPolicy Reason = "restart-policy"
	// UnknownPolicy means that its restartPolicy is unknown, because the kubelet serves no Pods
	// API.
	UnknownPolicy Reason = "unknown-restart-policy"
	// OwnCgroups means that a container has cgroups of its own, which cannot be moved with it.
	OwnCgroups Reason = "own-cgroups"
	// Terminating means that it is being deleted.
	Terminating Reason = "terminating"
	// NoNRI means that new containers are not placed at the moment, so that a restart would
	// change nothing.
	NoNRI Reason = "no-nri"
	// NoKubelet means that the kubelet does not answer at the moment, so that nothing would
	// start its containers again.
	NoKubelet Reason = "no-kubelet"
	// Failed means that moving it failed. Next says whether it is tried again.
	Failed Reason = "failed"
	// Forbidden means that the operator forbids moves (--move=never).
	Forbidden Reason = "forbidden"
	// Foreign means that it runs in a cgroup that is not one of the kubelet's systemd driver.
	Foreign Reason = "foreign-cgroup"
)

// Reasons returns all of them, for metrics that must have a value before the first.
func Reasons() []Reason {
	return []Reason{
		Pending,
		Moving,
		NextStart,
		Starting,
		RestartPolicy,
		UnknownPolicy,
		OwnCgroups,
		Terminating,
		NoNRI,
		NoKubelet,
		Failed,
		Forbidden,
		Foreign,
	}
}

// Outlived is a scope with processes that have outlived their pod: the runtime lists neither the
// pod nor the container, and the kubelet has no slice of the pod and does not report it. Of a live
// move's scope it is enough that the runtime does not list the container. If the shim of a
// container with hostPID is killed, it leaves such processes behind.
type Outlived struct {
	// Slice is the pod's slice in the partition, and Scope the unit in it.
	Slice string `json:"slice"`
	Scope string `json:"scope"`
	// Kill means that the kubelet reports its pods now, and not this one, or that a live move has made
	// the scope. Without the Pods API only the missing slice shows that the pod is gone, which is too
	// little for a kill.
	Kill bool `json:"-"`
	// Due means that all this has been so in each reconcile for outlivedAge.
	Due bool `json:"-"`
}
