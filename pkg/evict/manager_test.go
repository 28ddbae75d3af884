package evict

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"node-partition.io/node-partition/internal/thresholds"
)

// hardOnly has one threshold.
var hardOnly = Settings{Thresholds: thresholds.Thresholds{Limit: 1000 * mi, Hard: 100 * mi, MaxPodGrace: 20 * time.Second}, Protected: DefaultProtected, Cooldown: 10 * time.Minute}

// bubble runs a test with a node in fake time.
func bubble(t *testing.T, test func(*node)) {
	t.Helper()
	newDisk(t).bubble(t, test)
}

// bubble runs a test in fake time on a disk that an earlier test may have used.
func (d *disk) bubble(t *testing.T, test func(*node)) {
	t.Helper()
	d.bubbleOf(t, busyNode, test)
}

// bubbleOf is bubble with another node.
func (d *disk) bubbleOf(t *testing.T, newNode func(testing.TB, *disk) *node, test func(*node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, d)
		defer func() { n.cancel() }()
		test(n)
	})
}

func TestManagerEviction(t *testing.T) {
	bubble(t, func(n *node) {
		n.start(sized("user", -100, 0, 0)) // without containers here: user containers are elsewhere
		m := n.started(hardOnly)
		decided := time.Now()
		n.run(m, confirmInterval)
		n.expect("kill greedy.c1", "kill greedy.c2", "evict greedy")
		n.expectEvents("signalled", "evicting greedy hard evict")
		if !maps.Equal(n.marked, map[string]bool{"greedy": true}) {
			n.t.Errorf("marked are %v, want the pod that is being evicted", n.marked)
		}
		if h := n.history(); len(h.Open) != 1 || !h.Open[0].Gone || h.Open[0].Reported || len(h.Last) != 0 {
			n.t.Fatalf("before it is confirmed the state is %+v", h)
		}
		n.run(m, 2*maxPollInterval)
		n.expect("confirm greedy")
		n.expectEvents("count hard evict", "evicted greedy evict")
		n.run(m, 10*time.Minute)
		n.expect()
		n.expectEvents()
		n.stop(m)

		h := n.history()
		if len(h.Open) != 0 || len(h.Last) != 1 || !h.Cooldown["kube-system/greedy"].Equal(decided.Add(hardOnly.Cooldown)) {
			n.t.Fatalf("state is %+v", h)
		}
		e := h.Last[0]
		if e.UID != "greedy" || e.Cgroup != systemCgroup+"/kubepods-system-podgreedy.slice" || e.Namespace != "kube-system" || e.Name != "greedy" || e.QoS == "" || e.Owner != "kube-system/greedy" || !e.Time.Equal(decided) ||
			e.Threshold != Hard || e.Method != Evict || e.Grace != 0 || !e.Gone || !e.Reported || e.Problem != "" || e.DryRun {
			n.t.Errorf("the state file has %+v", e)
		}
		if e.AvailableBytes != 50*mi || e.AtBytes != 100*mi || e.LimitBytes != 1000*mi || e.WorkingSetBytes != 500*mi || e.RequestBytes != 0 {
			n.t.Errorf("the state file has the usage %+v", e)
		}
		want := []Container{
			{"greedy.c1", "c1", systemCgroup + "/kubepods-system-podgreedy.slice/cri-containerd-greedy.c1.scope", 300 * mi, 1, 0},
			{"greedy.c2", "c2", systemCgroup + "/kubepods-system-podgreedy.slice/cri-containerd-greedy.c2.scope", 200 * mi, 1, 0},
		}
		if !slices.Equal(e.Containers, want) {
			n.t.Errorf("the state file has the containers %+v, want %+v", e.Containers, want)
		}
		report := m.Report()
		if report.Crossed != "" || report.NoCandidate || report.Available != 550*mi || report.Limit != 1000*mi || report.Hard != 100*mi || report.Soft != 0 ||
			report.Memory.Current != 450*mi || report.Time.IsZero() {
			n.t.Errorf("reported %+v", report)
		}
	})
}

