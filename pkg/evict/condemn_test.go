package evict

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/internal/cgroups"
)

// TestKillerCondemns: at the limit of a cgroup above, the kernel's OOM killer is to kill before
// the program does.
func TestKillerCondemns(t *testing.T) {
	for atLimit, want := range map[bool]string{true: "4096", false: "max"} {
		dir := cgroup(t, "cgroup.kill")
		for name, text := range map[string]string{"memory.current": "8192\n", "memory.max": "max", "cgroup.procs": "12\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		killedAt := ""
		err := new(Killer).kill(dir, atLimit, func(int) {
			text, _ := os.ReadFile(filepath.Join(dir, "memory.max"))
			killedAt = string(text[:min(len(text), len(want))])
		})
		if kill, _ := os.ReadFile(filepath.Join(dir, "cgroup.kill")); err != nil || killedAt != want || string(kill) != "1" {
			t.Errorf("at limit %t: %v, memory.max %q, want %q, cgroup.kill %q", atLimit, err, killedAt, want, kill)
		}
	}
}

// TestKillerCondemnsNothing: a container that has ended, or has no limit of memory, is killed as
// without it.
func TestKillerCondemnsNothing(t *testing.T) {
	for _, files := range [][]string{{"cgroup.kill"}, {"cgroup.kill", "memory.current"}, {"cgroup.kill", "memory.max"}} {
		dir := cgroup(t, files...)
		err := new(Killer).Kill(dir, true)
		if kill, _ := os.ReadFile(filepath.Join(dir, "cgroup.kill")); err != nil || string(kill) != "1" {
			t.Errorf("%q: %v, cgroup.kill %q", files, err, kill)
		}
		if limit, _ := os.ReadFile(filepath.Join(dir, "memory.max")); len(limit) > 0 {
			t.Errorf("%q: memory.max %q", files, limit)
		}
	}
}

// TestCondemnPatience: the kernel returns from the write when it has killed, and nothing else waits
// longer for that. With O_NONBLOCK it would return at once, and not kill.
func TestCondemnPatience(t *testing.T) {
	dir := cgroup(t)
	if err := os.WriteFile(filepath.Join(dir, "memory.current"), []byte("8192\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "memory.max")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	full, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	if err := full.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for err == nil { // until a write would block
		_, err = full.Write(make([]byte, os.Getpagesize()))
	}
	begin := time.Now()
	condemn(dir, time.Millisecond)
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	written := 0
	for _, link := range links {
		if to, _ := os.Readlink(link); to != path {
			continue
		}
		fd, _ := strconv.Atoi(filepath.Base(link))
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err != nil {
			t.Fatal(err)
		}
		if flags&unix.O_ACCMODE != unix.O_WRONLY {
			continue // full
		}
		written++
		if flags&unix.O_NONBLOCK != 0 {
			t.Error("the limit is written with O_NONBLOCK: the kernel would not kill")
		}
	}
	if written != 1 {
		t.Errorf("%d files are written to", written)
	}
}

// TestGiveBackRaised: a limit that was raised since is a user's, and stays.
func TestGiveBackRaised(t *testing.T) {
	dir := cgroup(t)
	path := filepath.Join(dir, "memory.max")
	for present, want := range map[string]string{"4096": "8192", "8192": "8192", "16384": "16384", "max": "max"} {
		if err := os.WriteFile(path, []byte(present), 0o600); err != nil {
			t.Fatal(err)
		}
		err := giveBack(cgroups.FS(dir), Container{ID: "a", Cgroup: ".", MemoryMax: 8192})
		if text, _ := os.ReadFile(path); err != nil || string(text) != want {
			t.Errorf("%s became %q, %v; want %s", present, text, err, want)
		}
	}
}
