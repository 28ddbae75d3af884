package podmove

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/cri"
	"nodepartition/internal/membership"
	"nodepartition/internal/unitname"
	"nodepartition/internal/workload"
)

// asking returns three partitions with a type of one, whose namespaces answer for it.
func asking(answer membership.Refusal) Policy {
	c := three()
	c.Workloads = []membership.Workload{{Type: "telemetry", Partition: telemetry, ByNamespace: true, Advertise: true}}
	c.Allows = func(string, string) membership.Refusal { return answer }
	return c
}

// asks makes a pod ask for telemetry.
func asks(p *Pod) { p.Ask = workload.Ask{Type: "telemetry"} }

// TestDecideInDoubt: a pod whose right is not known stays where it is, in its partition or outside.
// A namespace that says no takes it out.
func TestDecideInDoubt(t *testing.T) {
	t.Parallel()
	outside, inside := unitname.Default, telemetry
	for _, test := range []struct {
		answer membership.Refusal
		from   unitname.PartitionName
		// It belongs to to, and is moved if it is elsewhere.
		to unitname.PartitionName
	}{
		{membership.NamespaceUnknown, inside, telemetry},
		{membership.NoAPI, inside, telemetry},
		{membership.Forbidden, inside, telemetry},
		{membership.NotAllowed, inside, unitname.Default},
		{"", inside, telemetry},
		{membership.NamespaceUnknown, outside, unitname.Default},
		{membership.Forbidden, outside, unitname.Default},
		{"", outside, telemetry},
	} {
		s := partitioned(func(s *Snapshot) { s.Config = asking(test.answer) }, in("shop-2", test.from, asks))
		s.Rules = s.Config.Rules().now(s.Pods)
		d := Decide(s)
		if moved := d.Move != nil; moved != (test.from != test.to) || moved && d.Move.To != test.to {
			t.Errorf("%q, in %q: moves %+v; want it in %q", test.answer, test.from, d.Move, test.to)
		}
		report := d.Pods[0]
		if report.Belongs != test.to || report.Workload == nil || report.Workload.Refused != test.answer {
			t.Errorf("%q, in %q: reports %+v, %+v", test.answer, test.from, report, report.Workload)
		}
	}
}

// TestDecideGuaranteedAsks: no annotation makes a Guaranteed pod a member, and one of a type whose
// partition the node has not has nowhere to go.
func TestDecideGuaranteedAsks(t *testing.T) {
	t.Parallel()
	s := partitioned(func(s *Snapshot) { s.Config = asking("") }, in("shop-2", unitname.Default, asks, func(p *Pod) {
		p.QoS = v1.PodQOSGuaranteed
	}))
	s.Rules = s.Config.Rules().now(s.Pods)
	if d := Decide(s); d.Move != nil || d.Pods[0].Workload.Refused != membership.IsGuaranteed {
		t.Errorf("guaranteed: moves %+v, reports %+v", d.Move, d.Pods[0].Workload)
	}
	c := asking("")
	c.Partitions = c.Partitions[:1]
	asked := membership.Pod{Namespace: "shop-2", Origin: membership.Origin{Ask: workload.Ask{Type: "telemetry"}}}
	if got := c.Rules(); got.Partition(asked) != unitname.Default || got.claimant(asked).Partition != unitname.Default {
		t.Errorf("of a partition that is not there: %+v", got.Place(asked))
	}
}

// TestRulesNow: each question of a pass has one answer, however often it is asked and whatever is
// learned meanwhile.
func TestRulesNow(t *testing.T) {
	t.Parallel()
	c, answers := asking(""), []membership.Refusal{"", membership.NotAllowed}
	var asked []string
	c.Allows = func(namespace, workload string) membership.Refusal {
		asked = append(asked, namespace+" "+workload)
		return answers[min(len(asked), len(answers))-1]
	}
	pods := []Pod{in("a", unitname.Default, asks), in("a", unitname.Default, asks), in("b", unitname.Default, asks), in("c", unitname.Default)}
	rules := c.Rules().now(pods)
	for range 2 {
		if got := []unitname.PartitionName{
			rules.Partition(pods[0].member()), rules.Partition(pods[1].member()), rules.Partition(pods[2].member()),
		}; !slices.Equal(got, []unitname.PartitionName{telemetry, telemetry, unitname.Default}) {
			t.Errorf("the pods belong to %q", got)
		}
	}
	if !slices.Equal(asked, []string{"a telemetry", "b telemetry"}) {
		t.Errorf("asked for %q; want each question once", asked)
	}
	late := in("late", unitname.Default, asks)
	if got := rules.Place(late.member()); got.Refused != membership.NamespaceUnknown {
		t.Errorf("a pod that was not there: %+v", got)
	}
}