// TestManagerCooldown: a DaemonSet starts the next pod at once. That pod is restarted, and
// evicted only after the cooldown, even if the program was restarted in between.
func TestManagerCooldown(t *testing.T) {
	bubble(t, func(n *node) {
		next := func(name string) {
			p := sized(name, 0, 0, 0)
			p.Owner = "kube-system/greedy"
			n.start(p, 500)
		}
		m := n.started(hardOnly)
		n.run(m, time.Minute)
		n.expect("kill greedy.c1", "kill greedy.c2", "evict greedy", "confirm greedy")
		next("second")
		n.run(m, time.Minute)
		n.expect("kill second.c1")
		if got := n.evicted[1]; got.Method != Restart || got.Problem != "" {
			n.t.Errorf("the second ended as %+v", got)
		}
		n.stop(m)
		n.boot()
		m = n.started(hardOnly)
		next("third")
		n.run(m, time.Minute)
		n.expect("kill third.c1")
		n.run(m, 8*time.Minute)
		next("fourth")
		n.run(m, time.Minute)
		n.expect("kill fourth.c1", "evict fourth", "confirm fourth")
		n.stop(m)
		if h := n.history(); len(h.Last) != 4 || len(h.Cooldown) != 1 {
			n.t.Errorf("state is %+v", h)
		}
	})
}

// TestManagerNoCandidate: NoCandidate is called once a minute, however often candidates appear and
// disappear.
func TestManagerNoCandidate(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { n.pods = n.pods[2:]; n.pod("critical").containers[0].uses = 950 * mi })
		m := n.started(hardOnly)
		n.run(m, retryInterval-time.Second)
		n.expect()
		n.expectEvents("no candidate critical(node-critical)", "count no candidate")
		n.run(m, 2*time.Second)
		n.expectEvents("no candidate critical(node-critical)", "count no candidate")
		if r := m.Report(); !r.NoCandidate || r.Crossed != Hard {
			n.t.Errorf("reported %+v", r)
		}
		n.start(sized("late", 0, 0, 0), 20)
		n.run(m, 10*time.Second)
		n.expect("kill late.c1", "evict late", "confirm late")
		n.expectEvents("signalled", "evicting late hard evict", "count hard evict", "evicted late evict")
		for i := range 40 { // it hovers at the threshold
			n.set(func() { n.pod("critical").containers[0].uses = uint64(900+i%2) * mi })
			n.run(m, 625*time.Millisecond)
		}
		n.expectEvents()
		n.set(func() { n.pod("critical").containers[0].uses = 950 * mi })
		n.run(m, retryInterval)
		n.expectEvents("no candidate critical(node-critical)", "count no candidate")
	})
}

func TestManagerDryRun(t *testing.T) {
	bubble(t, func(n *node) {
		c := hardOnly
		c.DryRun = true
		m := n.started(c)
		n.run(m, 59*time.Second)
		n.expect()
		n.expectEvents("evicting greedy hard evict", "count hard evict dry")
		n.run(m, 2*time.Second)
		n.expect()
		n.expectEvents("evicting greedy hard evict", "count hard evict dry")
		if h := n.history(); len(h.Open) != 0 || len(h.Cooldown) != 0 || len(h.Last) != 2 || !h.Last[0].DryRun || len(h.Last[0].Containers) != 2 {
			n.t.Errorf("state is %+v", h)
		}
		if got := n.running(); len(got) != 4 {
			n.t.Errorf("running are %q", got)
		}
		// Without dry run it is evicted, however recent the dry run was.
		m.SetConfig(hardOnly)
		n.run(m, time.Second)
		n.expect("kill greedy.c1", "kill greedy.c2", "evict greedy")
	})
}

// TestManagerSecondReading: one reading that counts page cache as used evicts no pod.
func TestManagerSecondReading(t *testing.T) {
	bubble(t, func(n *node) {
		m := n.started(hardOnly)
		pods, first := m.Pods, true
		m.Pods = func() []Pod {
			if first {
				first = false
				n.set(func() { n.pod("greedy").containers[0].uses = 100 * mi })
			}
			return pods()
		}
		n.run(m, time.Minute)
		n.expect()
	})
}

