package evict

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestReclaim: the next pod waits until the memory is back. Memory that does not come back is
// awaited as long as it shrinks, and is then a problem. The next pod is evicted only if too little
// would be available without that memory.
func TestReclaim(t *testing.T) {
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
						n.t.Fatalf("no other one went; reported %+v", m.Report())
					}
					n.run(m, time.Millisecond)
				}
				if took := time.Since(begin); took < test.stays || took > test.stays+3*maxPollInterval {
					n.t.Errorf("the next one went after %s, want %s", took, test.stays)
				}
				if problem := m.executor.state.Stays["greedy"] > 0; problem != test.stuck {
					n.t.Errorf("memory that stays: %v", m.executor.state.Stays)
				}
				if said := slices.Contains(n.words(), "count failed reclaim"); said != test.stuck {
					n.t.Errorf("it was said that memory stays: %t", said)
				}
			})
		})
	}
}

// TestReclaimAtTheLastMoment: a pod that has ended in time counts as ended, however long its memory
// takes.
func TestReclaimAtTheLastMoment(t *testing.T) {
	bubble(t, func(n *node) {
		n.noAPI, n.ends = true, endTimeout-time.Second
		n.set(func() { n.pod("greedy").rest, n.pod("greedy").containers[0].uses = 260*mi, 40*mi })
		m := n.started(hardOnly)
		n.run(m, endTimeout+500*time.Millisecond)
		n.heard("signalled", "evicting greedy hard restart")
		n.run(m, drainTimeout)
		if said := n.words(); len(said) < 3 || said[0] != "count failed reclaim" {
			n.t.Errorf("told %q", said)
		}
		if e := n.evicted[0]; !strings.Contains(e.Problem, "are still there after its processes have ended") {
			n.t.Errorf("ended as %+v", e)
		}
	})
}

// TestPartitionGoesMeanwhile: an eviction is completed even if the whole partition is gone, in this
// run and the next.
func TestPartitionGoesMeanwhile(t *testing.T) {
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
				n.heard("signalled", "evicting greedy hard evict")
				if again {
					n.stop(m)
					n.boot()
					m = n.started(hardOnly)
				}
				m.watch.close() // as a cgroup's files fail; those of a folder can still be read
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
				n.expect("tell greedy", "confirm greedy")
				want := []string{"count hard evict", "evicted greedy evict"}
				if again {
					want = []string{"resumed greedy", "count hard evict", "evicted greedy evict"}
				}
				n.heard(want...)
				if h := n.history(); len(h.Open) != 0 || len(h.Last) != 1 || !h.Last[0].Gone || !h.Last[0].Told {
					n.t.Errorf("state is %+v", h)
				}
			})
		})
	}
}

func TestSwitchedOff(t *testing.T) {
	bubble(t, func(n *node) {
		c := hardOnly
		c.Off = true
		m := n.started(c)
		n.run(m, time.Minute)
		n.expect()
		if r := m.Report(); r.Crossed != "" || r.Memory.Current != 950*mi {
			n.t.Errorf("reported %+v", r)
		}
		m.SetConfig(Config{}) // nothing was read yet
		n.run(m, 5*time.Second)
		n.expect()
		n.heard()
	})
}

func TestPartitionGoesAndComes(t *testing.T) {
	bubble(t, func(n *node) {
		m := n.started(hardOnly)
		away := filepath.Join(n.root, "away")
		if err := os.Rename(filepath.Join(n.root, partition), away); err != nil {
			n.t.Fatal(err)
		}
		n.run(m, time.Minute)
		n.expect()
		n.heard()
		if err := os.Rename(away, filepath.Join(n.root, partition)); err != nil {
			n.t.Fatal(err)
		}
		n.run(m, 5*time.Second)
		n.expect("kill greedy.c1", "kill greedy.c2", "tell greedy", "confirm greedy")
		// A file that is removed can still be read, unlike a cgroup's. This has the effect of a removed
		// cgroup on a poll.
		m.watch.close()
		n.remove(partition)
		n.words()
		n.run(m, time.Minute)
		n.heard()
		n.files(partition, map[string]string{"memory.max": number(1000 * mi), "memory.events": events(0, 0), "memory.events.local": events(0, 0)})
		n.set(func() {
			n.pod("modest").containers[0].uses = 800 * mi
			n.files(n.pod("modest").containers[0].cgroup, map[string]string{"cgroup.events": "populated 1\n"})
		})
		n.run(m, 5*time.Second)
		n.expect("kill modest.c1", "tell modest", "confirm modest")
		want := "warn no wake-up by memory pressure, going on with ticks: set a trigger " + filepath.Join(n.root, partition, "memory.pressure") + ": no such file or directory"
		if said := n.words(); len(said) == 0 || said[0] != want {
			n.t.Errorf("told %q, want %q first", said, want)
		}
	})
}

// TestLateStart: a program that is started again after a long time ends the containers of its open
// eviction, and does not evict the next pod at once.
func TestLateStart(t *testing.T) {
	bubble(t, func(n *node) {
		n.crashAt = 3 // when it is written to the state file
		m := n.started(hardOnly)
		n.untilCrash(m, time.Second)
		if n.crashed != "before kill greedy.c1" {
			n.t.Fatalf("ended at %q", n.crashed)
		}
		<-time.After(reportDeadline + 1)
		n.boot()
		n.ends, n.restarts, n.restarted = 5*time.Second, time.Second, mi
		m = n.started(hardOnly)
		n.words()
		n.run(m, time.Minute)
		n.expect("kill greedy.c1", "kill greedy.c2")
		n.heard("resumed greedy", "count failed api", "failed api greedy: "+errLate.Error(), "count hard restart", "evicted greedy restart")
		if _, ok := n.history().Cooldown["kube-system/greedy"]; !ok {
			n.t.Error("the API server may have been told, and the cooldown is over")
		}
		if n.apiCalls != 0 {
			n.t.Errorf("the API server was asked %d times", n.apiCalls)
		}
	})
}
