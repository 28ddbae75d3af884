package evict

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// hardOnly has one threshold.
var hardOnly = Config{Limit: 1000 * mi, Hard: 100 * mi, Spare: DefaultSpare, Cooldown: 10 * time.Minute, MaxPodGrace: 20 * time.Second}

// softOnly has it with a grace period.
var softOnly = Config{
	Limit: 1000 * mi, Hard: 20 * mi, Soft: 100 * mi, SoftGrace: 10 * time.Second, Spare: DefaultSpare, Cooldown: 10 * time.Minute, MaxPodGrace: 20 * time.Second,
}

// bubble runs a test with a node in fake time.
func bubble(t *testing.T, test func(*node)) {
	t.Helper()
	newDisk(t).bubble(t, test)
}

// bubble does so on a disk that an earlier one may have used.
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
		n.run(m, confirmAfter)
		n.expect("kill greedy.c1", "kill greedy.c2", "tell greedy")
		n.heard("count hard evict", "evicting greedy hard evict")
		if h := n.history(); len(h.Open) != 1 || !h.Open[0].Gone || h.Open[0].Told || len(h.Last) != 0 {
			n.t.Fatalf("before it is confirmed the state is %+v", h)
		}
		n.run(m, 2*longest)
		n.expect("confirm greedy")
		n.heard("evicted greedy evict")
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
			e.Threshold != Hard || e.Way != Evict || e.Grace != 0 || !e.Gone || !e.Told || e.Problem != "" || e.DryRun {
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
		if report.Crossed != "" || report.Nobody || report.Available != 550*mi || report.Limit != 1000*mi || report.Hard != 100*mi || report.Soft != 0 ||
			report.Memory.Current != 450*mi || report.Time.IsZero() {
			n.t.Errorf("reported %+v", report)
		}
	})
}

func TestOneAfterTheOther(t *testing.T) {
	bubble(t, func(n *node) {
		m := n.started(Config{Limit: 500 * mi, Hard: 100 * mi, Spare: DefaultSpare})
		n.ends, n.noAPI = 500*time.Millisecond, true
		n.lower = func() error { return nil }
		n.run(m, 400*time.Millisecond)
		n.expect("kill greedy.c1", "kill greedy.c2") // and no other while its memory is not back
		n.run(m, 10*time.Second)
		n.expect("kill modest.c1", "lower")
	})
}

func TestPageCacheEvictsNobody(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() {
			n.pod("greedy").containers[0].uses = 1 * mi
			n.cache = [3]uint64{100 * mi, 199 * mi, 50 * mi} // 1000 of 1000 MiB
		})
		m := n.started(hardOnly)
		n.run(m, time.Minute)
		n.expect()
		if r := m.Report(); r.Available != 349*mi || r.Memory.ActiveFile != 199*mi {
			n.t.Errorf("reported %+v", r)
		}
		n.set(func() { n.cache[2]++ }) // what is beyond the limit by some reckoning is no reason either
		n.run(m, time.Second)
		n.expect()
	})
}

func TestAPIServer(t *testing.T) {
	type answers = func(ctx context.Context, n int) error
	hangs := func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }
	busy := func(until int) answers {
		return func(_ context.Context, n int) error {
			if n < until {
				return errBusy
			}
			return nil
		}
	}
	takes := func(d time.Duration) answers {
		return func(ctx context.Context, n int) error {
			if n > 1 {
				return nil
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(d):
				return nil
			}
		}
	}
	no := func(context.Context, int) error { return fmt.Errorf("forbidden: %w", ErrFinal) }
	for name, test := range map[string]struct {
		api, confirm   answers
		off            bool
		way            Way
		problem        string
		calls          int // 15 for so many at most
		confirms       int
		cooldown       bool
		rest           bool // was started before it answered
		earliest, late time.Duration
	}{
		"answers":              {way: Evict, calls: 1, confirms: 1, cooldown: true, earliest: confirmAfter, late: confirmAfter},
		"is busy for a moment": {api: busy(4), way: Evict, calls: 4, confirms: 1, cooldown: true, earliest: confirmAfter, late: confirmAfter + time.Second},
		"takes long":           {api: takes(apiAttempt - 10*time.Millisecond), way: Evict, calls: 1, confirms: 1, cooldown: true, rest: true, earliest: apiAttempt + time.Second, late: apiAttempt + confirmAfter},
		"takes too long once":  {api: takes(apiAttempt + 1), way: Evict, calls: 2, confirms: 1, cooldown: true, rest: true, earliest: apiAttempt + confirmAfter, late: apiAttempt + confirmAfter + time.Second},
		"says no":              {api: no, way: Restart, problem: "forbidden: not tried again", calls: 1},
		"says no at last": {api: func(_ context.Context, n int) error {
			if n < 3 {
				return errBusy
			}
			return ErrFinal
		}, way: Restart, problem: "not tried again", calls: 3, late: time.Second},
		// Nobody knows whether it was evicted.
		"is busy": {api: busy(1000), way: Restart, problem: errLate.Error() + ": the server is busy", calls: 15, cooldown: true,
			earliest: apiTimeout, late: apiTimeout},
		"hangs": {api: hangs, way: Restart, problem: errLate.Error() + ": context deadline exceeded", calls: 2, cooldown: true,
			earliest: apiTimeout, late: apiTimeout + time.Second},
		"is not known": {off: true, way: Restart},
		// It was evicted all the same.
		"is busy for a moment when it is confirmed": {confirm: busy(4), way: Evict, calls: 1, confirms: 4, cooldown: true,
			earliest: confirmAfter, late: confirmAfter + time.Second},
		"is busy when it is confirmed": {confirm: busy(1000), way: Evict, problem: errUnconfirmed.Error() + ": the server is busy", calls: 1, confirms: 15,
			cooldown: true, earliest: confirmAfter + apiTimeout, late: confirmAfter + apiTimeout},
		"hangs when it is confirmed": {confirm: hangs, way: Evict, problem: errUnconfirmed.Error() + ": context deadline exceeded", calls: 1, confirms: 2,
			cooldown: true, earliest: confirmAfter + apiTimeout, late: confirmAfter + apiTimeout + time.Second},
		"says no when it is confirmed": {confirm: no, way: Evict, problem: errUnconfirmed.Error() + ": forbidden: not tried again", calls: 1, confirms: 1,
			cooldown: true, earliest: confirmAfter, late: confirmAfter},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.api, n.confirm, n.noAPI, n.restarts, n.restarted = test.api, test.confirm, test.off, time.Second, 50*mi
				m := n.started(hardOnly)
				decided := time.Now()
				for time.Since(decided) < 30*time.Second && len(n.evicted) == 0 {
					n.run(m, time.Second)
				}
				// What is over is seen with the next look here (run).
				if took := time.Since(decided); took < test.earliest || took > test.late+2*longest {
					n.t.Errorf("took %s, want %s to %s", took, test.earliest, test.late)
				}
				n.run(m, 10*time.Second)
				if len(n.evicted) != 1 {
					n.t.Fatalf("came to an end: %+v; did %q", n.evicted, n.all())
				}
				e := n.evicted[0]
				if e.Way != test.way || !e.Told || !e.Gone || e.Problem != test.problem {
					n.t.Errorf("ended as %+v, want %s, %q", e, test.way, test.problem)
				}
				for _, calls := range [][2]int{{n.apiCalls, test.calls}, {n.confirms, test.confirms}} {
					if calls[0] != calls[1] && (calls[1] < 15 || calls[0] > calls[1] || calls[0] < 5) {
						n.t.Errorf("%d calls, want %d", calls[0], calls[1])
					}
				}
				want := []string{"kill greedy.c1", "kill greedy.c2"}
				if test.way == Evict {
					want = append(want, "tell greedy")
				}
				if test.rest {
					want = append(want, "kill greedy.c1.2", "kill greedy.c2.2")
				}
				if test.way == Evict && test.problem == "" {
					want = append(want, "confirm greedy")
				}
				n.expect(want...)
				h := n.history()
				if _, cooldown := h.Cooldown["kube-system/greedy"]; cooldown != test.cooldown {
					n.t.Errorf("cooldown %v, want one: %t", h.Cooldown, test.cooldown)
				}
				failed := slices.Contains(n.words(), "count failed api")
				if failed != (test.problem != "") {
					n.t.Errorf("failure was counted: %t", failed)
				}
			})
		})
	}
}

