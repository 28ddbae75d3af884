package evict

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"
)

// progress looks how far the open evictions have come. It reports whether the memory of one is back.
func (m *Manager) progress(ctx context.Context) (freed bool) {
	changed := m.hear()
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
				e.ended, e.freed = time.Now(), time.Now()
			} else if e.Way == Evict && e.Grace > 0 {
				// It is told that the pod has failed when the last of its containers has used up its grace period.
				m.killAll(*e, m.startedAgain(*e))
			}
		}
		late := time.Since(e.stopping) - e.Grace
		switch {
		case !e.ended.IsZero():
			// The API server hears of it now and not before: a pod that has failed counts as one whose containers do not run, for its controller,
			// for the scheduler and for the volumes (mergePodStatus, pkg/kubelet/status/status_manager.go).
			m.tell(ctx, e)
			if m.reclaimed(ctx, e) {
				e.Gone, changed, freed = true, true, true
			}
		case late > endTimeout:
			e.Gone, changed = true, true
			e.Problem = fmt.Sprintf("its processes have not ended %s after they were to; nobody else goes for what they hold", endTimeout)
			m.failed(*e, StepTimeout, errors.New(e.Problem))
			m.state.Stays[e.UID] = m.leftOf(*e)
			if e.Grace > 0 {
				m.hurry(ctx, *e, e.Threshold)
			}
			m.tell(ctx, e)
		}
	}
	m.state.Open = slices.DeleteFunc(m.state.Open, func(e Eviction) bool {
		if !e.Gone || !e.Told {
			return false
		}
		m.through(e)
		return true
	})
	if changed {
		forgetCooldown(m.state.Cooldown, time.Now())
		m.save()
	}
	return freed
}

// through ends an eviction.
func (m *Manager) through(e Eviction) {
	m.keep(e)
	m.Observer.Evicted(e)
	m.Journal.Evicted(e, time.Since(e.Time))
}

// hear takes over how telling the API server has ended, and reports whether there was news.
func (m *Manager) hear() (changed bool) {
	m.mu.Lock()
	news := m.told
	m.told = nil
	m.mu.Unlock()
	for _, t := range news {
		e := m.open(t.uid, t.at)
		if e == nil {
			continue
		}
		e.Told, e.telling, changed = true, false, true
		if t.err == nil {
			continue
		}
		e.Problem = strings.TrimPrefix(e.Problem+"; "+t.err.Error(), "; ")
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
	return changed
}

// open finds the open eviction of a pod that was decided at the given time, nil where there is none.
func (m *Manager) open(uid string, at time.Time) *Eviction {
	for i := range m.state.Open {
		if e := &m.state.Open[i]; e.UID == uid && e.Time.Equal(at) {
			return e
		}
	}
	return nil
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

// startedAgain are the cgroups of containers that the kubelet has started in the place of those of an eviction.
func (m *Manager) startedAgain(e Eviction) []string {
	scopes, err := m.Scopes(e.Cgroup)
	if err != nil {
		m.warn(err)
	}
	return slices.DeleteFunc(slices.Collect(maps.Values(scopes)), func(cgroup string) bool {
		return slices.ContainsFunc(e.Containers, func(c Stopped) bool { return c.Cgroup == cgroup }) || m.empty(cgroup)
	})
}

// reclaimed reports whether the memory of an eviction whose processes have ended is back, or is not to be expected any more. What files in memory
// hold is freed when the kubelet unmounts them, after the pod has ended for good, and not at all where the pod stays.
func (m *Manager) reclaimed(ctx context.Context, e *Eviction) bool {
	left := m.leftOf(*e)
	if left+e.UsedBytes/reclaimSteps <= e.left {
		e.left, e.freed = left, time.Now()
	}
	if e.UsedBytes == 0 || left < e.UsedBytes/2 {
		// Read after the pod: what the look has read may be from before the end of the processes.
		if m.used()+e.UsedBytes/2 > e.PartitionBytes {
			m.doubt(*e) // of this pod it is back, and of the partition not: others grew, or it was never this pod's alone
		}
		return true
	}
	switch waited := time.Since(e.freed); {
	case e.Way == Restart && waited > drainTimeout && m.escalates(*e):
		// Its processes are started again beside what they have left behind. The whole pod has to go, however lately another one of its owner has.
		e.Way, e.Told = Evict, false
		m.state.Cooldown[e.Owner] = time.Now().Add(m.present().Cooldown)
		m.save()
		m.Journal.Evicting(*e)
		m.tell(ctx, e)
		return false
	case e.Way == Restart && waited > drainTimeout, waited > reclaimTimeout:
		m.state.Stays[e.UID] = left
		if e.Problem == "" {
			e.Problem = fmt.Sprintf("%d of %d bytes are still there after its processes have ended: files in memory (an emptyDir with the medium Memory, "+
				"/dev/shm) stay as long as the pod; delete it", left, e.UsedBytes)
		}
		m.failed(*e, StepReclaim, errors.New(e.Problem))
		return true
	}
	return false
}

// used is what the partition uses now, in bytes; 0 where that cannot be read, because it is gone.
func (m *Manager) used() uint64 {
	if m.meter == nil {
		return 0
	}
	reading, err := m.meter.Read(func(uint64, uint64) bool { return false })
	if err != nil {
		return 0
	}
	return reading.Used()
}

// reclaimSteps is in how many parts the memory of an eviction comes back at most: figures that flutter, or fall by a page at a time, are no memory
// that is on its way, and would have everybody wait for ever.
const reclaimSteps = 64

// escalates tells whether a pod whose containers were stopped can be evicted for good instead. One that nobody knew has no namespace, and a name
// that is not its own: the API server would answer that it is gone, which counts as evicted.
func (m *Manager) escalates(e Eviction) bool {
	return !e.Static && !e.DryRun && e.Problem == "" && e.Namespace != "" && m.API.Available()
}

// leftOf is what is left of the memory of an eviction, in bytes: without what containers use that were started since.
func (m *Manager) leftOf(e Eviction) uint64 {
	reading, err := m.Cgroups.Memory(e.Cgroup)
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	if err != nil {
		m.warn(err)
		return e.left // what is not seen has not come back
	}
	left := reading.Used()
	for _, cgroup := range m.startedAgain(e) {
		if reading, err := m.Cgroups.Memory(cgroup); err == nil {
			left -= min(left, reading.Used())
		}
	}
	return left
}

// doubt keeps others from going for a while: a pod has gone, and what it used did not come back.
func (m *Manager) doubt(e Eviction) {
	if e.UsedBytes > 0 {
		m.state.Doubt = time.Now().Add(reclaimTimeout)
	}
}
