package evict

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestExecutorReclaim: the next pod waits until the memory is back. Memory that does not come back
// is awaited as long as it shrinks, and is then a problem. The next pod is evicted only if too
// little would be available without that memory.
func TestExecutorReclaim(t *testing.T) {
	const until = 3 * time.Millisecond // its processes have ended
	for name, test := range map[string]struct {
		rest  uint64 // MiB
		fails time.Duration
		noAPI bool
		stays time.Duration
		stuck bool
	}{
		"little is left":                      {rest: 200, fails: time.Hour, stays: until},
		"just below half":                     {rest: 499, fails: time.Hour, stays: until},
		"half is left":                        {rest: 500, fails: time.Hour, stays: until + reclaimTimeout, stuck: true},
		"the kubelet frees it":                {rest: 500, fails: time.Second, stays: time.Second},
		"the kubelet takes long to free it":   {rest: 500, fails: reclaimTimeout - time.Second, stays: reclaimTimeout - time.Second},
		"the pod stays, and so does the rest": {rest: 500, noAPI: true, stays: until + drainTimeout, stuck: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.fails, n.noAPI = test.fails, test.noAPI
				n.set(func() {
					greedy := n.pod("greedy")
					greedy.rest = test.rest * mi
					greedy.containers[0].uses, greedy.containers[1].uses = 999*mi-greedy.rest, 1*mi
				})
				n.files(partition, map[string]string{"memory.max": number(1460 * mi)})
				c := hardOnly
				c.Limit, c.MinimumReclaim = 1460*mi, 1500*mi // so that the next one has to be evicted as well
				m := n.started(c)
				begin := time.Now()
				for killed := false; !killed; killed = slices.Contains(n.all(), "kill modest.c1") {
					if time.Since(begin) > time.Minute {
						n.t.Fatalf("no other pod was evicted; reported %+v", m.Report())
					}
					n.run(m, time.Millisecond)
				}
				if took := time.Since(begin); took < test.stays || took > test.stays+3*maxPollInterval {
					n.t.Errorf("the next pod was evicted after %s, want %s", took, test.stays)
				}
				if problem := m.executor.state.Stays["greedy"] > 0; problem != test.stuck {
					n.t.Errorf("memory that stays: %v", m.executor.state.Stays)
				}
				if counted := slices.Contains(n.takeEvents(), "count failed reclaim"); counted != test.stuck {
					n.t.Errorf("counted that memory stays: %t", counted)
				}
			})
		})
	}
}

// TestExecutorReclaimLate: a pod that has ended in time counts as ended, however long its memory
// takes.
func TestExecutorReclaimLate(t *testing.T) {
	bubble(t, func(n *node) {
		n.noAPI, n.ends = true, endTimeout-time.Second
		n.set(func() { n.pod("greedy").rest, n.pod("greedy").containers[0].uses = 260*mi, 40*mi })
		m := n.started(hardOnly)
		n.run(m, endTimeout+500*time.Millisecond)
		n.expectEvents("signalled", "evicting greedy hard restart")
		n.run(m, drainTimeout)
		if events := n.takeEvents(); len(events) < 3 || events[0] != "count failed reclaim" {
			n.t.Errorf("events %q", events)
		}
		if e := n.evicted[0]; !strings.Contains(e.Problem, "are still there after its processes have ended") {
			n.t.Errorf("ended as %+v", e)
		}
	})
}

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
				n.remove(partition)
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
		<-time.After(reportDeadline + 1)
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

// TestExecutorGivenUp: an eviction that the next run gives up before it was reported counts as
// a restart: the kubelet restarts the containers.
func TestExecutorGivenUp(t *testing.T) {
	bubble(t, func(n *node) {
		n.ends = time.Hour // the processes do not end before the program does
		m := n.started(hardOnly)
		n.run(m, 10*time.Millisecond)
		n.stop(m)
		n.boot()
		n.takeEvents()
		off := hardOnly
		off.Off = true
		m = n.started(off)
		n.run(m, time.Minute)
		if events := n.takeEvents(); n.apiCalls != 0 || slices.Contains(events, "count hard evict") || !slices.Contains(events, "count hard restart") {
			n.t.Errorf("the API server was called %d times, events %q", n.apiCalls, events)
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
				if h := n.history(); len(h.Open) != 0 || len(h.Last) == 0 || h.Last[0].Problem == "" {
					n.t.Errorf("the state file has %+v", h)
				}
			})
		})
	}
}