func TestManagerKernelKills(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { n.pod("greedy").containers[0].uses = 1 })
		c := hardOnly
		c.Hard = 0
		m := n.started(c)
		// happen sets the counts of the kernel, which are read at each poll.
		happen := func(killed, atLimit int) {
			n.files(systemCgroup, map[string]string{"memory.events": oomEvents(atLimit+5, killed), "memory.events.local": oomEvents(atLimit, 0)})
			n.run(m, statInterval)
		}
		happen(7, 3) // before the first poll
		n.expectEvents()
		happen(8, 3)
		n.expectEvents("count killed at pod 1", "killed at pod 1")
		happen(10, 4)
		n.expectEvents("count killed at partition 2", "killed at partition 2")
		happen(10, 4)
		n.expectEvents()
		n.run(m, killFollows)
		happen(11, 4)
		n.expectEvents("count killed at pod 1", "killed at pod 1")
		// The kernel counts the limit before the process, and a poll may come in between.
		happen(11, 5)
		n.expectEvents()
		happen(12, 5)
		n.expectEvents("count killed at partition 1", "killed at partition 1")
		// No process was killed at this limit. One is killed a minute later, at the limit of a pod.
		happen(12, 6)
		n.run(m, time.Minute)
		happen(13, 6)
		n.expectEvents("count killed at pod 1", "killed at pod 1")
		// The counts of a partition that was created again begin at zero.
		m.watch.close()
		happen(2, 1)
		happen(3, 1)
		n.expectEvents("count killed at pod 1", "killed at pod 1")
		n.expect()
	})
}

// TestManagerNextVictimBeforeReport: the next pod may be evicted when the memory is back.
func TestManagerNextVictimBeforeReport(t *testing.T) {
	bubble(t, func(n *node) {
		n.api = hangs
		c := hardOnly
		c.Limit, c.Lowering = 500*mi, true
		n.lower = func() error { return nil }
		m := n.started(c)
		n.run(m, 100*time.Millisecond)
		n.expect("kill greedy.c1", "kill greedy.c2", "kill modest.c1", "lower")
		if h := n.history(); len(h.Open) != 2 || !h.Open[0].Gone || h.Open[0].Reported || h.Open[1].UID != "modest" {
			n.t.Errorf("open are %+v", h.Open)
		}
		n.run(m, 15*time.Second)
		if len(n.evicted) != 2 {
			n.t.Errorf("closed are %+v", n.evicted)
		}
	})
}

// TestManagerTerminatingPod: a leaking pod that was deleted with a grace period is evicted, and the
// other pods are not evicted in its place.
func TestManagerTerminatingPod(t *testing.T) {
	for name, noAPI := range map[string]bool{"evicted": false, "without API server": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.noAPI = noAPI
				n.set(func() { n.pod("greedy").Terminating = true })
				m := n.started(hardOnly)
				n.run(m, 5*time.Second)
				if did := n.all(); len(did) < 2 || did[0] != "kill greedy.c1" || did[1] != "kill greedy.c2" || slices.Contains(did, "kill modest.c1") {
					n.t.Errorf("did %q", did)
				}
				if len(m.executor.state.Cooldown) != 0 {
					n.t.Errorf("the owner's next pod is to be restarted only: %v", m.executor.state.Cooldown)
				}
			})
		})
	}
}

// TestManagerUnknownPod: an unknown pod that has just started and holds the memory is identified,
// and no other pod is evicted for it.
func TestManagerUnknownPod(t *testing.T) {
	for name, test := range map[string]struct {
		uses, then int
		takes      time.Duration
		want       []string
	}{
		"a pass identifies it":     {500, 500, time.Second, []string{"kill newcomer.c1", "evict newcomer", "confirm newcomer"}},
		"a pass takes too long":    {500, 500, time.Minute, []string{"kill newcomer.c1"}},
		"it grows until the limit": {500, 540, time.Minute, []string{"kill newcomer.c1"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.set(func() { n.pod("greedy").containers[0].uses, n.pod("greedy").containers[1].uses = mi, mi })
				n.listed = n.list()
				n.reconcileTakes = test.takes
				n.start(sized("newcomer", 0, 0, 0), test.uses)
				m := n.started(hardOnly)
				n.run(m, 500*time.Millisecond)
				n.expect()
				if r := m.Report(); r.Crossed != Hard || r.NoCandidate {
					n.t.Errorf("reported %+v", r)
				}
				n.set(func() { n.pod("newcomer").containers[0].uses = uint64(test.then) * mi })
				wait := 10 * time.Second
				if test.then != test.uses {
					wait = time.Second
				}
				n.run(m, wait)
				n.expect(test.want...)
			})
		})
	}
}

