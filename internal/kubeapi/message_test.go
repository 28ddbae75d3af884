package kubeapi

import (
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const mi = 1 << 20

func requests(memory string) *v1.ResourceRequirements {
	return &v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory)}}
}

func TestMessage(t *testing.T) {
	t.Parallel()
	threshold := resource.MustParse("100Mi")
	for name, test := range map[string]struct {
		figures     Figures
		pod         *v1.Pod
		text        string
		annotations map[string]string
	}{
		"one above its request": {
			Figures{Partition: "system", Threshold: threshold, Available: 52 * mi, Containers: []Usage{
				{"app", 700 * mi, resource.MustParse("64Mi")}, {"sidecar", 10 * mi, resource.MustParse("10Mi")},
			}}, nil,
			"Partition system of the node was low on resource: memory. Threshold quantity: 100Mi, available: 52Mi. " +
				"Container app was using 700Mi, request is 64Mi, has larger consumption of memory. ",
			map[string]string{"offending_containers": "app", "offending_containers_usage": "700Mi", "starved_resource": "memory"},
		},
		"without requests, not whole Mi": {
			Figures{Partition: "system", Threshold: threshold, Available: 0, Containers: []Usage{{Name: "a", WorkingSet: 12345 * 1024}, {Name: "b", WorkingSet: 4097}, {Name: "c"}}}, nil,
			"Partition system of the node was low on resource: memory. Threshold quantity: 100Mi, available: 0. " +
				"Container a was using 12345Ki, request is 0, has larger consumption of memory. " +
				"Container b was using 4097, request is 0, has larger consumption of memory. ",
			map[string]string{"offending_containers": "a,b", "offending_containers_usage": "12345Ki,4097", "starved_resource": "memory"},
		},
		"nothing is known": {
			Figures{Partition: "system"}, nil,
			"Partition system of the node was low on resource: memory. ",
			map[string]string{"offending_containers": "", "offending_containers_usage": "", "starved_resource": "memory"},
		},
		"the pod has a request": {
			Figures{Partition: "system", Threshold: resource.MustParse("1G"), Available: 1, WorkingSet: 30 * mi},
			&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "dns"}, Spec: v1.PodSpec{Resources: requests("0.5Gi")}},
			"Partition system of the node was low on resource: memory. Threshold quantity: 1G, available: 1. " +
				"Pod dns was using 30Mi, request is 512Mi, has larger consumption of memory. ",
			map[string]string{
				"offending_pod": "dns", "offending_pod_usage": "30Mi",
				"offending_containers": "", "offending_containers_usage": "", "starved_resource": "memory",
			},
		},
		"the pod says who is to blame": {
			Figures{Partition: "system", Containers: []Usage{{Name: "debugger", WorkingSet: 99 * mi}, {Name: "app", WorkingSet: 30 * mi}, {Name: "proxy", WorkingSet: 9 * mi}}},
			&v1.Pod{Spec: v1.PodSpec{
				Containers:          []v1.Container{{Name: "app", Resources: *requests("30Mi")}},
				InitContainers:      []v1.Container{{Name: "proxy", Resources: *requests("8Mi")}},
				EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debugger"}}},
			}},
			"Partition system of the node was low on resource: memory. Container proxy was using 9Mi, request is 8Mi, has larger consumption of memory. ",
			map[string]string{"offending_containers": "proxy", "offending_containers_usage": "9Mi", "starved_resource": "memory"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, annotations := Message(test.figures, test.pod)
			if text != test.text {
				t.Errorf("%q\nwant %q", text, test.text)
			}
			if !maps.Equal(annotations, test.annotations) {
				t.Errorf("annotations %v; want %v", annotations, test.annotations)
			}
		})
	}
}
