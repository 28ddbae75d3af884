//go:build node

package nodebus

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nodepartition/tests/lab"
)

// flavours have the oldest systemd that is supported, and the newest of the lab.
var flavours = []string{"trixie", "bookworm"}

const onNode = "/root/onnode.test"

// timeout is for all tests on one node.
const timeout = 20 * time.Minute

// TestOnNode runs the tests of onnode on each systemd.
func TestOnNode(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "onnode.test")
	build := exec.Command("go", "test", "-c", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", program, "nodepartition/tests/nodebus/onnode")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the tests for the node: %v\n%s", err, out)
	}
	for _, flavour := range flavours {
		if wanted := os.Getenv("LAB_FLAVOURS"); wanted != "" && !slices.Contains(strings.FieldsFunc(wanted, func(r rune) bool { return r == ',' || r == ' ' }), flavour) {
			continue
		}
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			n := lab.ForTest(t, lab.Options{Flavour: flavour, Restore: true})
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			// The kubelet makes slices that wake a client: not in the middle of a test. Of its pods only processes that sleep stay.
			if _, err := n.Run(ctx, "systemctl stop kubelet.service containerd.service"); err != nil {
				t.Fatal(err)
			}
			if err := n.CopyTo(ctx, lab.File{Path: onNode, Source: program, Mode: 0o755}); err != nil {
				t.Fatal(err)
			}
			out, err := n.Run(ctx, fmt.Sprintf("cd /root && NODE_PARTITION_ON_NODE=1 %s -test.v -test.timeout %s", onNode, timeout))
			t.Log(out)
			if err != nil {
				t.Errorf("%v: of these tests:\n%s", err, failed(out))
			}
		})
	}
}

// failed is what the tests that failed have said, out of all that was said: where only the end of a long output is kept, the
// reason is to be in there.
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