// TestRefusedIsTriedAgain: who was not evicted because the API server refused to goes by it again.
func TestRefusedIsTriedAgain(t *testing.T) {
	bubble(t, func(n *node) {
		n.api = func(_ context.Context, number int) error {
			if number == 1 {
				return ErrFinal
			}
			return nil
		}
		n.restarts, n.restarted = time.Second, 250*mi
		m := n.started(hardOnly)
		n.run(m, 30*time.Second)
		n.expect("kill greedy.c1", "kill greedy.c2", "kill greedy.c1.2", "kill greedy.c2.2", "tell greedy", "confirm greedy")
	})
}

// TestUnknownIsNotTriedAgain: of whom nobody knows whether it was evicted the containers are stopped the next time.
func TestUnknownIsNotTriedAgain(t *testing.T) {
	bubble(t, func(n *node) {
		n.api = func(context.Context, int) error { return errBusy }
		n.restarts, n.restarted = 20*time.Second, 250*mi
		n.run(n.started(hardOnly), 22*time.Second)
		n.expect("kill greedy.c1", "kill greedy.c2", "kill greedy.c1.2", "kill greedy.c2.2")
		if e := n.evicted[1]; e.Way != Restart || e.Problem != "" {
			n.t.Errorf("the second time it ended as %+v", e)
		}
	})
}

// TestKubeletOverwrites: what the kubelet writes over the API server is told again before the eviction counts as told, and the containers
// that it has started meanwhile end.
func TestKubeletOverwrites(t *testing.T) {
	bubble(t, func(n *node) {
		n.overwrites, n.restarts, n.restarted = 1, 300*time.Millisecond, 5*mi
		m := n.started(hardOnly)
		n.run(m, confirmAfter)
		n.expect("kill greedy.c1", "kill greedy.c2", "tell greedy")
		if got := n.running(); !slices.Contains(got, "greedy.c1.2") || n.toldTimes() != 0 {
			n.t.Fatalf("running are %q: want it overwritten", got)
		}
		n.run(m, time.Second)
		n.expect("confirm greedy", "kill greedy.c1.2", "kill greedy.c2.2")
		n.heard("count hard evict", "evicting greedy hard evict")
		if h := n.history(); len(h.Open) != 1 || h.Open[0].Told {
			n.t.Errorf("before it is found to be so the state is %+v", h)
		}
		n.run(m, 3*time.Second)
		n.expect("confirm greedy")
		n.heard("evicted greedy evict")
		if got := n.running(); !slices.Equal(got, []string{"critical.c1", "modest.c1"}) || n.toldTimes() != 1 {
			n.t.Errorf("running are %q", got)
		}
	})
}

// restartedMeanwhile is a node whose program was killed between the kill and the word of the API server, and whose kubelet has started the
// containers again since.
func (n *node) restartedMeanwhile() {
	n.t.Helper()
	n.restarts, n.restarted = 300*time.Millisecond, 5*mi
	n.crashAt = 6
	n.untilCrash(n.started(hardOnly), time.Second)
	if n.crashed != "after kill greedy.c2" {
		n.t.Fatalf("ended at %q", n.crashed)
	}
	<-time.After(time.Second)
	n.expect("kill greedy.c1", "kill greedy.c2")
	if got := n.running(); !slices.Equal(got, []string{"critical.c1", "greedy.c1.2", "greedy.c2.2", "modest.c1"}) {
		n.t.Fatalf("running are %q: want them started again", got)
	}
	n.words()
	n.boot()
}

// TestRestartedBeforeTheAPIServerHears: seen on a node. The kubelet writes the pod as it is over what the next run tells the API server, and
// does not look at it anew until one of its containers ends.
func TestRestartedBeforeTheAPIServerHears(t *testing.T) {
	const tell, confirm = "tell greedy", "confirm greedy"
	kill := func(start int) []string {
		return []string{fmt.Sprint("kill greedy.c1.", start), fmt.Sprint("kill greedy.c2.", start)}
	}
	for name, test := range map[string]struct {
		overwrites int
		want       []string
	}{
		"ended before the kubelet writes":       {0, slices.Concat([]string{tell}, kill(2), []string{confirm})},
		"ended after the kubelet has written":   {1, slices.Concat([]string{tell}, kill(2), []string{confirm}, kill(3), []string{confirm})},
		"ended after the kubelet wrote 4 times": {4, slices.Concat([]string{tell}, kill(2), []string{confirm}, kill(3), []string{confirm}, kill(4), []string{confirm}, kill(5), []string{confirm}, kill(6), []string{confirm})},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.restartedMeanwhile()
				n.overwrites = test.overwrites
				m := n.started(hardOnly)
				n.run(m, 20*time.Second)
				n.expect(test.want...)
				n.heard("resumed greedy", "evicted greedy evict")
				if n.overwritten != test.overwrites {
					n.t.Errorf("overwritten %d times, want %d", n.overwritten, test.overwrites)
				}
				if got := n.running(); !slices.Equal(got, []string{"critical.c1", "modest.c1"}) || n.toldTimes() != 1 {
					n.t.Errorf("running are %q, and Failed was greedy %d times: want it Failed, and nothing of it running", got, n.toldTimes())
				}
				if e := n.evicted[0]; e.Way != Evict || e.Problem != "" || !e.Gone || !e.Told {
					n.t.Errorf("ended as %+v", e)
				}
			})
		})
	}
}

// TestKubeletDoesNotEndIt: that is said after a while, and the pod counts as evicted, for the API server was told.
func TestKubeletDoesNotEndIt(t *testing.T) {
	for name, test := range map[string]struct {
		change   func(*node, *Manager)
		runs     []string // of it
		toldLast int
		kills    int // after the API server was told
	}{
		// As it was on the node.
		"it runs and is not killed": {func(_ *node, m *Manager) { m.Rest = func(string) []string { return nil } }, []string{"greedy.c1.2", "greedy.c2.2"}, 0, 0},
		"it writes again and again": {func(n *node, _ *Manager) { n.overwrites = 1000 }, []string{fmt.Sprint("greedy.c1.", confirms+2), fmt.Sprint("greedy.c2.", confirms+2)}, 0, 2 * confirms},
		"it cannot be killed":       {func(n *node, _ *Manager) { n.set(func() { n.pod("greedy").containers[1].immortal = true }) }, []string{"greedy.c2.2"}, 1, confirms + 1},
		"it may not be killed":      {func(n *node, _ *Manager) { n.killErr = fs.ErrPermission }, []string{"greedy.c1.2", "greedy.c2.2"}, 0, 0},
		"there is no cgroup.kill":   {func(n *node, _ *Manager) { n.noKill = true }, []string{"greedy.c1.2", "greedy.c2.2"}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.restartedMeanwhile()
				m := n.started(hardOnly)
				test.change(n, m)
				n.run(m, confirms*confirmAfter)
				if len(n.evicted) != 0 {
					n.t.Errorf("given up early: %+v", n.evicted)
				}
				n.run(m, 10*time.Second)
				if len(n.evicted) != 1 || n.confirms != confirms {
					n.t.Fatalf("through are %+v after %d tries", n.evicted, n.confirms)
				}
				if e := n.evicted[0]; e.Way != Evict || e.Problem != errUnconfirmed.Error()+": "+errRunsOn.Error() || n.history().Cooldown["kube-system/greedy"].IsZero() {
					n.t.Errorf("ended as %+v", e)
				}
				kills := 0
				for _, did := range n.all() {
					if strings.HasPrefix(did, "kill ") {
						kills++
					}
				}
				if kills != test.kills {
					n.t.Errorf("killed %d times, want %d", kills, test.kills)
				}
				said := n.words()
				if !slices.Contains(said, "count failed api") || slices.Contains(said, "count failed stop") != (n.killErr != nil) {
					n.t.Errorf("told %q", said)
				}
				got := slices.DeleteFunc(n.running(), func(id string) bool { return !strings.HasPrefix(id, "greedy.") })
				if !slices.Equal(got, test.runs) || n.toldTimes() != test.toldLast {
					n.t.Errorf("running are %q, want %q; Failed is it %d times, want %d", got, test.runs, n.toldTimes(), test.toldLast)
				}
			})
		})
	}
}

