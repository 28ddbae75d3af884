package evict

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/partition"
)

// leavesFiles is a node that is short of memory because of files that a pod has written to a tmpfs
// of the node. Without them 590 MiB are available, with them 90.
func leavesFiles(n *node) {
	n.start(sized("greedy", 0, 0, 0), 40)
	n.start(sized("modest", 0, 0, 200), 250)
	n.start(sized("critical", partition.NodeCritical, 0, 0), 150)
	n.set(func() { p := n.pod("greedy"); p.rest, p.leaves = 510*mi, 510*mi })
}

// evictedNames returns the names of the pods that were evicted or restarted.
func evictedNames(n *node) string {
	var list []string
	for _, what := range n.all() {
		name, killed := strings.CutPrefix(what, "kill ")
		if name, _, _ = strings.Cut(name, "."); killed && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return strings.Join(list, " ")
}

// TestManagerFilesOutliveTheirPod: files that outlive their pod on a tmpfs of the node cost no
// other pod, neither at once nor after a restart of the program. A pod that grows beside them is
// evicted.
func TestManagerFilesOutliveTheirPod(t *testing.T) {
	newDisk(t).bubbleOf(t, newNode, func(n *node) {
		leavesFiles(n)
		m := n.started(hardOnly)
		n.run(m, 2*time.Minute)
		if got := evictedNames(n); got != "greedy" {
			n.t.Errorf("stopped %q; want greedy alone", got)
		}
		told := false
		for _, event := range n.takeEvents() {
			told = told || strings.Contains(event, "belong to no pod")
		}
		if !told {
			n.t.Error("no event says that the memory belongs to no pod")
		}
		for _, uses := range []uint64{230, 255} { // the threshold is left, and crossed again
			n.set(func() { n.pod("modest").containers[0].uses = uses * mi })
			n.run(m, time.Minute)
		}
		if got := evictedNames(n); got != "" {
			n.t.Errorf("stopped %q at the threshold again, for files that an eviction has left", got)
		}
		n.stop(m)
		n.boot()
		m = n.started(hardOnly)
		defer func() { n.stop(m) }()
		n.run(m, 2*time.Minute)
		if got := evictedNames(n); got != "" {
			n.t.Errorf("stopped %q after a restart", got)
		}
		n.set(func() { n.pod("modest").containers[0].uses += 60 * mi })
		n.run(m, 5*time.Second)
		if got := evictedNames(n); got != "modest" {
			n.t.Errorf("stopped %q; want modest, which has taken 60 of the last 90 MiB", got)
		}
	})
}

// TestManagerMovedOut: the memory of a pod that was moved out alive costs no pod within its
// request, and not this one if it is within its own. It is evicted for what it uses beyond that.
func TestManagerMovedOut(t *testing.T) {
	for request, want := range map[int]string{800: "", 100: "evict leaves"} {
		bubble(t, func(n *node) {
			n.set(func() { n.pods, n.cache = nil, [3]uint64{} })
			n.start(sized("leaves", 0, 0, request))
			n.start(sized("innocent", 0, 0, 250), 220)
			n.set(func() { n.pod("leaves").rest = 700 * mi })
			m := n.started(hardOnly)
			defer n.stop(m)
			n.run(m, 5*time.Second)
			if did := strings.Join(n.all(), " "); !strings.HasPrefix(did, want) || want == "" && did != "" {
				n.t.Errorf("with a request of %d MiB: did %q; want %q", request, did, want)
			}
			if report := m.Report(); want == "" && report.Ownerless != 700*mi {
				n.t.Errorf("the report has %d MiB", report.Ownerless/mi)
			}
		})
	}
}

// TestManagerMadeAgain: what belonged to no pod in a partition says nothing of the next one of that
// name.
func TestManagerMadeAgain(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { n.pods, n.cache, n.left = nil, [3]uint64{}, 300*mi })
		m := n.started(hardOnly)
		defer n.stop(m)
		n.run(m, 5*time.Second)
		before, current := m.Report().Ownerless, n.path(systemCgroup, "memory.current")
		if err := os.Rename(current, current+".gone"); err != nil {
			n.t.Fatal(err)
		}
		m.watch.close()
		n.run(m, time.Second)
		if err := os.Rename(current+".gone", current); err != nil {
			n.t.Fatal(err)
		}
		n.set(func() { n.left = 0 })
		n.run(m, time.Second)
		if after := m.Report().Ownerless; before != 300*mi || after != 0 {
			n.t.Errorf("the report has %d MiB of no pod, and then %d", before/mi, after/mi)
		}
	})
}

