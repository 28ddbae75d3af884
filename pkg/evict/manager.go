package evict

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"
)

const (
	// rereadDelay is how much later memory is read again before a pod goes: between 5.16 and 6.7
	// the kernel skips adding up memory.stat while another process has it do so, and page cache of
	// the last milliseconds counts as used then (mem_cgroup_flush_stats).
	rereadDelay = 3 * time.Millisecond
	// retryInterval is how long a dry run, a failed LowerLimit and a repeated message wait.
	retryInterval = time.Minute
	// lookTimeout is how long a look may take: each of its files is the kernel's.
	lookTimeout = 30 * time.Second
)

// Manager keeps the partition below its limit. Its goroutine looks at the memory, decides, acts and
// waits; the executor carries out what was decided.
type Manager struct {
	*Options
	watch      *watch
	containers *containers
	executor   *executor
	warnings   *warnings
	background sync.WaitGroup

	mu     sync.Mutex
	config Config
	report Report
	looked time.Time

	// Of the goroutine in Run.
	lowerings lowerings
	nobodyAt  time.Time // when Events.Nobody was last called
	raisedAt  time.Time // since when the limit in force is above the configured one
}

// New returns a manager that evicts nobody before Run.
func New(o Options) *Manager {
	m := &Manager{Options: &o}
	m.warnings = &warnings{Options: m.Options, at: map[string]time.Time{}}
	m.watch = &watch{Options: m.Options, warn: m.warnings.warn}
	m.containers = &containers{Options: m.Options, background: &m.background, wake: m.watch.wake, warn: m.warnings.warn}
	m.executor = &executor{
		Options: m.Options, containers: m.containers, watch: m.watch, warn: m.warnings.warn, dryRunUntil: map[string]time.Time{},
		reporter: &reporter{Options: m.Options, containers: m.containers, background: &m.background, wake: m.watch.wake},
	}
	return m
}

// SetConfig gives another configuration, which the next look follows.
func (m *Manager) SetConfig(c Config) {
	m.mu.Lock()
	m.config = c
	m.mu.Unlock()
	m.watch.wake()
}

// present returns the configuration.
func (m *Manager) present() Config {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.config
}

// Alive returns an error when no look was begun or failed for much longer than one can take.
func (m *Manager) Alive() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.looked.IsZero() {
		return nil // Run has not begun
	}
	if since := time.Since(m.looked); since > lookTimeout {
		return fmt.Errorf("eviction: nobody has looked at the memory of the partition for %s", since.Round(time.Second))
	}
	return nil
}

// Run looks after the partition until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	defer m.background.Wait()
	defer m.watch.close()
	m.load()
	for {
		if err := m.watch.wait(ctx, m.step(ctx)); err != nil {
			return err
		}
	}
}

// load goes on where an earlier run ended.
func (m *Manager) load() { m.executor.load(m.present().Cooldown) }

// step looks once, and returns the time until the next look.
func (m *Manager) step(ctx context.Context) time.Duration {
	next, err := m.look(ctx)
	m.mu.Lock()
	m.looked = time.Now()
	if err != nil {
		m.report = Report{} // what is not seen is not reported
	}
	m.mu.Unlock()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		m.watch.close() // the slice is gone, or was made again
		return maxPollInterval
	case err != nil:
		err = fmt.Errorf("nobody is evicted while the memory of the partition cannot be read: %w", err)
		m.Events.Failed(Eviction{}, StepLook, err)
		m.warnings.warn(err)
		return time.Second
	}
	return next
}

// look looks once, decides and acts, and returns the time until the next look.
func (m *Manager) look(ctx context.Context) (time.Duration, error) {
	s := Snapshot{Now: time.Now(), API: m.API.Available(), Config: m.present()}
	readErr := m.read(&s)
	m.executor.resume(ctx, s, readErr == nil)
	freed := m.executor.progress(ctx, s)
	if readErr != nil {
		return 0, readErr
	}
	if freed {
		// What was read before may be from before the end of the processes.
		if err := m.read(&s); err != nil {
			return 0, err
		}
	}
	s.OutOfMemory = m.watch.outOfMemory(s.Now)
	m.executor.forgetStays(s.Now)
	d := m.decide(s)
	if d.Victim != nil {
		// A pod does not go for one reading.
		select {
		case <-ctx.Done():
			return 0, nil
		case <-time.After(rereadDelay):
		}
		if err := m.read(&s); err != nil {
			return 0, err
		}
		d = m.decide(s)
	}
	m.executor.state = d.State
	m.publish(s, d)
	m.act(ctx, s, d)
	speed := m.watch.growth(s.Now, s.Memory.Used())
	return nextLook(s, d, m.executor.state.Open, speed, cmp.Or(m.Burst, MaxBurst)), nil
}

func (m *Manager) read(s *Snapshot) error {
	return m.watch.read(s, len(m.executor.state.Open) > 0)
}

// decide asks for the pods where they are needed, and decides.
func (m *Manager) decide(s Snapshot) Decision {
	s.State = m.executor.state // progress has changed it
	if Pressure(s) {
		s.Pods = m.measured()
	}
	return m.choose(s)
}

// act begins what was decided.
func (m *Manager) act(ctx context.Context, s Snapshot, d Decision) {
	for _, e := range d.Hurry {
		if open := m.executor.find(e.UID, e.Time); open != nil {
			m.executor.hurry(ctx, open, Hard)
		}
	}
	switch {
	case d.Victim != nil:
		m.executor.begin(ctx, s, d)
	case d.Held == HoldUnknown:
		m.Refresh()
	case d.LowerLimit:
		m.lower(ctx, s.Config.Limit)
	}
}