// TestRestOutsideThePartition: a container of the pod that is elsewhere ends as well, at once where there is no grace period, and only where
// the pod is evicted.
func TestRestOutsideThePartition(t *testing.T) {
	for name, test := range map[string]struct {
		config Config
		noAPI  bool
		want   []string
	}{
		"evicted":    {hardOnly, false, []string{"confirm greedy", "kill greedy.c1", "kill greedy.c2", "kill greedy.outside", "tell greedy"}},
		"stopped":    {hardOnly, true, []string{"kill greedy.c1", "kill greedy.c2"}},
		"with grace": {softOnly, false, []string{"confirm greedy", "kill greedy.outside", "stop greedy.c1 20s", "stop greedy.c2 20s", "tell greedy"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.noAPI, n.fails = test.noAPI, time.Hour
				outside := &nodeContainer{id: "greedy.outside", name: "outside", cgroup: "kubepods.slice/elsewhere/cri-containerd-greedy.outside.scope", running: true, starts: 1}
				n.files(outside.cgroup, map[string]string{"cgroup.events": "populated 1\nfrozen 0\n"})
				n.set(func() { n.pod("greedy").containers = append(n.pod("greedy").containers, outside) })
				n.run(n.started(test.config), 40*time.Second)
				n.expectSorted(test.want...)
				if len(n.evicted) != 1 || n.evicted[0].Problem != "" || slices.ContainsFunc(n.evicted[0].Containers, func(c Stopped) bool { return c.ID == outside.id }) {
					n.t.Errorf("through are %+v", n.evicted)
				}
				if runs := slices.Contains(n.running(), outside.id); runs == slices.Contains(test.want, "kill "+outside.id) {
					n.t.Errorf("it runs: %t", runs)
				}
			})
		})
	}
}

// TestMayBeAskedByAnybody: who is asked for the API server may ask for what the manager knows.
func TestMayBeAskedByAnybody(t *testing.T) {
	bubble(t, func(n *node) {
		m := n.started(hardOnly)
		n.available = func() { m.Report(); m.SetConfig(hardOnly) }
		n.run(m, 50*time.Millisecond)
		n.expect("kill greedy.c1", "kill greedy.c2", "tell greedy")
	})
}

// TestTheNextOneDoesNotWaitForTheAPIServer: one at a time is over when the memory is back.
func TestTheNextOneDoesNotWaitForTheAPIServer(t *testing.T) {
	bubble(t, func(n *node) {
		n.api = func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }
		c := hardOnly
		c.Limit = 500 * mi
		n.lower = func() error { return nil }
		m := n.started(c)
		n.run(m, 100*time.Millisecond)
		n.expect("kill greedy.c1", "kill greedy.c2", "kill modest.c1", "lower")
		if h := n.history(); len(h.Open) != 2 || !h.Open[0].Gone || h.Open[0].Told || h.Open[1].UID != "modest" {
			n.t.Errorf("open are %+v", h.Open)
		}
		n.run(m, 15*time.Second)
		if len(n.evicted) != 2 {
			n.t.Errorf("through are %+v", n.evicted)
		}
	})
}

// TestTheOthersOfAnOwner: a DaemonSet starts the next pod at once. That one is stopped, and evicted only after the cooldown, also
// by a program that was started in between.
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
		if got := n.evicted[1]; got.Way != Restart || got.Problem != "" {
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

func TestStartedSinceTheList(t *testing.T) {
	bubble(t, func(n *node) {
		n.listed = n.list()
		n.listed[0].Containers = n.listed[0].Containers[:1]
		n.run(n.started(hardOnly), 50*time.Millisecond)
		n.expect("kill greedy.c1", "kill greedy.c2", "tell greedy")
	})
	// As seen on a node: its container had ended when the list was made, the kubelet has started it again, and others went for it.
	bubble(t, func(n *node) {
		n.listed = n.list()
		n.listed[0].Containers = nil
		n.run(n.started(hardOnly), 50*time.Millisecond)
		n.expect("kill greedy.c1", "kill greedy.c2", "tell greedy")
	})
}

// TestNothingRuns: a pod of which nothing is known to run, and nothing does, is not in the order, whatever its slice is charged for.
func TestNothingRuns(t *testing.T) {
	bubble(t, func(n *node) {
		n.listed = n.list()
		n.listed[0].Containers = nil
		n.set(func() {
			n.pod("greedy").rest = 300 * mi
			for _, c := range n.pod("greedy").containers {
				n.exited(n.pod("greedy"), c)
			}
		})
		for _, p := range Measure(n.started(hardOnly).Cgroups, n.listed, func(err error) { n.t.Error(err) }) {
			if p.Name == "greedy" {
				n.t.Errorf("%+v is in the order", p)
			}
		}
	})
}

func TestContainersCannotBeListed(t *testing.T) {
	bubble(t, func(n *node) {
		n.scopesErr = errors.New("no such luck")
		n.run(n.started(hardOnly), 4*time.Second)
		n.expect("kill greedy.c1", "kill greedy.c2", "tell greedy", "confirm greedy")
		n.heard("warn no such luck", "count hard evict", "evicting greedy hard evict", "evicted greedy evict")
	})
}

// TestListIsOld: a pod whose containers have ended meanwhile frees nothing, and the next one goes.
func TestListIsOld(t *testing.T) {
	bubble(t, func(n *node) {
		n.pod("greedy").Priority = -1
		n.listed = n.list()
		n.set(func() {
			n.pod("greedy").rest = 5 * mi // of its sandbox
			for _, c := range n.pod("greedy").containers {
				n.exited(n.pod("greedy"), c)
			}
			n.pod("modest").containers[0].uses = 800 * mi
		})
		m := n.started(hardOnly)
		n.run(m, 4*time.Second)
		n.expect("kill modest.c1", "tell modest", "confirm modest")
		n.heard("count hard evict", "evicting modest hard evict", "evicted modest evict")
	})
}

// TestEndsWhileItIsKilled: what is gone needs no killing, and is no failure.
func TestEndsWhileItIsKilled(t *testing.T) {
	bubble(t, func(n *node) {
		n.beforeKill = func(id string) {
			if id == "greedy.c2" {
				n.set(func() { n.exited(n.pod("greedy"), n.pod("greedy").containers[1]) })
			}
		}
		n.run(n.started(hardOnly), 4*time.Second)
		n.expect("kill greedy.c1", "tell greedy", "confirm greedy")
		n.heard("count hard evict", "evicting greedy hard evict", "evicted greedy evict")
	})
}

func TestKernelCannotKill(t *testing.T) {
	for name, failure := range map[string]error{"before 5.14": nil, "forbidden": fs.ErrPermission} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.noKill, n.killErr = failure == nil, failure
				n.run(n.started(hardOnly), 100*time.Millisecond)
				did := n.all()
				slices.Sort(did) // containers are stopped at the same time
				if want := []string{"stop greedy.c1 0s", "stop greedy.c2 0s", "tell greedy"}; !slices.Equal(did, want) {
					n.t.Errorf("did %q, want %q", did, want)
				}
				failed := slices.Contains(n.words(), "count failed stop")
				if failed != (failure != nil) {
					n.t.Errorf("a failure was counted: %t", failed)
				}
			})
		})
	}
}

