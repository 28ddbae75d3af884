package evict

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/thresholds"
)

// watched is a partition of 1000 MiB that a lookout watches.
type watched struct {
	*watch
	t       *testing.T
	waiting sync.WaitGroup
}

// newWatched returns a partition with nothing in it.
func newWatched(t *testing.T, l *Lookout) *watched {
	t.Helper()
	w := &watched{t: t}
	root := t.TempDir()
	w.watch = &watch{Options: &Options{Cgroups: cgroups.FS(root), Lookout: l}}
	for name, content := range map[string]string{
		"memory.current": "0\n", "memory.max": "1048576000\n", "memory.stat": "", "memory.events.local": "",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.waiting.Wait(); w.close() })
	w.polled()
	return w
}

// polled does what a poll does at its end.
func (w *watched) polled() {
	w.statAt = time.Now().Add(time.Hour)
	w.calm = &Situation{
		Now: time.Now(), Config: Settings{Thresholds: thresholds.Thresholds{Limit: 1000 * mi, Hard: 100 * mi}},
		Memory: cgroups.MemoryReading{Max: 1000 * mi},
	}
}

// has changes a file of the cgroup.
func (w *watched) has(name, content string) {
	w.t.Helper()
	if err := os.WriteFile(w.Cgroups.Path(name), []byte(content), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// waits begins to wait, with the first look after that time, and returns the end of the wait.
func (w *watched) waits(ctx context.Context, first time.Duration) <-chan error {
	ended := make(chan error, 1)
	w.waiting.Go(func() { ended <- w.wait(ctx, first) })
	return ended
}

// runs returns a lookout that runs until the end of the test, or until end is called.
func runs(t *testing.T) (l *Lookout, end func()) {
	t.Helper()
	l = &Lookout{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	eventually(t, "the lookout runs", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.running
	})
	end = func() {
		if cancel(); ended == nil {
			return
		}
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		ended = nil
	}
	t.Cleanup(end)
	return l, end
}

// looks returns how often the lookout has read the usage of a partition, from now on.
func (w *watched) looks(l *Lookout) *atomic.Int64 {
	var n atomic.Int64
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.posts {
		if look := p.look; p.alarm == w.alarm {
			p.look = func(now time.Time) (time.Duration, bool) {
				n.Add(1)
				return look(now)
			}
		}
	}
	return &n
}

// watches waits until a lookout watches that many partitions.
func (l *Lookout) watches(t *testing.T, n int) {
	t.Helper()
	eventually(t, "another number of partitions is watched", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.posts) == n
	})
}

// eventually waits until a condition holds, for a minute at most.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !cond(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
		<-time.After(time.Millisecond)
	}
}

// still reports an error if a wait is over after the lookout has looked twice more.
func (w *watched) still(l *Lookout, ended <-chan error) {
	w.t.Helper()
	n := w.looks(l)
	eventually(w.t, "it looks twice", func() bool {
		select {
		case err := <-ended:
			w.t.Fatalf("ended with %v", err)
		default:
		}
		return n.Load() >= 2
	})
}

// TestLookout: a calm partition is watched until something happens in it. The manager of another
// partition is left alone.
func TestLookout(t *testing.T) {
	t.Parallel()
	for name, happens := range map[string]func(w *watched){
		"it grows":                      func(w *watched) { w.has("memory.current", number(900*mi)) },
		"its limit is lowered":          func(w *watched) { w.has("memory.max", number(900*mi)) },
		"its manager is woken":          func(w *watched) { w.wake() },
		"memory.current cannot be read": func(w *watched) { w.has("memory.current", "none") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, _ := runs(t)
			w, other := newWatched(t, l), newWatched(t, l)
			ended, otherEnded := w.waits(t.Context(), minPollInterval), other.waits(t.Context(), minPollInterval)
			l.watches(t, 2)
			w.still(l, ended)
			happens(w)
			if err := <-ended; err != nil {
				t.Error(err)
			}
			other.still(l, otherEnded)
			l.watches(t, 1)
			// And again, after the next poll.
			w.has("memory.current", number(0))
			w.has("memory.max", number(1000*mi))
			w.polled()
			again := w.waits(t.Context(), minPollInterval)
			l.watches(t, 2)
			w.still(l, again)
		})
	}
}

