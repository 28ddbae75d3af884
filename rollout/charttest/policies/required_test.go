package policies

import (
	"errors"
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/cel/environment"

	"node-partition.io/node-partition/internal/admission"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/admissionpods"
)

// requiredKey is the annotation that NRI's default validator reads, in its least specific form.
const requiredKey = "required-plugins.noderesource.dev"

// TestRequiredAsking: of the pods that ask, those require the monitor that are members, and no
// others. Without the option none does.
func TestRequiredAsking(t *testing.T) {
	t.Parallel()
	table, wanted := admissionpods.Load(t)
	convert, judge := renderedFor(t, admission.PolicyCluster{
		Types: table.AdmissionTypes(), APIVersion: admission.PolicyV1, Required: true,
	}).compile(t)
	create := func(of admissionpods.Case) admissionpods.Outcome {
		s := evaluated(t, convert, judge, namespaced(of.Namespace, table.Namespaces[of.Namespace].Annotations))
		s.In = table.Namespaces[of.Namespace]
		return s.Create(of.Pod())
	}
	members := 0
	for _, of := range table.Pods {
		if of.Server != "" {
			continue // it is refused by what is not here
		}
		got, want := create(of), wanted[of.Name]
		_, mirror := want.Annotations[v1.MirrorPodAnnotationKey]
		if partition.OriginOf(want.Annotations).Ask.Type != "" && !mirror {
			members++
			want.Annotations[requiredKey] = `["node-partition"]`
		}
		if got.String() != want.String() {
			t.Errorf("%s:\n%s\nwant\n%s", of.Name, got, want)
		}
		of.Spec.PriorityClassName = "system-node-critical"
		if _, is := create(of).Annotations[requiredKey]; is {
			t.Errorf("%s: node-critical, and does not start without the monitor", of.Name)
		}
	}
	if members < 10 {
		t.Errorf("%d members; want 10 at least", members)
	}
}

// TestRequiredNamespaces: the pods of members' namespaces require the monitor, with and without
// other annotations. Static and node-critical pods do not. What their author requires counts.
func TestRequiredNamespaces(t *testing.T) {
	t.Parallel()
	p := renderedFor(t, admission.PolicyCluster{
		APIVersion: admission.PolicyV1, Required: true, Members: []string{"kube-system", "monitoring"},
	}).required.Spec
	selected := p.MatchConstraints.NamespaceSelector.MatchExpressions
	if len(selected) != 1 || !slices.Equal(selected[0].Values, []string{"kube-system", "monitoring"}) {
		t.Errorf("for the namespaces %v", selected)
	}
	require := compile(t, newest, environment.StoredExpressions, p.MatchConditions, p.Variables, nil, p.Mutations)
	if err := errors.Join(require.errs...); err != nil {
		t.Fatal(err)
	}
	ours := map[string]string{requiredKey: `["node-partition"]`}
	for name, test := range map[string]struct {
		annotations, want map[string]string
		class             string
	}{
		"a pod":                    {nil, ours, ""},
		"a cluster-critical pod":   {nil, ours, "system-cluster-critical"},
		"a node-critical pod":      {nil, map[string]string{}, "system-node-critical"},
		"other annotations":        {map[string]string{"a": "b"}, map[string]string{"a": "b", requiredKey: ours[requiredKey]}, ""},
		"a static pod":             {map[string]string{v1.MirrorPodAnnotationKey: "c"}, map[string]string{v1.MirrorPodAnnotationKey: "c"}, ""},
		"its author's requirement": {map[string]string{requiredKey: "[gpu]"}, map[string]string{requiredKey: "[gpu]"}, ""},
	} {
		pod := podWith(test.annotations)
		pod.Spec.PriorityClassName = test.class
		for range 2 {
			require.convert(t, request{object: pod.DeepCopy(), namespace: namespaced("kube-system", nil)}, pod)
			pod.APIVersion, pod.Kind = "v1", "Pod"
		}
		if !maps.Equal(pod.Annotations, test.want) {
			t.Errorf("%s: annotations %v; want %v", name, pod.Annotations, test.want)
		}
	}
}