// TestRuntimeFails: that is said once per container, unless the container has ended all the same.
func TestRuntimeFails(t *testing.T) {
	bubble(t, func(n *node) {
		n.noAPI, n.noKill, n.stopErr = true, true, errors.New("no runtime")
		m := n.started(hardOnly)
		n.run(m, 100*time.Millisecond)
		said := n.words()
		if i := slices.Index(said, "failed stop greedy: no runtime"); i < 1 || said[i-1] != "count failed stop" {
			n.t.Errorf("told %q", said)
		}
		n.run(m, 20*time.Second)
		if said := n.words(); !slices.Contains(said, "count failed timeout") {
			n.t.Errorf("told %q, want that it has not ended", said)
		}
	})
}

// TestDoesNotEnd: the next pod goes after a while, and the first is left alone for a while.
func TestDoesNotEnd(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { n.pod("greedy").containers[0].immortal = true; n.pod("greedy").containers[0].uses = 350 * mi })
		n.api = func(context.Context, int) error { return ErrFinal } // so that the pod stays
		n.set(func() { n.pod("modest").containers[0].uses = 600 * mi })
		m := n.started(hardOnly)
		n.run(m, endTimeout)
		n.expect("kill greedy.c1", "kill greedy.c2")
		n.words()
		n.run(m, time.Second)
		n.expect("kill modest.c1")
		said := n.words()
		if !slices.Contains(said, "count failed timeout") || !slices.Contains(said, "evicted greedy restart") {
			n.t.Errorf("told %q", said)
		}
		if e := n.evicted[0]; e.UID != "greedy" || !strings.Contains(e.Problem, "have not ended 10s after") {
			n.t.Errorf("ended as %+v", e)
		}
		n.set(func() { n.cache = [3]uint64{}; n.pod("critical").containers[0].uses = 600 * mi }) // there is need again
		n.run(m, 30*time.Second)
		n.expect()
		n.heard("nobody critical(node-critical)", "count nobody")
	})
}

func TestSoftThreshold(t *testing.T) {
	bubble(t, func(n *node) {
		n.restarts, n.restarted = 300*time.Millisecond, 5*mi
		m := n.softBegun()
		n.run(m, longest)
		n.expectSorted("stop greedy.c1 20s", "stop greedy.c2 20s", "tell greedy")
		n.run(m, 25*time.Second)
		n.expectSorted("confirm greedy")
		n.heard("count soft evict", "evicting greedy soft evict", "evicted greedy evict")
		if got := n.running(); !slices.Equal(got, []string{"critical.c1", "modest.c1"}) {
			n.t.Errorf("running are %q", got)
		}
		if e := n.evicted[0]; e.Threshold != Soft || e.Grace != 20*time.Second || e.Problem != "" {
			n.t.Errorf("ended as %+v", e)
		}
	})
}

// softBegun is a node on which the soft threshold has just been crossed for long enough, with its manager.
func (n *node) softBegun() *Manager {
	n.t.Helper()
	m := n.started(softOnly)
	n.run(m, softOnly.SoftGrace)
	n.expect()
	return m
}

// expectSorted is expect where containers are stopped at the same time, and where the API server is asked again and again while a pod
// has time to end.
func (n *node) expectSorted(want ...string) {
	n.t.Helper()
	n.mu.Lock()
	slices.Sort(n.did)
	n.did = slices.Compact(n.did)
	n.mu.Unlock()
	n.expect(want...)
}

// TestSoftWithoutAPIServer: nobody but us asks the runtime.
func TestSoftWithoutAPIServer(t *testing.T) {
	bubble(t, func(n *node) {
		n.noAPI = true
		m := n.softBegun()
		n.run(m, longest)
		n.expectSorted("stop greedy.c1 20s", "stop greedy.c2 20s")
		n.run(m, 25*time.Second)
		n.expect()
		n.heard("count soft restart", "evicting greedy soft restart", "evicted greedy restart")
	})
}

// TestSoftOutlastsItsGrace: what the runtime does not end is killed endTimeout after its grace period.
func TestSoftOutlastsItsGrace(t *testing.T) {
	for name, noKill := range map[string]bool{"killed by the kernel": false, "killed by the runtime": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.ends, n.noKill = time.Minute, noKill
				n.set(func() { // so that there is no next one
					n.pods = slices.DeleteFunc(n.pods, func(p *nodePod) bool { return p.Name == "modest" })
					n.pod("critical").containers[0].uses = 450 * mi
				})
				m := n.softBegun()
				n.run(m, 20*time.Second+endTimeout-longest)
				n.expectSorted("confirm greedy", "stop greedy.c1 20s", "stop greedy.c2 20s", "tell greedy")
				n.words()
				n.set(func() { n.ends = time.Millisecond })
				n.run(m, 2*longest)
				if noKill {
					n.expectSorted("confirm greedy", "stop greedy.c1 0s", "stop greedy.c2 0s")
				} else {
					n.expectSorted("confirm greedy", "kill greedy.c1", "kill greedy.c2")
				}
				n.run(m, 5*time.Second)
				n.expectSorted("confirm greedy")
				if got := n.running(); !slices.Equal(got, []string{"critical.c1"}) {
					n.t.Errorf("running are %q", got)
				}
				if said := n.words(); !slices.Contains(said, "count failed timeout") || !slices.Contains(said, "evicted greedy evict") {
					n.t.Errorf("told %q", said)
				}
				if e := n.evicted[0]; e.Threshold != Soft || e.Way != Evict || !strings.Contains(e.Problem, "have not ended 10s after") {
					n.t.Errorf("ended as %+v, want that it went by the soft threshold, and late", e)
				}
			})
		})
	}
}

// TestSoftEvictedBecomesHard: what was given time is killed where that turns out to be too long.
func TestSoftEvictedBecomesHard(t *testing.T) {
	bubble(t, func(n *node) {
		m := n.softBegun()
		n.run(m, 10*time.Second)
		n.expectSorted("confirm greedy", "stop greedy.c1 20s", "stop greedy.c2 20s", "tell greedy")
		n.set(func() { n.pod("modest").containers[0].uses = 349 * mi })
		n.run(m, 50*time.Millisecond)
		n.set(func() { n.did = slices.DeleteFunc(n.did, func(what string) bool { return what == "confirm greedy" }) }) // about now
		n.expect("kill greedy.c1", "kill greedy.c2")
		n.run(m, time.Minute)
		n.expect()
		if e := n.evicted[0]; e.Threshold != Hard || e.Way != Evict || e.Grace != 0 || e.Problem != "" {
			n.t.Errorf("ended as %+v", e)
		}
	})
}

