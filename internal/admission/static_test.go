package admission

import (
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestStatic: a static pod is converted by the rules of the kubelet, or refused with its errors.
func TestStatic(t *testing.T) {
	t.Parallel()
	const target = `target.workload.openshift.io/a: '{"effect":"PreferredDuringScheduling"}'`
	for name, test := range map[string]struct {
		annotations, spec string
		milli             map[string]int64
		set               map[string]string
		remove            []string
		problem           string
	}{
		"converted": {
			annotations: target + `, resources.workload.openshift.io/c: x`,
			spec:        `initContainers: [{name: i}], containers: [{name: c, resources: {requests: {cpu: 400m, memory: 1Mi}, limits: {cpu: 1}}}]`,
			milli:       map[string]int64{"c": 400},
			set: map[string]string{
				"target.workload.openshift.io/a":      Requested,
				"resources.workload.openshift.io/c":   `{"cpushares":409,"cpulimit":1000}`,
				"io.openshift.workload.a.cpushares/c": "400",
			},
			remove: []string{"resources.workload.openshift.io/c"},
		},
		"limits are requests": {
			annotations: target,
			spec:        `containers: [{name: c, resources: {limits: {cpu: 400m, memory: 1Mi}}}, {name: d}]`,
			milli:       map[string]int64{"c": 400},
			set: map[string]string{
				"target.workload.openshift.io/a":      Requested,
				"resources.workload.openshift.io/c":   `{"cpushares":409,"cpulimit":400}`,
				"io.openshift.workload.a.cpushares/c": "400",
			},
		},
		"best effort": {
			annotations: target, spec: `containers: [{name: c}]`, set: map[string]string{"target.workload.openshift.io/a": Requested},
		},
		"an object without the effect": {
			annotations: `target.workload.openshift.io/a: "{}"`, spec: `containers: [{name: c}]`,
			set: map[string]string{"target.workload.openshift.io/a": Requested},
		},
		"guaranteed": {
			annotations: target, spec: `containers: [{name: c, resources: {limits: {cpu: 400m, memory: 1Mi}}}]`,
			set: map[string]string{warningKey: guaranteedWarning}, remove: []string{"target.workload.openshift.io/a"},
		},
		"pod-level resources": {
			annotations: target, spec: `resources: {}, containers: [{name: c, resources: {requests: {cpu: 400m, memory: 1Mi}}}]`,
			set: map[string]string{warningKey: podLevelWarning}, remove: []string{"target.workload.openshift.io/a"},
		},
		"no type": {
			annotations: `resources.workload.openshift.io/c: x`, spec: `containers: [{name: c, resources: {requests: {cpu: 400m}}}]`,
			remove: []string{"resources.workload.openshift.io/c"},
		},
		"converted already": {
			annotations: target + `, resources.workload.openshift.io/c: '{"cpushares":409}'`,
			spec:        `containers: [{name: c, resources: {requests: {a.workload.openshift.io/cores: 400, memory: 1Mi}}}]`,
			set: map[string]string{
				"target.workload.openshift.io/a":      Requested,
				"resources.workload.openshift.io/c":   `{"cpushares":409}`,
				"io.openshift.workload.a.cpushares/c": "400",
			},
			remove: []string{"resources.workload.openshift.io/c"},
		},
		"CPU alone": {
			annotations: target, spec: `containers: [{name: c, resources: {requests: {cpu: 400m}}}]`,
			problem: "managed container c does not have memory requests",
		},
		"memory alone": {
			annotations: target, spec: `initContainers: [{name: i, resources: {requests: {memory: 1Mi}}}], containers: [{name: c}]`,
			problem: "managed container i does not have cpu requests",
		},
		"the resource alone": {
			annotations: target, spec: `containers: [{name: c, resources: {limits: {a.workload.openshift.io/cores: 400}, requests: {memory: 1Mi}}}]`,
			problem: "container c: " + foreignResource,
		},
		"the resource of a user": {
			annotations: target, spec: `containers: [{name: c, resources: {requests: {a.workload.openshift.io/cores: 400, memory: 1Mi}}}]`,
			problem: "container c: " + foreignResource,
		},
		"two types": {
			annotations: target + `, target.workload.openshift.io/b: "{}"`, spec: `containers: [{name: c}]`, problem: twoTypes,
		},
		"another effect": {
			annotations: `target.workload.openshift.io/a: '{"effect":"Required"}'`, spec: `containers: [{name: c}]`, problem: badEffect,
		},
	} {
		var pod v1.Pod
		if err := yaml.UnmarshalStrict([]byte("{metadata: {annotations: {"+test.annotations+"}}, spec: {"+test.spec+"}}"), &pod); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		e, err := ConvertStatic(&pod)
		if (err == nil) != (test.problem == "") || err != nil && err.Error() != test.problem {
			t.Errorf("%s: error %v; want %q", name, err, test.problem)
		}
		if !maps.Equal(e.Milli, test.milli) || !maps.Equal(e.Set, test.set) || !slices.Equal(e.Remove, test.remove) {
			t.Errorf("%s: %+v; want %v, %v without %v", name, e, test.milli, test.set, test.remove)
		}
	}
}

// TestAsk: a pod asks for the type of a flag, unless it asks for another one.
func TestAsk(t *testing.T) {
	t.Parallel()
	pod := &v1.Pod{}
	for range 2 {
		if err := Ask(pod, "a"); err != nil {
			t.Fatal(err)
		}
		if got := targets(pod.Annotations); !slices.Equal(got, []string{"a"}) {
			t.Errorf("asks for %q; want a", got)
		}
	}
	if err := Ask(pod, "b"); err == nil {
		t.Error("no error for another type")
	}
}