// TestLookoutPollIsDue: the manager polls after statInterval if memory.current has moved since
// memory.stat was read, or if the kernel has met the limit, and otherwise after steadyInterval.
func TestLookoutPollIsDue(t *testing.T) {
	t.Parallel()
	const limit = 1000 * mi
	for _, test := range []struct {
		name  string
		is    uint64
		met   bool
		after time.Duration
	}{
		{"steady", 500 * mi, false, steadyInterval},
		{"a little more", 500*mi + limit/steadyShare, false, steadyInterval},
		{"grown", 500*mi + limit/steadyShare + 1, false, statInterval},
		{"shrunk", 500*mi - limit/steadyShare - 1, false, statInterval},
		{"the kill may follow", 500 * mi, true, statInterval},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWatched(t, nil)
			w.has("memory.current", number(test.is))
			begin := time.Now()
			w.statAt, w.statCurrent = begin, 500*mi
			if test.met {
				w.kills.limitAt = begin
			}
			for after, want := range map[time.Duration]bool{test.after - maxPollInterval: true, test.after: false} {
				w.calm.Now = begin.Add(after - maxPollInterval)
				w.calm.Memory.Current = test.is // it does not grow now
				if next, calm := w.look(begin.Add(after)); calm != want {
					t.Errorf("after %s: calm %t, next look after %s", after, calm, next)
				}
			}
		})
	}
}

// TestReadAgain: a poll that has read memory.stat reads it again, also far from the threshold.
func TestReadAgain(t *testing.T) {
	t.Parallel()
	w := newWatched(t, nil)
	w.has("memory.stat", "inactive_file 4096\nactive_file 8192\nslab_reclaimable 0\n")
	s := Situation{Now: time.Now(), Config: w.calm.Config}
	w.statAt = s.Now
	if err := w.read(&s, false); err != nil || s.Memory.InactiveFile != 4096 {
		t.Errorf("read %+v, %v; want memory.stat, too", s.Memory, err)
	}
	s.Now = s.Now.Add(maxPollInterval)
	if err := w.read(&s, false); err != nil || s.Memory.InactiveFile != 0 {
		t.Errorf("the next poll has read %+v, %v", s.Memory, err)
	}
}

// TestLookoutEnds: a manager that ends is not watched, and when the lookout ends or does not run
// managers poll by themselves.
func TestLookoutEnds(t *testing.T) {
	t.Parallel()
	l, end := runs(t)
	w, other := newWatched(t, l), newWatched(t, l)
	ctx, cancel := context.WithCancel(t.Context())
	ended, otherEnded := w.waits(ctx, minPollInterval), other.waits(t.Context(), time.Hour)
	l.watches(t, 2)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	l.watches(t, 1)
	end()
	if err := <-otherEnded; err != nil {
		t.Error(err)
	}
	if err := <-other.waits(t.Context(), minPollInterval); err != nil { // it polls
		t.Error(err)
	}
}

// TestLookoutOfManagers: managers leave their partitions to the lookout, and poll one that grows.
func TestLookoutOfManagers(t *testing.T) {
	t.Parallel()
	l, _ := runs(t)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	n := newNode(t, newDisk(t))
	defer n.cancel()
	n.files(n.slice, map[string]string{"memory.max": number(4000 * mi)})
	var first *Manager
	for _, n := range []*node{n, n.beside()} {
		n.files(n.slice, map[string]string{"memory.max": number(4000 * mi)})
		c := hardOnly
		c.Limit = 4000 * mi
		m := n.manager(c)
		m.Lookout = l
		if first == nil {
			first = m
		}
		running.Go(func() { _ = m.Run(ctx) }) // it ends with its context
	}
	l.watches(t, 2)
	n.files(n.slice, map[string]string{"memory.current": number(3800 * mi)})
	l.watches(t, 1)
	at := first.polledAt()
	eventually(t, "the manager polls it by itself, more often than it has to", func() bool {
		since := first.polledAt().Sub(at)
		at = at.Add(since)
		return since > 0 && since < statInterval/2
	})
	l.watches(t, 1)
}

// polledAt returns the time of the last poll.
func (m *Manager) polledAt() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.polled.at
}