// TestSoftIsNotTold: the runtime has been asked already, and there is as much time as ever.
func TestSoftIsNotTold(t *testing.T) {
	for name, test := range map[string]struct {
		err   error
		known time.Duration // since the decision
	}{"refused": {ErrFinal, 0}, "late": {errBusy, apiTimeout}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.api = func(context.Context, int) error { return test.err }
				n.ends = 5 * time.Second // after its grace period
				m := n.softBegun()
				n.run(m, 50*time.Millisecond)
				n.expectSorted("stop greedy.c1 20s", "stop greedy.c2 20s")
				if test.known > 0 {
					if h := n.history(); h.Open[0].Way != Evict || h.Open[0].Told {
						n.t.Errorf("written down is %+v", h)
					}
					n.run(m, test.known)
					n.expect()
				}
				n.words()
				if h := n.history(); h.Open[0].Way != Restart || !h.Open[0].Told || len(h.Cooldown) != map[bool]int{true: 0, false: 1}[test.known == 0] {
					n.t.Errorf("written down is %+v", h)
				}
				n.run(m, 24*time.Second-test.known)
				n.expect()
				n.heard()
				n.run(m, 3*time.Second)
				n.heard("evicted greedy restart")
				if e := n.evicted[0]; e.Threshold != Soft || e.Problem == "" || strings.Contains(e.Problem, "have not ended") {
					n.t.Errorf("ended as %+v", e)
				}
				n.expect()
			})
		})
	}
}

// TestSoftIsNotToldAndBecomesHard: what the runtime was asked for late has no grace period at the hard threshold either.
func TestSoftIsNotToldAndBecomesHard(t *testing.T) {
	bubble(t, func(n *node) {
		n.api = func(context.Context, int) error { return ErrFinal }
		m := n.softBegun()
		n.run(m, 5*time.Second)
		n.expectSorted("stop greedy.c1 20s", "stop greedy.c2 20s")
		n.set(func() { n.pod("modest").containers[0].uses = 349 * mi })
		n.run(m, 50*time.Millisecond)
		n.expect("kill greedy.c1", "kill greedy.c2")
	})
}

// TestSoftIsNotToldInItsGrace: nothing is asked for again when telling fails only after the grace period.
func TestSoftIsNotToldInItsGrace(t *testing.T) {
	bubble(t, func(n *node) {
		n.api = func(context.Context, int) error { return errBusy }
		n.ends = 8 * time.Second // until after telling has failed
		c := softOnly
		c.MaxPodGrace = 5 * time.Second
		m := n.started(c)
		n.run(m, c.SoftGrace+4*time.Second)
		n.expectSorted("stop greedy.c1 5s", "stop greedy.c2 5s")
		n.run(m, 30*time.Second)
		n.expect()
		if e := n.evicted[0]; e.Way != Restart || e.Threshold != Soft || !strings.HasPrefix(e.Problem, errLate.Error()) {
			n.t.Errorf("ended as %+v", e)
		}
	})
}

// TestSoftIsNotConfirmed: it was evicted, and has its grace period still.
func TestSoftIsNotConfirmed(t *testing.T) {
	bubble(t, func(n *node) {
		n.confirm = func(context.Context, int) error { return ErrFinal }
		m := n.softBegun()
		n.run(m, 19*time.Second)
		n.expectSorted("stop greedy.c1 20s", "stop greedy.c2 20s", "tell greedy")
		if len(n.evicted) != 0 {
			n.t.Errorf("through are %+v", n.evicted)
		}
		n.run(m, 3*time.Second)
		n.expect()
		if e := n.evicted[0]; e.Way != Evict || !strings.HasPrefix(e.Problem, errUnconfirmed.Error()) || n.history().Cooldown["kube-system/greedy"].IsZero() {
			n.t.Errorf("ended as %+v", e)
		}
	})
}

// TestSoftResumed: a new run asks the runtime again, and tells the API server where it does not know that to be done.
func TestSoftResumed(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*node, *Eviction)
		want   []string
		way    Way
	}{
		"not told":                  {func(*node, *Eviction) {}, []string{"confirm greedy", "stop greedy.c1 20s", "stop greedy.c2 20s", "tell greedy"}, Evict},
		"told":                      {func(_ *node, e *Eviction) { e.Told = true }, []string{"stop greedy.c1 20s", "stop greedy.c2 20s"}, Evict},
		"hurried":                   {func(_ *node, e *Eviction) { e.Grace = 0 }, []string{"confirm greedy", "kill greedy.c1", "kill greedy.c2", "tell greedy"}, Evict},
		"not told, and no more":     {func(_ *node, e *Eviction) { e.Time = e.Time.Add(-apiLatest - 1) }, []string{"stop greedy.c1 20s", "stop greedy.c2 20s"}, Restart},
		"not told, and refused now": {func(n *node, _ *Eviction) { n.api = func(context.Context, int) error { return ErrFinal } }, []string{"stop greedy.c1 20s", "stop greedy.c2 20s"}, Restart},
		"told that it cannot be":    {func(_ *node, e *Eviction) { e.Told, e.Way = true, Restart }, []string{"stop greedy.c1 20s", "stop greedy.c2 20s"}, Restart},
		"with a kubelet that takes long": {func(n *node, _ *Eviction) { n.fails = time.Hour },
			[]string{"confirm greedy", "stop greedy.c1 20s", "stop greedy.c2 20s", "tell greedy"}, Evict},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				m := n.manager(softOnly)
				e := Eviction{UID: "greedy", Name: "greedy", Cgroup: n.pod("greedy").Cgroup, Time: time.Now(), Threshold: Soft, Way: Evict, Grace: 20 * time.Second, WorkingSetBytes: 500 * mi}
				for _, c := range n.pod("greedy").containers {
					e.Containers = append(e.Containers, Stopped{ID: c.id, Cgroup: c.cgroup})
				}
				test.change(n, &e)
				if err := m.Store.write(History{Open: []Eviction{e}}); err != nil {
					n.t.Fatal(err)
				}
				m.load()
				n.run(m, 30*time.Second)
				n.expectSorted(test.want...)
				if len(n.evicted) != 1 || n.evicted[0].Way != test.way || !n.evicted[0].Gone || !n.evicted[0].Told {
					n.t.Errorf("through are %+v", n.evicted)
				}
				if got := n.running(); !slices.Equal(got, []string{"critical.c1", "modest.c1"}) {
					n.t.Errorf("running are %q", got)
				}
			})
		})
	}
}

// TestResumedLate: a new run has as long as any to tell the API server, and what it has told it confirms, however late that is.
func TestResumedLate(t *testing.T) {
	for _, age := range []time.Duration{0, 30 * time.Second, apiLatest - time.Second, apiLatest} {
		t.Run(age.String(), func(t *testing.T) {
			bubble(t, func(n *node) {
				m := n.manager(hardOnly)
				e := Eviction{UID: "greedy", Name: "greedy", Time: time.Now().Add(-age), Threshold: Hard, Way: Evict, Gone: true}
				if err := m.Store.write(History{Open: []Eviction{e}}); err != nil {
					n.t.Fatal(err)
				}
				n.set(func() { n.pod("modest").containers[0].uses = mi }) // so that nobody else goes
				begin := time.Now()
				n.api = func(context.Context, int) error {
					if time.Since(begin) < apiTimeout/2 {
						return errBusy
					}
					return nil
				}
				m.load()
				n.run(m, 15*time.Second)
				n.expect("tell greedy", "kill greedy.c1", "kill greedy.c2", "confirm greedy") // they run here
				n.heard("resumed greedy", "evicted greedy evict")
			})
		})
	}
}