// TestManagerPollFails: a failed poll is counted, logged once a minute, and nothing is reported
// meanwhile.
func TestManagerPollFails(t *testing.T) {
	bubble(t, func(n *node) {
		m := n.started(hardOnly)
		n.set(func() { n.pod("greedy").containers[0].uses = mi })
		n.run(m, time.Second)
		n.takeEvents()
		if m.Report().Time.IsZero() {
			n.t.Fatal("nothing is reported")
		}
		n.files(systemCgroup, map[string]string{"memory.current": "twenty characters\n   "})
		n.run(m, 59*time.Second)
		events := n.takeEvents()
		failed := slices.Index(events, "count failed poll")
		warned := 0
		for _, text := range events {
			if text != "count failed poll" {
				warned++
			}
		}
		if failed < 0 || warned != 1 || !m.Report().Time.IsZero() {
			n.t.Errorf("events %q, reported %+v", events, m.Report())
		}
		if err := m.Alive(); err != nil {
			n.t.Errorf("it polls each second: %v", err)
		}
		<-time.After(pollTimeout + time.Second) // the goroutine hangs
		if err := m.Alive(); err == nil {
			n.t.Error("it does not poll, and is alive")
		}
	})
}

func TestManagerPartitionRecreated(t *testing.T) {
	bubble(t, func(n *node) {
		m := n.started(hardOnly)
		away := filepath.Join(n.root, "away")
		if err := os.Rename(filepath.Join(n.root, systemCgroup), away); err != nil {
			n.t.Fatal(err)
		}
		n.run(m, time.Minute)
		n.expect()
		n.expectEvents()
		if err := os.Rename(away, filepath.Join(n.root, systemCgroup)); err != nil {
			n.t.Fatal(err)
		}
		n.run(m, 5*time.Second)
		n.expect("kill greedy.c1", "kill greedy.c2", "evict greedy", "confirm greedy")
		// A file that is removed can still be read, unlike a cgroup's. This has the effect of a removed
		// cgroup on a poll.
		m.watch.close()
		n.remove(systemCgroup)
		n.takeEvents()
		n.run(m, time.Minute)
		n.expectEvents()
		n.files(systemCgroup, map[string]string{"memory.max": number(1000 * mi), "memory.events": oomEvents(0, 0), "memory.events.local": oomEvents(0, 0)})
		n.set(func() {
			n.pod("modest").containers[0].uses = 800 * mi
			n.files(n.pod("modest").containers[0].cgroup, map[string]string{"cgroup.events": "populated 1\n"})
		})
		n.run(m, 5*time.Second)
		n.expect("kill modest.c1", "evict modest", "confirm modest")
	})
}

// TestManagerLeakWhileReclaiming: if memory vanishes between two polls while the last evicted pod
// does not end, another pod leaks.
func TestManagerLeakWhileReclaiming(t *testing.T) {
	bubble(t, func(n *node) {
		n.noAPI = true
		n.set(func() { n.pod("greedy").containers[0].immortal = true })
		m := n.started(hardOnly)
		n.run(m, 50*time.Millisecond)
		n.expect("kill greedy.c1", "kill greedy.c2")
		n.run(m, time.Second) // 250 are left
		n.set(func() { n.pod("modest").containers[0].uses = 510 * mi })
		n.run(m, time.Second) // 40 of 100 are left
		n.expect("kill modest.c1")
	})
}

// TestManagerAwaitsKubelet: after a start at low memory the requests and priorities are awaited,
// and no lack of candidates is reported. A pod that grows meanwhile is not waited for.
func TestManagerAwaitsKubelet(t *testing.T) {
	for name, test := range map[string]struct {
		grows bool
		want  []string
	}{"no pod grows": {false, nil}, "a pod grows": {true, []string{"kill greedy.c1", "kill greedy.c2", "evict greedy"}}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.awaited = true
				m := n.started(hardOnly)
				n.run(m, 100*time.Millisecond)
				n.expect()
				if r := m.Report(); r.Crossed != Hard || r.NoCandidate {
					n.t.Errorf("reported %+v", r)
				}
				if test.grows {
					n.set(func() { n.pod("greedy").containers[0].uses += 40 * mi })
				}
				n.run(m, time.Second)
				n.expect(test.want...)
				if !test.grows {
					n.expectEvents()
				}
				n.set(func() { n.awaited = false })
				n.run(m, time.Second)
				if !test.grows {
					n.expect("kill greedy.c1", "kill greedy.c2", "evict greedy")
				}
			})
		})
	}
}
