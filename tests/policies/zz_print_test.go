package policies

import (
	"testing"

	"nodepartition/internal/admission"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"strconv"
)

func TestPrint(t *testing.T) {
	convert, judge := rendered(t, admission.Type{Name: "a", ByNamespace: true}).compile(t)
	in := namespaced(admission.Namespace{Name: "n", Annotations: map[string]string{"workload.openshift.io/allowed": "a"}})
	for _, n := range []int{0, 20, 10000, 50000} {
		p := podWith(numbered(n, ""))
		_, s := judge.judge(t, request{object: p.DeepCopy(), old: p, subresource: "status", namespace: in})
		_, c := judge.judge(t, request{object: p, namespace: in})
		q := p.DeepCopy()
		q.Annotations["b"] = ""
		_, u := judge.judge(t, request{object: q, old: p, namespace: in})
		t.Logf("%d annotations: status %d create %d (mutating %d) annotate %d", n, s, c, convert.convert(t, request{object: p, namespace: in}, &v1.Pod{}), u)
	}
	for _, n := range []int{1, 3, 100} {
		p := podWith(map[string]string{"target.workload.openshift.io/a": `{"effect":"PreferredDuringScheduling"}`})
		p.Spec.Containers = nil
		for i := range n {
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "c" + strconv.Itoa(i), Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("400m"), "memory": resource.MustParse("1Mi")}}})
		}
		m := convert.convert(t, request{object: p.DeepCopy(), namespace: in}, p)
		p.APIVersion, p.Kind = "v1", "Pod"
		_, j := judge.judge(t, request{object: p, namespace: in})
		q := p.DeepCopy()
		q.Status.Phase = "Running"
		_, u := judge.judge(t, request{object: q, old: p, subresource: "status", namespace: in})
		t.Logf("%d containers: convert %d judge %d status %d", n, m, j, u)
	}
}
