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
	// Priority of the pod; 0 if it has none, or if it is unknown.
	Priority int32
	// Request for memory in bytes, as the kubelet counts it for the whole pod.
	Request uint64
	// Estimated means that Priority and Request are approximations (EstimatePriority,
	// EstimateRequest), because the kubelet serves no Pods API.
	Estimated bool
	// Static pods come from a file or a URL of the kubelet's, and not from the API server.
	Static bool
	// Owner is the key of the cooldown: the controller, or the pod itself.
	Owner string
	// GracePeriod is the time in which its containers have to end.
	GracePeriod time.Duration
	// Terminating pods are being deleted, or were evicted. They stay candidates until their processes
	// have ended: a grace period may be ten minutes, and a leak does not wait. The kubelet treats them
	// so, too (isPodInactive, pkg/kubelet/kubelet_pods.go, 1.37).
	Terminating bool
	// Unknown pods have a cgroup in the partition and processes, and neither a pass nor the kubelet
	// has identified them. Their UID and class are in the cgroup's name; their name is not known.
	Unknown bool
	// EndsForGood means that the kubelet leaves a container of the pod stopped when it is killed.
	EndsForGood bool
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

// Usage is the memory usage of a pod.
type Usage struct {
	// WorkingSet in bytes is usage without inactive page cache, by which the kubelet ranks pods
	// (memoryUsage, pkg/kubelet/eviction/helpers.go).
	WorkingSet uint64
	// Used in bytes is the memory that the kernel cannot reclaim (cgroupfs.MemoryReading.Used). About
	// that much more is available in the partition after the pod has ended.
	Used uint64
}

// withinRequest reports whether the pod uses no more than it requests, as far as both are known.
func (p Pod) withinRequest() bool { return p.Measured && !p.Unknown && p.excess() <= 0 }

// excess returns the usage beyond the request, negative if usage is below it.
func (p Pod) excess() int64 { return int64(p.Usage.WorkingSet) - int64(p.Request) }
