package policies

import (
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"

	"node-partition.io/node-partition/internal/admission"
	"node-partition.io/node-partition/tests/admissionpods"
)

var update = flag.Bool("update", false, "write the outcomes of the table of pods")

func namespaced(name string, annotations map[string]string) *v1.Namespace {
	return &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
}

// evaluated returns a server whose rules are the policies.
func evaluated(t *testing.T, convert, judge compiled, in *v1.Namespace) admissionpods.Server {
	t.Helper()
	full := func(pod *v1.Pod) *v1.Pod {
		copied := pod.DeepCopy()
		copied.APIVersion, copied.Kind = "v1", "Pod"
		return copied
	}
	return admissionpods.Server{
		Convert: func(pod *v1.Pod) { convert.convert(t, request{object: full(pod), namespace: in}, pod) },
		Judge: func(pod *v1.Pod) error {
			_, err := judge.judge(t, request{object: full(pod), namespace: in})
			return err
		},
	}
}

// TestPods: the policies make of each pod of the table what it says. tests/e2e/kubeapi creates the
// same pods on API servers.
func TestPods(t *testing.T) {
	t.Parallel()
	table, wanted := admissionpods.Load(t)
	convert, judge := rendered(t, table.AdmissionTypes()...).compile(t)
	got := map[string]admissionpods.Outcome{}
	for _, of := range table.Pods {
		if of.Server != "" {
			continue // it is refused by what is not here
		}
		s := evaluated(t, convert, judge, namespaced(of.Namespace, table.Namespaces[of.Namespace].Annotations))
		s.In = table.Namespaces[of.Namespace]
		got[of.Name] = s.Create(of.Pod())
		if got[of.Name].String() != wanted[of.Name].String() && !*update {
			t.Errorf("%s:\n%s\nwant\n%s", of.Name, got[of.Name], wanted[of.Name])
		}
	}
	if len(got) != len(wanted) && !*update {
		t.Errorf("%d outcomes; want %d", len(got), len(wanted))
	}
	if *update {
		data, err := yaml.Marshal(got)
		if err == nil {
			err = os.WriteFile("../../../tests/admissionpods/expected.yaml", data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestRandomPods: what holds for all pods. The QoS class stays, a second conversion changes
// nothing, and no annotation of a container survives that a conversion has not written.
func TestRandomPods(t *testing.T) {
	t.Parallel()
	convert, judge := rendered(t, admissionpods.RandomTypes()...).compile(t)
	converted, refused := 0, 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 2))
		pod, in := admissionpods.RandomPod(r), admissionpods.RandomNamespaces()[r.IntN(8)]
		if pod.Spec.Resources != nil || len(pod.Spec.Containers) == 0 {
			continue // the versions of API servers disagree about the one, and refuse the other
		}
		s := evaluated(t, convert, judge, in)
		admissionpods.SetDefaults(pod)
		outcome := func() string { return admissionpods.OutcomeOf(pod, admissionpods.ClassOf(pod)).String() }
		before, class, containers := outcome(), admissionpods.ClassOf(pod), pod.DeepCopy().Spec
		s.Convert(pod)
		once := outcome()
		s.Convert(pod)
		if got := admissionpods.ClassOf(pod); got != class {
			t.Errorf("class %s; want %s\n%s", got, class, before)
		}
		if class == v1.PodQOSGuaranteed && !equality.Semantic.DeepEqual(containers, pod.Spec) {
			t.Errorf("a guaranteed pod is converted\n%s", before)
		}
		if outcome() != once {
			t.Errorf("a second pass changes\n%s\nto\n%s", once, outcome())
		}
		if s.Judge(pod) != nil {
			refused++
			continue
		}
		for _, why := range admissionpods.Foreign(pod) {
			t.Errorf("%s\n%s\nbecomes\n%s", why, before, once)
		}
		if strings.Contains(once, "resources.workload") {
			converted++
		}
	}
	if converted < 20 || refused < 20 {
		t.Errorf("%d pods are converted, and %d refused: too few", converted, refused)
	}
}

// TestVersions: the policies compile on each API server that they are for. A server takes new
// expressions of the minor version before its own.
func TestVersions(t *testing.T) {
	t.Parallel()
	p := rendered(t, admission.Type{Name: "a", ByNamespace: true})
	for server := uint(30); server <= newest+1; server++ {
		v, m := p.validating.Spec, p.mutating.Spec
		got := compile(t, server-1, environment.NewExpressions, v.MatchConditions, v.Variables, v.Validations, nil)
		if err := errors.Join(got.errs...); err != nil {
			t.Errorf("ValidatingAdmissionPolicy on 1.%d: %v", server, err)
		}
		if server < 34 {
			continue
		}
		got = compile(t, server-1, environment.NewExpressions, m.MatchConditions, m.Variables, nil, m.Mutations)
		if err := errors.Join(got.errs...); err != nil {
			t.Errorf("MutatingAdmissionPolicy on 1.%d: %v", server, err)
		}
	}
}
