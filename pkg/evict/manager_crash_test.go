package evict

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

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

// slowAPI answers after the containers have ended.
func slowAPI(ctx context.Context, _ int) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(200 * time.Millisecond):
		return nil
	}
}

// hangs does not answer. A request ends by itself.
func hangs(ctx context.Context, _ int) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(apiTimeout / 2):
		return context.DeadlineExceeded
	}
}

// TestManagerCrashes ends the program at each of its calls, starts it again after a while, and ends
// it there once more.
func TestManagerCrashes(t *testing.T) {
	soft := softOnly
	soft.SoftGrace, soft.MaxPodGrace = time.Second, time.Second
	const enough = 8 * time.Second                             // for all steps
	slowKubelet := func(n *node) { n.fails = 3 * time.Second } // longer than the grace period
	refuses := func(n *node) { n.api = func(context.Context, int) error { return ErrFinal } }
	// The calls to end at.
	begun := []string{"pods", "counted", "logged", "before API", "logged done"}
	reporting := append(slices.Clone(begun), "after API", "before confirming", "after confirming")
	killed := []string{"before kill greedy.c1", "after kill greedy.c1", "before kill greedy.c2", "after kill greedy.c2"}
	stopped := []string{"stop"}
	rest := []string{"before killing the rest", "after killing the rest"}
	for _, test := range []struct {
		name   string
		config Settings
		down   time.Duration
		twice  bool
		change func(*node)
		points [][]string
	}{
		{"at once", hardOnly, 0, true, nil, [][]string{reporting, killed}},
		{"at once, without cgroup.kill", hardOnly, 0, false, func(n *node) { n.noKill = true }, [][]string{reporting, killed, stopped}},
		{"at once, with a slow API server", hardOnly, 0, true, func(n *node) { n.api = slowAPI }, [][]string{reporting, killed}},
		{"at once, refused", hardOnly, 0, false, refuses, [][]string{begun, killed}},
		{"at once, overwritten", hardOnly, 0, false, func(n *node) { n.overwrites = 1 }, [][]string{reporting, killed, rest}},
		{"after a second", hardOnly, time.Second, true, nil, [][]string{reporting, killed, rest}},
		{"after a second, overwritten", hardOnly, time.Second, false, func(n *node) { n.overwrites = 1 }, [][]string{reporting, killed, rest}},
		{"after a second, refused", hardOnly, time.Second, false, refuses, [][]string{begun, killed}},
		{"after a second, with a slow API server", hardOnly, time.Second, false, func(n *node) { n.api = slowAPI }, [][]string{reporting, killed}},
		{"too late for the API server", hardOnly, 2 * reportDeadline, true, nil, [][]string{reporting, killed}},
		{"too late for a slow API server", hardOnly, 2 * reportDeadline, false, func(n *node) { n.api = slowAPI }, [][]string{reporting, killed}},
		{"soft", soft, 0, true, nil, [][]string{reporting, stopped}},
		{"soft, after a second", soft, time.Second, false, nil, [][]string{reporting, stopped}},
		{"soft, too late for the API server", soft, 2 * reportDeadline, false, nil, [][]string{reporting, stopped}},
		{"soft, with a slow kubelet", soft, 0, false, slowKubelet, [][]string{reporting, stopped}},
		{"soft, with a slow kubelet, after a second", soft, time.Second, false, slowKubelet, [][]string{reporting, stopped}},
		{"soft, with a slow kubelet, too late", soft, 2 * reportDeadline, false, slowKubelet, [][]string{reporting, stopped}},
		{"soft, refused", soft, 0, false, refuses, [][]string{begun, stopped}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			disk, seen := newDisk(t), map[string]bool{}
			refused := slices.Index(test.points[0], "after API") < 0
			scenario := func(in string, first, second int) (crashed int) {
				for _, left := range []string{systemCgroup + "/kubepods-system-podgreedy.slice", "evictions.json"} {
					if err := disk.remove(left); err != nil {
						t.Fatal(err)
					}
				}
				disk.bubble(t, func(n *node) {
					n.restarts, n.restarted = 300*time.Millisecond, 5*mi
					if test.change != nil {
						test.change(n)
					}
					n.crashIn = in
					var at []string
					for _, crashAt := range []int{first, second} {
						if crashAt == 0 && n.crashIn == "" {
							continue
						}
						n.calls, n.crashAt = 0, crashAt
						m := n.started(test.config)
						n.untilCrash(m, enough)
						n.crashIn = ""
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
					n.crashCheck(test.down < reportDeadline && !refused, refused, fmt.Sprintf("ended at %q", at))
				})
				return crashed
			}
			for first := 1; scenario("", first, 0) > 0; first++ {
				for second := 1; test.twice && scenario("", first, second) > 1; second++ {
				}
			}
			// Concurrent calls are counted in one order or the other, so that the count may leave one out.
			for _, point := range slices.Concat(test.points...) {
				if !seen[point] && scenario(point, 0, 0) == 0 {
					t.Errorf("has not ended at %q, only at %q", point, slices.Sorted(maps.Keys(seen)))
				}
			}
			if test.twice && !seen["logged resumed"] {
				t.Error("has not ended while it resumed")
			}
		})
	}
}

