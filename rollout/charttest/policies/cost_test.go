package policies

import (
	"maps"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/admission"
)

// podWith returns a pod of one container with annotations.
func podWith(annotations map[string]string) *v1.Pod {
	return &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", Annotations: maps.Clone(annotations)},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c"}}},
	}
}

// numbered returns n short annotations, each with a prefix.
func numbered(n int, prefix string) map[string]string {
	all := make(map[string]string, n)
	for i := range n {
		all[prefix+"a"+strconv.FormatInt(int64(i), 36)] = ""
	}
	return all
}

// TestCost: what a pod costs an API server does not grow faster than its text. The unit is the one
// of an API server's limits: a million for an expression, about 0.1 s.
func TestCost(t *testing.T) {
	t.Parallel()
	convert, judge := rendered(t, admission.Type{Name: "a", ByNamespace: true}).compile(t)
	in := namespaced("n", map[string]string{"workload.openshift.io/allowed": "a"})
	asks := map[string]string{"target.workload.openshift.io/a": `{"effect":"PreferredDuringScheduling"}`}
	plus := func(all, more map[string]string) map[string]string {
		all = maps.Clone(all)
		maps.Copy(all, more)
		return all
	}
	const thousands = 10_000
	many, few := numbered(thousands, ""), numbered(20, "")
	for name, test := range map[string]struct {
		old, new map[string]string // of a pod that is created if old is nil
		status   bool
		most     int64
		refused  bool
	}{
		"a pod":                                 {nil, few, false, 500, false},
		"a status":                              {few, few, true, 50, false},
		"the status of a pod that asks":         {plus(few, asks), plus(few, asks), true, 50, false},
		"many annotations":                      {nil, many, false, 5 * thousands, false},
		"the status of many annotations":        {many, many, true, thousands, false},
		"a change among many annotations":       {many, plus(many, map[string]string{"b": ""}), false, 10 * thousands, false},
		"many, and one asks":                    {nil, plus(many, asks), false, 10 * thousands, true},
		"many, and one asks later":              {many, plus(many, asks), false, 10 * thousands, true},
		"an annotation beside many that went":   {plus(many, asks), asks, false, 10 * thousands, true},
		"many of containers that are not there": {nil, numbered(5000, "resources.workload.openshift.io/"), false, 100 * thousands, true},
		"many that look alike":                  {nil, numbered(thousands, "openshift"), false, 30 * thousands, false},
		"twice as many":                         {nil, numbered(20_000, ""), false, 30 * thousands, false},
		"a change among twice as many":          {numbered(20_000, ""), numbered(20_001, ""), false, 60 * thousands, false},
		"the status of twice as many":           {numbered(20_000, ""), numbered(20_000, ""), true, thousands, false},
		"twice as many of a pod that asks":      {nil, plus(numbered(20_000, ""), asks), false, 60 * thousands, true},
	} {
		r := request{object: podWith(test.new), namespace: in}
		if test.old != nil {
			r.old = podWith(test.old)
		}
		if test.status {
			r.subresource = "status"
		}
		cost, err := judge.judge(t, r)
		if cost > test.most || (err != nil) != test.refused {
			t.Errorf("%s: cost %d, %v; want at most %d, refused %t", name, cost, err, test.most, test.refused)
		}
		if test.old == nil {
			if cost := convert.convert(t, r, &v1.Pod{}); cost > test.most {
				t.Errorf("%s: a conversion costs %d; want at most %d", name, cost, test.most)
			}
		}
	}
}

// TestCostOfContainers: the largest pod that is converted, and what is larger.
func TestCostOfContainers(t *testing.T) {
	t.Parallel()
	convert, judge := rendered(t, admission.Type{Name: "a", ByNamespace: true}).compile(t)
	in := namespaced("n", map[string]string{"workload.openshift.io/allowed": "a"})
	const most = 300_000
	pod := func(containers, resources int) *v1.Pod {
		p := podWith(map[string]string{"target.workload.openshift.io/a": `{"effect":"PreferredDuringScheduling"}`})
		p.Spec.Containers = nil
		for i := range containers {
			list := v1.ResourceList{v1.ResourceCPU: resource.MustParse("400m"), v1.ResourceMemory: resource.MustParse("1Mi")}
			for len(list) < resources {
				list[v1.ResourceName("x/"+strconv.Itoa(len(list)))] = resource.MustParse("1")
			}
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "c" + strconv.Itoa(i), Resources: v1.ResourceRequirements{Requests: list}})
		}
		return p
	}
	for name, test := range map[string]struct {
		pod     *v1.Pod
		refused bool
	}{
		"as many containers as there can be": {pod(admission.MaxContainers, 2), false},
		"as many resources as there can be":  {pod(50, admission.MaxResources-1), false},
		"more containers":                    {pod(admission.MaxContainers+1, 2), true},
		"thousands of containers":            {pod(3000, 2), true},
		"more resources":                     {pod(1, admission.MaxResources+1), true},
		"thousands of resources":             {pod(1, 10_000), true},
	} {
		for range 2 { // a second reconcile changes nothing
			if cost := convert.convert(t, request{object: test.pod.DeepCopy(), namespace: in}, test.pod); cost > most {
				t.Errorf("%s: a conversion costs %d; want at most %d", name, cost, most)
			}
			test.pod.APIVersion, test.pod.Kind = "v1", "Pod"
		}
		cost, err := judge.judge(t, request{object: test.pod, namespace: in})
		if cost > most || (err != nil) != test.refused {
			t.Errorf("%s: cost %d, %v; want at most %d, refused %t", name, cost, err, most, test.refused)
		}
	}
}
