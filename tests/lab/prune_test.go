package lab

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestPrune(t *testing.T) {
	c := cache{Dir: t.TempDir()}
	current, err := c.current()
	if err != nil {
		t.Fatal(err)
	}
	type folder struct {
		path string
		age  time.Duration
		kept bool
	}
	held := c.path("images", "trixie", "held")
	folders := []folder{
		{c.path("images", "trixie", "old"), 2 * unusedAge, false},
		{c.path("images", "trixie", "new"), 0, true},
		{c.path("images", "gone", "old"), 2 * unusedAge, false},
		{c.path("debian", "trixie", "old"), 2 * unusedAge, false},
		{c.path("programs", "kubelet-1.0", "old"), 2 * unusedAge, false},
		{c.path("kvm", "probe", "old"), 2 * unusedAge, false},
		{c.path("keys", "ssh", "old"), 2 * unusedAge, true},
		{c.path("programs", "kubelet-1.0", "half.partial-123"), 0, false},
		{held, 2 * unusedAge, true},
		{held + ".partial-123", 0, true},
		{filepath.Join(c.Dir, "artifacts", "old"), 2 * artifactsAge, false},
		{filepath.Join(c.Dir, "artifacts", "new"), artifactsAge / 2, true},
	}
	for _, f := range folders {
		oldFolder(t, f.path, f.age)
	}
	for _, path := range current {
		oldFolder(t, path, 100*unusedAge)
	}
	unlock, err := lockFile(t.Context(), held+".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if err := c.prune(); err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		if exists(f.path) != f.kept {
			t.Errorf("%s is there: %v", f.path, !f.kept)
		}
	}
	for _, path := range current {
		if !exists(path) {
			t.Errorf("%s is gone", path)
		}
	}
}

func oldFolder(t *testing.T, path string, age time.Duration) {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	then := time.Now().Add(-age)
	if err := os.Chtimes(path, then, then); err != nil {
		t.Fatal(err)
	}
}

func TestEnsureNotesUse(t *testing.T) {
	c := cache{Dir: t.TempDir()}
	entry := c.path("images", "a", "key")
	oldFolder(t, entry, 2*unusedAge)
	if _, err := c.ensure(t.Context(), "images", "a", "key", nil); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(entry); err != nil || time.Since(info.ModTime()) > unusedAge {
		t.Errorf("%v, %v", info, err)
	}
}
