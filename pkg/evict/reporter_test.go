package evict

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"
)

// confirmAttempts is the number of times that a server which answers at once is asked.
const confirmAttempts = int(confirmTime / confirmInterval)

func TestReporterServerAnswers(t *testing.T) {
	type answers = func(ctx context.Context, n int) error
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
	noAnswer := func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }
	no := func(context.Context, int) error { return fmt.Errorf("forbidden: %w", ErrFinal) }
	for name, test := range map[string]struct {
		api, confirm   answers
		off            bool
		method         Method
		problem        string
		calls          int // 15 means at most 15
		confirms       int
		drops          int // times that the kubelet has dropped the reason
		cooldown       bool
		rest           bool // was started before the server answered
		earliest, late time.Duration
	}{
		"answers":              {method: Evict, calls: 1, confirms: 1, cooldown: true, earliest: confirmInterval, late: confirmInterval},
		"is busy for a moment": {api: busy(4), method: Evict, calls: 4, confirms: 1, cooldown: true, earliest: confirmInterval, late: confirmInterval + time.Second},
		"takes long":           {api: takes(2 * apiTimeout), method: Evict, calls: 1, confirms: 1, cooldown: true, rest: true, earliest: 2*apiTimeout + time.Second, late: 2*apiTimeout + confirmInterval},
		"refuses":              {api: no, method: Restart, problem: "forbidden: not tried again", calls: 1},
		"refuses the third call": {api: func(_ context.Context, n int) error {
			if n < 3 {
				return errBusy
			}
			return ErrFinal
		}, method: Restart, problem: "not tried again", calls: 3, late: time.Second},
		// It stays unknown whether it was evicted.
		"is busy": {api: busy(1000), method: Restart, problem: errLate.Error() + ": the server is busy", calls: 15, cooldown: true,
			earliest: apiTimeout, late: apiTimeout},
		"hangs": {api: hangs, method: Restart, problem: errLate.Error() + ": context deadline exceeded", calls: 2, cooldown: true,
			earliest: apiTimeout, late: apiTimeout + time.Second},
		"is not configured": {off: true, method: Restart},
		// It was evicted all the same.
		"is busy for a while at the confirmation": {confirm: busy(20), method: Evict, calls: 1, confirms: 20, cooldown: true,
			earliest: 20 * confirmInterval, late: 20 * confirmInterval},
		"is busy at the confirmation": {confirm: busy(1000), method: Evict, problem: errUnconfirmed.Error() + ": the server is busy", calls: 1, confirms: confirmAttempts,
			cooldown: true, earliest: confirmTime, late: confirmTime},
		"hangs at the confirmation": {confirm: noAnswer, method: Evict, problem: errUnconfirmed.Error() + ": context deadline exceeded", calls: 1, confirms: 10,
			cooldown: true, earliest: confirmTime, late: confirmTime + apiTimeout},
		"has the pod without its reason": {drops: 1, method: Evict, calls: 1, confirms: 2, cooldown: true,
			earliest: 2 * confirmInterval, late: 2 * confirmInterval},
		"has the pod without its reason each time": {drops: 1000, method: Evict, calls: 1, confirms: reasonAttempts, cooldown: true,
			earliest: reasonAttempts * confirmInterval, late: reasonAttempts * confirmInterval},
		"refuses the confirmation": {confirm: no, method: Evict, problem: errUnconfirmed.Error() + ": forbidden: not tried again", calls: 1, confirms: 1,
			cooldown: true, earliest: confirmInterval, late: confirmInterval},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.api, n.confirm, n.noAPI, n.drops, n.restarts, n.restarted = test.api, test.confirm, test.off, test.drops, time.Second, 50*mi
				m := n.started(hardOnly)
				decided := time.Now()
				for time.Since(decided) < 2*confirmTime && len(n.evicted) == 0 {
					n.run(m, maxPollInterval)
				}
				// A result is found by the next poll here (run).
				if took := time.Since(decided); took < test.earliest || took > test.late+2*maxPollInterval {
					n.t.Errorf("took %s, want %s to %s", took, test.earliest, test.late)
				}
				n.run(m, 10*time.Second)
				if len(n.evicted) != 1 {
					n.t.Fatalf("closed are %+v; did %q", n.evicted, n.all())
				}
				e := n.evicted[0]
				if e.Method != test.method || !e.Reported || !e.Gone || e.Problem != test.problem {
					n.t.Errorf("ended as %+v, want %s, %q", e, test.method, test.problem)
				}
				for _, calls := range [][2]int{{n.apiCalls, test.calls}, {n.confirms, test.confirms}} {
					if calls[0] != calls[1] && (calls[1] < 15 || calls[0] > calls[1] || calls[0] < 5) {
						n.t.Errorf("%d calls, want %d", calls[0], calls[1])
					}
				}
				want := []string{"kill greedy.c1", "kill greedy.c2"}
				if test.method == Evict {
					want = append(want, "evict greedy")
				}
				if test.rest {
					want = append(want, "kill greedy.c1.2", "kill greedy.c2.2")
				}
				if test.method == Evict && test.problem == "" {
					want = append(want, slices.Repeat([]string{"confirm greedy"}, 1+min(test.drops, reasonAttempts-1))...)
				}
				n.expect(want...)
				h := n.history()
				if _, cooldown := h.Cooldown["kube-system/greedy"]; cooldown != test.cooldown {
					n.t.Errorf("cooldown %v, want one: %t", h.Cooldown, test.cooldown)
				}
				failed := slices.Contains(n.takeEvents(), "count failed api")
				if failed != (test.problem != "") {
					n.t.Errorf("failure was counted: %t", failed)
				}
			})
		})
	}
}

