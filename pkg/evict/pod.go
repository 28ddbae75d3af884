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
	// Terminating pods are on their way out: deleted, or evicted.
	Terminating bool
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
}

// excess is what a pod uses beyond its request, negative below it.
func (p Pod) excess() int64 { return int64(p.Usage.WorkingSet) - int64(p.Request) }
