package livemove

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// heldBy returns a process as hold does.
func heldBy(t *testing.T, pid int) process {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return process{uint32(pid), fd}
}

// TestMoveToEnded: the PID of a process that has ended may belong to a stranger by now, and is not
// written into the partition.
func TestMoveToEnded(t *testing.T) {
	child := exec.Command("sleep", "inf")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	alive, dead := heldBy(t, os.Getpid()), heldBy(t, child.Process.Pid)
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err == nil {
		t.Fatal("the child has not been killed")
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "cgroup.procs"), "")
	if err := (processes{dead, alive}).moveTo(dir); err != nil {
		t.Error(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if got := strings.TrimSpace(string(data)); err != nil || got != strconv.Itoa(os.Getpid()) {
		t.Errorf("the kernel was given %q, %v; want %d alone", got, err, os.Getpid())
	}
}

// openProcesses counts our file descriptors of processes.
func openProcesses(t *testing.T) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && strings.Contains(to, "pidfd") {
			n++
		}
	}
	return n
}

// TestHoldElsewhere: a PID that was read from cgroup.procs and is in another cgroup by now belongs
// to a stranger. It is not held, and no file descriptor of it stays.
func TestHoldElsewhere(t *testing.T) {
	const cgroup = "kubepods.slice/cri-containerd-0123.scope"
	dir := t.TempDir()
	write(t, filepath.Join(dir, "cgroup.procs"), strconv.Itoa(os.Getpid()))
	before := openProcesses(t)
	held, err := hold(dir, cgroup)
	defer held.release()
	if err != nil || len(held) != 0 {
		t.Errorf("held %v, %v; want nothing: this test is not in %s", held, err, cgroup)
	}
	if after := openProcesses(t); after != before {
		t.Errorf("%d file descriptors of processes are open; want %d", after, before)
	}
}