// restartedMeanwhile sets up a node whose program was killed between the kill and the report to the
// API server, and whose kubelet has restarted the containers since.
func (n *node) restartedMeanwhile() {
	n.t.Helper()
	n.restarts, n.restarted = 300*time.Millisecond, 5*mi
	n.crashAt = 6
	n.untilCrash(n.started(hardOnly), time.Second)
	if !strings.HasPrefix(n.crashed, "after kill greedy.c") {
		n.t.Fatalf("ended at %q", n.crashed)
	}
	<-time.After(time.Second)
	n.expect("kill greedy.c1", "kill greedy.c2")
	if got := n.running(); !slices.Equal(got, []string{"critical.c1", "greedy.c1.2", "greedy.c2.2", "modest.c1"}) {
		n.t.Fatalf("running are %q: want them started again", got)
	}
	n.takeEvents()
	n.boot()
}

// TestReporterRestartedBeforeReport: the kubelet overwrites the report of the next run with the
// present status of the pod, and does not sync the pod until one of its containers ends (seen on a
// node).
func TestReporterRestartedBeforeReport(t *testing.T) {
	const evict, confirm = "evict greedy", "confirm greedy"
	kill := func(start int) []string {
		return []string{fmt.Sprint("kill greedy.c1.", start), fmt.Sprint("kill greedy.c2.", start)}
	}
	for name, test := range map[string]struct {
		overwrites int
		want       []string
	}{
		"ended before the kubelet writes":       {0, slices.Concat([]string{evict}, kill(2), []string{confirm})},
		"ended after the kubelet has written":   {1, slices.Concat([]string{evict}, kill(2), []string{confirm}, kill(3), []string{confirm})},
		"ended after the kubelet wrote 4 times": {4, slices.Concat([]string{evict}, kill(2), []string{confirm}, kill(3), []string{confirm}, kill(4), []string{confirm}, kill(5), []string{confirm}, kill(6), []string{confirm})},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.restartedMeanwhile()
				n.overwrites = test.overwrites
				m := n.started(hardOnly)
				n.run(m, 20*time.Second)
				n.expect(test.want...)
				n.expectEvents("resumed greedy", "count hard evict", "evicted greedy evict")
				if n.overwritten != test.overwrites {
					n.t.Errorf("overwritten %d times, want %d", n.overwritten, test.overwrites)
				}
				if got := n.running(); !slices.Equal(got, []string{"critical.c1", "modest.c1"}) || n.failedTimes() != 1 {
					n.t.Errorf("running are %q, made Failed %d times: want it Failed, and no container of it running", got, n.failedTimes())
				}
				if e := n.evicted[0]; e.Method != Evict || e.Problem != "" || !e.Gone || !e.Reported {
					n.t.Errorf("ended as %+v", e)
				}
			})
		})
	}
}