// crashCheck checks the result: one pod was evicted, with the containers that it had, and no other
// was touched. Containers that the kubelet started in their place were killed only if the same run
// had reported to the API server before, or was about to when the last of them had ended. A run
// that comes late gives up an eviction that is no longer needed.
//
// reported means that the API server had to be called, refused that it had to refuse.
func (n *node) crashCheck(reported, refused bool, what string) {
	n.t.Helper()
	evicts := false
	for _, did := range n.did {
		switch {
		case did == startedAgain:
			evicts = false
		case did == "evict greedy":
			evicts = true
		case strings.HasPrefix(did, "stop greedy.c1 "), strings.HasPrefix(did, "stop greedy.c2 "):
			evicts = true
		case slices.Contains([]string{"kill greedy.c1", "kill greedy.c2", "confirm greedy"}, did):
		case evicts && (strings.HasPrefix(did, "kill greedy.c1.") || strings.HasPrefix(did, "kill greedy.c2.")):
		default:
			n.t.Fatalf("%s: did %q, want greedy's first containers to end and no other but of a pod that is evicted", what, n.did)
		}
	}
	h := n.history()
	givenUp := !reported && len(h.Last) == 1 && strings.HasPrefix(h.Last[0].Problem, "given up")
	var rest []string
	for _, id := range n.running() {
		if !givenUp && (id == "greedy.c1" || id == "greedy.c2") {
			n.t.Fatalf("%s: %s still runs; did %q", what, id, n.did)
		}
		if !strings.HasPrefix(id, "greedy.") {
			rest = append(rest, id)
		}
	}
	if !slices.Equal(rest, []string{"critical.c1", "modest.c1"}) {
		n.t.Fatalf("%s: of the others run %q", what, rest)
	}
	if givenUp {
		return
	}
	if len(h.Open) != 0 || len(h.Last) != 1 || h.Last[0].UID != "greedy" || !h.Last[0].Gone || !h.Last[0].Reported {
		n.t.Fatalf("%s: the state file has %+v", what, h)
	}
	e := h.Last[0]
	if len(n.madeFailed) > 1 || n.madeFailed["greedy"] > 1 || reported && n.madeFailed["greedy"] != 1 {
		n.t.Fatalf("%s: the API server made Failed %v; the state file has %+v; events %q", what, n.madeFailed, e, n.events)
	}
	if refused && (e.Method != Restart || len(h.Cooldown) != 0) || !refused && len(h.Cooldown) != 1 {
		n.t.Fatalf("%s: the state file has %+v with the cooldown %v", what, e, h.Cooldown)
	}
	// The file and the API server agree on whether the pod is evicted, unless the program ended before
	// it could read the answer.
	if e.Method == Evict && n.madeFailed["greedy"] != 1 {
		n.t.Fatalf("%s: the state file has it as evicted, and the API server was not called", what)
	}
	if e.Method == Evict && (!n.confirmed["greedy"] || len(n.running()) != 2) {
		n.t.Fatalf("%s: written down as evicted, confirmed is %v, and %q run", what, n.confirmed, n.running())
	}
	if reported && (e.Method != Evict || e.Problem != "") {
		n.t.Fatalf("%s: the state file has %+v", what, e)
	}
}

// TestManagerMemoryBackBeforeResume: the program ends between the decision and the first kill. When
// it runs again the partition has memory, and no pod is stopped. If a container has been killed,
// the others follow.
func TestManagerMemoryBackBeforeResume(t *testing.T) {
	for before, want := range map[string][]string{
		"greedy.c1": nil,
		"greedy.c2": {"kill greedy.c1", "kill greedy.c2", "evict greedy", "confirm greedy"},
	} {
		t.Run(before, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.beforeKill = func(id string) { // one after the other
					switch {
					case id != before && before == "greedy.c1":
						<-n.ctx.Done()
					case id == before:
						<-time.After(time.Millisecond)
						n.mu.Lock()
						n.crashed = before
						n.mu.Unlock()
						n.cancel()
					}
				}
				n.untilCrash(n.started(hardOnly), time.Second)
				n.beforeKill = nil
				<-time.After(time.Second)
				n.set(func() { n.pod("modest").containers[0].uses = mi })
				n.boot()
				m := n.started(hardOnly)
				n.run(m, 10*time.Second)
				n.expect(want...)
				n.stop(m)
				h := n.history()
				if len(h.Open) != 0 || len(h.Last) != 1 || strings.HasPrefix(h.Last[0].Problem, "given up") != (want == nil) || len(h.Cooldown) != len(want)/4 {
					n.t.Errorf("state is %+v", h)
				}
			})
		})
	}
}
