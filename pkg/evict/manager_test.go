package evict

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// hardOnly has one threshold.
var hardOnly = Config{Limit: 1000 * mi, Hard: 100 * mi, Protected: DefaultProtected, Cooldown: 10 * time.Minute, MaxPodGrace: 20 * time.Second}

// bubble runs a test with a node in fake time.
func bubble(t *testing.T, test func(*node)) {
	t.Helper()
	newDisk(t).bubble(t, test)
}

// bubble runs a test in fake time on a disk that an earlier test may have used.
func (d *disk) bubble(t *testing.T, test func(*node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := busyNode(t, d)
		defer func() { n.cancel() }()
		test(n)
	})
}

func TestEviction(t *testing.T) {
	bubble(t, func(n *node) {
		n.start(sized("user", -100, 0, 0)) // without containers here: those of users are elsewhere
		m := n.started(hardOnly)
		decided := time.Now()
		n.run(m, confirmInterval)
		n.expect("kill greedy.c1", "kill greedy.c2", "tell greedy")
		n.heard("signalled", "evicting greedy hard evict")
		if !maps.Equal(n.marked, map[string]bool{"greedy": true}) {
			n.t.Errorf("marked are %v, want the pod that is being evicted", n.marked)
		}
		if h := n.history(); len(h.Open) != 1 || !h.Open[0].Gone || h.Open[0].Told || len(h.Last) != 0 {
			n.t.Fatalf("before it is confirmed the state is %+v", h)
		}
		n.run(m, 2*maxPollInterval)
		n.expect("confirm greedy")
		n.heard("count hard evict", "evicted greedy evict")
		n.run(m, 10*time.Minute)
		n.expect()
		n.heard()
		n.stop(m)

		h := n.history()
		if len(h.Open) != 0 || len(h.Last) != 1 || !h.Cooldown["kube-system/greedy"].Equal(decided.Add(hardOnly.Cooldown)) {
			n.t.Fatalf("state is %+v", h)
		}
		e := h.Last[0]
		if e.UID != "greedy" || e.Cgroup != partition+"/kubepods-system-podgreedy.slice" || e.Namespace != "kube-system" || e.Name != "greedy" || e.QoS == "" || e.Owner != "kube-system/greedy" || !e.Time.Equal(decided) ||
			e.Threshold != Hard || e.Method != Evict || e.Grace != 0 || !e.Gone || !e.Told || e.Problem != "" || e.DryRun {
			n.t.Errorf("written down is %+v", e)
		}
		if e.AvailableBytes != 50*mi || e.AtBytes != 100*mi || e.LimitBytes != 1000*mi || e.WorkingSetBytes != 500*mi || e.RequestBytes != 0 {
			n.t.Errorf("written down are the figures %+v", e)
		}
		want := []Stopped{
			{"greedy.c1", "c1", partition + "/kubepods-system-podgreedy.slice/cri-containerd-greedy.c1.scope", 300 * mi, 1},
			{"greedy.c2", "c2", partition + "/kubepods-system-podgreedy.slice/cri-containerd-greedy.c2.scope", 200 * mi, 1},
		}
		if !slices.Equal(e.Containers, want) {
			n.t.Errorf("written down are the containers %+v, want %+v", e.Containers, want)
		}
		report := m.Report()
		if report.Crossed != "" || report.NoCandidate || report.Available != 550*mi || report.Limit != 1000*mi || report.Hard != 100*mi || report.Soft != 0 ||
			report.Memory.Current != 450*mi || report.Time.IsZero() {
			n.t.Errorf("reported %+v", report)
		}
	})
}

func TestOneAfterTheOther(t *testing.T) {
	bubble(t, func(n *node) {
		m := n.started(Config{Limit: 500 * mi, Lowering: true, Hard: 100 * mi, Protected: DefaultProtected})
		n.ends, n.noAPI = 500*time.Millisecond, true
		n.lower = func() error { return nil }
		n.run(m, 400*time.Millisecond)
		n.expect("kill greedy.c1", "kill greedy.c2") // and no other while its memory is not back
		n.run(m, 10*time.Second)
		n.expect("kill modest.c1", "lower")
	})
}

func TestPageCacheEvictsNoPod(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() {
			n.pod("greedy").containers[0].uses = 1 * mi
			n.cache = [3]uint64{100 * mi, 199 * mi, 50 * mi} // 1000 of 1000 MiB
		})
		m := n.started(hardOnly)
		n.run(m, time.Minute)
		n.expect()
		if r := m.Report(); r.Available != 324*mi || r.Memory.ActiveFile != 199*mi {
			n.t.Errorf("reported %+v", r)
		}
		n.set(func() { n.cache[2]++ }) // usage beyond the limit by some counts is no reason either
		n.run(m, time.Second)
		n.expect()
	})
}

// TestTheOthersOfAnOwner: a DaemonSet starts the next pod at once. That pod is restarted, and
// evicted only after the cooldown, even if the program was restarted in between.
func TestTheOthersOfAnOwner(t *testing.T) {
	bubble(t, func(n *node) {
		next := func(name string) {
			p := sized(name, 0, 0, 0)
			p.Owner = "kube-system/greedy"
			n.start(p, 500)
		}
		m := n.started(hardOnly)
		n.run(m, time.Minute)
		n.expect("kill greedy.c1", "kill greedy.c2", "tell greedy", "confirm greedy")
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
		n.expect("kill fourth.c1", "tell fourth", "confirm fourth")
		n.stop(m)
		if h := n.history(); len(h.Last) != 4 || len(h.Cooldown) != 1 {
			n.t.Errorf("state is %+v", h)
		}
	})
}

