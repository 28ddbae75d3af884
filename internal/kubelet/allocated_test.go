package kubelet

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestAllocated: a pod counts with what the kubelet has allocated, whatever a resize asks for. The
// kubelet ranks and weighs it so.
func TestAllocated(t *testing.T) {
	t.Parallel()
	const mebi = 1 << 20
	both := func(request, limit string) v1.ResourceRequirements {
		r := v1.ResourceRequirements{}
		if request != "" {
			r.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse(request)}
		}
		if limit != "" {
			r.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse(limit)}
		}
		return r
	}
	asks := func(r v1.ResourceRequirements) v1.PodSpec {
		return v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: r}}}
	}
	has := func(allocated v1.ResourceList, actual *v1.ResourceRequirements) v1.PodStatus {
		return v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "c", AllocatedResources: allocated, Resources: actual}}}
	}
	small := both("64Mi", "128Mi")
	none := v1.ResourceRequirements{}
	for name, test := range map[string]struct {
		spec                      v1.PodSpec
		status                    v1.PodStatus
		request, container, limit int64
	}{
		"deferred":                    {asks(both("32Gi", "32Gi")), has(small.Requests, &small), 64 * mebi, 64 * mebi, 128 * mebi},
		"shrinks":                     {asks(both("16Mi", "32Mi")), has(small.Requests, &small), 64 * mebi, 64 * mebi, 128 * mebi},
		"no status yet":               {asks(small), v1.PodStatus{}, 64 * mebi, 64 * mebi, 128 * mebi},
		"kubelet that cannot resize":  {asks(small), has(nil, nil), 64 * mebi, 64 * mebi, 128 * mebi},
		"kubelet 1.33":                {asks(both("32Gi", "32Gi")), has(nil, &small), 64 * mebi, 64 * mebi, 128 * mebi},
		"without requests, deferred":  {asks(both("32Gi", "")), has(nil, &none), 0, 0, 0},
		"allocated, not yet actuated": {asks(both("1Gi", "2Gi")), has(both("1Gi", "").Requests, &small), 1 << 30, 1 << 30, 128 * mebi},
		"sidecar": {
			v1.PodSpec{InitContainers: []v1.Container{stays("s", "32Gi")}, Containers: []v1.Container{takes("c", "10Mi")}},
			v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{{Name: "s", AllocatedResources: memory("30Mi")}}},
			40 * mebi, 10 * mebi, 0,
		},
		"pod as a whole, deferred": {
			v1.PodSpec{
				Resources: &v1.ResourceRequirements{Requests: memory("32Gi"), Limits: memory("33Gi")}, Overhead: memory("5Mi"),
				Containers: []v1.Container{takes("c", "10Mi")},
			},
			v1.PodStatus{
				// The kubelet counts the overhead.
				AllocatedResources: memory("69Mi"), Resources: &v1.ResourceRequirements{Limits: memory("133Mi")},
				ContainerStatuses: []v1.ContainerStatus{{Name: "c", AllocatedResources: memory("10Mi")}},
			},
			69 * mebi, 10 * mebi, 133 * mebi,
		},
		"pod as a whole, kubelet that cannot resize it": {
			v1.PodSpec{Resources: &v1.ResourceRequirements{Requests: memory("50Mi")}, Containers: []v1.Container{takes("c", "10Mi")}},
			v1.PodStatus{}, 50 * mebi, 10 * mebi, 0,
		},
	} {
		p := &v1.Pod{Spec: test.spec, Status: test.status}
		before := p.DeepCopy()
		got := newPod(p)
		if got.MemoryRequest != test.request || got.Containers["c"].MemoryRequest != test.container || got.MemoryLimit != test.limit {
			t.Errorf(
				"%s: request %d, of the container %d, limit %d; want %d, %d, %d",
				name, got.MemoryRequest, got.Containers["c"].MemoryRequest, got.MemoryLimit, test.request, test.container, test.limit,
			)
		}
		if p.String() != before.String() {
			t.Errorf("%s: the pod has changed", name)
		}
	}
}