// TestReporterKubeletIgnoresPod: a pod that the kubelet does not end is a failure after a while,
// and the pod counts as evicted, because the API server has accepted it.
func TestReporterKubeletIgnoresPod(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*node, *Manager)
		runs   []string // containers of it that run
		failed int
		kills  int // after the report to the API server
	}{
		// This was seen on a node.
		"runs and is not killed":          {func(_ *node, m *Manager) { m.Rest = func(string) []Container { return nil } }, []string{"greedy.c1.2", "greedy.c2.2"}, 0, 0},
		"overwrites the status each time": {func(n *node, _ *Manager) { n.overwrites = 1000 }, []string{fmt.Sprint("greedy.c1.", confirmAttempts+2), fmt.Sprint("greedy.c2.", confirmAttempts+2)}, 0, 2 * confirmAttempts},
		"cannot be killed":                {func(n *node, _ *Manager) { n.set(func() { n.pod("greedy").containers[1].immortal = true }) }, []string{"greedy.c2.2"}, 1, confirmAttempts + 1},
		"kill is forbidden":               {func(n *node, _ *Manager) { n.killErr = fs.ErrPermission }, []string{"greedy.c1.2", "greedy.c2.2"}, 0, 0},
		"there is no cgroup.kill":         {func(n *node, _ *Manager) { n.noKill = true }, []string{"greedy.c1.2", "greedy.c2.2"}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.restartedMeanwhile()
				m := n.started(hardOnly)
				test.change(n, m)
				n.run(m, confirmTime)
				if len(n.evicted) != 0 {
					n.t.Errorf("given up early: %+v", n.evicted)
				}
				n.run(m, 10*time.Second)
				if len(n.evicted) != 1 || n.confirms != confirmAttempts {
					n.t.Fatalf("closed are %+v after %d tries", n.evicted, n.confirms)
				}
				if e := n.evicted[0]; e.Method != Evict || e.Problem != errUnconfirmed.Error()+": "+errRunsOn.Error() || n.history().Cooldown["kube-system/greedy"].IsZero() {
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
				events := n.takeEvents()
				if !slices.Contains(events, "count failed api") || slices.Contains(events, "count failed stop") != (n.killErr != nil) {
					n.t.Errorf("events %q", events)
				}
				got := slices.DeleteFunc(n.running(), func(id string) bool { return !strings.HasPrefix(id, "greedy.") })
				if !slices.Equal(got, test.runs) || n.failedTimes() != test.failed {
					n.t.Errorf("running are %q, want %q; made Failed %d times, want %d", got, test.runs, n.failedTimes(), test.failed)
				}
			})
		})
	}
}

// startOutside starts a container of the first pod in eviction order outside of the partition.
func (n *node) startOutside() *nodeContainer {
	outside := &nodeContainer{
		id: "greedy.outside", name: "outside", cgroup: "kubepods.slice/elsewhere/cri-containerd-greedy.outside.scope", running: true, starts: 1,
	}
	n.files(outside.cgroup, map[string]string{"cgroup.events": "populated 1\nfrozen 0\n"})
	n.set(func() { n.pod("greedy").containers = append(n.pod("greedy").containers, outside) })
	return outside
}

