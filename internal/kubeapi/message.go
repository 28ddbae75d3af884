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
	// WorkingSet of the pod as a whole, in bytes.
	WorkingSet int64
	// Containers are those that ran, in any order.
	Containers []Usage
}

// Usage is what a container used.
type Usage struct {
	Name string
	// WorkingSet is in bytes.
	WorkingSet int64
	// Request is what the node knows of its manifest, zero without one. It counts where the pod is not known.
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
// named that used more than their request; a pod with a request of its own always is; ephemeral containers never are, for they have no request that
// they could keep to. pod is the pod as the API server has it, nil where it is not known.
func Message(f Figures, pod *v1.Pod) (text string, annotations map[string]string) {
	var out strings.Builder
	annotations = map[string]string{}
	fmt.Fprintf(&out, partitionLowFormat, v1.ResourceMemory)
	if !f.Threshold.IsZero() {
		fmt.Fprintf(&out, thresholdFormat, &f.Threshold, bytes(f.Available))
	}
	if request, ok := podRequest(pod); ok {
		usage := bytes(f.WorkingSet).String()
		fmt.Fprintf(&out, podFormat, pod.Name, usage, request.String(), v1.ResourceMemory)
		annotations[AnnotationPod], annotations[AnnotationPodUsage] = pod.Name, usage
	}
	var names, usages []string
	for _, c := range f.Containers {
		if pod != nil {
			spec := containerOf(pod, c.Name)
			if spec == nil {
				continue
			}
			c.Request = spec.Resources.Requests[v1.ResourceMemory]
		}
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

// podRequest is the request of a pod as a whole (pod-level resources).
func podRequest(pod *v1.Pod) (resource.Quantity, bool) {
	if pod == nil || pod.Spec.Resources == nil {
		return resource.Quantity{}, false
	}
	request, ok := pod.Spec.Resources.Requests[v1.ResourceMemory]
	return request, ok
}

// containerOf is a container or an init container of a pod, nil for an ephemeral one.
func containerOf(pod *v1.Pod, name string) *v1.Container {
	for _, list := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

func bytes(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.BinarySI) }
