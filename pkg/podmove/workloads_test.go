package podmove

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/cri"
	"node-partition.io/node-partition/internal/membership"
	"node-partition.io/node-partition/internal/unitname"
	"node-partition.io/node-partition/internal/workload"
)

// asking returns three partitions with a type of one, whose namespaces answer for it.
func asking(answer membership.Refusal) Policy {
	c := three()
	c.Workloads = []membership.Workload{{Type: "telemetry", Partition: telemetry, ByNamespace: true}}
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
