package evict

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// cgroup returns a folder with files.
func cgroup(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range files {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestEachProcess: the processes of a container are in cgroups below its own, too.
func TestEachProcess(t *testing.T) {
	dir := cgroup(t)
	below := filepath.Join(dir, "init.scope")
	if err := os.Mkdir(below, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{dir: "0\n12\n13\n", below: "14\n"} {
		if err := os.WriteFile(filepath.Join(path, "cgroup.procs"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var seen []int
	eachProcess(dir, func(pid int) { seen = append(seen, pid) })
	if slices.Sort(seen); !slices.Equal(seen, []int{12, 13, 14}) {
		t.Errorf("%v; want 12, 13 and 14", seen)
	}
	seen = nil
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strings.Repeat("12\n", 2*maxReaped)), 0o600); err != nil {
		t.Fatal(err)
	}
	if eachProcess(dir, func(pid int) { seen = append(seen, pid) }); len(seen) != maxReaped {
		t.Errorf("%d processes; want %d", len(seen), maxReaped)
	}
}

// TestReapLive: a process that does not end, as one whose PID was used again, keeps its memory.
func TestReapLive(t *testing.T) {
	command := exec.CommandContext(t.Context(), "cat")
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	command.Stdout = &out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	reap(command.Process.Pid)
	if _, err := in.Write([]byte("alive")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(in.Close(), command.Wait()); err != nil || out.String() != "alive" {
		t.Errorf("%q, %v; want that it runs on", out.String(), err)
	}
}

func TestKillerKill(t *testing.T) {
	dir := cgroup(t, "cgroup.kill")
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("12\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// The kernel takes back nothing of a process that has not got SIGKILL yet.
	reaped := ""
	err := new(Killer).kill(dir, false, func(pid int) {
		text, _ := os.ReadFile(filepath.Join(dir, "cgroup.kill"))
		reaped += fmt.Sprintf("%d after %q ", pid, text)
	})
	if err != nil || reaped != `12 after "1" ` {
		t.Errorf("%v, reaped %s; want 12 after the kill", err, reaped)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "cgroup.kill")); err != nil || string(text) != "1" {
		t.Errorf("written was %q, %v", text, err)
	}
	for _, dir := range []string{cgroup(t), filepath.Join(dir, "gone.scope")} {
		if err := new(Killer).Kill(dir, false); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v, want fs.ErrNotExist", err)
		}
	}
}

// TestKillerLocked: processes whose memory cannot be taken back for a while delay neither the kill
// of the next container nor, however many there are, an eviction.
func TestKillerLocked(t *testing.T) {
	dir := cgroup(t, "cgroup.kill")
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("12\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var k Killer
		locked := make(chan struct{})
		var waiting atomic.Int32
		for range 2 * maxReapers {
			begin := time.Now()
			if err := k.kill(dir, false, func(int) { waiting.Add(1); <-locked }); err != nil || time.Since(begin) > time.Second {
				t.Fatalf("%v after %s", err, time.Since(begin))
			}
		}
		if waiting.Load() != maxReapers {
			t.Errorf("%d wait for the memory", waiting.Load())
		}
		close(locked)
		synctest.Wait()
		reaped := false
		if err := k.kill(dir, false, func(int) { reaped = true }); err != nil || !reaped {
			t.Errorf("%v, reaped %t after the others had ended", err, reaped)
		}
	})
}
