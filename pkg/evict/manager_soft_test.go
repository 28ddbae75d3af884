package evict

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/thresholds"
)

// softOnly has a soft threshold with a grace period.
var softOnly = Settings{
	Thresholds: thresholds.Thresholds{Limit: 1000 * mi, Hard: 20 * mi, Soft: 100 * mi, SoftGrace: 10 * time.Second, MaxPodGrace: 20 * time.Second}, Protected: DefaultProtected, Cooldown: 10 * time.Minute,
}

func TestManagerSoft(t *testing.T) {
	bubble(t, func(n *node) {
		n.restarts, n.restarted = 300*time.Millisecond, 5*mi
		m := n.softBegun()
		// A failed pod counts as one whose containers do not run: it is reported after they have ended.
		n.run(m, 20*time.Second)
		n.expectSorted("stop greedy.c1 20s", "stop greedy.c2 20s")
		n.run(m, 5*time.Second)
		n.expectSorted("confirm greedy", "evict greedy")
		n.expectEvents("signalled", "evicting greedy soft evict", "count soft evict", "evicted greedy evict")
		if got := n.running(); !slices.Equal(got, []string{"critical.c1", "modest.c1"}) {
			n.t.Errorf("running are %q", got)
		}
		if e := n.evicted[0]; e.Threshold != Soft || e.Grace != 20*time.Second || e.Problem != "" {
			n.t.Errorf("ended as %+v", e)
		}
	})
}

// softBegun returns the manager of a node on which the soft threshold has just been crossed for
// long enough.
func (n *node) softBegun() *Manager {
	n.t.Helper()
	m := n.started(softOnly)
	n.run(m, softOnly.SoftGrace)
	n.expect()
	return m
}

// expectSorted is expect for containers that are stopped at the same time, and for repeated calls
// to the API server while a pod has time to end.
func (n *node) expectSorted(want ...string) {
	n.t.Helper()
	n.mu.Lock()
	slices.Sort(n.did)
	n.did = slices.Compact(n.did)
	n.mu.Unlock()
	n.expect(want...)
}

// TestManagerSoftStopMissed: a runtime that is away when it is asked to stop a container is asked
// again, and the container has what is left of its grace period.
func TestManagerSoftStopMissed(t *testing.T) {
	bubble(t, func(n *node) {
		n.stopErr = errBusy
		m := n.softBegun()
		n.run(m, 2*time.Second)
		n.expectSorted("stop greedy.c1 20s", "stop greedy.c2 20s")
		n.set(func() { n.stopErr = nil })
		n.run(m, 25*time.Second)
		did := n.all()
		if !slices.Contains(did, "stop greedy.c1 16.5s") { // after 0.5, 1.5 and 3.5 s
			n.t.Errorf("did %q; want a stop with what is left of 20 s", did)
		}
		if slices.ContainsFunc(did, func(did string) bool { return strings.HasPrefix(did, "kill ") }) || !slices.Contains(did, "evict greedy") {
			n.t.Errorf("did %q; want it evicted without a kill", did)
		}
		if e := n.evicted; len(e) != 1 || e[0].Problem != "" {
			n.t.Errorf("ended as %+v", e)
		}
	})
}

// TestManagerSoftGraceExceeded: a container that the runtime does not end is killed endTimeout
// after its grace period.
func TestManagerSoftGraceExceeded(t *testing.T) {
	for name, noKill := range map[string]bool{"killed by the kernel": false, "killed by the runtime": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.ends, n.noKill = time.Minute, noKill
				n.set(func() { // so that there is no next one
					n.pods = slices.DeleteFunc(n.pods, func(p *nodePod) bool { return p.Name == "modest" })
					n.pod("critical").containers[0].uses = 450 * mi
				})
				m := n.softBegun()
				n.run(m, 20*time.Second+endTimeout-time.Second)
				n.expectSorted("stop greedy.c1 20s", "stop greedy.c2 20s")
				n.takeEvents()
				n.set(func() { n.ends = time.Millisecond })
				n.run(m, 2*time.Second)
				if noKill {
					n.expectSorted("evict greedy", "stop greedy.c1 0s", "stop greedy.c2 0s")
				} else {
					n.expectSorted("evict greedy", "kill greedy.c1", "kill greedy.c2")
				}
				n.run(m, 5*time.Second)
				n.expectSorted("confirm greedy")
				if got := n.running(); !slices.Equal(got, []string{"critical.c1"}) {
					n.t.Errorf("running are %q", got)
				}
				if events := n.takeEvents(); !slices.Contains(events, "count failed timeout") || !slices.Contains(events, "evicted greedy evict") {
					n.t.Errorf("events %q", events)
				}
				if e := n.evicted[0]; e.Threshold != Soft || e.Method != Evict || !strings.Contains(e.Problem, "have not ended 10s after") {
					n.t.Errorf("ended as %+v, want it evicted by the soft threshold, and late", e)
				}
			})
		})
	}
}

