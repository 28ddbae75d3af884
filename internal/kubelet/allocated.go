package kubelet

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// allocated returns the pod with the resources that the kubelet has allocated, in place of those
// that the spec asks for. They differ while a resize is deferred or infeasible. The kubelet evicts,
// weighs and limits by the allocated ones (getAllocatedPods, pkg/kubelet/kubelet_pods.go, 1.37).
// Whoever may patch pods/resize would otherwise lift a pod out of the first rank of evictions.
//
// The status has the allocated requests. Of the limits it has the actual ones, which differ from
// the allocated ones for the moment of a resize. The pod that is passed in does not change.
func allocated(p *v1.Pod) *v1.Pod {
	pod := *p
	pod.Spec.Containers = allocatedTo(p.Spec.Containers, p.Status.ContainerStatuses)
	pod.Spec.InitContainers = allocatedTo(p.Spec.InitContainers, p.Status.InitContainerStatuses)
	// The kubelet reports the sum of a pod if it can resize pods as a whole
	// (InPlacePodLevelResourcesVerticalScaling).
	if r := p.Spec.Resources; r != nil && p.Status.AllocatedResources != nil {
		of := r.DeepCopy()
		for name := range of.Requests {
			if sum, ok := p.Status.AllocatedResources[name]; ok {
				sum.Sub(p.Spec.Overhead[name]) // PodRequests adds it again
				of.Requests[name] = sum
			}
		}
		if p.Status.Resources != nil && p.Status.Resources.Limits != nil {
			for name := range of.Limits {
				if limit, ok := p.Status.Resources.Limits[name]; ok {
					limit.Sub(p.Spec.Overhead[name])
					of.Limits[name] = limit
				}
			}
		}
		pod.Spec.Resources = of
	}
	return &pod
}

// allocatedTo returns the containers with their allocated resources. A container without a status
// has not started, and a status without resources comes from a kubelet that does not resize
// (before 1.33): the spec applies.
func allocatedTo(containers []v1.Container, statuses []v1.ContainerStatus) []v1.Container {
	copied := false
	for i := range containers {
		at := slices.IndexFunc(statuses, func(s v1.ContainerStatus) bool { return s.Name == containers[i].Name })
		if at < 0 {
			continue
		}
		s := &statuses[at]
		if s.AllocatedResources == nil && s.Resources == nil {
			continue
		}
		if !copied {
			containers, copied = slices.Clone(containers), true
		}
		r := &containers[i].Resources
		r.Requests = s.AllocatedResources
		if s.Resources != nil {
			r.Limits = s.Resources.Limits
			if r.Requests == nil { // 1.33 reports the actual requests alone by default
				r.Requests = s.Resources.Requests
			}
		}
	}
	return containers
}
