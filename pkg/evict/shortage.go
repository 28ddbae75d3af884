package evict

import (
	"fmt"
	"time"

	"nodepartition/internal/unitname"
)

// shortage is the content of the file that carries a shortage of memory over to the next run of the
// program. Without it, a restart would begin the soft threshold's period again, stop short of the
// minimum reclaim, and forget that memory is awaited. Its times count from the boot
// (CLOCK_BOOTTIME), so that a clock that is set changes none of them.
type shortage struct {
	stamp
	// Boot is the kernel's ID of the boot, and At the time at which the file was written.
	Boot string        `json:"boot"`
	At   time.Duration `json:"at"`
	// These are the fields of State with the same names. A time of 0 stands for none.
	Reclaiming Threshold         `json:"reclaiming,omitempty"`
	SoftSince  time.Duration     `json:"softSince,omitempty"`
	Doubt      time.Duration     `json:"doubt,omitempty"`
	Base       uint64            `json:"base,omitempty"`
	PodBase    map[string]uint64 `json:"podBase,omitempty"`
	// These are the fields of evidence about a kill by the kernel. Ooms are not carried over: the
	// counts that a run finds at its start are its base.
	KilledAt time.Duration `json:"killedAt,omitempty"`
	QuietAt  time.Duration `json:"quietAt,omitempty"`
	Used     uint64        `json:"used,omitempty"`
}

const (
	// shortageAge is the age from which a file says nothing of the present shortage.
	// The service starts again within seconds.
	shortageAge = time.Minute
	// shortageRenewal is the age at which an unchanged file is written again.
	shortageRenewal = 10 * time.Second
	// shortagePause is the least time between two writes of amounts, which may change with each poll.
	shortagePause = 100 * time.Millisecond
)

// keptShortage holds what was last written, by the clock of this run.
type keptShortage struct {
	shortageTimes
	amounts shortageAmounts
	at      time.Time
}

// shortageTimes is the part of a shortage that is written at once when it changes.
type shortageTimes struct {
	reclaiming                 Threshold
	softSince, doubt, killedAt time.Time
	based                      bool
}

// shortageAmounts is the part that may change with each poll.
type shortageAmounts struct {
	base, used uint64
	quietAt    time.Time
}

// keepShortage writes the shortage to its file if it has changed.
func (m *Manager) keepShortage(now time.Time) {
	if m.Shortage == "" {
		return
	}
	state, e := &m.executor.state, m.watch.evidence
	next := keptShortage{
		shortageTimes{state.Reclaiming, state.SoftSince, state.Doubt, e.killedAt, state.Base > 0},
		shortageAmounts{base: state.Base}, now,
	}
	if !e.killedAt.IsZero() {
		next.amounts.used, next.amounts.quietAt = e.used, e.quietAt
	}
	changed, age := next.shortageTimes != m.kept.shortageTimes, now.Sub(m.kept.at)
	switch {
	case changed:
	case next.amounts != m.kept.amounts && age >= shortagePause:
	//guard: an unchanged shortage does not become old
	case next.shortageTimes != shortageTimes{} && age >= shortageRenewal:
	default:
		return
	}
	m.kept = next
	if err := m.writeShortage(state, e); err != nil {
		m.Events.Failed(Eviction{}, StepState, err)
	}
}

func (m *Manager) writeShortage(state *State, e evidence) error {
	boot, since, err := m.SinceBoot()
	if err != nil {
		return fmt.Errorf("state of evictions: the time since the boot: %w", err)
	}
	now := time.Now()
	at := func(t time.Time) time.Duration {
		if t.IsZero() {
			return 0
		}
		return since + t.Sub(now)
	}
	s := shortage{
		stamp: newStamp(m.Partition), Boot: boot, At: since,
		Reclaiming: state.Reclaiming, SoftSince: at(state.SoftSince), Doubt: at(state.Doubt),
		Base: state.Base, PodBase: state.PodBase,
	}
	if !e.killedAt.IsZero() {
		s.KilledAt, s.QuietAt, s.Used = at(e.killedAt), at(e.quietAt), e.used
	}
	return writeState(m.Shortage, s)
}

// loadShortage continues with the shortage of an earlier run.
func (m *Manager) loadShortage() {
	if m.Shortage == "" {
		return
	}
	s, err := readShortage(m.Shortage, m.Partition)
	if err != nil {
		m.Events.Failed(Eviction{}, StepState, err) // and begin without one
		return
	}
	boot, since, err := m.SinceBoot()
	if err != nil {
		m.Events.Failed(Eviction{}, StepState, fmt.Errorf("state of evictions: the time since the boot: %w", err))
		return
	}
	m.watch.earlier = s.restore(&m.executor.state, time.Now(), boot, since)
}

// readShortage returns the content of the file, and an empty shortage if there is no file.
func readShortage(path string, partition unitname.PartitionName) (shortage, error) {
	var s shortage
	if err := readState(path, &s, partition); err != nil {
		return shortage{}, err
	}
	if s.Reclaiming != "" && s.Reclaiming != Hard && s.Reclaiming != Soft {
		return shortage{}, fmt.Errorf(
			"state of evictions: %s: reclaiming: %q: want %q or %q; remove it", path, s.Reclaiming, Hard, Soft,
		)
	}
	return s, nil
}

// restore sets the state that the shortage has, and returns the evidence, at a time of the present
// boot. It changes nothing if the shortage is of another boot or too old. What has happened is not
// later than now, and no doubt lasts longer than one that begins now.
func (s shortage) restore(state *State, now time.Time, boot string, since time.Duration) evidence {
	//guard: a shortage of another boot is ignored
	//guard: a shortage without a boot is ignored
	//guard: a shortage of before the boot is ignored
	//guard: a shortage of a later time is ignored
	//guard: an old shortage is ignored
	if s.Boot == "" || s.Boot != boot || s.At <= 0 || s.At > since || since-s.At >= shortageAge {
		return evidence{}
	}
	at := func(t, latest time.Duration) time.Time {
		if t <= 0 {
			return time.Time{}
		}
		//guard: no time of a shortage is later than a run could have written
		return now.Add(min(t, latest) - since)
	}
	state.Reclaiming, state.SoftSince = s.Reclaiming, at(s.SoftSince, since)
	state.Doubt = at(s.Doubt, since+reclaimTimeout)
	state.Base, state.PodBase = s.Base, s.PodBase
	e := evidence{killedAt: at(s.KilledAt, since)}
	if !e.killedAt.IsZero() {
		//guard: one kill in vain after another is not awaited after a restart
		e.lastAt = at(s.At, since) // the kills of before were not long ago
		e.quietAt, e.used = at(s.QuietAt, since), s.Used
	}
	return e
}
