package evict

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// Pod is a pod whose containers run in the partition.
type Pod struct {
	UID, Namespace, Name string
	QoS                  v1.PodQOSClass
	// Cgroup is its slice in the partition, a path below the mount.
	Cgroup string
	// Priority of the pod; 0 where it has none, or where nobody tells it.
	Priority int32
	// Request for memory in bytes, as the kubelet counts it for the pod as a whole.
	Request uint64
	// Estimated tells that Priority and Request are approximations (Estimate), because the kubelet serves no Pods API.
	Estimated bool
	// Static pods come from a file or a URL of the kubelet's, and not from the API server.
	Static bool
	// Owner has what is counted as one for the cooldown: the controller, or the pod itself.
	Owner string
	// GracePeriod is how long its containers may take to end.
	GracePeriod time.Duration
	// Terminating pods are on their way out: deleted, or evicted. They are candidates like any other until their processes have ended, as with the
	// kubelet (isPodInactive, pkg/kubelet/kubelet_pods.go, 1.37): a grace period may be ten minutes, and a leak does not wait.
	Terminating bool
	// Unknown pods have a cgroup in the partition and processes, and neither a pass nor the kubelet has told who they are: they have a UID and
	// a class, which are in the cgroup's name, and no name.
	Unknown bool
	// RestartPolicy of the pod, empty where nobody tells it.
	RestartPolicy v1.RestartPolicy
	// Empty pods have no process left, and memory that outlives processes: files of an emptyDir with the medium Memory, /dev/shm.
	Empty bool
	// Evicted pods were told to end by us, or were evicted for good a moment ago.
	Evicted bool
	// Containers of the pod in the partition.
	Containers []Container
	// Usage is what it uses; Measured is false where that could not be read.
	Usage    Usage
	Measured bool
}

// Container is a running container of a Pod.
type Container struct {
	ID, Name string
	// Cgroup is its scope, a path below the mount.
	Cgroup string
	// Request for memory in bytes.
	Request uint64
	// WorkingSet in bytes, where the Pod is Measured.
	WorkingSet uint64
}

// Usage is what a pod uses.
type Usage struct {
	// WorkingSet in bytes is usage without inactive page cache, which the kubelet ranks by (memoryUsage,
	// pkg/kubelet/eviction/helpers.go).
	WorkingSet uint64
	// Used in bytes is what the kernel cannot take back (cgroupfs.MemoryReading.Used): about what the partition has more when the pod is gone.
	Used uint64
}

// endsForGood tells that the kubelet does not start the pod's containers again when they are killed.
func (p Pod) endsForGood() bool { return p.RestartPolicy == v1.RestartPolicyNever }

// excess is what a pod uses beyond its request, negative below it.
func (p Pod) excess() int64 { return int64(p.Usage.WorkingSet) - int64(p.Request) }
