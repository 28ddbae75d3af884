package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"node-partition.io/node-partition/tests/fakenode"
)

// TestNodeWritable: configuration that another account can change is a finding, whether the file or
// a folder on the way is open, and whether its name is a link or not.
func TestNodeWritable(t *testing.T) {
	t.Parallel()
	n := fakenode.Whole(t)
	const open = "can be written by all users"
	chmod := func(name string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(filepath.Join(n.Root, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if out, _ := textOf(t, n, nil); strings.Contains(out, open) {
		t.Errorf("of a node whose files are its owner's: %s", out)
	}
	const override = "/etc/kubernetes/node-partition.yaml"
	n.Write("/srv/elsewhere/node-partition.yaml", fakenode.Valid("kube-system"))
	n.RemoveAll(override)
	if err := os.Symlink("../../srv/elsewhere/node-partition.yaml", filepath.Join(n.Root, override)); err != nil {
		t.Fatal(err)
	}
	for name, modes := range map[string][2]os.FileMode{
		"/srv/elsewhere/node-partition.yaml": {0o666, 0o644},
		"/srv/elsewhere":                     {0o777, 0o755},
		"/etc/kubernetes":                    {0o777, 0o755},
	} {
		chmod(name, modes[0])
		out, _ := textOf(t, n, nil)
		if !strings.Contains(out, name+" "+open) || !strings.Contains(out, "chmod go-w "+name+"\n") {
			t.Errorf("%s with mode %o: %s", name, modes[0], out)
		}
		chmod(name, modes[1])
	}
	chmod("/srv/elsewhere", os.ModeSticky|0o777)
	if out, _ := textOf(t, n, nil); strings.Contains(out, open) {
		t.Errorf("of a folder in which nobody replaces another's files: %s", out)
	}
}
