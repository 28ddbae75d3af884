package cgroups

import (
	"os"
	"testing"

	"node-partition.io/node-partition/tests/testkit"
)

// TestMemoryMetersRead: open files have what their paths have.
func TestMemoryMetersRead(t *testing.T) {
	t.Parallel()
	root := FS(t.TempDir())
	write(t, root, memoryFiles("p.slice/a.slice", 100, 50))
	write(t, root, map[string]string{"p.slice/a.slice/cgroup.events": "populated 1\nfrozen 0\n"})
	write(t, root, memoryFiles("p.slice/b.slice", 0, 70))
	write(t, root, map[string]string{"p.slice/b.slice/cgroup.events": "populated 0\nfrozen 0\n"})
	m := root.MemoryMeters()
	defer m.Close()
	for range 2 {
		for cgroup, runs := range map[string]bool{"p.slice/a.slice": true, "p.slice/b.slice": false} {
			want, err := root.Memory(cgroup)
			if err != nil {
				t.Fatal(err)
			}
			if populated, got, ok := m.Read(cgroup, 0); !ok || populated != runs || got != want {
				t.Errorf("%s: %t, %+v, %t; want %t, %+v", cgroup, populated, got, ok, runs, want)
			}
		}
	}
	if _, got, _ := m.Read("p.slice/a.slice", 130); got.Protected != 30 {
		t.Errorf("with a memory.min of 130: %+v", got)
	}
	if _, _, ok := m.Read("p.slice/gone.slice", 0); ok {
		t.Error("a cgroup that is gone was read")
	}
}

// TestMemoryMetersAgain: files that the kernel no longer serves are closed, and files of a cgroup
// of the same name opened. Files of a cgroup that is not read any more are closed, too.
func TestMemoryMetersAgain(t *testing.T) {
	root := FS(t.TempDir())
	files := memoryFiles("a.slice", 100, 50)
	files["a.slice/cgroup.events"] = "populated 1\n"
	write(t, root, files)
	m := root.MemoryMeters()
	if _, _, ok := m.Read("a.slice", 0); !ok {
		t.Fatal("not read")
	}
	// As the kernel ends the files of a cgroup that is removed: a tmpfs would serve them on.
	if err := os.Truncate(root.Path("a.slice/memory.current"), 0); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(root.Path("a.slice")); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := m.Read("a.slice", 0); ok {
		t.Error("a cgroup that is gone was read")
	}
	write(t, root, files)
	if _, r, ok := m.Read("a.slice", 0); !ok || r.Current != 150 {
		t.Errorf("%+v, %t: the cgroup is there again", r, ok)
	}
	m.Sweep()
	m.Sweep()
	if left := testkit.OpenBelow(t, string(root)); len(left) > 0 {
		t.Errorf("open after it was not read any more: %v", left)
	}
}
