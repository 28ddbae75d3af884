package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestThis(t *testing.T) {
	t.Parallel()
	n := This()
	if n.Path("/run/a") != "/run/a" || n.Endpoint("unix:///run/a") != "unix:///run/a" || n.Endpoint("tcp://a") != "tcp://a" || n.Answers() != nil {
		t.Errorf("%+v", n)
	}
	if same, err := Open("/"); err != nil || same != n {
		t.Errorf("Open(/): %+v, %v; want the running node", same, err)
	}
}

// TestOpen: the files of another node are below its folder, and so are the targets of their links.
func TestOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for link, target := range map[string]string{"run": "/var/run", "loop": "loop", "sys": "/kernel"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	n, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		n.Path("/etc/a"):            "/etc/a",
		n.Path("/run/a"):            "/var/run/a",
		string(n.Cgroups):           "/kernel/fs/cgroup",
		n.Proc:                      "/proc",
		n.Endpoint("/run/a.sock"):   "/var/run/a.sock",
		n.Endpoint("unix:///a")[7:]: "/a",
	} {
		if name != dir+want {
			t.Errorf("%s; want %s below %s", name, want, dir)
		}
	}
	if _, err := os.Stat(n.Path("/loop/a")); err == nil || n.Path("/loop/a") == "/loop/a" {
		t.Errorf("%q, %v; want a path that cannot be opened", n.Path("/loop/a"), err)
	}
	if err := n.Answers(); !errors.Is(err, ErrNotQueried) {
		t.Errorf("%v; want %v", err, ErrNotQueried)
	}
	for _, name := range []string{filepath.Join(dir, "missing"), "/dev/null"} {
		if _, err := Open(name); err == nil {
			t.Errorf("%s is a node", name)
		}
	}
}

// TestOpenSpecial: a device or a FIFO among the cgroups of another node is refused before anything
// is opened there. A root that is a link is as good as the folder.
func TestOpenSpecial(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	slice := filepath.Join(dir, "sys/fs/cgroup/kubepods.slice")
	link := filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.MkdirAll(slice, 0o755), os.Symlink(dir, link)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{dir, link} {
		if n, err := Open(name); err != nil || n.NoCgroups() != nil {
			t.Errorf("%s: %v, %v", name, err, n.NoCgroups())
		}
	}
	fifo := filepath.Join(slice, "memory.current")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), fifo) {
		t.Errorf("%v, want an error with %s", err, fifo)
	}
}