// TestManagerOthersGrow: what another pod takes while one ends belongs to that pod, and what
// belonged to none before was not left by it.
func TestManagerOthersGrow(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() {
			n.left = 150 * mi // from before
			n.pod("greedy").containers[0].uses, n.pod("greedy").containers[1].uses = 100*mi, 100*mi
			n.pod("modest").containers[0].uses = 450 * mi
		})
		n.beforeKill = func(string) { n.set(func() { n.pod("modest").containers[0].uses = 650 * mi }) }
		m := n.started(hardOnly)
		defer n.stop(m)
		n.run(m, 5*time.Second)
		for _, event := range n.takeEvents() {
			if strings.Contains(event, "belong to no pod") {
				n.t.Errorf("event %q", event)
			}
		}
	})
}

// TestLeftBehind: what the kernel needs for the cgroups of pods counts as left by no pod.
func TestLeftBehind(t *testing.T) {
	for ownerless, want := range map[uint64]uint64{0: 0, 4 * mi: 0, 4*mi + 1: 1, 160 * mi: 156 * mi} {
		if got := LeftBehind(ownerless, 3); got != want {
			t.Errorf("%d of %d with 3 pods; want %d", got, ownerless, want)
		}
	}
}

// TestLeftLately: memory that an eviction has left is remembered for the cooldown. The clock may
// have been set since.
func TestLeftLately(t *testing.T) {
	for at, want := range map[time.Time]bool{{}: false, noon: true, noon.Add(-9 * time.Minute): true, noon.Add(-10 * time.Minute): false, noon.Add(time.Second): false} {
		if got := (Situation{Now: noon, Config: Settings{Cooldown: 10 * time.Minute}, State: State{LeftAt: at}}).leftLately(); got != want {
			t.Errorf("left at %s: %t", at, got)
		}
	}
}

// TestManagerLeftByOthers: memory that belongs to no pod, whoever has left it, costs no pod that
// keeps within its request, however much that takes of what is left. The amount is named. A pod
// that grows beyond its request is evicted as if there were no such memory.
func TestManagerLeftByOthers(t *testing.T) {
	newDisk(t).bubbleOf(t, newNode, func(n *node) {
		n.start(sized("critical", partition.NodeCritical, 0, 0), 150)
		for i := range 4 {
			n.start(sized(fmt.Sprint("innocent", i), 0, 0, 100), 15)
		}
		n.set(func() { n.left = 700 * mi })
		m := n.started(hardOnly)
		defer n.stop(m)
		for range 100 {
			n.run(m, 100*time.Millisecond)
			n.set(func() {
				for i := range 4 {
					c := n.pod(fmt.Sprint("innocent", i)).containers[0]
					c.uses = min(c.uses+mi/4, 90*mi)
				}
			})
		}
		if got := evictedNames(n); got != "" {
			n.t.Errorf("stopped %q for 700 MiB that belong to no pod", got)
		}
		if events := n.takeEvents(); !slices.ContainsFunc(events, func(event string) bool { return strings.HasSuffix(event, ", 700 MiB of no pod") }) {
			n.t.Errorf("events %q do not name the 700 MiB", events)
		}
		if got := m.Report().Ownerless; got != 700*mi {
			n.t.Errorf("the report has %d MiB", got/mi)
		}
		n.set(func() { n.left = 500 * mi })
		n.run(m, time.Second)
		for _, leaker := range []string{"leaker", "another"} { // an eviction that left nothing changes nothing
			n.start(sized(leaker, 0, 0, 20), 10)
			n.leaks(m, leaker, 40, 5*mi, 10*time.Millisecond)
			if got := evictedNames(n); got != leaker || len(n.kernel.killed) > 0 {
				n.t.Errorf("stopped %q, and the kernel killed %q; want %s alone", got, n.kernel.killed, leaker)
			}
		}
		for _, e := range n.history().Last {
			if e.AvailableBytes < 80*mi {
				n.t.Errorf("it was evicted with %d MiB left of the threshold of 100", e.AvailableBytes/mi)
			}
		}
	})
}
