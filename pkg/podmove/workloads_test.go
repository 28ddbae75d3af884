package podmove

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/cri"
	"node-partition.io/node-partition/internal/partition"
)

// asking returns three partitions with a type of one, which pods get that ask, or not.
func asking(answer partition.Refusal) Policy {
	c := three()
	c.Workloads = []partition.Workload{{Type: "telemetry", Partition: telemetry, ByNamespace: answer == ""}}
	return c
}

// asks makes a pod ask for telemetry.
func asks(p *Pod) { p.Ask = partition.Ask{Type: "telemetry"} }

// TestDecideAsks: a pod that asks is moved in with a right, and out without one.
func TestDecideAsks(t *testing.T) {
	t.Parallel()
	for answer, to := range map[partition.Refusal]partition.Name{"": telemetry, partition.NotAllowed: partition.Default} {
		for _, from := range []partition.Name{partition.Default, telemetry} {
			d := Decide(partitioned(func(s *Snapshot) {
				s.Config = asking(answer)
				s.Rules = s.Config.Rules()
			}, in("shop-2", from, asks)))
			if moved := d.Move != nil; moved != (from != to) || moved && d.Move.To != to {
				t.Errorf("%q, in %q: moves %+v; want it in %q", answer, from, d.Move, to)
			}
			report := d.Pods[0]
			if report.Belongs != to || report.Workload == nil || report.Workload.Refused != answer {
				t.Errorf("%q, in %q: reports %+v, %+v", answer, from, report, report.Workload)
			}
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
	s.Rules = s.Config.Rules()
	if d := Decide(s); d.Move != nil || d.Pods[0].Workload.Refused != partition.IsGuaranteed {
		t.Errorf("guaranteed: moves %+v, reports %+v", d.Move, d.Pods[0].Workload)
	}
	c := asking("")
	c.Partitions = c.Partitions[:1]
	asked := partition.Pod{Namespace: "shop-2", Origin: partition.Origin{Ask: partition.Ask{Type: "telemetry"}}}
	if got := c.Rules(); got.Partition(asked) != partition.Default {
		t.Errorf("of a partition that is not there: %+v", got.Place(asked))
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