// TestGathererAsk: the annotations of the sandbox that runs count, in whichever order the runtime
// lists it.
func TestGathererAsk(t *testing.T) {
	t.Parallel()
	runs := cri.Sandbox{ID: "new", UID: uidA, Ready: true, Origin: membership.Origin{Ask: workload.Ask{Type: "new"}}}
	bare := cri.Sandbox{ID: "bare", UID: uidA, Ready: true}
	ended := cri.Sandbox{ID: "old", UID: uidA, Origin: membership.Origin{Static: true, Ask: workload.Ask{Type: "old"}}}
	for name, test := range map[string]struct {
		sandboxes []cri.Sandbox
		want      membership.Origin
	}{
		"the ended one first":        {[]cri.Sandbox{ended, runs}, runs.Origin},
		"the ended one last":         {[]cri.Sandbox{runs, ended}, runs.Origin},
		"one that asks nothing":      {[]cri.Sandbox{bare, ended}, membership.Origin{}},
		"one that asks nothing last": {[]cri.Sandbox{ended, bare}, membership.Origin{}},
		"none that runs":             {[]cri.Sandbox{ended}, ended.Origin},
	} {
		pods, _ := group(test.sandboxes, nil)
		if got := pods[uidA].Origin; got != test.want {
			t.Errorf("%s: %+v; want %+v", name, got, test.want)
		}
	}
}

// TestPrepareAsked: the slice of a pod that asks is made by the same rule, and while its right is
// not known only if it is there already.
func TestPrepareAsked(t *testing.T) {
	t.Parallel()
	sandbox := cri.Sandbox{UID: uidA, Namespace: "shop-2", Name: "a", Origin: membership.Origin{Ask: workload.Ask{Type: "telemetry"}}}
	for name, test := range map[string]struct {
		answer membership.Refusal
		class  v1.PodQOSClass
		there  bool
		want   bool
	}{
		"allowed":                 {"", v1.PodQOSBurstable, false, true},
		"guaranteed":              {"", v1.PodQOSGuaranteed, false, false},
		"not known":               {membership.NamespaceUnknown, v1.PodQOSBurstable, false, false},
		"not known, and a member": {membership.NamespaceUnknown, v1.PodQOSBurstable, true, true},
	} {
		h := newHost(t)
		slice := unitname.CgroupPath(unitname.PodSlice(telemetry, test.class, uidA))
		h.cgroup(unitname.CgroupPath(unitname.PodSlice(unitname.Default, test.class, uidA)), map[string]string{"cpu.weight": "7"})
		if test.there {
			h.cgroup(slice, map[string]string{"cpu.weight": "1"})
		}
		r, _ := h.reconciler(Working, asking(test.answer))
		r.prepare(t.Context(), sandbox, test.class)
		limits, err := cgroupfs.FS(h.root).Limits(slice)
		if got := err == nil && limits.CPUWeight == 7; got != test.want {
			t.Errorf("%s: %+v, %v; want the slice with its limits: %t", name, limits, err, test.want)
		}
	}
}

// TestDecideAskedCPU: the slice of a pod that is a member by annotation has the weight and the
// quota of its type's resource, as the kubelet would give it for a CPU request, and so has its
// partition. A pod that is a member by its namespace alone has the weight and the quota of the
// kubelet's slice.
func TestDecideAskedCPU(t *testing.T) {
	t.Parallel()
	asked := workload.CPU{Cores: 400, Limit: 505}
	mirrored := limited
	mirrored.CPUWeight = 1
	for name, test := range map[string]struct {
		answer membership.Refusal
		asked  workload.CPU
		asks   bool
		want   func(*cgroupfs.Limits)
		// weight is the weight of the partition.
		weight uint64
	}{
		"asks":                  {"", asked, true, func(l *cgroupfs.Limits) { l.CPUWeight, l.CPUQuotaPerSec = 16, 510_000 }, 16},
		"without a limit":       {"", workload.CPU{Cores: 1000}, true, func(l *cgroupfs.Limits) { l.CPUWeight = 39 }, 39},
		"for nothing":           {"", workload.CPU{}, true, func(*cgroupfs.Limits) {}, 1},
		"in doubt":              {membership.Forbidden, asked, true, func(l *cgroupfs.Limits) { l.CPUWeight, l.CPUQuotaPerSec = 16, 510_000 }, 16},
		"not advertised":        {"", asked, true, func(*cgroupfs.Limits) {}, 1},
		"is there by namespace": {"", asked, false, func(*cgroupfs.Limits) {}, 1},
	} {
		namespace := "shop-2"
		if !test.asks {
			namespace = "monitoring"
		}
		s := partitioned(func(s *Snapshot) { s.Config = asking(test.answer) }, in(namespace, telemetry, func(p *Pod) {
			if test.asks {
				asks(p)
			}
			p.Kubelet.Asked, p.MilliCPU, p.DefaultCgroup.Limits = test.asked, 0, mirrored
			p.DefaultCgroup.Limits.CPUQuotaPerSec = cgroupfs.Unlimited
		}))
		s.Config.Workloads[0].Advertise = name != "not advertised"
		s.Rules = s.Config.Rules().now(s.Pods)
		for _, slice := range []string{"kubepods-telemetry.slice", "kubepods-telemetry-burstable.slice"} {
			s.Weights[slice] = 7
		}
		want := mirrored
		want.CPUQuotaPerSec = cgroupfs.Unlimited
		test.want(&want)
		d := Decide(s)
		if len(d.Ensure) != 1 || d.Ensure[0].Limits != want {
			t.Errorf("%s: %+v; want %+v", name, d.Ensure, want)
		}
		if !slices.Contains(d.Weights, WeightSpec{"kubepods-telemetry.slice", test.weight}) {
			t.Errorf("%s: the partition weighs %+v; want %d", name, d.Weights, test.weight)
		}
	}
}
