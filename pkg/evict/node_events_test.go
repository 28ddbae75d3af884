package evict

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

func (n *node) do(format string, args ...any) {
	n.did = append(n.did, fmt.Sprintf(format, args...))
}

// all returns the calls to the node since an earlier call of all. Kills of containers of one pod
// are side by side, and here in the order of the containers.
func (n *node) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	did := n.did
	n.did = nil
	started := func(what string) (int, bool) { return strings.Count(what, "."), strings.HasPrefix(what, "kill ") }
	for i := 1; i < len(did); i++ {
		before, killed := started(did[i-1])
		if now, kills := started(did[i]); killed && kills && before == now && did[i-1] > did[i] {
			did[i-1], did[i] = did[i], did[i-1]
		}
	}
	return did
}

// words returns the calls of Events since the last call of words.
func (n *node) takeEvents() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	events := n.events
	n.events = nil
	return events
}

func (n *node) addEvent(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events = append(n.events, fmt.Sprintf(format, args...))
}

type nodeEvents node

func (v *nodeEvents) Evicting(e Eviction, reaction time.Duration) {
	n := (*node)(v)
	if reaction != 0 {
		n.inMain("counted")
		if reaction < 0 || reaction > time.Second {
			n.t.Errorf("the signal took %s", reaction)
		}
		n.addEvent("signalled")
	}
	n.inMain("logged")
	n.addEvent("evicting %s %s %s", e.Name, e.Threshold, e.Method)
	if e.DryRun {
		n.count(e)
	}
}

// count does what metrics do with a closed eviction.
func (n *node) count(e Eviction) {
	n.inMain("counted done")
	text := fmt.Sprintf("count %s %s", e.Threshold, e.Method)
	if e.DryRun {
		text += " dry"
	}
	n.addEvent("%s", text)
}

func (v *nodeEvents) Evicted(e Eviction, _ time.Duration) {
	n := (*node)(v)
	n.count(e)
	n.inMain("logged done")
	n.addEvent("evicted %s %s", e.Name, e.Method)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.evicted = append(n.evicted, e)
}

func (v *nodeEvents) Resumed(e Eviction) {
	n := (*node)(v)
	n.inMain("logged resumed")
	n.addEvent("resumed %s", e.Name)
}

func (v *nodeEvents) Failed(e Eviction, step Step, err error) {
	(*node)(v).addEvent("count failed %s", step)
	if step != StepPoll { // which has a warning
		(*node)(v).addEvent("failed %s %s: %v", step, e.Name, err)
	}
}

func (v *nodeEvents) NoCandidate(d Decision) {
	text := "no candidate"
	for _, c := range d.Order {
		text += fmt.Sprintf(" %s(%s)", c.Name, c.Skip)
	}
	if left := LeftBehind(d.Ownerless, len(d.Order)); left > 0 {
		text += fmt.Sprintf(", %d MiB of no pod", d.Ownerless/mi)
	}
	(*node)(v).addEvent("%s", text)
	(*node)(v).addEvent("count no candidate")
}

func (v *nodeEvents) KernelKilled(limit KilledAt, processes uint64) {
	(*node)(v).addEvent("count killed at %s %d", limit, processes)
	(*node)(v).addEvent("killed at %s %d", limit, processes)
}

func (v *nodeEvents) Warn(err error) { (*node)(v).addEvent("warn %v", err) }

// history reads the state file as another program would.
func (n *node) history() History {
	n.t.Helper()
	h, err := Store(n.state()).Read()
	if err != nil {
		n.t.Fatal(err)
	}
	return h
}

// expect compares the calls to the node since the last time.
func (n *node) expect(want ...string) {
	n.t.Helper()
	if did := n.all(); !slices.Equal(did, want) {
		n.t.Fatalf("did %q, want %q; events: %q", did, want, n.takeEvents())
	}
}

// heard compares the calls of Events since the last time.
func (n *node) expectEvents(want ...string) {
	n.t.Helper()
	if events := n.takeEvents(); !slices.Equal(events, want) {
		n.t.Fatalf("events %q, want %q", events, want)
	}
}

// startedAgain marks a restart of the program among the calls to the node.
const startedAgain = "start again"
