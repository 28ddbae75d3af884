package lab

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestEnsureBuildsOnce(t *testing.T) {
	c := cache{Dir: t.TempDir()}
	var builds atomic.Int32
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			dir, err := c.ensure(t.Context(), "kind", "name", "key", func(_ context.Context, dir string) error {
				builds.Add(1)
				return os.WriteFile(filepath.Join(dir, "file"), []byte("whole"), 0o644)
			})
			if err != nil {
				t.Error(err)
				return
			}
			if data, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(data) != "whole" {
				t.Errorf("file: %q, %v", data, err)
			}
		})
	}
	group.Wait()
	if builds.Load() != 1 {
		t.Errorf("built %d times", builds.Load())
	}
}

func TestEnsureKeepsNothingHalfDone(t *testing.T) {
	broken := errors.New("broken")
	c := cache{Dir: t.TempDir()}
	entry := c.path("kind", "name", "key")
	partials := func() []string {
		all, err := filepath.Glob(entry + ".partial*")
		if err != nil {
			t.Fatal(err)
		}
		return all
	}

	// A killed build leaves its folder, and a lock file that no process holds.
	if err := os.MkdirAll(entry+".partial", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(entry+".partial", "half"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(entry+".partial-1/half", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(entry+".lock", nil, 0o644); err != nil {
		t.Fatal(err)
	}

	_, err := c.ensure(t.Context(), "kind", "name", "key", func(context.Context, string) error { return broken })
	if !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if exists(entry) || len(partials()) != 0 {
		t.Errorf("a failed build left %v", partials())
	}

	ctx, cancel := context.WithCancel(t.Context())
	_, err = c.ensure(ctx, "kind", "name", "key", func(context.Context, string) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) || exists(entry) {
		t.Errorf("a cancelled build: error %v, entry %v", err, exists(entry))
	}

	dir, err := c.ensure(t.Context(), "kind", "name", "key", func(_ context.Context, dir string) error {
		if exists(filepath.Join(dir, "half")) {
			t.Error("the build began with what a killed one left")
		}
		if len(partials()) != 1 {
			t.Errorf("beside the build there is %v", partials())
		}
		return nil
	})
	if info, statErr := os.Stat(entry); err != nil || dir != entry || statErr != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%s, %v, %v", dir, err, statErr)
	}
}

// TestDefaultCacheRefuses: the command and the script that builds it refuse the same folders, in
// the same words.
func TestDefaultCacheRefuses(t *testing.T) {
	for _, tc := range []struct{ own, xdg, home, want string }{
		{"rel", "", "/home/u", "cache folder rel: not an absolute path: set NODE_PARTITION_CACHE to one"},
		{"", "rel", "/home/u", "cache folder rel/node-partition: not an absolute path"},
		{"", "", "rel", "cache folder rel/.cache/node-partition: not an absolute path"},
		{"", "", "", "cache folder: HOME is not set: set NODE_PARTITION_CACHE"},
		{"/a b", "", "/home/u", `cache folder "/a b": options of ssh and qemu cannot carry white space`},
		{"/a,b", "", "/home/u", `cache folder "/a,b": `},
		{"", "/a:b", "/home/u", `cache folder "/a:b/node-partition": `},
		{"", "", "/home/u u", `cache folder "/home/u u/.cache/node-partition": `},
	} {
		t.Setenv("NODE_PARTITION_CACHE", tc.own)
		t.Setenv("XDG_CACHE_HOME", tc.xdg)
		t.Setenv("HOME", tc.home)
		c, err := defaultCache()
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%+v: %+v, %v", tc, c, err)
			continue
		}
		out, scriptErr := exec.Command("/bin/sh", "./lab", "status").CombinedOutput()
		if scriptErr == nil || string(out) != "lab: "+err.Error()+"\n" {
			t.Errorf("%+v: the script: %v: %q, want %q", tc, scriptErr, out, err)
		}
	}
}
