package audit

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"nodepartition/internal/membership"
	"nodepartition/internal/unitname"
)

const (
	askedSlice = "kubepods.slice/kubepods-telemetry.slice/kubepods-telemetry-burstable.slice/kubepods-telemetry-burstable-pod3_c.slice"
	askedScope = askedSlice + "/cri-containerd-agentagent.scope"
)

// asking makes the agent of a healthy node a member by annotation, which requests 400 of the
// resource and no CPU. Its cgroups have these weights and quotas.
func asking(t *testing.T, change func(*v1.Pod, *membership.Workload), slice, scope Files) *Facts {
	t.Helper()
	s := healthy(t)
	w := membership.Workload{Type: "telemetry", Partition: "telemetry", Allowed: []string{"kube-system"}, Advertise: true}
	pod("agent", func(p *v1.Pod) {
		p.Annotations = map[string]string{
			"target.workload.openshift.io/telemetry": "{}", "resources.workload.openshift.io/main": `{"cpushares":409,"cpulimit":505}`,
		}
		list := v1.ResourceList{"telemetry.workload.openshift.io/cores": resource.MustParse("400")}
		p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: list, Limits: list}
		if change != nil {
			change(p, &w)
		}
	})(s)
	s.Names = append(s.Names, "telemetry")
	s.Members = membership.New().With([]membership.Workload{w}, nil)
	s.Cgroups[agentSlice][cpuWeight] = "1"
	if w := s.Units["kubepods-burstable-pod3_c.slice"]; w != nil {
		w["CPUWeight"] = "1"
	}
	s.Cgroups[askedSlice], s.Cgroups[askedScope] = slice, scope
	s.Containers[askedScope] = s.Containers[agentScope]
	delete(s.Cgroups, agentScope)
	delete(s.Containers, agentScope)
	return s
}

// about returns the paths of the findings about the agent.
func about(r Report) []string {
	var paths []string
	for _, f := range r.Findings {
		if strings.Contains(f.Path, "3_c.slice") {
			paths = append(paths, strings.TrimPrefix(f.Path, unitname.CgroupMount+"/"))
		}
	}
	return paths
}

// TestRunAsked: the CPU time that partition-monitor gives to a member by annotation is right, by
// either formula of the runtime. Another one has a finding.
func TestRunAsked(t *testing.T) {
	t.Parallel()
	files := func(weight, quota string) Files { return Files{cpuWeight: weight, cpuMax: quota} }
	const none, limited, rounded = "max 100000", "50500 100000", "51000 100000"
	notAdvertised := func(_ *v1.Pod, w *membership.Workload) { w.Advertise = false }
	noLimit := func(p *v1.Pod, _ *membership.Workload) {
		delete(p.Annotations, "resources.workload.openshift.io/main")
	}
	most := func(p *v1.Pod, _ *membership.Workload) {
		noLimit(p, nil)
		p.Spec.Containers[0].Resources.Requests["telemetry.workload.openshift.io/cores"] = resource.MustParse("9223372036854775807")
	}
	for name, test := range map[string]struct {
		change       func(*v1.Pod, *membership.Workload)
		slice, scope Files
		want         []string
	}{
		"as it is given":             {nil, files("16", rounded), files("16", rounded), nil},
		"by the runtime's formula":   {nil, files("16", rounded), files("49", limited), nil},
		"as the kubelet gives it":    {nil, files("1", none), files("1", none), []string{askedSlice + "/cpu.weight", askedSlice + "/cpu.max", askedScope + "/cpu.max", askedScope + "/cpu.weight"}},
		"without a limit":            {noLimit, files("16", none), files("16", none), nil},
		"a limit that is not asked":  {noLimit, files("16", none), files("16", limited), []string{askedScope + "/cpu.max"}},
		"of a type that has none":    {notAdvertised, files("1", none), files("16", none), []string{askedScope + "/cpu.weight"}},
		"none, of such a type":       {notAdvertised, files("1", none), files("1", none), nil},
		"with a request of any size": {most, files("10000", none), files("10000", none), nil},
	} {
		s := asking(t, test.change, test.slice, test.scope)
		got := about(Run(s))
		slices.Sort(got)
		slices.Sort(test.want)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: findings of %q; want %q", name, got, test.want)
		}
	}
}

// TestRunAskedElsewhere: a member that still runs in the kubelet's slice has the kubelet's values.
func TestRunAskedElsewhere(t *testing.T) {
	t.Parallel()
	s := asking(t, nil, nil, nil)
	delete(s.Cgroups, askedSlice)
	delete(s.Cgroups, askedScope)
	s.Cgroups[agentScope] = Files{cpuWeight: "1", cpuMax: "max 100000"}
	if got := about(Run(s)); len(got) > 0 {
		t.Errorf("findings of %q", got)
	}
	s.Cgroups[agentScope][cpuWeight] = "16"
	if got := about(Run(s)); !slices.Equal(got, []string{agentScope + "/cpu.weight"}) {
		t.Errorf("findings of %q; want one of its weight", got)
	}
}

// TestAskedOnce: what a pod asks for is computed once, however many rules ask for it.
func TestAskedOnce(t *testing.T) {
	t.Parallel()
	facts := asking(t, nil, Files{}, Files{})
	asked := 0
	w := membership.Workload{Type: "telemetry", Partition: "telemetry", ByNamespace: true, Advertise: true}
	facts.Members = membership.New().With([]membership.Workload{w}, func(string, string) membership.Refusal {
		asked++
		return ""
	})
	a := newAudit(facts)
	a.findFormulas()
	for _, pod := range a.settled() {
		for range 3 {
			a.running(pod)
			a.askedSlice(pod, podResources(pod))
		}
	}
	if asked != 1 {
		t.Errorf("the place of the one pod that asks is decided %d times", asked)
	}
}
