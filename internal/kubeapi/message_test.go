package kubeapi

import (
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

const mi = 1 << 20

func TestMessage(t *testing.T) {
	t.Parallel()
	threshold := resource.MustParse("100Mi")
	for name, test := range map[string]struct {
		figures     Figures
		text        string
		annotations map[string]string
	}{
		"one above its request": {
			Figures{Threshold: threshold, Available: 52 * mi, Containers: []Usage{
				{"app", 700 * mi, resource.MustParse("64Mi")}, {"sidecar", 10 * mi, resource.MustParse("10Mi")},
			}},
			"The system partition of the node was low on resource: memory. Threshold quantity: 100Mi, available: 52Mi. " +
				"Container app was using 700Mi, request is 64Mi, has larger consumption of memory. ",
			map[string]string{"offending_containers": "app", "offending_containers_usage": "700Mi", "starved_resource": "memory"},
		},
		"without requests, not whole Mi": {
			Figures{Threshold: threshold, Available: 0, Containers: []Usage{{Name: "a", WorkingSet: 12345 * 1024}, {Name: "b", WorkingSet: 4097}, {Name: "c"}}},
			"The system partition of the node was low on resource: memory. Threshold quantity: 100Mi, available: 0. " +
				"Container a was using 12345Ki, request is 0, has larger consumption of memory. " +
				"Container b was using 4097, request is 0, has larger consumption of memory. ",
			map[string]string{"offending_containers": "a,b", "offending_containers_usage": "12345Ki,4097", "starved_resource": "memory"},
		},
		"nothing is known": {
			Figures{},
			"The system partition of the node was low on resource: memory. ",
			map[string]string{"offending_containers": "", "offending_containers_usage": "", "starved_resource": "memory"},
		},
		"the pod has a request": {
			Figures{Threshold: resource.MustParse("1G"), Available: 1, Pod: Usage{"dns", 30 * mi, resource.MustParse("0.5Gi")}},
			"The system partition of the node was low on resource: memory. Threshold quantity: 1G, available: 1. " +
				"Pod dns was using 30Mi, request is 512Mi, has larger consumption of memory. ",
			map[string]string{
				"offending_pod": "dns", "offending_pod_usage": "30Mi",
				"offending_containers": "", "offending_containers_usage": "", "starved_resource": "memory",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, annotations := Message(test.figures)
			if text != test.text {
				t.Errorf("%q\nwant %q", text, test.text)
			}
			if !maps.Equal(annotations, test.annotations) {
				t.Errorf("annotations %v; want %v", annotations, test.annotations)
			}
		})
	}
}
