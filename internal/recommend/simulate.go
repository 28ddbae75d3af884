package recommend

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"nodepartition/internal/bytesize"
	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/output"
	"nodepartition/internal/samples"
	"nodepartition/internal/thresholds"
	"nodepartition/pkg/evict"
)

// Simulation lists the evictions that would have happened at a limit.
type Simulation struct {
	LimitBytes uint64 `json:"limitBytes"`
	HardBytes  uint64 `json:"hardBytes"`
	// Evictions lists what would have been evicted, in order.
	Evictions []Evicted `json:"evictions"`
}

// Evicted is an eviction that would have happened.
type Evicted struct {
	Time time.Time `json:"time"`
	// Name is namespace/name of the pod. It is empty if the pods are not known, or if each of them is
	// protected: then the kernel would have killed.
	Name string `json:"name,omitempty"`
	UID  string `json:"uid,omitempty"`
	// NoCandidate means that the pods are known, and all of them are protected.
	NoCandidate bool `json:"noCandidate,omitempty"`
	// Leak means that the pod leaks at that time.
	Leak bool `json:"leak,omitempty"`
	// PodBytes is the usage of the pod, and UsedBytes the partition's.
	PodBytes  uint64 `json:"podBytes,omitempty"`
	UsedBytes uint64 `json:"usedBytes"`
}

// simulate replays samples at a limit until ctx ends.
func simulate(
	ctx context.Context, list []samples.Sample, limit, hard uint64, protected evict.Protected, leaks []Leak,
) Simulation {
	s := simulation{
		limit: limit, hard: hard, protected: protected, leaks: leaks,
		ended: map[string]end{}, lowest: map[string]uint64{},
	}
	for i := range list {
		if ctx.Err() != nil {
			break
		}
		s.step(&list[i])
	}
	return Simulation{LimitBytes: limit, HardBytes: hard, Evictions: append([]Evicted{}, s.events...)}
}

// others returns the first eviction of a known pod that does not leak, or the first time at which
// all pods are protected and the kernel would kill one. It returns nil for none.
func (s Simulation) others() *Evicted {
	for i := range s.Evictions {
		if e := &s.Evictions[i]; e.NoCandidate || e.UID != "" && !e.Leak {
			return e
		}
	}
	return nil
}

// spare raises a limit until no pod is evicted that does not leak, and none is killed, but not
// beyond most. While a leak is small, a pod that has a peak may exceed its request by more, and
// then it is evicted first. With a higher limit the leak is larger at that time. It bisects: each
// limit that it tries is replayed, so the one that it takes spares the pods, whether or not all
// above do.
func (c *computation) spare(limit *Figure, most uint64, replay func(limit uint64) Simulation) {
	victim := replay(limit.Bytes).others()
	if victim == nil {
		return
	}
	low, high := limit.Bytes, most
	if high <= low || replay(high).others() != nil {
		return
	}
	for next := above(low); next < high && c.Err() == nil; next = above(low) {
		middle := roundUp(low+(high-low)/2, step(low+(high-low)/2))
		if middle >= high {
			middle = next
		}
		if replay(middle).others() == nil {
			high = middle
		} else {
			low = middle
		}
	}
	what := victim.Name + " would have been evicted before a leak"
	if victim.NoCandidate {
		what = "the kernel would have killed, because all pods are protected"
	}
	limit.why("at %s %s, at %s: raised until that does not happen", bytesize.Text(limit.Bytes), what, output.Time(victim.Time))
	limit.Bytes = high
}

// above returns the next limit.
func above(limit uint64) uint64 { return roundUp(limit+1, step(limit+1)) }

// warnAboutEvictions warns of evictions that do not hit a leak, and of leaks that none hits.
func (r *Recommendation) warnAboutEvictions(s Simulation) {
	switch e := s.others(); {
	case e == nil:
	case e.NoCandidate:
		r.warn("at the recommended limit all pods would be protected, at %s, and the kernel would kill: %s are in use then; "+
			"protect fewer pods (--eviction-protect), or give the pod that leaks a memory limit", output.Time(e.Time), bytesize.Text(e.UsedBytes))
	default:
		r.warn("at the recommended limit %s would be evicted, at %s, and it does not leak: its priority is lower than a leak's, "+
			"or it uses more above its request; raise its memory request, or give the pod that leaks a memory limit", e.Name, output.Time(e.Time))
	}
	if slices.ContainsFunc(s.Evictions, func(e Evicted) bool { return e.Leak }) {
		return
	}
	for i, l := range r.Leaks {
		again := slices.ContainsFunc(r.Leaks[i+1:], func(later Leak) bool { return later.UID == l.UID })
		if l.UID == "" || again {
			continue
		}
		usable := s.LimitBytes - s.HardBytes
		r.warn("%s grows by %s an hour, and would not have been evicted in this history: it takes some %s to fill what is left at the peak",
			l.Name, bytesize.Text(l.BytesPerHour), text(l.until(usable-min(r.MemoryLimit.PeakBytes, usable))))
	}
}

