package evict

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// stateFile is a state file as the version before executions wrote it. The format may get fields,
// but not lose any: the program may be replaced by an earlier or a later version while evictions
// are open.
const stateFile = "testdata/evictions.json"

// TestStoreFormatResumed has a run continue from a file of an earlier version.
func TestStoreFormatResumed(t *testing.T) {
	bubble(t, func(n *node) { // at the beginning of the year 2000, 20 s after the file was written
		data, err := os.ReadFile(stateFile)
		if err != nil {
			n.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(n.root, "evictions.json"), data, 0o600); err != nil {
			n.t.Fatal(err)
		}
		m := n.started(softOnly)
		for uid, want := range map[string]bool{
			"greedy": true, "told": false, "gone": true, "dry": false, "through": true, "refused": false, "given-up": true, "modest": false,
		} {
			if n.marked[uid] != want {
				n.t.Errorf("%s is being evicted: %t, want %t", uid, !want, want)
			}
		}
		n.run(m, 30*time.Second)
		n.expectSorted("confirm gone", "confirm greedy", "evict gone", "evict greedy", "stop greedy.c1 20s", "stop greedy.c2 20s")
		n.expectEvents("resumed greedy", "resumed told", "resumed gone", "count hard restart", "evicted told restart",
			"count hard evict", "evicted gone evict", "count soft evict", "evicted greedy evict")
		h := n.history()
		last := make([]string, 0, len(h.Last))
		for _, e := range h.Last {
			last = append(last, e.UID)
		}
		if !slices.Equal(last, []string{"dry", "through", "refused", "given-up", "told", "gone", "greedy"}) || len(h.Open)+len(h.Stays) != 0 {
			n.t.Errorf("the state file has %+v", h)
		}
		if len(h.Cooldown) != 1 || !h.Cooldown["kube-system/greedy"].Equal(time.Date(2000, 1, 1, 0, 0, 40, 0, time.UTC)) {
			n.t.Errorf("cooldowns are %v", h.Cooldown)
		}
	})
}

// TestStoreFormatWritten reads a file of an earlier version and writes the same bytes, so
// that an earlier version can continue from it, too.
func TestStoreFormatWritten(t *testing.T) {
	h, err := Store(stateFile).Read()
	if err != nil {
		t.Fatal(err)
	}
	open, last := executions(h.Open), executions(h.Last)
	for i, want := range []struct {
		phase  phase
		report reportState
	}{{decided, unreported}, {decided, unneeded}, {reclaimed, unreported}} {
		if open[i].phase != want.phase || open[i].report != want.report {
			t.Errorf("%s has the phase %d and the report %d, want %d and %d", open[i].UID, open[i].phase, open[i].report, want.phase, want.report)
		}
	}
	s := Store(filepath.Join(t.TempDir(), "evictions.json"))
	if err := s.write(History{Open: records(open), Cooldown: h.Cooldown, Stays: h.Stays, Last: records(last)}); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(stateFile)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(string(s)); err != nil || string(got) != string(want) {
		t.Errorf("%v, wrote\n%s\nwant\n%s", err, got, want)
	}
}
