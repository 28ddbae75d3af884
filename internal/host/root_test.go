package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"node-partition.io/node-partition/tests/testkit"
)

func TestReadFile(t *testing.T) {
	root := t.TempDir()
	write := func(name, data string) {
		t.Helper()
		testkit.WriteFile(t, filepath.Join(root, name), data)
	}
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	write("etc/ten", "0123456789")
	write("secret/file", "inside")
	link("/etc/ten", "etc/absolute")
	link("../../../../../../../../../../secret/file", "etc/out")
	link("loop", "etc/loop")
	if err := syscall.Mkfifo(filepath.Join(root, "etc/fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		limit int64
		want  string
		err   error
	}{
		{"/etc/ten", 10, "0123456789", nil},
		{"/etc/ten", 9, "", ErrTooLarge},
		{"/etc/absolute", 10, "0123456789", nil}, // an absolute link stays below the root
		{"/etc/out", 10, "inside", nil},          // and so does one that climbs
		{"/etc/missing", 10, "", fs.ErrNotExist},
		{"/etc/ten/below", 10, "", fs.ErrNotExist},
		{"/etc/loop", 10, "", syscall.ELOOP},
		{"/etc/fifo", 10, "", errNotRegular},
		{"/etc", 10, "", errNotRegular},
	} {
		data, err := Root(root).ReadFile(test.name, test.limit)
		if string(data) != test.want || !errors.Is(err, test.err) {
			t.Errorf("ReadFile(%s, %d): %q, %v; want %q, %v", test.name, test.limit, data, err, test.want, test.err)
		}
	}
}

// TestReadFileKernel: files in /proc have the size 0, and are read all the same.
func TestReadFileKernel(t *testing.T) {
	data, err := Root("/").ReadFile("/proc/self/status", 1<<16)
	if err != nil || len(data) == 0 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	if _, err := Root("").ReadFile("/proc/self/status", 10); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v, want %v", err, ErrTooLarge)
	}
}

func TestReadDir(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"b", "a", "c"} {
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := Root(root).ReadDir("/", 3)
	if err != nil || len(entries) != 3 || entries[0].Name() != "a" || entries[2].Name() != "c" {
		t.Errorf("%v, %v; want a, b, c", entries, err)
	}
	if _, err := Root(root).ReadDir("/", 2); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v, want %v", err, ErrTooLarge)
	}
	if names, err := Root(root).Names("/", 3); err != nil || len(names) != 3 {
		t.Errorf("%q, %v; want three names", names, err)
	}
	if names, err := Root(root).Names("/", 2); !errors.Is(err, ErrTooLarge) || len(names) > 0 {
		t.Errorf("%q, %v, want %v", names, err, ErrTooLarge)
	}
	if _, err := Root(root).ReadDir("/a", 2); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want %v", err, fs.ErrNotExist)
	}
}
