package admission

import v1 "k8s.io/api/core/v1"

// classOf returns the QoS class of a pod with these containers, by their CPU and memory alone
// (ComputePodQOS, pkg/apis/core/v1/helper/qos, v1.37.0).
func classOf(containers []container) v1.PodQOSClass {
	guaranteed, some := true, false
	for _, c := range containers {
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			request, _ := c.request(name)
			limit := c.limits[name]
			some = some || request.Sign() > 0 || limit.Sign() > 0
			guaranteed = guaranteed && limit.Sign() > 0 && request.Cmp(limit) == 0
		}
	}
	switch {
	case !some:
		return v1.PodQOSBestEffort
	case guaranteed:
		return v1.PodQOSGuaranteed
	}
	return v1.PodQOSBurstable
}