// TestManagerSoftBecomesHard: a container with a grace period is killed if that turns out to be too
// long.
func TestManagerSoftBecomesHard(t *testing.T) {
	bubble(t, func(n *node) {
		m := n.softBegun()
		n.run(m, 10*time.Second)
		n.expectSorted("stop greedy.c1 20s", "stop greedy.c2 20s")
		n.set(func() { n.pod("modest").containers[0].uses = 349 * mi })
		n.run(m, 150*time.Millisecond)
		n.expect("kill greedy.c1", "kill greedy.c2", "evict greedy")
		n.run(m, time.Minute)
		n.expect("confirm greedy")
		if e := n.evicted[0]; e.Threshold != Hard || e.Method != Evict || e.Grace != 0 || e.Problem != "" {
			n.t.Errorf("ended as %+v", e)
		}
	})
}

// TestManagerSoftResumed: a new run calls the runtime again, and reports to the API server if the
// state file does not have that as done.
func TestManagerSoftResumed(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*node, *Eviction)
		want   []string
		method Method
	}{
		"not reported":           {func(*node, *Eviction) {}, []string{"confirm greedy", "evict greedy", "stop greedy.c1 20s", "stop greedy.c2 20s"}, Evict},
		"reported":               {func(_ *node, e *Eviction) { e.Reported = true }, []string{"stop greedy.c1 20s", "stop greedy.c2 20s"}, Evict},
		"hurried":                {func(_ *node, e *Eviction) { e.Grace = 0 }, []string{"confirm greedy", "evict greedy", "kill greedy.c1", "kill greedy.c2"}, Evict},
		"not reported, late":     {func(_ *node, e *Eviction) { e.Time = e.Time.Add(-e.Grace - reportDeadline) }, []string{"confirm greedy", "evict greedy", "stop greedy.c1 2s", "stop greedy.c2 2s"}, Evict},
		"not reported, too late": {func(_ *node, e *Eviction) { e.Time = e.Time.Add(-e.Grace - reportDeadline - 1) }, []string{"stop greedy.c1 2s", "stop greedy.c2 2s"}, Restart},
		"hurried, late": {func(_ *node, e *Eviction) {
			e.Time, e.Grace, e.OutsideGrace = e.Time.Add(-2*time.Minute), 0, 20*time.Minute
		},
			[]string{"confirm greedy", "evict greedy", "kill greedy.c1", "kill greedy.c2"}, Evict},
		"not reported, refused now": {func(n *node, _ *Eviction) { n.api = func(context.Context, int) error { return ErrFinal } }, []string{"stop greedy.c1 20s", "stop greedy.c2 20s"}, Restart},
		"refused before":            {func(_ *node, e *Eviction) { e.Reported, e.Method = true, Restart }, []string{"stop greedy.c1 20s", "stop greedy.c2 20s"}, Restart},
		"slow kubelet": {func(n *node, _ *Eviction) { n.fails = time.Hour },
			[]string{"confirm greedy", "evict greedy", "stop greedy.c1 20s", "stop greedy.c2 20s"}, Evict},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				m := n.manager(softOnly)
				e := Eviction{
					PodMeta: PodMeta{UID: "greedy", Name: "greedy", Cgroup: n.pod("greedy").Cgroup},
					Verdict: Verdict{Time: time.Now(), Threshold: Soft, Method: Evict, Grace: 20 * time.Second},
					Amounts: Amounts{WorkingSetBytes: 500 * mi},
				}
				for _, c := range n.pod("greedy").containers {
					e.Containers = append(e.Containers, Container{ID: c.id, Cgroup: c.cgroup})
				}
				test.change(n, &e)
				if err := m.Store.write(History{Open: []Eviction{e}}); err != nil {
					n.t.Fatal(err)
				}
				m.executor.load(m.present().Cooldown)
				n.run(m, 30*time.Second)
				n.expectSorted(test.want...)
				if len(n.evicted) != 1 || n.evicted[0].Method != test.method || !n.evicted[0].Gone || !n.evicted[0].Reported {
					n.t.Errorf("closed are %+v", n.evicted)
				}
				if got := n.running(); !slices.Equal(got, []string{"critical.c1", "modest.c1"}) {
					n.t.Errorf("running are %q", got)
				}
			})
		})
	}
}

// TestManagerSoftContainersEndSeparately: containers that the kubelet restarts while others of the
// pod have their grace period are killed until the pod is reported.
func TestManagerSoftContainersEndSeparately(t *testing.T) {
	bubble(t, func(n *node) {
		n.restarts, n.restarted = 300*time.Millisecond, 5*mi
		m := n.softBegun()
		n.run(m, time.Second)
		n.expectSorted("stop greedy.c1 20s", "stop greedy.c2 20s")
		n.set(func() { n.exited(n.pod("greedy"), n.pod("greedy").containers[0]) }) // it takes no time
		n.run(m, time.Second)
		did := n.all()
		if len(did) == 0 || did[0] != "kill greedy.c1.2" || slices.Contains(did, "evict greedy") {
			n.t.Errorf("did %q", did)
		}
		n.run(m, 30*time.Second)
		if did := n.all(); !slices.Contains(did, "evict greedy") {
			n.t.Errorf("did %q", did)
		}
		if got := n.running(); !slices.Equal(got, []string{"critical.c1", "modest.c1"}) {
			n.t.Errorf("running are %q", got)
		}
	})
}
