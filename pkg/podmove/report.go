package podmove

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"nodepartition/internal/membership"
	"nodepartition/internal/unitname"
)

// Report holds the findings of the last pass. It is stored after the pass acted.
type Report struct {
	// Time is the end of the pass.
	Time time.Time `json:"time"`
	// Pods lists the pods with a running sandbox or running containers, by namespace and name.
	Pods []PodReport `json:"pods"`
	// Outlived lists the scopes with processes that have outlived their pod.
	Outlived []Outlived `json:"outlived,omitempty"`
	// Empty lists the partitions that are switched off and have no slice of a pod.
	Empty []unitname.PartitionName `json:"-"`
}

// PodReport is the place of a pod and the reason for it.
type PodReport struct {
	Namespace string         `json:"namespace"`
	Name      string         `json:"name"`
	UID       string         `json:"uid"`
	QoS       v1.PodQOSClass `json:"qosClass"`
	// Member means that the pod belongs to a partition other than the default one.
	Member bool `json:"member"`
	// Belongs is the partition that the pod belongs to. It is the same while that is switched off.
	Belongs unitname.PartitionName `json:"partition"`
	// Workload is the workload type by which it is a member, or that it asks for in vain. It is nil
	// without one.
	Workload *WorkloadReport `json:"workload,omitempty"`
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
	// IdleCPUs lists CPUs that the static CPU manager gave to one of its containers alone. The
	// container cannot use them, because they are not the partition's.
	IdleCPUs string `json:"idleCPUs,omitempty"`
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
		if r.Pods[i].Misplaced > 0 && r.Pods[i].Reason != ReasonTerminating {
			count++
		}
	}
	return count
}

// WorkloadReport is the workload type of a pod, and the right to it.
type WorkloadReport struct {
	Type string `json:"type,omitempty"`
	// By is the right by which the pod is a member; empty if it is not.
	By membership.By `json:"by,omitempty"`
	// Refused is the reason why it does not get the type that it asks for; empty if it does.
	Refused membership.Refusal `json:"refused,omitempty"`
	// MilliCPU is the CPU time that a member has by the resource of its type, in thousandths of a CPU.
	MilliCPU int64 `json:"milliCPU,omitempty"`
	// Flaw describes an annotation about that CPU time that is not followed.
	Flaw string `json:"flaw,omitempty"`
}

// workloadReport returns what is reported of a place; nil if no type has to do with it.
func workloadReport(p membership.Place) *WorkloadReport {
	if p.Type == "" && p.Refused == "" {
		return nil
	}
	return &WorkloadReport{Type: p.Type, By: p.By, Refused: p.Refused}
}

// Partition returns the partition of the pod's slice. It returns Default if Slice is not the slice
// of a pod.
func (p PodReport) Partition() unitname.PartitionName {
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
	// ReasonPending means that the pod's turn is still to come: one pod is moved at a time.
	ReasonPending Reason = "pending"
	// ReasonMoving means that it is being moved.
	ReasonMoving Reason = "moving"
	// ReasonNextStart means that the pod is not restarted to be moved: it is a static pod, or critical
	// for the node. It is placed when it starts the next time.
	ReasonNextStart Reason = "next-start"
	// ReasonStarting means that its containers are being created, or its init containers run.
	ReasonStarting Reason = "starting"
	// ReasonRestartPolicy means that the kubelet would not start its containers again.
	ReasonRestartPolicy Reason = "restart-policy"
	// ReasonUnknownPolicy means that its restartPolicy is unknown, because the kubelet serves no Pods
	// API.
	ReasonUnknownPolicy Reason = "unknown-restart-policy"
	// ReasonOwnCgroups means that a container has cgroups of its own, which cannot be moved with it.
	ReasonOwnCgroups Reason = "own-cgroups"
	// ReasonTerminating means that it is being deleted.
	ReasonTerminating Reason = "terminating"
	// ReasonNoNRI means that new containers are not placed at the moment, so that a restart would
	// change nothing.
	ReasonNoNRI Reason = "no-nri"
	// ReasonNoKubelet means that the kubelet does not answer at the moment, so that nothing would
	// start its containers again.
	ReasonNoKubelet Reason = "no-kubelet"
	// ReasonFailed means that moving it failed. Next says whether it is tried again.
	ReasonFailed Reason = "failed"
	// ReasonForbidden means that the operator forbids moves (--move=never).
	ReasonForbidden Reason = "forbidden"
	// ReasonForeign means that it runs in a cgroup that is not one of the kubelet's systemd driver.
	ReasonForeign Reason = "foreign-cgroup"
)

// Reasons returns all of them, for metrics that must have a value before the first.
func Reasons() []Reason {
	return []Reason{
		ReasonPending,
		ReasonMoving,
		ReasonNextStart,
		ReasonStarting,
		ReasonRestartPolicy,
		ReasonUnknownPolicy,
		ReasonOwnCgroups,
		ReasonTerminating,
		ReasonNoNRI,
		ReasonNoKubelet,
		ReasonFailed,
		ReasonForbidden,
		ReasonForeign,
	}
}
