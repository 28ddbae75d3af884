package podmove

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/cri"
	"node-partition.io/node-partition/internal/partition"
)

// asking returns three partitions with a type of one, whose namespaces answer for it.
func asking(answer partition.Refusal) Policy {
	c := three()
	c.Workloads = []partition.Workload{{Type: "telemetry", Partition: telemetry, ByNamespace: true}}
	c.Allows = func(string, string) partition.Refusal { return answer }
	return c
}

// asks makes a pod ask for telemetry.
func asks(p *Pod) { p.Ask = partition.Ask{Type: "telemetry"} }

// TestDecideInDoubt: a pod whose right is not known stays where it is, in its partition or outside.
// A namespace that says no takes it out.
func TestDecideInDoubt(t *testing.T) {
	t.Parallel()
	outside, inside := partition.Default, telemetry
	for _, test := range []struct {
		answer partition.Refusal
		from   partition.Name
		// It belongs to to, and is moved if it is elsewhere.
		to partition.Name
	}{
		{partition.NamespaceUnknown, inside, telemetry},
		{partition.NoAPI, inside, telemetry},
		{partition.Forbidden, inside, telemetry},
		{partition.NotAllowed, inside, partition.Default},
		{"", inside, telemetry},
		{partition.NamespaceUnknown, outside, partition.Default},
		{partition.Forbidden, outside, partition.Default},
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
	s := partitioned(func(s *Snapshot) { s.Config = asking("") }, in("shop-2", partition.Default, asks, func(p *Pod) {
		p.QoS = v1.PodQOSGuaranteed
	}))
	s.Rules = s.Config.Rules().now(s.Pods)
	if d := Decide(s); d.Move != nil || d.Pods[0].Workload.Refused != partition.IsGuaranteed {
		t.Errorf("guaranteed: moves %+v, reports %+v", d.Move, d.Pods[0].Workload)
	}
	c := asking("")
	c.Partitions = c.Partitions[:1]
	asked := partition.Pod{Namespace: "shop-2", Origin: partition.Origin{Ask: partition.Ask{Type: "telemetry"}}}
	if got := c.Rules(); got.Partition(asked) != partition.Default || got.claimant(asked).Partition != partition.Default {
		t.Errorf("of a partition that is not there: %+v", got.Place(asked))
	}
}

// TestRulesNow: each question of a reconcile has one answer, however often it is asked and whatever
// is learned meanwhile.
func TestRulesNow(t *testing.T) {
	t.Parallel()
	c, answers := asking(""), []partition.Refusal{"", partition.NotAllowed}
	var asked []string
	c.Allows = func(namespace, workload string) partition.Refusal {
		asked = append(asked, namespace+" "+workload)
		return answers[min(len(asked), len(answers))-1]
	}
	pods := []Pod{in("a", partition.Default, asks), in("a", partition.Default, asks), in("b", partition.Default, asks), in("c", partition.Default)}
	rules := c.Rules().now(pods)
	for range 2 {
		if got := []partition.Name{
			rules.Partition(pods[0].member()), rules.Partition(pods[1].member()), rules.Partition(pods[2].member()),
		}; !slices.Equal(got, []partition.Name{telemetry, telemetry, partition.Default}) {
			t.Errorf("the pods belong to %q", got)
		}
	}
	if !slices.Equal(asked, []string{"a telemetry", "b telemetry"}) {
		t.Errorf("asked for %q; want each question once", asked)
	}
	late := in("late", partition.Default, asks)
	if got := rules.Place(late.member()); got.Refused != partition.NamespaceUnknown {
		t.Errorf("a pod that was not there: %+v", got)
	}
}

// TestGathererAsk: the annotations of the sandbox that runs count, in whichever order the runtime
// lists it.
func TestGathererAsk(t *testing.T) {
	t.Parallel()
	runs := cri.Sandbox{ID: "new", UID: uidA, Ready: true, Origin: partition.Origin{Ask: partition.Ask{Type: "new"}}}
	bare := cri.Sandbox{ID: "bare", UID: uidA, Ready: true}
	ended := cri.Sandbox{ID: "old", UID: uidA, Origin: partition.Origin{Static: true, Ask: partition.Ask{Type: "old"}}}
	for name, test := range map[string]struct {
		sandboxes []cri.Sandbox
		want      partition.Origin
	}{
		"the ended one first":        {[]cri.Sandbox{ended, runs}, runs.Origin},
		"the ended one last":         {[]cri.Sandbox{runs, ended}, runs.Origin},
		"one that asks nothing":      {[]cri.Sandbox{bare, ended}, partition.Origin{}},
		"one that asks nothing last": {[]cri.Sandbox{ended, bare}, partition.Origin{}},
		"none that runs":             {[]cri.Sandbox{ended}, ended.Origin},
	} {
		pods, _ := group(test.sandboxes, nil)
		if got := pods[uidA].Origin; got != test.want {
			t.Errorf("%s: %+v; want %+v", name, got, test.want)
		}
	}
}
