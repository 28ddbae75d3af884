package evict

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// PodMeta identifies a pod, and holds its attributes. An Eviction keeps it.
type PodMeta struct {
	UID       string         `json:"uid"`
	Namespace string         `json:"namespace"`
	Name      string         `json:"name"`
	QoS       v1.PodQOSClass `json:"qosClass"`
	// Owner is the key of the cooldown: the controller, or the pod itself.
	Owner string `json:"owner"`
	// Cgroup is its slice in the partition, a path below the mount.
	Cgroup string `json:"cgroup"`
	// Priority of the pod; 0 if it has none, or if it is unknown.
	Priority int32 `json:"priority"`
	// Estimated means that the priority and the request are approximations (EstimatePriority,
	// EstimateRequest), because the kubelet serves no Pods API.
	Estimated bool `json:"estimated,omitempty"`
	// Static pods come from a file or a URL of the kubelet's, and not from the API server, through
	// which they cannot be evicted.
	Static bool `json:"static,omitempty"`
	// EndsForGood means that the kubelet leaves a container of the pod stopped when it is killed
	// (restartPolicy Never).
	EndsForGood bool `json:"endsForGood,omitempty"`
}

// Pod is a pod whose containers run in the partition.
type Pod struct {
	PodMeta
	// Request for memory in bytes, as the kubelet counts it for the whole pod.
	Request uint64
	// GracePeriod is the time in which its containers have to end.
	GracePeriod time.Duration
	// Terminating pods are being deleted, or were evicted. They stay candidates until their processes
	// have ended: a grace period may be ten minutes, and a leak does not wait. The kubelet treats them
	// so, too (isPodInactive, pkg/kubelet/kubelet_pods.go, 1.37).
	Terminating bool
	// Unknown pods have a cgroup in the partition and processes, and neither a reconcile nor the
	// kubelet has identified them. Their UID and class are in the cgroup's name; their name is not
	// known.
	Unknown bool
	// Empty pods have no process left, and memory that outlives processes: files of an emptyDir with
	// the medium Memory, /dev/shm.
	Empty bool
	// Evicted pods have an open eviction, or were evicted for good recently.
	Evicted bool
	// Containers of the pod in the partition.
	Containers []Container
	// Usage of the pod. Measured is false if it could not be read.
	Usage    Usage
	Measured bool
}

// Container is a container of a Pod, or of an Eviction.
type Container struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Cgroup is its scope, a path below the mount.
	Cgroup string `json:"cgroup"`
	// WorkingSet in bytes, where the Pod is Measured.
	WorkingSet uint64 `json:"workingSetBytes"`
	// Request for memory in bytes.
	Request uint64 `json:"requestBytes"`
	// MemoryMax was its memory.max in bytes, cgroups.Unlimited for none, before the kernel was
	// made to kill in it (condemn). It is 0 if that was not begun.
	MemoryMax uint64 `json:"memoryMaxBytes,omitempty"`
}

// Usage is the memory usage of a pod.
type Usage struct {
	// WorkingSet in bytes is usage without inactive page cache, by which the kubelet ranks pods
	// (memoryUsage, pkg/kubelet/eviction/helpers.go).
	WorkingSet uint64
	// Used in bytes is the memory that the kernel cannot reclaim (cgroups.MemoryReading.Used). About
	// that much more is available in the partition after the pod has ended.
	Used uint64
}

// withinRequest reports whether the pod uses no more than it requests, as far as both are known.
func (p Pod) withinRequest() bool { return p.Measured && !p.Unknown && p.excess() <= 0 }

// excess returns the usage beyond the request, negative if usage is below it.
func (p Pod) excess() int64 { return int64(p.Usage.WorkingSet) - int64(p.Request) }
