package admissionpods

import (
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/admission"
	"node-partition.io/node-partition/internal/partition"
)

// TestNode: a node gives each pod of the table what the policy has made of it. A pod that still
// asks has the type, and the CPU time of the resource that its containers request. The annotations
// of the pod say the same of each container, for a node whose kubelet reports no requests.
func TestNode(t *testing.T) {
	t.Parallel()
	table, wanted := Load(t)
	converted := 0
	for _, c := range table.Pods {
		o := wanted[c.Name]
		if _, mirror := o.Annotations[v1.MirrorPodAnnotationKey]; o.Refused != "" || mirror || c.Server != "" {
			continue
		}
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: o.Annotations}}
		requests := false
		for container, resources := range o.Containers {
			pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: container, Resources: resources})
			for name := range resources.Requests {
				requests = requests || strings.HasSuffix(string(name), partition.WorkloadResource(""))
			}
		}
		origin := partition.OriginOf(o.Annotations)
		place := table.rules().Place(partition.Pod{Namespace: c.Namespace, Guaranteed: o.Class == v1.PodQOSGuaranteed, Origin: origin})
		asks := origin.Ask.Type != ""
		hasResource := asks && !table.Types[origin.Ask.Type].Unconverted
		if asks && place.By == "" || place.Resource != hasResource || place.Refused != "" || requests && !hasResource {
			t.Errorf("%s: asks for %+v, and the node gives %+v", c.Name, origin.Ask, place)
		}
		cpu, said := admission.CPUOf(pod, place.Type), admission.Annotated(o.Annotations, place.Type)
		if !reflect.DeepEqual(cpu.Containers, said.Containers) || cpu.Flaw != "" || said.Flaw != "" {
			t.Errorf("%s: requests %+v, and its annotations say %+v", c.Name, cpu, said)
		}
		if requests {
			converted++
		}
	}
	if converted < 10 {
		t.Errorf("%d converted pods; want 10 at least", converted)
	}
}
