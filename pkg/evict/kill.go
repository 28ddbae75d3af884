package evict

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Killer kills cgroups. The zero value is ready. Its methods may be called from any goroutine.
type Killer struct {
	reapers atomic.Int32
}

const (
	// reapPatience is the time for which Kill waits until memory is taken back. The reaper begins on
	// this thread so, which has the CPU. The other containers of a pod must not run on for long, and
	// a process whose memory is locked must not stop evictions: process_mrelease waits for the lock
	// (mmap_read_lock_killable, mm/oom_kill.c), which a process in the state D may hold for ever.
	reapPatience = 20 * time.Millisecond
	// maxReapers bounds the reapers that wait for such a lock.
	maxReapers = 64
)

// Kill kills all processes of the cgroup in dir and below it, at once (cgroup.kill, Linux 5.14),
// and takes their memory back. atLimit means that a cgroup above is about to meet its limit: then
// the kernel must select no other process before that memory is back. Kill returns fs.ErrNotExist
// if the cgroup is gone or the kernel has no cgroup.kill, and another error if it goes meanwhile.
func (k *Killer) Kill(dir string, atLimit bool) error { return k.kill(dir, atLimit, reap) }

func (k *Killer) kill(dir string, atLimit bool, reap func(pid int)) error {
	file, err := os.OpenFile(filepath.Join(dir, "cgroup.kill"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	//guard: at the limit the kernel is to kill an evicted pod itself
	if atLimit {
		condemn(dir, condemnPatience)
	}
	_, err = file.WriteString("1")
	if err == nil {
		//guard: the memory of killed processes is taken back
		k.reap(dir, reap)
	}
	return errors.Join(err, file.Close())
}

// reap takes back the memory of the processes of a cgroup, in the background after reapPatience.
func (k *Killer) reap(dir string, reap func(pid int)) {
	//guard: few processes wait for memory that cannot be taken back
	if k.reapers.Add(1) > maxReapers {
		k.reapers.Add(-1)
		return
	}
	//guard: memory that cannot be taken back does not delay the next kill
	within(reapPatience, func() {
		defer k.reapers.Add(-1)
		eachProcess(dir, reap)
	})
}

// within calls what, and returns when that has returned, or after patience: then it goes on in the
// background.
func within(patience time.Duration, what func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		what()
	}()
	select {
	case <-done:
	case <-time.After(patience):
	}
}

// maxReaped bounds the processes whose memory is taken back. The others give it back as they end.
const maxReaped = 1000

// eachProcess calls what for the processes of the cgroup in dir and below it that have not ended.
func eachProcess(dir string, what func(pid int)) {
	left := maxReaped
	// What cannot be read has ended.
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return nil
		}
		text, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		for field := range bytes.FieldsSeq(text) {
			pid, err := strconv.Atoi(string(field))
			if err != nil || pid <= 0 { // 0 is a process of another PID namespace
				continue
			}
			if left--; left < 0 {
				return fs.SkipAll
			}
			what(pid)
		}
		return nil
	})
}

// reap takes the anonymous memory of a process back that has got SIGKILL, without waiting until
// the process runs and ends (process_mrelease, Linux 5.15), which takes a second on a busy node.
// For a process that does not end, as one of a PID that was used again, the kernel does nothing
// (EINVAL).
func reap(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it has ended
	}
	_, _, _ = unix.Syscall(unix.SYS_PROCESS_MRELEASE, uintptr(fd), 0, 0)
	_ = unix.Close(fd)
}
