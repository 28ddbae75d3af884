package evict

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestStateFileDropped: a file of another version is dropped with a message that names it. The next
// write replaces it.
func TestStateFileDropped(t *testing.T) {
	const rest = `"cooldown":{"kube-system/greedy":"2001-01-01T00:00:00Z"},"open":[{"uid":"modest","method":"restart","time":"1999-12-31T23:59:59Z"}],` +
		`"shortage":{"at":"1999-12-31T23:59:59Z","reclaiming":"hard","base":7}}`
	for name, test := range map[string]struct{ begin, want string }{
		"a later version":   {`{"version":2,`, "it has version 2, and this program reads version 1; remove it"},
		"a strange version": {`{"version":-1,`, "it has version -1, and this program reads version 1; remove it"},
		"no number":         {`{"version":"1",`, "cannot unmarshal string"},
		"broken":            {`{"version":1]`, "invalid character ']'"},
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
