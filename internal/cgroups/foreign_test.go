package cgroups

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// readers reads one cgroup in each way.
var readers = map[string]func(f FS, cgroup string) (any, error){
	"CPU":           func(f FS, c string) (any, error) { return f.CPU(c) },
	"CPUs":          func(f FS, c string) (any, error) { given, all, err := f.CPUs(c); return given.Union(all).String(), err },
	"Children":      func(f FS, c string) (any, error) { return f.Children(c) },
	"Exists":        func(f FS, c string) (any, error) { err := f.Exists(c); return err == nil, err },
	"HasChildren":   func(f FS, c string) (any, error) { return f.HasChildren(c) },
	"Limits":        func(f FS, c string) (any, error) { return f.Limits(c) },
	"Memory":        func(f FS, c string) (any, error) { return f.Memory(c) },
	"MemoryCurrent": func(f FS, c string) (any, error) { return f.MemoryCurrent(c) },
	"Populated":     func(f FS, c string) (any, error) { return f.Populated(c) },
	"ReadFile":      func(f FS, c string) (any, error) { return f.ReadFile(c, "cgroup.procs") },
	"Stat":          func(f FS, c string) (any, error) { return f.Stat(c) },
	"Usage":         func(f FS, c string) (any, error) { return f.Usage(c) },
	"MemoryMeter": func(f FS, c string) (any, error) {
		m, err := f.MemoryMeter(c)
		if err == nil {
			m.Close()
		}
		return err == nil, err
	},
}

var filesOfCgroup = []string{
	"cgroup.procs", "cgroup.events", "cpu.max", "cpu.stat", "cpu.weight", "cpuset.cpus", "cpuset.cpus.effective", "memory.current",
	"memory.max", "memory.min", "memory.stat",
}

// TestForeign: an unpacked archive of a stranger may have links to files of this machine, and FIFOs
// without a writer, among its cgroups. No reader follows the one, waits for the other, or takes
// either for a cgroup.
func TestForeign(t *testing.T) {
	t.Parallel()
	root, outside := t.TempDir(), t.TempDir()
	const secret = "7000000"
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	folder := func(name string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	folder("links.slice")
	folder("fifos.slice")
	for _, name := range filesOfCgroup {
		if err := os.WriteFile(filepath.Join(outside, name), []byte(secret+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		link(filepath.Join(outside, name), "links.slice/"+name)
		if err := syscall.Mkfifo(filepath.Join(root, "fifos.slice", name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(outside, "secret.slice"), 0o755); err != nil {
		t.Fatal(err)
	}
	link(outside, "link.slice")
	for name, read := range readers {
		for _, cgroup := range []string{"link.slice", "links.slice", "fifos.slice"} {
			list := name == "Exists" || name == "Children" || name == "HasChildren"
			if cgroup != "link.slice" && (list || cgroup == "fifos.slice" && name == "MemoryMeter") {
				continue // a folder is there, and a meter opens and does not read
			}
			got, err := read(FS(root), cgroup)
			if err == nil || errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), secret) {
				t.Errorf("%s of %s: %v, %v", name, cgroup, got, err)
			}
		}
	}
	if children, err := FS(root).Children(""); err != nil || len(children) != 2 {
		t.Errorf("%q, %v; want the folders alone", children, err)
	}
	large := filepath.Join(root, "large.slice")
	if err := errors.Join(os.Mkdir(large, 0o755), os.WriteFile(filepath.Join(large, "cgroup.procs"), nil, 0o644),
		os.Truncate(filepath.Join(large, "cgroup.procs"), 40<<30)); err != nil {
		t.Fatal(err)
	}
	if text, err := FS(root).ReadFile("large.slice", "cgroup.procs"); err == nil {
		t.Errorf("%d bytes of 40 GiB", len(text))
	}
}
