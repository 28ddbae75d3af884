package evict

import (
	"slices"
	"strings"
	"testing"
	"time"

	"nodepartition/internal/priority"
)

// leavesFiles is a node that is short of memory because of files that a pod has written to a tmpfs
// of the node. Without them 590 MiB are available, with them 90.
func leavesFiles(n *node) {
	n.start(sized("greedy", 0, 0, 0), 40)
	n.start(sized("modest", 0, 0, 200), 250)
	n.start(sized("critical", priority.NodeCritical, 0, 0), 150)
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
// other pod, neither when the next doubt is over nor after a restart of the program. A pod that
// grows beside them is evicted.
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

// TestManagerFilesDeleted: when such files are deleted, evictions go on as before.
func TestManagerFilesDeleted(t *testing.T) {
	newDisk(t).bubbleOf(t, newNode, func(n *node) {
		leavesFiles(n)
		m := n.started(hardOnly)
		defer func() { n.stop(m) }()
		n.run(m, time.Minute)
		if got := evictedNames(n); got != "greedy" {
			n.t.Fatalf("stopped %q; want greedy", got)
		}
		n.set(func() { n.left = 0 })
		n.run(m, time.Minute)
		n.set(func() { n.pod("modest").containers[0].uses = 760 * mi })
		n.run(m, time.Second)
		if got := evictedNames(n); got != "modest" {
			n.t.Errorf("stopped %q; want modest, which uses 760 of 1000 MiB", got)
		}
	})
}

// TestManagerOthersGrow: what another pod takes while one ends belongs to that pod.
func TestManagerOthersGrow(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { n.left = 30 * mi }) // as the kernel needs for cgroups
		n.beforeKill = func(string) { n.set(func() { n.pod("modest").containers[0].uses = 800 * mi }) }
		m := n.started(hardOnly)
		defer n.stop(m)
		n.run(m, 5*time.Second)
		for _, event := range n.takeEvents() {
			if strings.Contains(event, "belong to no pod") {
				n.t.Errorf("event %q", event)
			}
		}
		if left := m.executor.state.Left; left != (leftBehind{}) {
			n.t.Errorf("left behind %+v", left)
		}
	})
}

// TestLeftBehind: memory that belonged to no pod before the eviction is not part of it.
func TestLeftBehind(t *testing.T) {
	l := leftBehind{}.add(20, 120)
	for ownerless, want := range map[uint64]uint64{0: 0, 20: 0, 70: 50, 120: 100, 500: 100} {
		if got := l.of(ownerless); got != want {
			t.Errorf("%d of %d; want %d", got, ownerless, want)
		}
	}
	if l = l.add(120, 220); l != (leftBehind{Base: 20, Bytes: 200}) {
		t.Errorf("%+v after the next", l)
	}
}
