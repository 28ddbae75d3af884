package evict

import (
	"context"
	"strings"
	"testing"
	"time"
)

// TestExecutorPartitionRemoved: an eviction is completed even if the whole partition is gone, in
// this run and the next.
func TestExecutorPartitionRemoved(t *testing.T) {
	for name, again := range map[string]bool{"same run": false, "next run": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.api = func(_ context.Context, number int) error {
					if number < 4 {
						return errBusy
					}
					return nil
				}
				n.ends = time.Second
				m := n.started(hardOnly)
				n.run(m, 10*time.Millisecond)
				n.expect("kill greedy.c1", "kill greedy.c2")
				n.expectEvents("signalled", "evicting greedy hard evict")
				if again {
					n.stop(m)
					n.boot()
					m = n.started(hardOnly)
				}
				m.watch.close() // as a cgroup's files fail; the files of a folder can still be read
				n.set(func() {
					for _, p := range n.pods {
						for _, c := range p.containers {
							c.running = false
						}
					}
					n.pods = nil
				})
				n.remove(systemCgroup)
				n.run(m, 10*time.Second)
				n.expect("evict greedy", "confirm greedy")
				want := []string{"count hard evict", "evicted greedy evict"}
				if again {
					want = []string{"resumed greedy", "count hard evict", "evicted greedy evict"}
				}
				n.expectEvents(want...)
				if h := n.history(); len(h.Open) != 0 || len(h.Last) != 1 || !h.Last[0].Gone || !h.Last[0].Reported {
					n.t.Errorf("state is %+v", h)
				}
			})
		})
	}
}

// TestExecutorResumeLate: a program that is started again after a long time ends the containers of
// its open eviction, and does not evict the next pod at once.
func TestExecutorResumeLate(t *testing.T) {
	bubble(t, func(n *node) {
		n.crashAt = 3 // when it is written to the state file
		m := n.started(hardOnly)
		n.untilCrash(m, time.Second)
		if !strings.HasPrefix(n.crashed, "before kill greedy.c") {
			n.t.Fatalf("ended at %q", n.crashed)
		}
		<-time.After(2 * reportDeadline)
		n.boot()
		n.ends, n.restarts, n.restarted = 5*time.Second, time.Second, mi
		m = n.started(hardOnly)
		n.takeEvents()
		n.run(m, time.Minute)
		n.expect("kill greedy.c1", "kill greedy.c2")
		n.expectEvents("resumed greedy", "count failed api", "failed api greedy: "+errLate.Error(), "count hard restart", "evicted greedy restart")
		if _, ok := n.history().Cooldown["kube-system/greedy"]; !ok {
			n.t.Error("the API server may have evicted it, and the cooldown is over")
		}
		if n.apiCalls != 0 {
			n.t.Errorf("the API server was called %d times", n.apiCalls)
		}
	})
}

// TestExecutorResumeOld: no container is stopped for an eviction that was needed hours ago.
func TestExecutorResumeOld(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { n.pod("modest").containers[0].uses, n.pod("greedy").containers[0].uses = mi, mi })
		m := n.manager(softOnly)
		e := Eviction{
			PodMeta:  PodMeta{UID: "greedy", Name: "greedy", Cgroup: n.pod("greedy").Cgroup},
			Verdict:  Verdict{Time: time.Now().Add(-3 * time.Hour), Threshold: Soft, Method: Restart, Grace: 20 * time.Second},
			Reported: true,
		}
		for _, c := range n.pod("greedy").containers {
			e.Containers = append(e.Containers, Container{ID: c.id, Cgroup: c.cgroup})
		}
		if err := m.Store.write(History{Open: []Eviction{e}}); err != nil {
			n.t.Fatal(err)
		}
		m.executor.load(m.present().Cooldown)
		n.run(m, 5*time.Second)
		n.expect()
		if h := n.history(); len(h.Open) != 0 || len(h.Last) != 1 || h.Last[0].Problem == "" {
			n.t.Errorf("the state file has %+v", h)
		}
	})
}

// TestExecutorResumeSwitchedOff: with --eviction=off or dry-run no pod is stopped, not even by
// an eviction that an earlier run began.
func TestExecutorResumeSwitchedOff(t *testing.T) {
	for name, change := range map[string]func(*Settings){
		"off": func(c *Settings) { c.Off = true }, "dry-run": func(c *Settings) { c.DryRun = true },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				c := softOnly
				c.SoftGrace, c.Hard = 0, 50*mi
				m := n.started(c)
				n.run(m, 100*time.Millisecond)
				if did := n.all(); len(did) == 0 {
					n.t.Fatal("no victim")
				}
				n.stop(m)
				n.boot()
				change(&c)
				n.set(func() { n.pod("modest").containers[0].uses += 40 * mi }) // below the hard threshold
				m = n.started(c)
				n.run(m, time.Minute)
				n.expect()
				if h := n.history(); len(h.Open) != 0 || len(h.Last) == 0 || h.Last[0].Problem == "" || h.Last[0].Method != Restart {
					n.t.Errorf("the state file has %+v; want it given up, and counted as a restart", h)
				}
			})
		})
	}
}
