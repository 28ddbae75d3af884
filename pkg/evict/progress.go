package evict

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// progress looks how far the open evictions have come.
func (m *Manager) progress(ctx context.Context) {
	m.mu.Lock()
	news := m.told
	m.told = nil
	m.mu.Unlock()
	changed := false
	for _, t := range news {
		for i := range m.state.Open {
			e := &m.state.Open[i]
			if e.UID != t.uid || !e.Time.Equal(t.at) {
				continue
			}
			e.Told, changed = true, true
			if t.err == nil {
				continue
			}
			e.Problem = t.err.Error()
			if t.evicted {
				continue
			}
			// The kubelet starts its containers again.
			e.Way = Restart
			if errors.Is(t.err, ErrFinal) {
				// It was not evicted for certain. Of a server that did not answer one cannot know.
				delete(m.state.Cooldown, e.Owner)
			}
		}
	}
	for i := range m.state.Open {
		e := &m.state.Open[i]
		if e.Gone {
			continue
		}
		if e.ended.IsZero() {
			ended, err := m.ended(*e)
			if err != nil {
				m.warn(err)
			}
			if ended {
				e.ended = time.Now()
			}
		}
		switch late := time.Since(e.stopping) - e.Grace; {
		case !e.ended.IsZero():
			if m.drained(*e) {
				e.Gone, changed = true, true
			}
		case late > endTimeout:
			e.Gone, changed = true, true
			e.Problem = fmt.Sprintf("its processes have not ended %s after they were to; going on with the next pod", endTimeout)
			m.failed(*e, StepTimeout, errors.New(e.Problem))
			if e.Grace > 0 {
				m.hurry(ctx, *e, e.Threshold)
			}
		}
	}
	m.state.Open = slices.DeleteFunc(m.state.Open, func(e Eviction) bool {
		if !e.Gone || !e.Told {
			return false
		}
		m.keep(e)
		m.Journal.Evicted(e, time.Since(e.Time))
		return true
	})
	if changed {
		forgetCooldown(m.state.Cooldown, time.Now())
		m.save()
	}
}

// ended reports whether the containers of an eviction are gone.
func (m *Manager) ended(e Eviction) (bool, error) {
	for _, c := range e.Containers {
		if populated, err := m.Cgroups.Populated(c.Cgroup); err != nil || populated {
			return false, err
		}
	}
	return true, nil
}

// drained reports whether the memory of an eviction whose processes have ended is back. What files in memory hold (emptyDir with the medium
// Memory) is freed when the kubelet unmounts them, and not at all where the pod stays: that is waited for a little.
func (m *Manager) drained(e Eviction) bool {
	left, err := m.Cgroups.WorkingSet(e.Cgroup)
	return err != nil || left < e.WorkingSetBytes/2 || time.Since(e.ended) > drainTimeout
}
