package evict

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestKillCgroup(t *testing.T) {
	dir := cgroup(t, "cgroup.kill")
	if err := KillCgroup(dir); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "cgroup.kill")); err != nil || string(text) != "1" {
		t.Errorf("written was %q, %v", text, err)
	}
	for _, dir := range []string{cgroup(t), filepath.Join(dir, "gone.scope")} {
		if err := KillCgroup(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v, want fs.ErrNotExist", err)
		}
	}
}
