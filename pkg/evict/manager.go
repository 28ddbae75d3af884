package evict

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"node-partition.io/node-partition/internal/partition"
)

const (
	// rereadDelay is the delay after which memory is read again before a pod is evicted. Between 5.16
	// and 6.7 the kernel skips adding up memory.stat while another process has it do so, and then page
	// cache of the last milliseconds counts as used (mem_cgroup_flush_stats).
	rereadDelay = 3 * time.Millisecond
	// retryInterval is the pause between repetitions of a dry run, a failed LowerLimit and a message.
	retryInterval = time.Minute
	// ownerlessInterval bounds the age of Report.Ownerless and of Usage, which take a reading of all
	// pods.
	ownerlessInterval = 5 * time.Minute
	// pollTimeout bounds the time of a poll, which reads kernel files only.
	pollTimeout = 30 * time.Second
)

// Manager keeps a partition below its limit. A node has one for each partition. Its goroutine polls
// the memory, decides, acts and waits. The executor carries out the decisions.
type Manager struct {
	*Options
	watch      *watch
	containers *containers
	executor   *executor
	warnings   *warnings
	background sync.WaitGroup
	peaks      peaks

	mu     sync.Mutex
	config Settings
	report Report
	polled struct {
		at   time.Time
		open int // evictions
	}
	// usage is the last usage of each pod by UID. It is replaced as a whole.
	usage map[string]Usage

	// ownerless is the memory that belongs to no pod, as it was last measured.
	ownerless struct {
		bytes uint64
		at    time.Time
	}
	// The goroutine in Run owns these.
	rest      rest
	lowerings lowerings
	lending   lending
	// noCandidateAt is the time of the last call of Events.NoCandidate.
	noCandidateAt time.Time
	// raisedAt is the time since which the limit in force is above the configured one.
	raisedAt time.Time
}

// New returns a manager that evicts no pod before Run, or an error that names a missing option.
func New(o Options) (*Manager, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	o.slice = partition.CgroupPath(o.Partition.Slice())
	m := &Manager{Options: &o, report: Report{Partition: o.Partition}}
	m.warnings = &warnings{Options: m.Options, at: map[string]time.Time{}}
	m.watch = &watch{Options: m.Options, woken: make(chan struct{}, 1)}
	m.containers = &containers{Options: m.Options, background: &m.background, wake: m.watch.wake, warn: m.warnings.warn}
	m.watch.condemned = func() uint64 { return m.containers.condemned.total(m.Cgroups) }
	m.executor = &executor{
		Options:     m.Options,
		containers:  m.containers,
		watch:       m.watch,
		warn:        m.warnings.warn,
		dryRunUntil: map[string]time.Time{},
		reporter:    &reporter{Options: m.Options, containers: m.containers, background: &m.background, wake: m.watch.wake},
	}
	return m, nil
}

// Candidates lists the pods of the partition without their usage (Inventory.Pods).
func (m *Manager) Candidates() []Pod { return m.Pods() }

// Usage returns the usage of the pods by UID, as it was last measured: under pressure at each
// decision, and else within ownerlessInterval. The map must not be changed.
func (m *Manager) Usage() map[string]Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.usage
}

// SetConfig replaces the configuration. The next poll uses it.
func (m *Manager) SetConfig(c Settings) {
	m.mu.Lock()
	m.config = c
	m.mu.Unlock()
	m.watch.wake()
}

// present returns the configuration.
func (m *Manager) present() Settings {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.config
}

// Alive returns an error if no poll, successful or failed, has ended for pollTimeout.
func (m *Manager) Alive() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.polled.at.IsZero() {
		return nil // Run has not begun
	}
	if since := time.Since(m.polled.at); since > pollTimeout {
		return fmt.Errorf("eviction: the memory of %s was not polled for %s", m.name(), since.Round(time.Second))
	}
	return nil
}

// Open counts the evictions that have begun and are not reported yet.
func (m *Manager) Open() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.polled.open
}

// Run guards the partition until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	defer m.background.Wait()
	defer m.watch.close()
	m.executor.load(m.present().Cooldown)
	for {
		if err := m.watch.wait(ctx, m.step(ctx)); err != nil {
			return err
		}
	}
}

