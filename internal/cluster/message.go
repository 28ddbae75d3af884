package cluster

import (
	"fmt"
	"path"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/evict"
)

// Texts of the kubelet's evictions (pkg/kubelet/eviction/helpers.go, v1.37.0). The first is
// adapted: the node has memory left.
const (
	partitionLowFormat = "Partition %s of the node was low on resource: %v. "
	thresholdFormat    = "Threshold quantity: %v, available: %v. "
	podFormat          = "Pod %s was using %s, request is %s, has larger consumption of %v. "
	containerFormat    = "Container %s was using %s, request is %s, has larger consumption of %v. "
)

// Annotations of the kubelet's event of an eviction (pkg/kubelet/eviction/helpers.go, v1.37.0).
const (
	annotationContainers      = "offending_containers"
	annotationContainersUsage = "offending_containers_usage"
	annotationPod             = "offending_pod"
	annotationPodUsage        = "offending_pod_usage"
	annotationResource        = "starved_resource"
)

// message returns the reason of an eviction as the kubelet writes it (evictionMessage): as text for
// people, and as annotations for programs. It names containers that used more than their request.
// It always names a pod with a pod-level request. It never names ephemeral containers, which
// cannot have a request. pod is the pod as the API server has it, nil if it is unknown: then the
// requests count as far as the node has them.
func message(e evict.Eviction, pod *v1.Pod) (text string, annotations map[string]string) {
	var out strings.Builder
	annotations = map[string]string{}
	partition, _, _, _ := partition.ParsePodSlice(path.Base(e.Cgroup))
	fmt.Fprintf(&out, partitionLowFormat, partition, v1.ResourceMemory)
	if e.AtBytes > 0 {
		fmt.Fprintf(&out, thresholdFormat, bytes(e.AtBytes), bytes(e.AvailableBytes))
	}
	if request, ok := podRequest(pod); ok {
		usage := bytes(e.WorkingSetBytes).String()
		fmt.Fprintf(&out, podFormat, pod.Name, usage, request.String(), v1.ResourceMemory)
		annotations[annotationPod], annotations[annotationPodUsage] = pod.Name, usage
	}
	var names, usages []string
	for _, c := range e.Containers {
		if c.Name == "" {
			continue // it was just started: the next reconcile finds its name
		}
		usage, request := bytes(c.WorkingSet), *bytes(c.Request)
		if pod != nil {
			spec := containerOf(pod, c.Name)
			if spec == nil {
				continue
			}
			request = spec.Resources.Requests[v1.ResourceMemory]
		}
		if usage.Cmp(request) <= 0 {
			continue
		}
		fmt.Fprintf(&out, containerFormat, c.Name, usage.String(), request.String(), v1.ResourceMemory)
		names, usages = append(names, c.Name), append(usages, usage.String())
	}
	annotations[annotationContainers] = strings.Join(names, ",")
	annotations[annotationContainersUsage] = strings.Join(usages, ",")
	annotations[annotationResource] = string(v1.ResourceMemory)
	return out.String(), annotations
}

// podRequest returns the request of a whole pod (pod-level resources).
func podRequest(pod *v1.Pod) (resource.Quantity, bool) {
	if pod == nil || pod.Spec.Resources == nil {
		return resource.Quantity{}, false
	}
	request, ok := pod.Spec.Resources.Requests[v1.ResourceMemory]
	return request, ok
}

// containerOf returns a container or an init container of a pod, nil for an ephemeral one.
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

func bytes(n uint64) *resource.Quantity { return resource.NewQuantity(int64(n), resource.BinarySI) }