// TestReporterContainerOutsidePartition: a container of the pod outside of the partition has the
// grace period of the pod, and the pod is reported when that container has ended as well. It is
// stopped only if the pod is evicted.
func TestReporterContainerOutsidePartition(t *testing.T) {
	kills := []string{"kill greedy.c1", "kill greedy.c2"}
	stops := []string{"stop greedy.c1 20s", "stop greedy.c2 20s"}
	noRuntime := func(n *node) { n.stopErr = errBusy }
	inDiskSleep := func(n *node) { n.pod("greedy").containers[2].immortal = true }
	for name, test := range map[string]struct {
		config Settings
		change func(*node)
		// before lists the calls until just before that time, and then those after it.
		before []string
		after  time.Duration
		then   []string
	}{
		"evicted":              {hardOnly, nil, append(kills, "stop greedy.outside 30s"), 30 * time.Second, []string{"confirm greedy", "evict greedy"}},
		"stopped":              {hardOnly, func(n *node) { n.noAPI = true }, kills, 80 * time.Second, nil},
		"with grace":           {softOnly, nil, append(stops, "stop greedy.outside 20s"), 50 * time.Second, []string{"confirm greedy", "evict greedy"}},
		"for at least a while": {hardOnly, func(n *node) { n.pod("greedy").GracePeriod = 0 }, append(kills, "stop greedy.outside 2s"), leastGrace, []string{"confirm greedy", "evict greedy"}},
		"the runtime does not answer": {
			hardOnly, noRuntime, append(kills, "stop greedy.outside 30s"), 40 * time.Second,
			[]string{"confirm greedy", "evict greedy", "kill greedy.outside"},
		},
		"it does not end": {
			hardOnly, inDiskSleep, append(kills, "kill greedy.outside", "stop greedy.outside 30s"), 50 * time.Second,
			[]string{"confirm greedy", "evict greedy", "kill greedy.outside"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.fails = time.Hour
				outside := n.startOutside()
				if test.change != nil {
					n.set(func() { test.change(n) })
				}
				m := n.started(test.config)
				n.run(m, test.after-10*time.Millisecond)
				n.expectSorted(test.before...)
				n.run(m, 4*time.Second)
				n.expectSorted(test.then...)
				if open := slices.Concat(n.history().Open, n.history().Last); len(open) != 1 ||
					slices.ContainsFunc(open[0].Containers, func(c Container) bool { return c.ID == outside.id }) {
					n.t.Errorf("evictions are %+v", open)
				}
				if runs := slices.Contains(n.running(), outside.id); runs != (name == "stopped" || name == "it does not end") {
					n.t.Errorf("it runs: %t", runs)
				}
			})
		})
	}
}

// TestReporterRestartedWhileOutsideEnds: the kubelet does not know of the eviction while a
// container outside of the partition has its grace period, and restarts the others. They are
// killed.
func TestReporterRestartedWhileOutsideEnds(t *testing.T) {
	bubble(t, func(n *node) {
		n.restarts, n.restarted = 5*time.Second, mi
		n.startOutside()
		m := n.started(hardOnly)
		n.run(m, 6*time.Second)
		n.expectSorted("kill greedy.c1", "kill greedy.c1.2", "kill greedy.c2", "kill greedy.c2.2", "stop greedy.outside 30s")
		n.run(m, time.Minute)
		if got := n.running(); !slices.Equal(got, []string{"critical.c1", "modest.c1"}) || n.failedTimes() != 1 {
			n.t.Errorf("running are %q, made Failed %d times", got, n.failedTimes())
		}
		if e := n.evicted[0]; e.Problem != "" || e.Method != Evict {
			n.t.Errorf("ended as %+v", e)
		}
	})
}

// TestReporterOutsideAfterRestart: a program that ends while a container outside of the partition
// has its grace period continues with it.
func TestReporterOutsideAfterRestart(t *testing.T) {
	bubble(t, func(n *node) {
		n.fails = time.Hour
		n.startOutside()
		m := n.started(hardOnly)
		n.run(m, 5*time.Second)
		n.stop(m)
		n.expectSorted("kill greedy.c1", "kill greedy.c2", "stop greedy.outside 30s")
		n.boot()
		m = n.started(hardOnly)
		n.run(m, 24*time.Second)
		n.expect("stop greedy.outside 30s")
		n.run(m, 10*time.Second)
		n.expect("evict greedy", "confirm greedy")
	})
}

// TestRetryAccepted: a report that the API server accepts while the program stops was accepted: the
// next run does not send it again. One that begins when the program has been stopped is sent once.
func TestRetryAccepted(t *testing.T) {
	for _, before := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		if before {
			cancel()
		}
		calls := 0
		err := (&reporter{}).retry(ctx, Eviction{}, func(context.Context, Eviction) error {
			calls++
			cancel()
			return nil
		})
		if err != nil || calls != 1 {
			t.Errorf("stopped before: %t: %d calls, %v; want one, and no error", before, calls, err)
		}
	}
}
