package cluster

import (
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/evict"
)

func requests(memory string) *v1.ResourceRequirements {
	return &v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory)}}
}

func TestMessage(t *testing.T) {
	t.Parallel()
	inSystem := evict.PodMeta{Cgroup: partition.CgroupPath(partition.PodSlice(partition.System, v1.PodQOSGuaranteed, "1"))}
	for name, test := range map[string]struct {
		eviction    evict.Eviction
		pod         *v1.Pod
		text        string
		annotations map[string]string
	}{
		"one above its request": {
			evict.Eviction{PodMeta: inSystem, Amounts: evict.Amounts{AtBytes: 100 * mebi, AvailableBytes: 52 * mebi}, Containers: []evict.Container{
				{Name: "app", WorkingSet: 700 * mebi, Request: 64 * mebi}, {Name: "sidecar", WorkingSet: 10 * mebi, Request: 10 * mebi},
			}}, nil,
			"Partition system of the node was low on resource: memory. Threshold quantity: 100Mi, available: 52Mi. " +
				"Container app was using 700Mi, request is 64Mi, has larger consumption of memory. ",
			map[string]string{"offending_containers": "app", "offending_containers_usage": "700Mi", "starved_resource": "memory"},
		},
		"without requests, not whole Mi": {
			evict.Eviction{PodMeta: inSystem, Amounts: evict.Amounts{AtBytes: 100 * mebi}, Containers: []evict.Container{
				{Name: "a", WorkingSet: 12345 * 1024}, {Name: "b", WorkingSet: 4097}, {Name: "c"},
				{WorkingSet: mebi}, // it was just started, and its name is not known yet
			}}, nil,
			"Partition system of the node was low on resource: memory. Threshold quantity: 100Mi, available: 0. " +
				"Container a was using 12345Ki, request is 0, has larger consumption of memory. " +
				"Container b was using 4097, request is 0, has larger consumption of memory. ",
			map[string]string{"offending_containers": "a,b", "offending_containers_usage": "12345Ki,4097", "starved_resource": "memory"},
		},
		"nothing is known": {
			evict.Eviction{PodMeta: inSystem}, nil,
			"Partition system of the node was low on resource: memory. ",
			map[string]string{"offending_containers": "", "offending_containers_usage": "", "starved_resource": "memory"},
		},
		"of another partition": {
			evict.Eviction{PodMeta: evict.PodMeta{Cgroup: partition.CgroupPath(partition.PodSlice("telemetry", v1.PodQOSBurstable, "1"))}}, nil,
			"Partition telemetry of the node was low on resource: memory. ",
			map[string]string{"offending_containers": "", "offending_containers_usage": "", "starved_resource": "memory"},
		},
		"the pod has a request": {
			evict.Eviction{PodMeta: inSystem, Amounts: evict.Amounts{AtBytes: 1e9, AvailableBytes: 1, WorkingSetBytes: 30 * mebi}},
			&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "dns"}, Spec: v1.PodSpec{Resources: requests("0.5Gi")}},
			"Partition system of the node was low on resource: memory. Threshold quantity: 1000000000, available: 1. " +
				"Pod dns was using 30Mi, request is 512Mi, has larger consumption of memory. ",
			map[string]string{
				"offending_pod": "dns", "offending_pod_usage": "30Mi",
				"offending_containers": "", "offending_containers_usage": "", "starved_resource": "memory",
			},
		},
		"the pod says who is to blame": {
			evict.Eviction{PodMeta: inSystem, Containers: []evict.Container{
				{Name: "debugger", WorkingSet: 99 * mebi}, {Name: "app", WorkingSet: 30 * mebi}, {Name: "proxy", WorkingSet: 9 * mebi},
			}},
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
			text, annotations := message(test.eviction, test.pod)
			if text != test.text {
				t.Errorf("%q\nwant %q", text, test.text)
			}
			if !maps.Equal(annotations, test.annotations) {
				t.Errorf("annotations %v; want %v", annotations, test.annotations)
			}
		})
	}
}
