package evict

import "time"

// evidence holds what the kernel has counted at the partition's limit, and what followed. It
// matters where the sum of available memory does not: slabs of open files count half as
// reclaimable. An oom proves little by itself: the kernel counts it at every allocation that finds
// nothing to reclaim (mem_cgroup_oom, mm/memcontrol.c), all the time while a process ends
// (docs/eviction.md). It proves something if memory is still short when nothing ends any more.
type evidence struct {
	// since is the time of the first oom that nothing has answered, zero for none. It is not carried
	// over to another run: the counts that a run finds at its start are its base. LastAt is the time
	// of the last one (TestManagerOOMSlabs, TestManagerOOMLongAgo).
	since  time.Time
	LastAt time.Time `json:"lastAt,omitzero"`
	// KilledAt is the time of the first kill at the partition's limit since which memory is short,
	// zero for none. Its memory is awaited (dying). If that does not come back the kill was in
	// vain (TestManagerOOMBeforeSignal, TestManagerKernelKillInVain).
	KilledAt time.Time `json:"killedAt,omitzero"`
	// QuietAt is the time of the last of three events: an oom that began since, a kill, a fall
	// of the usage. Used is the usage then, or its maximum since (TestEvidenceNext).
	QuietAt time.Time `json:"quietAt,omitzero"`
	Used    uint64    `json:"used,omitempty"`
}

const (
	// reapTimeout is the time in which the memory of a killed process begins to come back.
	// After two seconds the kernel frees it for a process that does not do so itself
	// (OOM_REAPER_DELAY, mm/oom_kill.c, since 5.18).
	reapTimeout = 3 * time.Second
	// oomSettle is the time without a kill and without falling usage after which an oom is not
	// about a process that ends. The kernel prints its report between the two counts
	// (oom_kill_process calls dump_header first), which takes that long on a serial console.
	oomSettle = time.Second
	// oomPause is the time without an oom after which the next one is about something else. A process
	// that cannot go on allocates again at once.
	oomPause = 3 * time.Second
)

// counted is the growth of the kernel's counts since the last reading: of oom of the partition,
// and of kills at its limit.
type counted struct{ oom, killed bool }

// next returns the evidence after a reading of the counts and a later reading of the memory,
// which s has. ending means that an eviction has not ended, or ended just now.
func (e evidence) next(now time.Time, c counted, ending bool, s Situation) evidence {
	used, config := s.Memory.Used(), s.Effective()
	short := s.leftWithSlabs() < config.Nearest()+config.MinimumReclaim
	quiet := now.Sub(e.LastAt) // before the oom of now
	//guard: an oom that has proved nothing is forgotten
	if quiet >= oomPause && s.leftWithSlabs() >= config.Hard {
		e.since = time.Time{}
	}
	if c.oom && e.since.IsZero() {
		e.since, e.QuietAt, e.Used = now, now, used
	}
	if c.oom {
		e.LastAt = now
	}
	//guard: a kill after one in vain is awaited
	if c.killed && (e.KilledAt.IsZero() || quiet >= endTimeout) {
		e.KilledAt, e.QuietAt, e.Used = now, now, used
	}
	//guard: kills in vain are not awaited one after another
	if c.killed && e.dying(now) {
		e.QuietAt, e.Used = now, used
	}
	switch began := e.began(); {
	case used > e.Used:
		e.Used = used
	//guard: usage that flutters does not hide an oom for ever
	case used+e.Used/reclaimSteps <= e.Used && now.Sub(began) < endTimeout:
		e.QuietAt, e.Used = now, used
	}
	//guard: a kill whose memory is back is over
	if !short && !e.KilledAt.IsZero() {
		e.KilledAt, e.since = time.Time{}, time.Time{} // the kill was the answer
	}
	//guard: an oom with memory left proves nothing
	if ending || s.free() >= config.Hard {
		e.since = time.Time{}
	}
	return e
}

// began returns the time at which the present shortage began.
func (e evidence) began() time.Time {
	//guard: a kill is awaited where an eviction has just ended
	if e.KilledAt.After(e.since) {
		return e.KilledAt
	}
	return e.since
}

// dying reports whether the memory of a process that the kernel has killed is awaited.
func (e evidence) dying(now time.Time) bool {
	return now.Sub(e.QuietAt) < reapTimeout && now.Sub(e.KilledAt) < endTimeout
}

// freeing reports whether such a process frees memory, as freeing does for evictions.
func (e evidence) freeing(now time.Time) bool {
	return e.dying(now) && now.Sub(e.QuietAt) < freeingWindow
}

// stuck reports whether ooms prove that no part of the slabs can be reclaimed.
func (s Situation) stuck() bool {
	e := s.Evidence
	return !e.since.IsZero() && !e.dying(s.Now) && s.Now.Sub(e.QuietAt) >= oomSettle &&
		s.leftWithSlabs() < s.Effective().Hard
}

// left returns the memory left below the limit, in bytes, as far as it can be used.
func (s Situation) left() uint64 {
	if s.stuck() {
		return s.leftWithSlabs()
	}
	return s.Memory.Available(s.limit())
}

// leftWithSlabs returns the memory left below the limit, in bytes, if the slabs count in full.
func (s Situation) leftWithSlabs() uint64 {
	return s.limit() - min(s.Memory.UsedWithSlabs(), s.limit())
}

// free returns the memory left below the limit, in bytes, before anything is reclaimed.
func (s Situation) free() uint64 { return s.limit() - min(s.Memory.Current, s.limit()) }
