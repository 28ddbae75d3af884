package policies

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/cel/environment"

	"node-partition.io/node-partition/internal/admission"
	"node-partition.io/node-partition/tests/admissionpods"
)

func namespaced(in admission.Namespace) *v1.Namespace {
	return &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: in.Name, Annotations: in.Annotations}}
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

// same compares what the policies make of a pod with what the rules in Go make of it.
func same(t *testing.T, name string, got, want admissionpods.Outcome) {
	t.Helper()
	if strings.Contains(got.Refused, "namespaceObject.metadata.name") && strings.Contains(want.Refused, "does not allow the workload type") {
		return
	}
	if got.String() != want.String() {
		t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
	}
}

// TestPods: the policies make of each pod of the table, and of random ones, what the rules in Go
// make of it. tests/e2e/kubeapi creates the same pods on API servers.
func TestPods(t *testing.T) {
	t.Parallel()
	table, wanted := admissionpods.Load(t)
	convert, judge := rendered(t, append(table.AdmissionTypes(), admissionpods.RandomTypes()...)...).compile(t)
	for _, of := range table.Pods {
		if of.Server != "" {
			continue // it is refused by what is not here
		}
		in := namespaced(admission.Namespace{Name: of.Namespace, Annotations: table.Namespaces[of.Namespace].Annotations})
		s := evaluated(t, convert, judge, in)
		s.In = table.Namespaces[of.Namespace]
		same(t, of.Name, s.Create(of.Pod()), wanted[of.Name])
	}
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 2))
		pod, in := admissionpods.RandomPod(r), admissionpods.RandomNamespaces()[r.IntN(8)]
		pod.Namespace = in.Name
		if pod.Spec.Resources != nil || len(pod.Spec.Containers) == 0 {
			continue // the versions of API servers disagree about the one, and refuse the other
		}
		want := admissionpods.RandomServer(in).Create(pod.DeepCopy())
		same(t, admissionpods.OutcomeOf(pod, "").String(), evaluated(t, convert, judge, namespaced(in)).Create(pod), want)
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