// simulation replays samples at a limit.
type simulation struct {
	limit, hard uint64
	protected   evict.Protected
	leaks       []Leak
	events      []Evicted
	// crossed means that the last sample was an event without a pod.
	crossed bool
	// ended holds what was evicted, and lowest the smallest usage, by pod and life.
	ended  map[string]end
	lowest map[string]uint64
}

// end is the usage of a pod when it was evicted, and the usage that it starts with again.
type end struct{ at, base uint64 }

// step replays a sample: it evicts until enough is available. The monitor's own Decide selects the
// victims. A pod that was evicted comes back as small as it was at its smallest, and grows from
// there as it has grown in the history.
func (s *simulation) step(sample *samples.Sample) {
	p := sample.Partition
	used := usage(p)
	pods := make([]evict.Pod, 0, len(sample.Members))
	recorded := map[string]uint64{}
	for _, m := range sample.Members {
		life := m.UID + sample.Boot + m.Containers
		if low, ok := s.lowest[life]; !ok || m.UsedBytes < low {
			s.lowest[life] = m.UsedBytes
		}
		less := uint64(0)
		if e, ok := s.ended[life]; ok {
			less = m.UsedBytes - min(m.UsedBytes, e.base+m.UsedBytes-min(m.UsedBytes, e.at))
		}
		used -= min(less, used)
		recorded[m.UID] = m.UsedBytes
		pods = append(pods, evict.Pod{
			PodMeta: evict.PodMeta{
				UID: m.UID, Namespace: m.Namespace, Name: m.Name, QoS: v1.PodQOSClass(m.QoS), Cgroup: life,
				Priority: m.Priority, Static: m.Static, Estimated: m.Estimated,
			},
			Request: m.RequestBytes, Measured: true,
			Usage: evict.Usage{WorkingSet: m.WorkingSetBytes - min(less, m.WorkingSetBytes), Used: m.UsedBytes - less},
		})
	}
	low := func() bool { return used+s.hard > s.limit }
	for low() {
		d := evict.Decide(evict.Situation{
			Now: p.PeakTime, Pods: pods, API: true, Memory: cgroupfs.MemoryReading{Current: used, Max: s.limit},
			Config: evict.Settings{
				Thresholds: thresholds.Thresholds{Limit: s.limit, Hard: s.hard, MaxPodGrace: -1}, Protected: s.protected,
			},
		})
		if d.Victim == nil {
			if !s.crossed {
				s.events = append(s.events, Evicted{Time: p.PeakTime, NoCandidate: len(sample.Members) > 0, UsedBytes: used})
			}
			break
		}
		v := *d.Victim
		s.events = append(s.events, Evicted{
			Time: p.PeakTime, Name: v.Namespace + "/" + v.Name, UID: v.UID, Leak: s.leaking(v.UID, p.PeakTime),
			PodBytes: v.Usage.Used, UsedBytes: used,
		})
		base := s.lowest[v.Cgroup]
		s.ended[v.Cgroup] = end{at: recorded[v.UID], base: base}
		used -= min(v.Usage.Used-min(base, v.Usage.Used), used)
		pods = slices.DeleteFunc(pods, func(p evict.Pod) bool { return p.UID == v.UID })
	}
	s.crossed = low()
}

func (s *simulation) leaking(uid string, at time.Time) bool {
	return slices.ContainsFunc(s.leaks, func(l Leak) bool {
		return l.UID == uid && !at.Before(l.From) && !at.After(l.To)
	})
}

// cpuReason explains a figure for CPU.
func cpuReason(busy, factor float64) string {
	return fmt.Sprintf("in 95 %% of the ten minutes no minute took more than %.0fm; plus %.0f %%, rounded up to a multiple of %dm",
		math.Ceil(busy), (factor-1)*100, cpuStep)
}