// TestCalm: a partition is left to the lookout far from its thresholds alone, while nothing is to
// be done in it.
func TestCalm(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(s *Situation, d *Decision, open *[]execution)
		want   bool
	}{
		"far":  {func(*Situation, *Decision, *[]execution) {}, true},
		"near": {func(s *Situation, d *Decision, _ *[]execution) { s.Memory.Current, d.Available = 850*mi, 150*mi }, false},
		"full of page cache": {func(s *Situation, _ *Decision, _ *[]execution) {
			s.Memory.Current, s.Memory.InactiveFile = 850*mi, 700*mi
		}, false},
		"an eviction is open":    {func(_ *Situation, _ *Decision, open *[]execution) { *open = []execution{{phase: reclaimed}} }, false},
		"a threshold is crossed": {func(_ *Situation, d *Decision, _ *[]execution) { d.Crossed = Soft }, false},
		"files may come back":    {func(_ *Situation, d *Decision, _ *[]execution) { d.State.Unreclaimable = map[string]uint64{"tmpfs": 1} }, false},
		"switched off":           {func(s *Situation, _ *Decision, _ *[]execution) { s.Config.Off = true }, false},
		"no limit":               {func(s *Situation, _ *Decision, _ *[]execution) { s.Memory.Max = cgroups.Unlimited }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Situation{
				Now: noon, Config: Settings{Thresholds: thresholds.Thresholds{Limit: 1000 * mi, Hard: 100 * mi}},
				Memory: cgroups.MemoryReading{Current: 150 * mi, Max: 1000 * mi},
			}
			d := Decision{Available: 850 * mi}
			var open []execution
			test.change(&s, &d, &open)
			if got := isCalm(s, d, open); got != test.want {
				t.Errorf("left to the lookout: %t", got)
			}
		})
	}
}

// TestCalmLook: the next look is as soon as a poll would be.
func TestCalmLook(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		used   uint64 // 100 ms after 100 MiB
		want   time.Duration
		growth float64
		calm   bool
	}{
		"as before":     {100 * mi, pollInterval(700*mi, 100*mi, 0, maxBurst), 0, true},
		"less":          {50 * mi, pollInterval(750*mi, 100*mi, 0, maxBurst), 0, true},
		"more":          {200 * mi, pollInterval(600*mi, 100*mi, 1000*mi, maxBurst), 1000 * mi, true},
		"much more":     {590 * mi, pollInterval(210*mi, 100*mi, 4900*mi, maxBurst), 4900 * mi, true},
		"no longer far": {600 * mi, 0, 5000 * mi, false},
		"above it":      {1100 * mi, 0, 10000 * mi, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWatched(t, nil)
			w.calm.Now, w.calm.Memory.Current, w.calm.Config.Soft = noon, 100*mi, 200*mi
			w.has("memory.current", number(test.used))
			got, calm := w.look(noon.Add(100 * time.Millisecond))
			if calm != test.calm || got != test.want || w.grown.looked != test.growth {
				t.Errorf("looks again in %s, %g, %t; want %s, %g, %t", got, w.grown.looked, calm, test.want, test.growth, test.calm)
			}
			if w.calm.Memory.Current != test.used || !w.calm.Now.Equal(noon.Add(100*time.Millisecond)) {
				t.Errorf("the next growth is from %d at %s", w.calm.Memory.Current, w.calm.Now)
			}
		})
	}
}

// TestGrown: the poll that follows a look knows the growth that the look has seen, once.
func TestGrown(t *testing.T) {
	t.Parallel()
	g := grown{looked: 3 << 30, used: 10, at: noon}
	for i, want := range []float64{3 << 30, 0, 1 << 30} {
		used := uint64(10 + i/2<<30)
		if got := g.poll(noon.Add(time.Duration(i)*time.Second), used); got != want {
			t.Errorf("poll %d: grew by %g a second, want %g", i, got, want)
		}
	}
}

// TestLookoutTwice: a second Run at the same time is an error.
func TestLookoutTwice(t *testing.T) {
	t.Parallel()
	l, _ := runs(t)
	if err := l.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "runs already") {
		t.Errorf("runs twice: %v", err)
	}
}

// TestCalmEnds: after a poll that failed nothing is left to the lookout.
func TestCalmEnds(t *testing.T) {
	t.Parallel()
	n := newNode(t, newDisk(t))
	defer n.cancel()
	n.files(n.slice, map[string]string{"memory.max": number(4000 * mi)})
	c := hardOnly
	c.Limit = 4000 * mi
	m := n.started(c)
	if m.step(n.ctx); m.watch.calm == nil {
		t.Fatal("not calm")
	}
	n.files(n.slice, map[string]string{"memory.max": "none"})
	if m.step(n.ctx); m.watch.calm != nil {
		t.Error("still calm")
	}
}