// TestDrain: the next pod waits until the memory is back, and not for what stays charged to the pod.
func TestDrain(t *testing.T) {
	const until = 3 * time.Millisecond // its processes have ended
	for name, test := range map[string]struct {
		rest  uint64 // MiB
		fails time.Duration
		noAPI bool
		stays time.Duration
	}{
		"little is left":                      {rest: 200, fails: time.Hour, stays: until},
		"just below half":                     {rest: 499, fails: time.Hour, stays: until},
		"half is left":                        {rest: 500, fails: time.Hour, stays: until + drainTimeout},
		"the kubelet frees it":                {rest: 500, fails: time.Second, stays: time.Second},
		"the pod stays, and so does the rest": {rest: 500, noAPI: true, stays: until + drainTimeout},
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
				c.Limit, c.MinimumReclaim = 1460*mi, 1500*mi // so that the next one has to go as well
				m := n.started(c)
				begin := time.Now()
				for killed := false; !killed; killed = slices.Contains(n.all(), "kill modest.c1") {
					if time.Since(begin) > 10*time.Second {
						n.t.Fatalf("no other one went; reported %+v", m.Report())
					}
					n.run(m, time.Millisecond)
				}
				if took := time.Since(begin); took < test.stays || took > test.stays+5*looks {
					n.t.Errorf("the next one went after %s, want %s", took, test.stays)
				}
				if n.run(m, 20*time.Second); len(n.evicted) != 2 || n.evicted[0].Problem != "" {
					n.t.Errorf("through are %+v", n.evicted)
				}
			})
		})
	}
}

// TestDrainAtTheLastMoment: what has ended in time has, however long its memory takes.
func TestDrainAtTheLastMoment(t *testing.T) {
	bubble(t, func(n *node) {
		n.noAPI, n.ends = true, endTimeout-time.Second
		n.set(func() { n.pod("greedy").rest, n.pod("greedy").containers[0].uses = 260*mi, 40*mi })
		m := n.started(hardOnly)
		n.run(m, endTimeout+500*time.Millisecond)
		n.heard("count hard restart", "evicting greedy hard restart")
		n.run(m, longest)
		n.heard("evicted greedy restart")
		if e := n.evicted[0]; e.Problem != "" {
			n.t.Errorf("ended as %+v", e)
		}
	})
}

// TestPartitionGoesMeanwhile: an eviction comes to its end also where the whole partition is gone, in this run and the next.
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
				n.heard("count hard evict", "evicting greedy hard evict")
				if again {
					n.stop(m)
					n.boot()
					m = n.started(hardOnly)
				}
				m.close() // as a cgroup's files fail; those of a folder can still be read
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
				want := []string{"evicted greedy evict"}
				if again {
					want = []string{"resumed greedy", "evicted greedy evict"}
				}
				n.heard(want...)
				if h := n.history(); len(h.Open) != 0 || len(h.Last) != 1 || !h.Last[0].Gone || !h.Last[0].Told {
					n.t.Errorf("state is %+v", h)
				}
			})
		})
	}
}

// TestSoftBecomesHard: a grace period ends at the hard threshold, with the cgroup.kill or without, and from then on there is as much time
// as for any other.
func TestSoftBecomesHard(t *testing.T) {
	for name, noKill := range map[string]bool{"killed by the kernel": false, "killed by the runtime": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.noAPI, n.noKill = true, noKill
				m := n.started(softOnly)
				n.run(m, softOnly.SoftGrace+15*time.Second)
				if did := n.all(); len(did) != 2 || !strings.HasPrefix(did[0], "stop greedy.c") {
					n.t.Fatalf("did %q", did)
				}
				n.set(func() { n.ends = 5 * time.Second; n.pod("modest").containers[0].uses = 349 * mi })
				n.run(m, 3*time.Second)
				want := []string{"kill greedy.c1", "kill greedy.c2"}
				if noKill {
					want = []string{"stop greedy.c1 0s", "stop greedy.c2 0s"}
				}
				did := n.all()
				slices.Sort(did)
				if !slices.Equal(did, want) {
					n.t.Fatalf("did %q, want %q", did, want)
				}
				n.run(m, 10*time.Second)
				n.expect()
				n.heard("count soft restart", "evicting greedy soft restart", "evicted greedy restart")
				if e := n.evicted[0]; e.Threshold != Hard || e.Grace != 0 || e.Problem != "" {
					n.t.Errorf("ended as %+v", e)
				}
			})
		})
	}
}

// TestMinimumReclaim: more than one goes where the first frees too little.
func TestMinimumReclaim(t *testing.T) {
	bubble(t, func(n *node) {
		c := hardOnly
		c.MinimumReclaim = 500 * mi
		n.run(n.started(c), time.Minute)
		n.expect("kill greedy.c1", "kill greedy.c2", "tell greedy", "kill modest.c1", "tell modest", "confirm greedy", "confirm modest")
	})
}

func TestNobodyIsSaidOnce(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { n.pods = n.pods[2:]; n.pod("critical").containers[0].uses = 950 * mi })
		m := n.started(hardOnly)
		n.run(m, 5*time.Minute)
		n.expect()
		n.heard("nobody critical(node-critical)", "count nobody")
		if r := m.Report(); !r.Nobody || r.Crossed != Hard {
			n.t.Errorf("reported %+v", r)
		}
		n.start(sized("late", 0, 0, 0), 20)
		n.run(m, 10*time.Second)
		n.expect("kill late.c1", "tell late", "confirm late")
		n.heard("count hard evict", "evicting late hard evict", "nobody critical(node-critical)", "count nobody", "evicted late evict")
		n.set(func() { n.pod("critical").containers[0].uses = 500 * mi })
		n.run(m, time.Minute)
		n.set(func() { n.pod("critical").containers[0].uses = 950 * mi })
		n.run(m, time.Minute)
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
		// In earnest it goes, however lately that was only said.
		m.SetConfig(hardOnly)
		n.run(m, time.Second)
		n.expect("kill greedy.c1", "kill greedy.c2", "tell greedy")
	})
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

func TestLimitIsLowered(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { n.pod("greedy").containers[0].uses = 1 * mi }) // 651 MiB
		failures := 2
		n.lower = func() error {
			if failures--; failures >= 0 {
				return errBusy
			}
			n.files(partition, map[string]string{"memory.max": number(500 * mi)})
			return nil
		}
		m := n.started(hardOnly)
		n.run(m, time.Minute)
		n.expect()
		c := hardOnly
		c.Limit = 500 * mi
		m.SetConfig(c)
		n.run(m, 59*time.Second)
		n.expect("kill greedy.c1", "kill greedy.c2", "tell greedy", "kill modest.c1", "tell modest", "lower", "confirm greedy", "confirm modest")
		const failed = "warn applying the lowered memory limit: the server is busy; it is tried again"
		n.heard("count hard evict", "evicting greedy hard evict", "count hard evict", "evicting modest hard evict", failed,
			"evicted greedy evict", "evicted modest evict")
		n.run(m, time.Minute)
		n.expect("lower")
		n.heard(failed)
		n.run(m, time.Minute)
		n.expect("lower")
		n.run(m, 10*time.Minute)
		n.expect()
		n.heard()
		if r := m.Report(); r.Limit != 500*mi || r.Available != 350*mi {
			n.t.Errorf("reported %+v", r)
		}
	})
}

// TestDryRunLowersNoLimit: not until it is in earnest.
func TestDryRunLowersNoLimit(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { n.pods = n.pods[1:] }) // 450 MiB
		n.lower = func() error { return nil }
		c := hardOnly
		c.Limit, c.DryRun = 600*mi, true
		m := n.started(c)
		n.run(m, time.Minute)
		n.expect()
		c.DryRun = false
		m.SetConfig(c)
		n.run(m, 30*time.Second)
		n.expect("lower")
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
		// A file that is removed can still be read, unlike a cgroup's. What a look finds when a cgroup is gone is this:
		m.close()
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

