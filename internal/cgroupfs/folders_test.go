package cgroupfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"node-partition.io/node-partition/tests/testkit"
)

// TestFoldersUsage: open folders lead to the same cgroups as their paths do.
func TestFoldersUsage(t *testing.T) {
	t.Parallel()
	root := FS("testdata")
	folders := root.Folders()
	defer folders.Close()
	for _, path := range []string{"stat/all", "stat/off", "stat", "stat/gone.slice", "gone.slice/pod.slice", "stat/all/memory.stat"} {
		for range 2 { // the folder is open the second time
			want, wantErr := root.Usage(path)
			got, err := folders.Usage(path)
			if got != want || errors.Is(err, fs.ErrNotExist) != errors.Is(wantErr, fs.ErrNotExist) || (err == nil) != (wantErr == nil) {
				t.Errorf("%s: got %+v, %v, want %+v, %v", path, got, err, want, wantErr)
			}
			if err != nil && !strings.Contains(err.Error(), root.Path(path)) {
				t.Errorf("%v; want an error that names %s", err, root.Path(path))
			}
		}
	}
}

// TestFoldersCreatedAnew: a cgroup in a folder that was removed is missing. It is not one with all
// controllers off, whose CPU time would be 0.
func TestFoldersCreatedAnew(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	create := func(usec string) {
		path := filepath.Join(root, "qos.slice/pod.slice")
		if err := errors.Join(os.MkdirAll(path, 0o755), os.WriteFile(filepath.Join(path, "cpu.stat"), []byte("usage_usec "+usec+"\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	create("5")
	folders := FS(root).Folders()
	defer folders.Close()
	if usage, err := folders.Usage("qos.slice/pod.slice"); err != nil || usage.CPUTime.Microseconds() != 5 {
		t.Fatalf("%+v, %v", usage, err)
	}
	if err := os.RemoveAll(filepath.Join(root, "qos.slice")); err != nil {
		t.Fatal(err)
	}
	create("7")
	if usage, err := folders.Usage("qos.slice/pod.slice"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %+v, %v, want fs.ErrNotExist", usage, err)
	}
	folders.Close()
	if left := testkit.OpenBelow(t, root); len(left) > 0 {
		t.Errorf("after Close these are open: %v", left)
	}
	if usage, err := folders.Usage("qos.slice/pod.slice"); err != nil || usage.CPUTime.Microseconds() != 7 {
		t.Errorf("after Close: %+v, %v", usage, err)
	}
}
