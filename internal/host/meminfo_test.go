package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTotal(t *testing.T) {
	for name, test := range map[string]struct {
		content string
		want    int64
		err     string
	}{
		"as the kernel writes it": {"MemTotal:        4026532 kB\nMemFree: 1 kB\n", 4026532 << 10, ""},
		"without MemTotal":        {"MemFree: 1 kB\n", 0, "/proc/meminfo: has no MemTotal"},
		"an odd MemTotal":         {"MemTotal: x kB\n", 0, "/proc/meminfo: "},
	} {
		root := t.TempDir()
		if err := os.Mkdir(filepath.Join(root, "proc"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, meminfoPath), []byte(test.content), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := MemoryTotal(Root(root))
		if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.HasPrefix(err.Error(), test.err) {
			t.Errorf("%s: %d, %v; want %d, %q", name, got, err, test.want, test.err)
		}
	}
	root := t.TempDir()
	const text = "MemTotal: 400 kB\nMemFree: 100 kB\nInactive: 7 kB\nInactive(anon): 5 kB\nInactive(file): 20 kB\n"
	if err := errors.Join(
		os.Mkdir(filepath.Join(root, "proc"), 0o755), os.WriteFile(filepath.Join(root, meminfoPath), []byte(text), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	if total, available, err := MemoryAvailable(Root(root)); total != 400<<10 || available != 120<<10 || err != nil {
		t.Errorf("%d of %d available, %v; want 120 of 400 KiB", available, total, err)
	}
	if _, err := MemoryTotal(Root(t.TempDir())); err == nil || !strings.HasPrefix(err.Error(), meminfoPath+": ") {
		t.Errorf("without /proc: %v; want an error that names it", err)
	}
}