func TestKernelKills(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { n.pod("greedy").containers[0].uses = 1 })
		m := n.started(hardOnly)
		// happen is what a look finds when the kernel has reported it, or not.
		happen := func(killed, atLimit int, reported bool) {
			n.files(partition, map[string]string{"memory.events": events(atLimit+5, killed), "memory.events.local": events(atLimit, 0)})
			m.reported = reported
			n.run(m, longest)
		}
		happen(7, 3, false) // before we looked first
		n.heard()
		happen(8, 3, true)
		n.heard("count killed at pod 1", "killed at pod 1")
		happen(10, 4, true)
		n.heard("count killed at partition 2", "killed at partition 2")
		happen(10, 4, true)
		happen(11, 4, false)
		n.heard()
		happen(12, 4, true)
		n.heard("count killed at pod 2", "killed at pod 2")
		// The limit counts before the process does, and a look may come in between.
		n.files(partition, map[string]string{"memory.events": events(10, 12), "memory.events.local": events(5, 0)})
		m.reported = true
		n.run(m, 10*time.Millisecond)
		n.heard()
		happen(13, 5, true)
		n.heard("count killed at partition 1", "killed at partition 1")
		// At the limit nobody had to go, and long after it a pod has a limit of its own.
		happen(13, 6, true)
		n.run(m, time.Minute)
		happen(14, 6, true)
		n.heard("count killed at pod 1", "killed at pod 1")
		// A partition that was made again counts from zero.
		m.close()
		happen(2, 1, false)
		happen(3, 1, true)
		n.heard("count killed at pod 1", "killed at pod 1")
		n.expect()
	})
}

func TestStateFileIsBroken(t *testing.T) {
	bubble(t, func(n *node) {
		path := filepath.Join(n.root, "evictions.json")
		if err := os.WriteFile(path, []byte(`{"open":[{"uid":"mod`), 0o600); err != nil {
			n.t.Fatal(err)
		}
		m := n.started(hardOnly)
		n.heard("count failed state", "failed state : state of evictions: "+path+": unexpected end of JSON input; remove it")
		n.run(m, 4*time.Second)
		n.expect("kill greedy.c1", "kill greedy.c2", "tell greedy", "confirm greedy")
		if h := n.history(); len(h.Last) != 1 {
			n.t.Errorf("state is %+v", h)
		}
	})
}

func TestStateFileCannotBeWritten(t *testing.T) {
	bubble(t, func(n *node) {
		m := n.manager(hardOnly)
		m.Store = Store(filepath.Join(n.root, "nowhere", "evictions.json"))
		m.load()
		n.run(m, 4*time.Second)
		n.expect("kill greedy.c1", "kill greedy.c2", "tell greedy", "confirm greedy")
		said := n.words()
		if !slices.Contains(said, "count failed state") || !slices.Contains(said, "evicted greedy evict") {
			n.t.Errorf("told %q", said)
		}
	})
}

// TestStateFileIsReplaced: what a program left that was killed while it wrote is in nobody's way.
func TestStateFileIsReplaced(t *testing.T) {
	s := Store(filepath.Join(t.TempDir(), "evictions.json"))
	if h, err := s.Read(); err != nil || len(h.Open)+len(h.Cooldown)+len(h.Last) != 0 {
		t.Errorf("of nothing it reads %+v, %v", h, err)
	}
	want := History{
		Open:     []Eviction{{UID: "a", Cgroup: "c", Time: noon, Way: Evict, Grace: time.Second, Containers: []Stopped{{ID: "x", Cgroup: "y"}}, Gone: true}},
		Cooldown: map[string]time.Time{"o": noon}, Last: []Eviction{{UID: "b", Problem: "none"}},
	}
	half := filepath.Join(filepath.Dir(string(s)), ".evictions.json.new")
	if err := os.WriteFile(half, []byte(strings.Repeat("{", 1<<16)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.write(want); err != nil {
		t.Fatal(err)
	}
	got, err := s.Read()
	if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("read %+v, %v; want %+v", got, err, want)
	}
	if data, err := os.ReadFile(string(s)); err != nil || !strings.Contains(string(data), `"cgroup":"c"`) {
		t.Errorf("wrote %s, %v", data, err)
	}
	info, err := os.Stat(string(s))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: want it private", info.Mode(), err)
	}
	if _, err := os.Stat(half); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
	if err := os.Chmod(filepath.Dir(string(s)), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Store(filepath.Dir(string(s))).Read(); err == nil || !strings.Contains(err.Error(), "state of evictions") {
		t.Errorf("a folder reads as %v", err)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	bubble(t, func(n *node) {
		m := n.started(hardOnly)
		for i := range kept + 5 {
			n.run(m, 4*time.Second)
			n.start(sized(fmt.Sprint("p", i), 0, 0, 0), 500)
		}
		n.run(m, 4*time.Second)
		h := n.history()
		if len(h.Last) != kept || h.Last[kept-1].UID != fmt.Sprint("p", kept+4) || h.Last[0].UID != "p5" {
			n.t.Errorf("kept are %d, %s to %s", len(h.Last), h.Last[0].UID, h.Last[len(h.Last)-1].UID)
		}
		n.run(m, hardOnly.Cooldown)
		n.start(sized("last", 0, 0, 0), 500)
		n.run(m, 4*time.Second)
		if h := n.history(); len(h.Cooldown) != 1 {
			n.t.Errorf("cooldowns that are over are kept: %v", h.Cooldown)
		}
	})
}

// TestLateStart: a program that comes back after long has what it stops end, and does not go on with the next pod at once.
func TestLateStart(t *testing.T) {
	bubble(t, func(n *node) {
		n.crashAt = 3 // when it is written down
		m := n.started(hardOnly)
		n.untilCrash(m, time.Second)
		if n.crashed != "before kill greedy.c1" {
			n.t.Fatalf("ended at %q", n.crashed)
		}
		<-time.After(apiLatest + 1)
		n.boot()
		n.ends, n.restarts, n.restarted = 5*time.Second, time.Second, mi
		m = n.started(hardOnly)
		n.words()
		n.run(m, time.Minute)
		n.expect("kill greedy.c1", "kill greedy.c2")
		n.heard("resumed greedy", "count failed api", "failed api greedy: "+errLate.Error(), "evicted greedy restart")
		if _, ok := n.history().Cooldown["kube-system/greedy"]; !ok {
			n.t.Error("the API server may have been told, and the cooldown is over")
		}
		if n.apiCalls != 0 {
			n.t.Errorf("the API server was asked %d times", n.apiCalls)
		}
	})
}

// untilCrash runs a program until it ends by a panic.
func (n *node) untilCrash(m *Manager, d time.Duration) {
	defer n.stop(m)
	defer func() {
		if r := recover(); r != nil && r != (crash{}) {
			panic(r)
		}
	}()
	n.run(m, d)
}

// slowAPI answers when the containers have ended.
func slowAPI(ctx context.Context, _ int) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(200 * time.Millisecond):
		return nil
	}
}