// step polls once, and returns the time until the next poll.
func (m *Manager) step(ctx context.Context) time.Duration {
	next, err := m.poll(ctx)
	m.mu.Lock()
	m.polled.at, m.polled.open = time.Now(), len(m.executor.state.Open)
	if err != nil {
		m.report = Report{Partition: m.Partition} // without a reading there is nothing to report
		//guard: after a failed poll page cache does not count as used
		m.watch.statAt = time.Time{} // and the next report is of a reading with memory.stat
	}
	m.mu.Unlock()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		m.watch.close() // the slice is gone, or was created again
		//guard: a partition that is made again has no memory of the former one's pods
		m.ownerless.at = time.Time{}
		return heldPollInterval
	case err != nil:
		err = fmt.Errorf("no pod is evicted while the memory of %s cannot be read: %w", m.name(), err)
		m.Events.Failed(Eviction{}, StepPoll, err)
		m.warnings.warn(err)
		return time.Second
	}
	return next
}

// poll reads the memory, decides, acts, and returns the time until the next poll.
func (m *Manager) poll(ctx context.Context) (time.Duration, error) {
	s := Situation{Now: time.Now(), API: m.API.Available(), Config: m.present()}
	s.Lent = m.lending.lent(&s.Config)
	readErr := m.read(&s)
	m.executor.resume(ctx, s, readErr == nil)
	freed := m.executor.progress(ctx, s)
	if readErr != nil {
		return 0, readErr
	}
	grew := m.watch.count()
	if freed || grew != (counted{}) {
		// The first reading may be from before the processes ended, or before the kernel counted.
		if err := m.read(&s); err != nil {
			return 0, err
		}
	}
	m.lend(&s)
	m.weigh(&s, grew, freed)
	m.executor.forgetUnreclaimable(s.Now)
	d := m.decide(&s)
	if d.Victim != nil && (!s.Config.DryRun || !m.executor.isTold(d.Victim.UID, s.Now)) {
		// One reading is not enough to evict a pod.
		select {
		case <-ctx.Done():
			return 0, nil
		case <-time.After(rereadDelay):
		}
		// The kernel may have killed in the meantime.
		//guard: one reading is not enough to evict
		grew := m.watch.count()
		if err := m.read(&s); err != nil {
			return 0, err
		}
		m.weigh(&s, grew, false)
		d = m.decide(&s)
	}
	m.executor.state = d.State
	m.executor.keepShortage(s.Now) // before the steps that it leads to
	m.publish(s, d)
	m.act(ctx, s, d)
	speed := m.watch.grown(s.Now, s.Memory.Used())
	open, burst := m.executor.state.Open, cmp.Or(m.Burst, maxBurst)
	return nextPoll(s, d, open, speed, burst), nil
}

func (m *Manager) read(s *Situation) error {
	if err := m.watch.read(s, len(m.executor.state.Open) > 0); err != nil {
		return err
	}
	if m.watch.statAt.Equal(s.Now) { // without memory.stat page cache would count as used
		m.peaks.note(s.Now, s.Memory.Used())
	}
	return nil
}

// weigh adds what the kernel has counted to s, whose memory was read after that. freed means that
// an eviction has ended just now.
func (m *Manager) weigh(s *Situation, grew counted, freed bool) {
	ending := freed || ending(m.executor.state.Open, s.Now)
	m.watch.evidence = m.watch.evidence.next(time.Now(), grew, ending, *s)
	s.Evidence = m.watch.evidence
}

// decide reads the pods if they are needed, and decides.
func (m *Manager) decide(s *Situation) Decision {
	s.State = m.executor.state // progress has changed it
	if d, rests := m.rest.again(*s); rests {
		return d
	}
	begin := time.Now()
	unknown := m.watch.statAt.Equal(s.Now) && s.Now.Sub(m.ownerless.at) >= ownerlessInterval
	pressed := underPressure(*s)
	if pressed || unknown {
		s.Pods, s.Awaited = m.measured(), !m.Known()
		s.Ownerless = Ownerless(s.Memory.Used(), s.Pods)
		m.ownerless.bytes, m.ownerless.at = s.Ownerless, s.Now
	}
	d := m.choose(s)
	if m.rest = (rest{}); pressed {
		m.rest = newRest(*s, d, time.Since(begin))
	}
	return d
}

// act begins the actions of a decision.
func (m *Manager) act(ctx context.Context, s Situation, d Decision) {
	for _, e := range d.Hurry {
		if open := m.executor.find(e.UID, e.Time); open != nil {
			m.executor.hurry(ctx, s, open, Hard)
		}
	}
	switch {
	case d.Victim != nil:
		m.executor.begin(ctx, s, d)
	case d.Held == HoldUnknown:
		m.Refresh()
	case d.LowerLimit:
		m.lower(ctx, s.Config.Max())
	}
}
