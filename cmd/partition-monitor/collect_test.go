package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"node-partition.io/node-partition/tests/fakenode"
)

// TestCollectFile: the bundle is a file that its owner alone may read. A file that exists is not
// overwritten.
func TestCollectFile(t *testing.T) {
	t.Parallel()
	n := newNode(t, fakenode.Valid("kube-system"))
	name := filepath.Join(n.Root, "bundle.tar.gz")
	status, stdout, stderr := n.here("collect", name, "--listen=")
	if status != exitOK || stdout != name+"\n" || stderr != "" {
		t.Fatalf("status %d, %q, %q", status, stdout, stderr)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want the mode 600", info, err)
	}
	data, err := os.ReadFile(name)
	if err != nil || !bytes.HasPrefix(data, []byte("\x1f\x8b")) {
		t.Errorf("%v, %d bytes; want a file of gzip", err, len(data))
	}
	if status, stdout, _ := n.here("collect", "-", "--listen="); status != exitOK || !strings.HasPrefix(stdout, "\x1f\x8b") {
		t.Errorf("status %d, %d bytes; want the bundle", status, len(stdout))
	}
	n.oneProblem([]string{"file exists"}, "collect", name)
}
