package evict

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/thresholds"
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
	w.watch = &watch{Options: &Options{Cgroups: cgroupfs.FS(root), Lookout: l}, warn: func(err error) { t.Error(err) }}
	for name, content := range map[string]string{
		"memory.current": "0\n", "memory.max": "1048576000\n", "memory.stat": "", "memory.events.local": "", "memory.pressure": "",
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

// polled is what a poll leaves.
func (w *watched) polled() {
	w.statAt = time.Now().Add(time.Hour)
	w.calm = &calm{
		settings: Settings{Thresholds: thresholds.Thresholds{Limit: 1000 * mi, Hard: 100 * mi}},
		limit:    1000 * mi, burst: maxBurst, at: time.Now(),
	}
}

// uses changes the usage.
func (w *watched) uses(bytes uint64) {
	w.t.Helper()
	if err := os.WriteFile(w.Cgroups.Path("memory.current"), []byte(number(bytes)), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// waits begins to wait, for an hour if nothing happens, and returns the end of it.
func (w *watched) waits(ctx context.Context) <-chan error {
	ended := make(chan error, 1)
	w.waiting.Go(func() { ended <- w.wait(ctx, minPollInterval) })
	return ended
}

// runs returns a lookout that runs until the end of the test, or until end is called.
func runs(t *testing.T) (l *Lookout, end func()) {
	t.Helper()
	l = &Lookout{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	for {
		l.mu.Lock()
		running := l.running
		l.mu.Unlock()
		if running {
			break
		}
		<-time.After(time.Millisecond)
	}
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
func (l *Lookout) watches(n int) {
	for {
		l.mu.Lock()
		got := len(l.posts)
		l.mu.Unlock()
		if got == n {
			return
		}
		<-time.After(time.Millisecond)
	}
}

// still reports an error if a wait is over after the lookout has looked twice more.
func (w *watched) still(l *Lookout, ended <-chan error) {
	w.t.Helper()
	for n := w.looks(l); n.Load() < 2; {
		select {
		case err := <-ended:
			w.t.Fatalf("ended with %v", err)
		case <-time.After(time.Millisecond):
		}
	}
}

// TestLookout: a calm partition is watched until something happens in it. The manager of another
// partition is left alone.
func TestLookout(t *testing.T) {
	t.Parallel()
	for name, happens := range map[string]func(w *watched){
		"it grows":             func(w *watched) { w.uses(900 * mi) },
		"its manager is woken": func(w *watched) { w.wake() },
		"its cgroup goes": func(w *watched) {
			w.Lookout.mu.Lock()
			defer w.Lookout.mu.Unlock()
			w.meter.Close() // a read fails then
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, _ := runs(t)
			w, other := newWatched(t, l), newWatched(t, l)
			ended, otherEnded := w.waits(t.Context()), other.waits(t.Context())
			l.watches(2)
			w.still(l, ended)
			happens(w)
			if err := <-ended; err != nil {
				t.Error(err)
			}
			other.still(l, otherEnded)
			l.watches(1)
			// And again, after the next poll.
			w.uses(0)
			if name == "its cgroup goes" {
				w.meter = nil
				w.watch.close()
				if err := w.open(); err != nil {
					t.Fatal(err)
				}
			}
			w.polled()
			again := w.waits(t.Context())
			l.watches(2)
			w.still(l, again)
		})
	}
}

// TestLookoutPollIsDue: once in statInterval the manager polls.
func TestLookoutPollIsDue(t *testing.T) {
	t.Parallel()
	l, _ := runs(t)
	w := newWatched(t, l)
	begin := time.Now()
	w.statAt = begin
	if err := <-w.waits(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < statInterval/2 {
		t.Errorf("the manager polls again after %s, want %s", took, statInterval)
	}
}

// TestLookoutEnds: a manager that ends is not watched, and when the lookout ends or does not run
// managers poll by themselves.
func TestLookoutEnds(t *testing.T) {
	t.Parallel()
	l, end := runs(t)
	w, other := newWatched(t, l), newWatched(t, l)
	ctx, cancel := context.WithCancel(t.Context())
	ended, otherEnded := w.waits(ctx), other.waits(t.Context())
	l.watches(2)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	l.watches(1)
	end()
	if err := <-otherEnded; err != nil {
		t.Error(err)
	}
	if err := <-other.waits(t.Context()); err != nil { // it polls
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
	for _, n := range []*node{n, n.beside(telemetry)} {
		n.files(n.slice, map[string]string{"memory.max": number(4000 * mi)})
		o := n.options()
		o.Lookout = l
		m, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		c := hardOnly
		c.Limit = 4000 * mi
		m.SetConfig(c)
		running.Go(func() { _ = m.Run(ctx) }) // it ends with its context
	}
	l.watches(2)
	n.files(n.slice, map[string]string{"memory.current": number(3800 * mi)})
	l.watches(1) // the manager polls it by itself
}

// TestCalm: a partition is left to the lookout far from its thresholds alone, while nothing is to be
// done in it.
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
		"switched off":           {func(s *Situation, _ *Decision, _ *[]execution) { s.Config.Off = true }, false},
		"no limit":               {func(s *Situation, _ *Decision, _ *[]execution) { s.Memory.Max = cgroupfs.Unlimited }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Situation{
				Now: noon, Config: Settings{Thresholds: thresholds.Thresholds{Limit: 1000 * mi, Hard: 100 * mi}},
				Memory: cgroupfs.MemoryReading{Current: 150 * mi, Max: 1000 * mi},
			}
			d := Decision{Available: 850 * mi}
			var open []execution
			test.change(&s, &d, &open)
			if got := calmAfter(s, d, open, maxBurst); (got != nil) != test.want {
				t.Errorf("left to the lookout: %+v", got)
			}
		})
	}
}

// TestCalmLook: the next look is as soon as a poll would be.
func TestCalmLook(t *testing.T) {
	t.Parallel()
	settings := Settings{Thresholds: thresholds.Thresholds{Limit: 1000 * mi, Hard: 100 * mi, Soft: 200 * mi}}
	for name, test := range map[string]struct {
		used uint64 // 100 ms after 100 MiB
		want time.Duration
		calm bool
	}{
		"as before":           {100 * mi, pollInterval(700*mi, 100*mi, 0, maxBurst), true},
		"less":                {50 * mi, pollInterval(750*mi, 100*mi, 0, maxBurst), true},
		"more":                {200 * mi, pollInterval(600*mi, 100*mi, 1000*mi, maxBurst), true},
		"much more":           {590 * mi, pollInterval(210*mi, 100*mi, 4900*mi, maxBurst), true},
		"no longer far":       {600 * mi, 0, false},
		"more than the limit": {1100 * mi, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := calm{settings: settings, limit: 1000 * mi, burst: maxBurst, used: 100 * mi, at: noon}
			got, calm := c.look(noon.Add(100*time.Millisecond), test.used)
			if calm != test.calm || got != test.want {
				t.Errorf("looks again in %s, %t; want %s, %t", got, calm, test.want, test.calm)
			}
			if c.used != test.used {
				t.Errorf("the next growth is from %d", c.used)
			}
		})
	}
}
