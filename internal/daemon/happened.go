package daemon

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"nodepartition/internal/daemon/web"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
	"nodepartition/pkg/podmove"
)

// mostHappened is the number of events of a partition that are remembered.
const mostHappened = 32

// happenings remembers the last events of each partition, for people. Evictions are in the state of
// the evictor, which outlives this program.
type happenings struct {
	mu    sync.Mutex
	lists map[unitname.PartitionName][]web.Event
}

// add adds an event that has happened a number of times. One that is known counts again.
func (h *happenings) add(partition unitname.PartitionName, bad bool, times int, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lists == nil {
		h.lists = map[unitname.PartitionName][]web.Event{}
	}
	list := h.lists[partition]
	if i := slices.IndexFunc(list, func(e web.Event) bool { return e.Text == text }); i >= 0 {
		times += list[i].Times
		list = slices.Delete(list, i, i+1)
	}
	list = append(list, web.Event{Time: time.Now(), Times: times, Text: text, Bad: bad})
	h.lists[partition] = list[max(0, len(list)-mostHappened):]
}

// of returns the events of a partition, the newest last.
func (h *happenings) of(partition unitname.PartitionName) []web.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.lists[partition])
}

// forget drops the events of a partition.
func (h *happenings) forget(partition unitname.PartitionName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.lists, partition)
}

// placed adds the placement of a container. Those at a creation are left out, because they would
// fill the list, unless they failed.
func (h *happenings) placed(p podmove.Placement) {
	partition := p.To
	if from, _, _, ok := unitname.ParsePodSlice(p.Container.Slice); ok && partition == unitname.Default {
		partition = from // it moved out
	}
	switch {
	case p.Move == nil && p.Err == nil:
	case p.Move == nil:
		h.add(partition, true, 1, "A container was not placed at its creation: "+p.Err.Error())
	case p.Err != nil:
		h.add(partition, true, 1, fmt.Sprintf(
			"%s/%s was not moved to partition %s: %v", p.Move.Namespace, p.Move.Name, p.To, p.Err,
		))
	case p.Method == podmove.Live:
		h.add(partition, false, 1, fmt.Sprintf(
			"%s/%s was moved live to partition %s.", p.Move.Namespace, p.Move.Name, p.To,
		))
	default:
		h.add(partition, false, 1, fmt.Sprintf(
			"%s/%s was restarted to be in partition %s.", p.Move.Namespace, p.Move.Name, p.To,
		))
	}
}

// evictionHappened adds what happens in a partition beside evictions.
type evictionHappened struct {
	evict.NoEvents
	happened  *happenings
	partition unitname.PartitionName
}

// Failed implements evict.Events. It leaves out failed polls, which the page shows while they fail.
func (e evictionHappened) Failed(of evict.Eviction, step evict.Step, err error) {
	switch {
	case step == evict.StepPoll:
	case of.UID == "":
		e.happened.add(e.partition, true, 1, fmt.Sprintf("A step of the evictions failed (%s): %v", step, err))
	default:
		e.happened.add(e.partition, true, 1, fmt.Sprintf(
			"A step of the eviction of %s/%s failed (%s): %v", of.Namespace, of.Name, step, err,
		))
	}
}

// NoCandidate implements evict.Events.
func (e evictionHappened) NoCandidate(evict.Decision) {
	e.happened.add(e.partition, true, 1, "A pod had to be evicted, and there was no candidate.")
}

// KernelKilled implements evict.Events.
func (e evictionHappened) KernelKilled(limit evict.KilledAt, processes uint64) {
	where := "at the limit of a pod, a container or the node"
	if limit == evict.AtPartition {
		where = "at the limit of the partition"
	}
	e.happened.add(e.partition, true, int(processes), "The kernel has killed a process "+where+".")
}

// shown returns the partitions for the page.
func (m *monitor) shown() []web.Partition {
	all := m.partitions.all()
	list := make([]web.Partition, 0, len(all))
	for _, p := range all {
		list = append(list, web.Partition{
			Name: p.name, Evictor: p.evictor, Happened: func() []web.Event { return m.happened.of(p.name) },
		})
	}
	return list
}
