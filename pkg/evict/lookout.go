package evict

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Lookout watches the partitions that are far from their thresholds, in one thread for all of them.
// A manager that waits by itself wakes a thread for each poll, and the Go runtime wakes others with
// it: natively four managers took up to five times the CPU time of one (Go 1.26). The zero value is
// ready for Run.
type Lookout struct {
	mu      sync.Mutex
	running bool
	wake    int // an eventfd, while running
	posts   []*post
	// relieved means that a manager was relieved since the last yield.
	relieved bool
}

// post is one partition that is watched. The lookout alone uses it, from the call of keep until
// relieved is closed.
type post struct {
	alarm *alarm
	// look reads the usage of the partition. It returns the time until the next look, or false if the
	// manager has to poll.
	look     func(now time.Time) (time.Duration, bool)
	at       time.Time // of the next look
	relieved chan struct{}
}

// keep watches a partition until its manager has to poll: look says so, the kernel or a wake is
// reported, or ctx ends. It returns false, at once, if Run is not running.
func (l *Lookout) keep(
	ctx context.Context, a *alarm, first time.Duration, look func(now time.Time) (time.Duration, bool),
) bool {
	p := &post{alarm: a, look: look, relieved: make(chan struct{})}
	if !l.add(p, first) {
		return false
	}
	select {
	case <-p.relieved:
	case <-ctx.Done():
		l.remove(p)
	}
	return true
}

// add has the lookout watch p, first after that time. It returns false if Run is not running.
func (l *Lookout) add(p *post, first time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.running {
		return false
	}
	l.posts = append(l.posts, p)
	p.at = l.next(time.Now(), first)
	l.poke()
	return true
}

// remove ends the watch of p. No look at it is under way when remove returns.
func (l *Lookout) remove(p *post) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.posts = slices.DeleteFunc(l.posts, func(other *post) bool { return other == p })
}

// poke ends the wait of Run. If the counter is full, it has been ended already.
func (l *Lookout) poke() { _, _ = unix.Write(l.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

// next returns the time of a look: d from now, or together with the looks at other partitions.
func (l *Lookout) next(now time.Time, d time.Duration) time.Time {
	if len(l.posts) > 1 {
		// A step of the wall clock changes one wait, and lengthens none.
		d = together(time.Duration(now.UnixNano()), d)
	}
	return now.Add(d)
}

// Run watches until ctx ends. Managers poll by themselves while it does not run. A second Run at
// the same time is an error.
func (l *Lookout) Run(ctx context.Context) error {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("eviction: eventfd: %w", err)
	}
	if !l.begin(wake) {
		return errors.Join(errors.New("eviction: the lookout runs already"), unix.Close(wake))
	}
	defer l.end()
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.running {
			l.poke()
		}
	})
	defer stop()
	for ctx.Err() == nil {
		watched, fds, until := l.round(time.Now())
		l.yield() // which takes time
		timeout := unix.NsecToTimespec(max(time.Until(until), 0).Nanoseconds())
		if _, err := unix.Ppoll(fds, &timeout, nil); errors.Is(err, unix.EINTR) {
			continue
		} else if err != nil {
			return fmt.Errorf("eviction: waiting for memory events of all partitions: %w", err)
		}
		l.reported(watched, fds)
	}
	return ctx.Err()
}

// begin reports whether the lookout did not run before. wake is an eventfd.
func (l *Lookout) begin(wake int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running {
		return false
	}
	l.wake, l.running = wake, true
	return true
}

// yield calls runtime.Gosched if a manager was relieved since the last call. Where there is no
// other processor, the Go runtime takes 20 ms to notice that this thread waits for the kernel
// (retake in runtime/proc.go, Go 1.26). A call of Gosched in each round would cost more than the
// looks.
func (l *Lookout) yield() {
	l.mu.Lock()
	relieved := l.relieved
	l.relieved = false
	l.mu.Unlock()
	if relieved {
		runtime.Gosched()
	}
}

// relieve has the manager of a partition poll.
func (l *Lookout) relieve(p *post) {
	close(p.relieved)
	l.relieved = true
}

// end relieves all, and closes the eventfd.
func (l *Lookout) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = false
	for _, p := range l.posts {
		l.relieve(p)
	}
	l.posts = nil
	_ = unix.Close(l.wake) // nothing is buffered
}

// fdsOf is the number of files of an alarm.
const fdsOf = 2

// round looks at the partitions whose time has come, and relieves those that need a poll. It
// returns the others, the files to wait for, which are the eventfd and those of each partition, and
// the time of the next round.
func (l *Lookout) round(now time.Time) (watched []*post, fds []unix.PollFd, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	until = now.Add(time.Hour)
	l.posts = slices.DeleteFunc(l.posts, func(p *post) bool {
		if p.at.After(now) {
			return false
		}
		d, quiet := p.look(now)
		if !quiet {
			l.relieve(p)
			return true
		}
		p.at = l.next(now, d)
		return false
	})
	fds = append(fds, unix.PollFd{Fd: int32(l.wake), Events: unix.POLLIN})
	for _, p := range l.posts {
		if p.at.Before(until) {
			until = p.at
		}
		fds = append(fds, p.alarm.fds()...)
	}
	return slices.Clone(l.posts), fds, until
}

// reported relieves the partitions of which a file has something to report.
func (l *Lookout) reported(watched []*post, fds []unix.PollFd) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if fds[0].Revents != 0 {
		var count [8]byte
		_, _ = unix.Read(l.wake, count[:])
	}
	for i, p := range watched {
		of := fds[1+i*fdsOf:][:fdsOf]
		quiet := !slices.ContainsFunc(of, func(fd unix.PollFd) bool { return fd.Revents != 0 })
		at := slices.Index(l.posts, p)
		if quiet || at < 0 { // or its manager has left meanwhile
			continue
		}
		l.posts = slices.Delete(l.posts, at, at+1)
		l.relieve(p)
	}
}