// TestCrashes ends the program at each thing that it does, starts it again after a while, and ends it there once more.
func TestCrashes(t *testing.T) {
	soft := softOnly
	soft.SoftGrace, soft.MaxPodGrace = time.Second, time.Second
	const enough = 8 * time.Second                             // for all of it
	slowKubelet := func(n *node) { n.fails = 3 * time.Second } // longer than the grace period
	refuses := func(n *node) { n.api = func(context.Context, int) error { return ErrFinal } }
	// What there is to end at.
	begun := []string{"pods", "scopes", "counted", "said", "before API", "said done"}
	told := append(slices.Clone(begun), "after API", "before confirming", "after confirming")
	killed := []string{"before kill greedy.c1", "after kill greedy.c1", "before kill greedy.c2", "after kill greedy.c2"}
	stopped := []string{"stop"}
	rest := []string{"before killing the rest", "after killing the rest"}
	for _, test := range []struct {
		name   string
		config Config
		down   time.Duration
		twice  bool
		change func(*node)
		points [][]string
	}{
		{"at once", hardOnly, 0, true, nil, [][]string{told, killed}},
		{"at once, without cgroup.kill", hardOnly, 0, false, func(n *node) { n.noKill = true }, [][]string{told, killed, stopped}},
		{"at once, with a slow API server", hardOnly, 0, true, func(n *node) { n.api = slowAPI }, [][]string{told, killed}},
		{"at once, refused", hardOnly, 0, false, refuses, [][]string{begun, killed}},
		{"at once, overwritten", hardOnly, 0, false, func(n *node) { n.overwrites = 1 }, [][]string{told, killed, rest}},
		{"after a second", hardOnly, time.Second, true, nil, [][]string{told, killed, rest}},
		{"after a second, overwritten", hardOnly, time.Second, false, func(n *node) { n.overwrites = 1 }, [][]string{told, killed, rest}},
		{"after a second, refused", hardOnly, time.Second, false, refuses, [][]string{begun, killed}},
		{"after a second, with a slow API server", hardOnly, time.Second, false, func(n *node) { n.api = slowAPI }, [][]string{told, killed}},
		{"too late for the API server", hardOnly, apiLatest + 1, true, nil, [][]string{told, killed}},
		{"too late for a slow API server", hardOnly, apiLatest + 1, false, func(n *node) { n.api = slowAPI }, [][]string{told, killed}},
		{"soft", soft, 0, true, nil, [][]string{told, stopped}},
		{"soft, after a second", soft, time.Second, false, nil, [][]string{told, stopped}},
		{"soft, too late for the API server", soft, apiLatest + 1, false, nil, [][]string{told, stopped}},
		{"soft, with a slow kubelet", soft, 0, false, slowKubelet, [][]string{told, stopped}},
		{"soft, with a slow kubelet, after a second", soft, time.Second, false, slowKubelet, [][]string{told, stopped}},
		{"soft, with a slow kubelet, too late", soft, apiLatest + 1, false, slowKubelet, [][]string{told, stopped}},
		{"soft, refused", soft, 0, false, refuses, [][]string{begun, stopped}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			disk, seen := newDisk(t), map[string]bool{}
			refused := slices.Index(test.points[0], "after API") < 0
			scenario := func(first, second int) (crashed int) {
				for _, left := range []string{partition + "/kubepods-system-podgreedy.slice", "evictions.json"} {
					if err := disk.remove(left); err != nil {
						t.Fatal(err)
					}
				}
				disk.bubble(t, func(n *node) {
					n.restarts, n.restarted = 300*time.Millisecond, 5*mi
					if test.change != nil {
						test.change(n)
					}
					var at []string
					for _, crashAt := range []int{first, second} {
						if crashAt == 0 {
							continue
						}
						n.calls, n.crashAt = 0, crashAt
						m := n.started(test.config)
						n.untilCrash(m, enough)
						if n.crashed == "" {
							break
						}
						crashed++
						at = append(at, n.crashed)
						seen[n.crashed] = true
						<-time.After(test.down)
						n.boot()
						n.do(startedAgain)
					}
					if n.ctx.Err() != nil {
						n.boot()
					}
					n.calls, n.crashAt = 0, 0
					m := n.started(test.config)
					n.run(m, enough)
					n.stop(m)
					n.crashCheck(test.down < apiLatest && !refused, refused, fmt.Sprintf("ended at %q", at))
				})
				return crashed
			}
			missing := func(point string) bool { return !seen[point] }
			wanted := slices.Concat(test.points...)
			// What goes on at the same time is counted in one order or the other, and so one time may leave out what the next does not.
			for try := 0; try == 0 || try < 5 && slices.ContainsFunc(wanted, missing); try++ {
				for first := 1; scenario(first, 0) > 0; first++ {
					if !test.twice {
						continue
					}
					for second := 1; scenario(first, second) > 1; second++ {
					}
				}
			}
			for _, point := range wanted {
				if missing(point) {
					t.Errorf("has not ended at %q, only at %q", point, slices.Sorted(maps.Keys(seen)))
				}
			}
			if test.twice && !seen["said resumed"] {
				t.Error("has not ended where it goes on")
			}
		})
	}
}

// startedAgain is, in what a node was asked to do, that the program was started again.
const startedAgain = "start again"

// crashCheck checks what is left when it is over: one pod has gone, with the containers that it had, and no other was touched. What the kubelet
// has started in their place has ended only where the same run had told the API server before.
// told is that the API server had to be told, and refused that it would not hear of it.
func (n *node) crashCheck(told, refused bool, what string) {
	n.t.Helper()
	evicts := false
	for _, did := range n.did {
		switch {
		case did == startedAgain:
			evicts = false
		case did == "tell greedy":
			evicts = true
		case slices.Contains([]string{"kill greedy.c1", "kill greedy.c2", "confirm greedy"}, did),
			strings.HasPrefix(did, "stop greedy.c1 "), strings.HasPrefix(did, "stop greedy.c2 "):
		case evicts && (strings.HasPrefix(did, "kill greedy.c1.") || strings.HasPrefix(did, "kill greedy.c2.")):
		default:
			n.t.Fatalf("%s: did %q, want greedy's first containers to end and no other but of a pod that is evicted", what, n.did)
		}
	}
	var rest []string
	for _, id := range n.running() {
		if id == "greedy.c1" || id == "greedy.c2" {
			n.t.Fatalf("%s: %s still runs; did %q", what, id, n.did)
		}
		if !strings.HasPrefix(id, "greedy.") {
			rest = append(rest, id)
		}
	}
	if !slices.Equal(rest, []string{"critical.c1", "modest.c1"}) {
		n.t.Fatalf("%s: of the others run %q", what, rest)
	}
	h := n.history()
	if len(h.Open) != 0 || len(h.Last) != 1 || h.Last[0].UID != "greedy" || !h.Last[0].Gone || !h.Last[0].Told {
		n.t.Fatalf("%s: written down is %+v", what, h)
	}
	e := h.Last[0]
	if len(n.told) > 1 || n.told["greedy"] > 1 || told && n.told["greedy"] != 1 {
		n.t.Fatalf("%s: the API server was told %v; written down is %+v; said %q", what, n.told, e, n.said)
	}
	if refused && (e.Way != Restart || len(h.Cooldown) != 0) || !refused && len(h.Cooldown) != 1 {
		n.t.Fatalf("%s: written down is %+v with the cooldown %v", what, e, h.Cooldown)
	}
	// Whether the pod is evicted is the same in the file and at the API server, but where it was told and nobody was left to hear the answer.
	if e.Way == Evict && n.told["greedy"] != 1 {
		n.t.Fatalf("%s: written down as evicted, and nobody was told", what)
	}
	if e.Way == Evict && (!n.confirmed["greedy"] || len(n.running()) != 2) {
		n.t.Fatalf("%s: written down as evicted, confirmed is %v, and %q run", what, n.confirmed, n.running())
	}
	if told && (e.Way != Evict || e.Problem != "") {
		n.t.Fatalf("%s: written down is %+v", what, e)
	}
}

// TestLookBelowAnotherLimit: where the limit in force stays below the configured one, the thresholds are parts of that one, for the time of
// the next look and for the report too.
func TestLookBelowAnotherLimit(t *testing.T) {
	t.Parallel()
	m := &Manager{}
	s := Snapshot{
		Now: time.Unix(1, 0), Config: Config{Limit: 2000 * mi, Hard: 200 * mi}, Memory: Memory{Current: 850 * mi, Max: 1000 * mi},
		State: State{Cooldown: map[string]time.Time{}},
	}
	d := Decide(s)
	m.note(s, d)
	if report := m.Report(); d.Crossed != "" || report.Hard != 100*mi || report.Available != 150*mi {
		t.Errorf("crossed %q, %+v", d.Crossed, report)
	}
	if next := m.next(s, d); next != Interval(50*mi, 0) {
		t.Errorf("looks again in %s, want %s", next, Interval(50*mi, 0))
	}
}
