package cgroups

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestChildren: all folders, more than one getdents call returns, and none of the files between
// them.
func TestChildren(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	const children = 300
	want := make([]string, 0, children)
	for i := range children {
		name := fmt.Sprintf("kubepods-besteffort-pod%08d.slice", i)
		want = append(want, name)
		if err := os.MkdirAll(filepath.Join(root, "kubepods.slice", name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "kubepods.slice", fmt.Sprint("memory.", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := FS(root).Children("kubepods.slice")
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%d children, %v; want %d:\n%s", len(got), err, len(want), got)
	}
	for _, cgroup := range []string{"kubepods.slice/" + want[0], "not-there.slice"} {
		if got, err := FS(root).Children(cgroup); len(got) != 0 || err != nil {
			t.Errorf("%s has %q, %v; want none", cgroup, got, err)
		}
	}
	if _, err := FS(root).Children("kubepods.slice/memory.1"); err == nil {
		t.Error("a file has children")
	}
}

// BenchmarkChildren reads 500 cgroups with sixty files each, as a reconcile over 500 pods does.
