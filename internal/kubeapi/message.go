package kubeapi

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Figures are why a pod was evicted.
type Figures struct {
	// Threshold is what the partition has to keep free, left out where it is zero.
	Threshold resource.Quantity
	// Available is what it had, in bytes.
	Available int64
	// Pod has a name where the pod itself has a memory request (pod-level resources), and not only its containers.
	Pod Usage
	// Containers are those that run and are no ephemeral ones, in any order: an ephemeral container has no request that it
	// could keep to.
	Containers []Usage
}

// Usage is what a pod or a container used.
type Usage struct {
	Name string
	// WorkingSet is in bytes.
	WorkingSet int64
	// Request is as its manifest says, zero without one.
	Request resource.Quantity
}

// Texts of the kubelet's evictions (pkg/kubelet/eviction/helpers.go, v1.37.0). The first is adapted: the node has memory left.
const (
	partitionLowFormat = "The system partition of the node was low on resource: %v. "
	thresholdFormat    = "Threshold quantity: %v, available: %v. "
	podFormat          = "Pod %s was using %s, request is %s, has larger consumption of %v. "
	containerFormat    = "Container %s was using %s, request is %s, has larger consumption of %v. "
)

// Annotations of the kubelet's event of an eviction (pkg/kubelet/eviction/helpers.go, v1.37.0).
const (
	AnnotationContainers      = "offending_containers"
	AnnotationContainersUsage = "offending_containers_usage"
	AnnotationPod             = "offending_pod"
	AnnotationPodUsage        = "offending_pod_usage"
	AnnotationResource        = "starved_resource"
)

// Message says why a pod was evicted, to people and, in the annotations, to programs, as the kubelet says it (evictionMessage): containers are
// named that used more than their request; a pod with a request of its own always is.
func Message(f Figures) (text string, annotations map[string]string) {
	var out strings.Builder
	annotations = map[string]string{}
	fmt.Fprintf(&out, partitionLowFormat, v1.ResourceMemory)
	if !f.Threshold.IsZero() {
		fmt.Fprintf(&out, thresholdFormat, &f.Threshold, bytes(f.Available))
	}
	if f.Pod.Name != "" {
		usage := bytes(f.Pod.WorkingSet).String()
		fmt.Fprintf(&out, podFormat, f.Pod.Name, usage, f.Pod.Request.String(), v1.ResourceMemory)
		annotations[AnnotationPod], annotations[AnnotationPodUsage] = f.Pod.Name, usage
	}
	var names, usages []string
	for _, c := range f.Containers {
		usage := bytes(c.WorkingSet)
		if usage.Cmp(c.Request) <= 0 {
			continue
		}
		fmt.Fprintf(&out, containerFormat, c.Name, usage.String(), c.Request.String(), v1.ResourceMemory)
		names, usages = append(names, c.Name), append(usages, usage.String())
	}
	annotations[AnnotationContainers] = strings.Join(names, ",")
	annotations[AnnotationContainersUsage] = strings.Join(usages, ",")
	annotations[AnnotationResource] = string(v1.ResourceMemory)
	return out.String(), annotations
}

func bytes(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.BinarySI) }
