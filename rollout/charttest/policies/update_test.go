package policies

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/admission"
)

// TestUpdate: what a conversion has written stays while the pod is there. The target may be written
// in another form of the same value, as by a second kubectl apply.
func TestUpdate(t *testing.T) {
	t.Parallel()
	_, judge := rendered(t, admission.Type{Name: "a", ByNamespace: true}).compile(t)
	in := namespaced("n", map[string]string{"workload.openshift.io/allowed": "a"})
	const target, shares, document = "target.workload.openshift.io/a", "resources.workload.openshift.io/c", "io.openshift.workload.a.cpushares/c"
	pod := podWith(map[string]string{target: `{"effect":"PreferredDuringScheduling"}`, shares: `{"cpushares":409}`, document: "400"})
	pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{"a.workload.openshift.io/cores": resource.MustParse("400")}
	cpu := v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
	for name, test := range map[string]struct {
		subresource string
		change      func(*v1.Pod)
		refused     string
	}{
		"nothing":                     {"", func(*v1.Pod) {}, ""},
		"another annotation":          {"", func(p *v1.Pod) { p.Annotations["x"] = "y" }, ""},
		"the same target with spaces": {"", func(p *v1.Pod) { p.Annotations[target] = `{"effect": "PreferredDuringScheduling"} ` }, ""},
		"another target":              {"", func(p *v1.Pod) { p.Annotations[target] = `{"effect":"RequiredDuringScheduling"}` }, "can not be changed"},
		"no target":                   {"", func(p *v1.Pod) { delete(p.Annotations, target) }, "can not be changed"},
		"no annotations":              {"", func(p *v1.Pod) { p.Annotations = nil }, "can not be changed"},
		"another target beside it":    {"", func(p *v1.Pod) { p.Annotations["target.workload.openshift.io/b"] = p.Annotations[target] }, "can not be changed"},
		"one for another": {"", func(p *v1.Pod) {
			delete(p.Annotations, document)
			p.Annotations["resources.workload.openshift.io/d"] = `{"cpuset":"0"}`
		}, "can not be changed"},
		"shares":                 {"", func(p *v1.Pod) { p.Annotations[shares] = `{"cpushares":999}` }, "can not be changed"},
		"CPUs over the status":   {"status", func(p *v1.Pod) { p.Annotations[shares] = `{"cpuset":"0"}` }, "can not be changed"},
		"CPUs with a container":  {"ephemeralcontainers", func(p *v1.Pod) { p.Annotations["resources.workload.openshift.io/e"] = `{"cpuset":"0"}` }, "can not be changed"},
		"status":                 {"status", func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }, ""},
		"CPU of a container":     {"resize", func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests = cpu }, "can not get a request"},
		"limit of a container":   {"resize", func(p *v1.Pod) { p.Spec.Containers[0].Resources.Limits = cpu }, "can not get a request"},
		"CPU of the pod":         {"resize", func(p *v1.Pod) { p.Spec.Resources = &v1.ResourceRequirements{Requests: cpu} }, "can not get a request"},
		"memory of a container":  {"resize", func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests["memory"] = resource.MustParse("1Mi") }, ""},
		"an ephemeral container": {"ephemeralcontainers", func(p *v1.Pod) { p.Spec.EphemeralContainers = make([]v1.EphemeralContainer, 1) }, ""},
		"annotations beyond the most": {"", func(p *v1.Pod) {
			for key := range numbered(admission.MaxAnnotations, "") {
				p.Annotations[key] = ""
			}
		}, "more than 256"},
	} {
		changed := pod.DeepCopy()
		test.change(changed)
		_, err := judge.judge(t, request{object: changed, old: pod, subresource: test.subresource, namespace: in})
		if (err == nil) != (test.refused == "") || err != nil && !strings.Contains(err.Error(), test.refused) {
			t.Errorf("%s: %v; want %q", name, err, test.refused)
		}
	}
	plain := podWith(nil)
	for key, value := range pod.Annotations {
		asks := podWith(map[string]string{key: value})
		if _, err := judge.judge(t, request{object: asks, old: plain, namespace: in}); err == nil {
			t.Errorf("a running pod gets %s", key)
		}
	}
}

// TestBinding: a binding copies its annotations to the pod, so it has none of these.
func TestBinding(t *testing.T) {
	t.Parallel()
	_, judge := rendered(t, admission.Type{Name: "a", ByNamespace: true}).compile(t)
	in := namespaced("n", map[string]string{"workload.openshift.io/allowed": "a"})
	for key, refused := range map[string]bool{
		"": false, "scheduler/zone": false,
		"target.workload.openshift.io/a":      true,
		"resources.workload.openshift.io/c":   true,
		"io.openshift.workload.a.cpushares/c": true,
	} {
		binding := &v1.Binding{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Binding"},
			ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", Annotations: map[string]string{}},
			Target:     v1.ObjectReference{Kind: "Node", Name: "one"},
		}
		if key != "" {
			// The mark of a mirror pod does not help.
			binding.Annotations = map[string]string{key: `{"effect":"PreferredDuringScheduling"}`, "kubernetes.io/config.mirror": "x"}
		}
		cost, err := judge.judge(t, request{object: binding, subresource: "binding", namespace: in})
		if (err != nil) != refused || cost > 1000 {
			t.Errorf("%q: %v, cost %d; want it refused: %t", key, err, cost, refused)
		}
	}
}
