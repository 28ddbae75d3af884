package evict

import (
	"fmt"
	"time"
)

// lendPatience is the time for which a node that is not known leaves what it has lent.
const lendPatience = 30 * time.Second

// Spare is the memory of a node that nobody needs, in bytes.
type Spare struct {
	// Bytes is what is available above the kubelet's threshold and Margin, less what others may still
	// take. Below zero the node lacks as much.
	Bytes int64
	// Margin is kept free while memory is lent. Twice as much has to be free before more is lent.
	Margin uint64
}

// lending is what the node lends to a partition. It is a number of the monitor alone: the kernel's
// limit has room for all of the burst, and evictions keep the partition below what is lent.
type lending struct {
	// guarded is the configured limit and what is lent beyond it, in bytes.
	guarded uint64
	// at is the time of the last look at the node. known is that of the last one that has found what
	// the node can spare, or the start.
	at, known time.Time
}

// lent returns what is lent, in bytes, with a configuration that may be another one than before.
func (l *lending) lent(c *Settings) uint64 {
	return min(l.guarded-min(c.Limit, l.guarded), c.Burst)
}

// lend decides what the node lends from now on, and has the kernel take back what page cache uses
// beyond that.
func (m *Manager) lend(s *Situation) {
	c, l := &s.Config, &m.lending
	//guard: page cache borrows nothing
	if c.Burst == 0 || c.Off || !m.watch.statAt.Equal(s.Now) {
		return
	}
	// This much would have to be lent so that no threshold is near.
	needed := s.Memory.Used() + c.near()
	needed -= min(c.Limit, needed)
	if l.known.IsZero() {
		//guard: a start of the program evicts nobody who borrows
		l.guarded, l.known = c.Limit+min(needed, c.Burst), s.Now
	}
	switch {
	//guard: the node is read once a second
	case s.Now.Sub(l.at) < statAge: // with memory.stat
		s.Lent = l.lent(c)
		return
	//guard: nothing is read for a partition that needs no more than its limit
	case needed == 0:
		l.guarded, l.known = c.Limit, s.Now
	default:
		if err := l.look(s, m.Spare); err != nil {
			m.warnings.warn(fmt.Errorf("%s borrows nothing: the memory that the node can lend is not known: %w", m.name(), err))
		}
	}
	s.Lent = l.lent(c)
	//guard: page cache takes no more of the node than what is lent
	if most := max(s.limit(), s.Memory.Used()+c.Hard); s.Memory.Current > most && !c.DryRun {
		m.Reclaim(s.Memory.Current - most)
	}
}

// look looks at what the node can spare. It returns an error if that has not been known for long.
func (l *lending) look(s *Situation, read func() (Spare, error)) error {
	c, workingSet := &s.Config, s.Memory.WorkingSet()
	spare, err := read()
	l.at = s.Now
	switch {
	case err == nil:
		l.known = s.Now
		//guard: more is lent only where twice the margin is free
		more := c.lendable(workingSet, spare.Bytes-int64(spare.Margin))
		l.guarded = c.Limit + max(min(l.lent(c), c.lendable(workingSet, spare.Bytes)), more)
	//guard: a node that is not known for long lends nothing
	case s.Now.Sub(l.known) >= lendPatience:
		l.guarded = c.Limit
		return err
	}
	return nil
}

// lendable returns what can be lent, in bytes, to a partition that uses so much of the node, as the
// kubelet counts it, and could use so much more. That may be below zero. Page cache that is used
// is room for more, because the kernel takes back what is beyond the limit.
func (c *Settings) lendable(workingSet uint64, more int64) uint64 {
	return uint64(min(max(0, int64(workingSet)+more-int64(c.Limit)), int64(c.Burst)))
}
