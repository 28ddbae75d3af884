package evict

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// stateFile is a state file. The format may get fields, but not lose any: the program may be
// replaced by another build of the version while evictions are open.
const stateFile = "testdata/evictions.json"

// TestStoreFormatResumed has a run continue from the file.
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
		if !slices.Equal(last, []string{"dry", "through", "refused", "given-up", "told", "gone", "greedy"}) || len(h.Open)+len(h.Unreclaimable) != 0 {
			n.t.Errorf("the state file has %+v", h)
		}
		if len(h.Cooldown) != 1 || !h.Cooldown["kube-system/greedy"].Equal(time.Date(2000, 1, 1, 0, 0, 40, 0, time.UTC)) {
			n.t.Errorf("cooldowns are %v", h.Cooldown)
		}
	})
}

// TestStateFileDropped: a file of another version is dropped with a message that names it. The next
// write replaces it.
func TestStateFileDropped(t *testing.T) {
	const rest = `"cooldown":{"kube-system/greedy":"2001-01-01T00:00:00Z"},"open":[{"uid":"modest","method":"restart","time":"1999-12-31T23:59:59Z"}],` +
		`"shortage":{"at":"1999-12-31T23:59:59Z","reclaiming":"hard","base":7}}`
	for name, test := range map[string]struct{ begin, want string }{
		"a later version":   {`{"version":2,`, "it has version 2, and this program reads version 1; remove it"},
		"a strange version": {`{"version":-1,`, "it has version -1, and this program reads version 1; remove it"},
		"no number":         {`{"version":"1",`, "cannot unmarshal string"},
		"no version":        {`{`, "it has version 0, and this program reads version 1; remove it"},
	} {
		bubble(t, func(n *node) {
			path := filepath.Join(n.root, "evictions.json")
			if err := os.WriteFile(path, []byte(test.begin+rest), 0o600); err != nil {
				n.t.Fatal(err)
			}
			m := n.started(hardOnly)
			if events := strings.Join(n.takeEvents(), "\n"); !strings.Contains(events, path) || !strings.Contains(events, test.want) {
				n.t.Errorf("%s: events %q; want %q of %s", name, events, test.want, path)
			}
			if s := m.executor.state; len(s.Open)+len(s.Cooldown) != 0 || s.Reclaiming != "" || s.Base > 0 {
				n.t.Errorf("%s: continues with %+v", name, s)
			}
			n.run(m, 4*time.Second)
			n.expect("kill greedy.c1", "kill greedy.c2", "evict greedy", "confirm greedy")
			if h := n.history(); len(h.Last) != 1 || h.Version != stateVersion {
				n.t.Errorf("%s: wrote %+v", name, h)
			}
		})
	}
}
