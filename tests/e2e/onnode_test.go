//go:build node

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"node-partition.io/node-partition/tests/lab"
	"node-partition.io/node-partition/tests/testkit"
)

// onNodeTimeout bounds all tests of onnode on one node.
const onNodeTimeout = 20 * time.Minute

// TestOnNode tests internal/systemd and pkg/podmove/livemove on real systemds: it runs the tests of
// the folder onnode on nodes, as root. These have no kubelet and no runtime, which would create
// slices meanwhile and so wake a client in the middle of a test.
func TestOnNode(t *testing.T) {
	onEach(t, kinds(debians(), "trixie", "bookworm"), func(t *testing.T, flavour string) {
		tests := filepath.Join(t.TempDir(), "onnode.test")
		if err := testkit.BuildTest("node-partition.io/node-partition/tests/e2e/onnode", tests); err != nil {
			t.Fatal(err)
		}
		const path = "/root/onnode.test"
		n := lab.ForTest(t, lab.Options{Flavour: flavour, Restore: true})
		run(t, n, "systemctl stop kubelet.service containerd.service")
		if err := n.CopyTo(t.Context(), lab.File{Path: path, Source: tests, Mode: 0o755}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), onNodeTimeout)
		defer cancel()
		out, err := n.Run(ctx, fmt.Sprintf("cd /root && NODE_PARTITION_ON_NODE=1 LAB_EVERYTHING=%s %s -test.v -test.timeout %s",
			os.Getenv("LAB_EVERYTHING"), path, onNodeTimeout))
		t.Log(out)
		if err != nil {
			t.Errorf("%v: of these tests:\n%s", err, failed(out))
		}
	})
}

// failed returns the output of the tests that failed. If only the end of a long output is kept, the
// reason is in there.
func failed(out string) string {
	var parts, said []string
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "=== RUN") && !strings.Contains(line, "/") {
			said = nil
		}
		said = append(said, line)
		if strings.HasPrefix(line, "--- FAIL") {
			parts = append(parts, said...)
		}
	}
	if len(parts) == 0 {
		const lines = 20 // a panic, or the time limit
		parts = said[max(0, len(said)-lines):]
	}
	return strings.Join(parts, "")
}