// TestMinimumReclaim: a second pod is evicted if the first frees too little.
func TestMinimumReclaim(t *testing.T) {
	bubble(t, func(n *node) {
		c := hardOnly
		c.MinimumReclaim = 500 * mi
		n.run(n.started(c), time.Minute)
		n.expect("kill greedy.c1", "kill greedy.c2", "kill modest.c1", "tell greedy", "tell modest", "confirm greedy", "confirm modest")
	})
}

// TestNoCandidateOnceAMinute: NoCandidate is called once a minute, however often candidates appear and
// disappear.
func TestNoCandidateOnceAMinute(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { n.pods = n.pods[2:]; n.pod("critical").containers[0].uses = 950 * mi })
		m := n.started(hardOnly)
		n.run(m, retryInterval-time.Second)
		n.expect()
		n.heard("nobody critical(node-critical)", "count nobody")
		n.run(m, 2*time.Second)
		n.heard("nobody critical(node-critical)", "count nobody")
		if r := m.Report(); !r.NoCandidate || r.Crossed != Hard {
			n.t.Errorf("reported %+v", r)
		}
		n.start(sized("late", 0, 0, 0), 20)
		n.run(m, 10*time.Second)
		n.expect("kill late.c1", "tell late", "confirm late")
		n.heard("signalled", "evicting late hard evict", "count hard evict", "evicted late evict")
		for i := range 40 { // it hovers at the threshold
			n.set(func() { n.pod("critical").containers[0].uses = uint64(900+i%2) * mi })
			n.run(m, maxPollInterval+maxPollInterval/4)
		}
		n.heard()
		n.set(func() { n.pod("critical").containers[0].uses = 950 * mi })
		n.run(m, retryInterval)
		n.heard("nobody critical(node-critical)", "count nobody")
	})
}

func TestFiguresAreMissing(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() {
			gone := sized("gone", -5, 0, 0)
			gone.Cgroup = partition + "/gone.slice"
			gone.Containers = []Container{{ID: "x", Cgroup: gone.Cgroup + "/x.scope"}}
			n.mu.Unlock()
			n.listed = append(n.list(), gone)
			n.mu.Lock()
		})
		n.files(n.pod("modest").Cgroup, map[string]string{"memory.stat": "inactive_file -1\n"})
		n.run(n.started(hardOnly), 50*time.Millisecond)
		want := "warn " + filepath.Join(n.root, n.pod("modest").Cgroup, "memory.stat") + `: inactive_file: strconv.ParseUint: parsing "-1": invalid syntax`
		if said := n.words(); len(said) == 0 || said[0] != want {
			n.t.Errorf("told %q, want %q first", said, want)
		}
		if did := n.all(); !slices.Equal(did, []string{"kill modest.c1", "tell modest"}) {
			n.t.Errorf("did %q, want the pod without figures to go", did)
		}
	})
}

func TestDryRun(t *testing.T) {
	bubble(t, func(n *node) {
		c := hardOnly
		c.DryRun = true
		m := n.started(c)
		n.run(m, 59*time.Second)
		n.expect()
		n.heard("evicting greedy hard evict", "count hard evict dry")
		n.run(m, 2*time.Second)
		n.expect()
		n.heard("evicting greedy hard evict", "count hard evict dry")
		if h := n.history(); len(h.Open) != 0 || len(h.Cooldown) != 0 || len(h.Last) != 2 || !h.Last[0].DryRun || len(h.Last[0].Containers) != 2 {
			n.t.Errorf("state is %+v", h)
		}
		if got := n.running(); len(got) != 4 {
			n.t.Errorf("running are %q", got)
		}
		// Without dry run it is evicted, however recent the dry run was.
		m.SetConfig(hardOnly)
		n.run(m, time.Second)
		n.expect("kill greedy.c1", "kill greedy.c2", "tell greedy")
	})
}

func TestKernelKills(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { n.pod("greedy").containers[0].uses = 1 })
		c := hardOnly
		c.Hard = 0
		m := n.started(c)
		// happen sets the counts of the kernel, and whether it has reported a change.
		happen := func(killed, atLimit int, reported bool) {
			n.files(partition, map[string]string{"memory.events": events(atLimit+5, killed), "memory.events.local": events(atLimit, 0)})
			m.watch.reported = reported
			n.run(m, statInterval)
		}
		happen(7, 3, false) // before the first poll
		n.heard()
		happen(8, 3, true)
		n.heard("count killed at pod 1", "killed at pod 1")
		happen(10, 4, true)
		n.heard("count killed at partition 2", "killed at partition 2")
		happen(10, 4, true)
		n.heard()
		happen(11, 4, false) // events of cgroups below are read once a second
		n.heard("count killed at pod 1", "killed at pod 1")
		happen(12, 4, true)
		n.heard("count killed at pod 1", "killed at pod 1")
		// The kernel counts the limit before the process, and a poll may come in between.
		n.files(partition, map[string]string{"memory.events": events(10, 12), "memory.events.local": events(5, 0)})
		m.watch.reported = true
		n.run(m, 10*time.Millisecond)
		n.heard()
		happen(13, 5, true)
		n.heard("count killed at partition 1", "killed at partition 1")
		// No process was killed at this limit. One is killed a minute later, at the limit of a pod.
		happen(13, 6, true)
		n.run(m, time.Minute)
		happen(14, 6, true)
		n.heard("count killed at pod 1", "killed at pod 1")
		// The counts of a partition that was created again begin at zero.
		m.watch.close()
		happen(2, 1, false)
		happen(3, 1, true)
		n.heard("count killed at pod 1", "killed at pod 1")
		n.expect()
	})
}
