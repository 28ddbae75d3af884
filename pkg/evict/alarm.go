package evict

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// alarm waits until the kernel reports a change of the memory of a cgroup, or until a time is over.
// The kernel counts in memory.events.local that the limit or memory.high is met before it reclaims
// (try_charge_memcg, mm/memcontrol.c): a PSI trigger would fire later. All methods but Wake and
// Close belong to one goroutine.
type alarm struct {
	events, wake int

	mu     sync.Mutex
	closed bool
}

// newAlarm opens the files of the cgroup in dir.
func newAlarm(dir string) (a *alarm, err error) {
	a = &alarm{events: -1, wake: -1}
	if a.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	// Only the cgroup's own events count: the cgroups below it reclaim at limits of their own, a
	// hundred times a second.
	path := filepath.Join(dir, "memory.events.local")
	if a.events, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		a.Close()
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	a.drain()
	return a, nil
}

// Wake ends a Wait, or the next one. It may be called from any goroutine.
func (a *alarm) Wake() {
	a.mu.Lock()
	defer a.mu.Unlock()
	//guard: an alarm that is closed wakes nobody
	if !a.closed {
		// If the counter is full, it wakes already.
		_, _ = unix.Write(a.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

// Wait waits for the kernel, for Wake, for ctx to end, or for d. It reports whether
// memory.events.local has changed. An epoll that the Go runtime waits for, as for a socket, costs
// as much as this ppoll (tried).
func (a *alarm) Wait(ctx context.Context, d time.Duration) (events bool, err error) {
	stop := context.AfterFunc(ctx, a.Wake)
	defer stop()
	fds := a.fds()
	timeout := unix.NsecToTimespec(d.Nanoseconds())
	// The Go runtime interrupts its threads with signals. The kernel leaves the remaining time in
	// timeout.
	for err = unix.EINTR; errors.Is(err, unix.EINTR) && ctx.Err() == nil; {
		_, err = unix.Ppoll(fds, &timeout, nil)
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if err != nil {
		return false, fmt.Errorf("waiting for memory events: %w", err)
	}
	if fds[0].Revents != 0 {
		var count [8]byte
		_, _ = unix.Read(a.wake, count[:]) // empty if read already
	}
	if fds[1].Revents != 0 {
		a.drain()
	}
	return fds[1].Revents != 0, nil
}

// fds returns the files to wait for.
func (a *alarm) fds() []unix.PollFd {
	return []unix.PollFd{
		{Fd: int32(a.wake), Events: unix.POLLIN},
		{Fd: int32(a.events), Events: unix.POLLPRI},
	}
}

// drain reads memory.events.local: poll reports a change until it is read.
func (a *alarm) drain() {
	var buffer [256]byte
	if _, err := unix.Pread(a.events, buffer[:], 0); errors.Is(err, unix.ENODEV) {
		_ = unix.Close(a.events) // the cgroup is gone
		a.events = -1
	}
}

// Close closes the files.
func (a *alarm) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for _, fd := range []int{a.events, a.wake} {
		if fd >= 0 {
			_ = unix.Close(fd) // nothing is buffered
		}
	}
}
