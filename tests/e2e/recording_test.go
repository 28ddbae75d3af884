//go:build node && pictures

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"node-partition.io/node-partition/tests/lab"
)

// TestRecording records the moving picture of README, docs/leak.svg, on a node: a log collector
// leaks and is evicted, and the shop beside it stays. "make recording" runs it.
func TestRecording(t *testing.T) {
	n, control := joined(t, "trixie", partitionOf("256Mi", "0-1"))
	e := &evictor{Node: n, control: control, leakers: map[string]bool{}}
	e.create(t, spec{namespace: members, name: "cni", requests: resources("10m", "64Mi"), command: []string{"/podtool", "alloc", "40Mi"}})
	e.create(t, spec{namespace: "default", name: "shop", requests: resources("10m", "64Mi"), command: []string{"/podtool", "alloc", "60Mi"}})
	e.create(t, spec{namespace: members, name: "log-collector", requests: resources("10m", "32Mi"), command: []string{"/podtool", "leak", "20s", "24Mi", "8Mi", "3Gi"}})
	for _, pod := range []string{"cni", "log-collector"} {
		e.placed(t, pod)
	}
	cast := filepath.Join(t.TempDir(), "leak.cast")
	watch := n.SSHCommand("-t", monitorPath, "status", "--watch", "--all")
	for i, word := range watch {
		watch[i] = lab.Quote(word)
	}
	record := exec.CommandContext(t.Context(), "asciinema", "rec", "--quiet", "--cols=96", "--rows=26", "--idle-time-limit=2",
		"--title=partition-monitor status --watch", "--command="+strings.Join(watch, " "), cast)
	record.Stderr = os.Stderr
	if err := record.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, n, "an eviction", func(ctx context.Context) (bool, string, error) {
		out, err := n.Run(ctx, "journalctl -b --no-pager -o cat -u "+monitorUnit+" | grep -c 'an eviction has ended' || true")
		return err == nil && strings.TrimSpace(out) != "0", out, err
	})
	if _, err := n.Run(t.Context(), "sleep 6; pkill -f 'status --watch'"); err != nil {
		t.Fatal(err)
	}
	if err := record.Wait(); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "termtosvg", "render", cast, "../../docs/leak.svg", "--min-frame-duration=500", "--loop-delay=3000").CombinedOutput()
	if err != nil {
		t.Fatalf("termtosvg: %v: %s", err, out)
	}
}
