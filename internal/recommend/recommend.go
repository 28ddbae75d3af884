package recommend

import (
	"fmt"
	"slices"
	"time"

	"nodepartition/internal/bytesize"
	"nodepartition/internal/output"
	"nodepartition/internal/samples"
	"nodepartition/pkg/evict"
)

// Input is the input of Compute.
type Input struct {
	// Samples have a length of ten minutes, the oldest first.
	Samples []samples.Sample
	// Protected selects the pods that are never evicted.
	Protected evict.Protected
	// LeastThreshold in bytes is the least threshold for the CPUs of the node, 0 for 32Mi.
	LeastThreshold uint64
	// NodeBytes is the memory of the node, 0 if it is not known.
	NodeBytes uint64
	// AtLimit in bytes is a limit to simulate beside the recommended one, 0 for none.
	AtLimit uint64
}

// Recommendation is the output. Its JSON is for scripts: new versions add fields and do not change
// them. Amounts are in bytes and in thousandths of a CPU.
type Recommendation struct {
	History Covered `json:"history"`
	// MemoryLimit and EvictionHard are absent if the history has no partition.
	MemoryLimit  *Figure `json:"memoryLimit,omitempty"`
	EvictionHard *Figure `json:"evictionHard,omitempty"`
	// KubeReserved and SystemReserved are absent if the history has no cgroups outside of pods, and
	// KubeReserved also if no service of the kubelet or of the runtime is among them.
	KubeReserved   *Reserved `json:"kubeReserved,omitempty"`
	SystemReserved *Reserved `json:"systemReserved,omitempty"`
	// Leaks lists what grows without returning.
	Leaks []Leak `json:"leaks"`
	// Simulations lists what would have happened at a limit: at AtLimit, and at MemoryLimit.
	Simulations []Simulation `json:"simulations"`
	Warnings    []string     `json:"warnings"`
}

// Covered is the time that the samples cover.
type Covered struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Seconds counts the time without gaps.
	Seconds int64 `json:"seconds"`
	Samples int   `json:"samples"`
	// Members means that samples have the pods of the partition.
	Members bool `json:"members"`
}

func (c Covered) duration() time.Duration { return time.Duration(c.Seconds) * time.Second }

// Figure is an amount of memory with its reasoning.
type Figure struct {
	Bytes uint64 `json:"bytes"`
	// PeakBytes was measured at PeakTime, less what leaks had added.
	PeakBytes uint64    `json:"peakBytes,omitempty"`
	PeakTime  time.Time `json:"peakTime,omitzero"`
	Why       []string  `json:"why"`
}

// Leak is a pod, or a group of processes, that grows without returning.
type Leak struct {
	// Name is namespace/name of a pod, or the part of the node that grows.
	Name string `json:"name"`
	// UID is empty for what is not a pod.
	UID  string    `json:"uid,omitempty"`
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// BaseBytes is its first usage without peaks, and GrowthBytes the amount that it had added at To.
	BaseBytes    uint64 `json:"baseBytes"`
	GrowthBytes  uint64 `json:"growthBytes"`
	BytesPerHour uint64 `json:"bytesPerHour"`

	trend trend
}

// memoryOfPods is the name of a leak of the partition that is in no pod whose usage is known.
const memoryOfPods = "the partition"

// Compute computes a recommendation.
func Compute(in Input) Recommendation {
	r := Recommendation{Leaks: []Leak{}, Simulations: []Simulation{}, Warnings: []string{}}
	if len(in.Samples) == 0 {
		r.warn("the history is empty: wait until the monitor has written a sample")
		return r
	}
	r.cover(in.Samples)
	factor := 1 + margin(r.History.duration())
	r.partition(in, factor)
	r.reserved(in.Samples, factor)
	if covered := r.History.duration(); factor > 1+marginPart {
		r.warn("the history is %s long, and %s without gaps: the margin is %.0f %%, and what happens once a week may be missing; "+
			"from a week on it is 15 %%", text(r.History.To.Sub(r.History.From)), text(covered), (factor-1)*100)
	}
	return r
}

func (r *Recommendation) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

func (r *Recommendation) cover(list []samples.Sample) {
	first, last := &list[0], &list[len(list)-1]
	from := first.Time.Add(-time.Duration(first.Seconds) * time.Second)
	r.History = Covered{From: from, To: last.Time, Samples: len(list)}
	for i := range list {
		r.History.Seconds += int64(list[i].Seconds)
		r.History.Members = r.History.Members || len(list[i].Members) > 0
	}
}

// partition computes the limit and the threshold.
func (r *Recommendation) partition(in Input, factor float64) {
	list := slices.DeleteFunc(slices.Clone(in.Samples), func(s samples.Sample) bool { return s.Partition == nil })
	if len(list) == 0 {
		r.warn("the history has no partition: write a section without memoryLimit, which measures and limits nothing")
		return
	}
	leaks := memberLeaks(list)
	leaks = append(leaks, partitionLeaks(list, leaks)...)
	r.Leaks = append(r.Leaks, leaks...)
	peak := healthyPeak(list, leaks)
	need := uint64(float64(peak.bytes) * factor)
	limit := &Figure{PeakBytes: peak.bytes, PeakTime: peak.at}
	limit.why("the peak is %s, at %s%s", bytesize.Text(peak.bytes), output.Time(peak.at), peak.why)
	limit.why("plus %.0f %% is %s", (factor-1)*100, bytesize.Text(need))
	if requests := maxRequests(list); requests > need {
		need = requests
		limit.why("the pods request %s: below that, pods would be evicted that use no more than they request", bytesize.Text(requests))
	}
	least, late := leastThreshold(list, in.LeastThreshold)
	limit.Bytes = limitFor(need, least)
	hard := &Figure{Bytes: threshold(limit.Bytes, least)}
	replay := func(limit, hard uint64) Simulation { return simulate(list, limit, hard, in.Protected, leaks) }
	limit.why("plus the threshold of %s, rounded up to a multiple of %s", bytesize.Text(hard.Bytes), bytesize.Text(step(limit.Bytes)))
	hard.why("the default: 5 %% of memoryLimit, and at least 32Mi")
	if late > 0 {
		hard.Why = []string{fmt.Sprintf("the kernel killed at the limit, with a threshold of %s: twice that, or the default if it is more", bytesize.Text(late))}
	}
	spare(limit, hard, list, least, replay)
	r.MemoryLimit, r.EvictionHard = limit, hard
	if in.AtLimit > 0 {
		r.Simulations = append(r.Simulations, replay(in.AtLimit, threshold(in.AtLimit, least)))
	}
	r.Simulations = append(r.Simulations, replay(limit.Bytes, hard.Bytes))
	r.warnAboutEvictions(r.Simulations[len(r.Simulations)-1])
	r.warnAboutLimit(in.NodeBytes, list)
	r.warnAboutMembers(list)
}

// warnAboutLimit warns of a limit that the node does not have, and of one that evicts as soon as it
// is in force.
func (r *Recommendation) warnAboutLimit(node uint64, list []samples.Sample) {
	limit, hard := r.MemoryLimit.Bytes, r.EvictionHard.Bytes
	if node > 0 && limit > node {
		r.warn("the recommended limit of %s is more than the memory of this node, %s: it protects nothing; "+
			"give the pods of the partition less to do, or the node more memory", bytesize.Text(limit), bytesize.Text(node))
	}
	if used := list[len(list)-1].Partition.UsedPeakBytes; used > limit-hard {
		r.warn("%s are in use at the end of the history, and the recommended limit leaves %s above its threshold: it evicts as soon as it is in force; "+
			"restart what leaks first", bytesize.Text(used), bytesize.Text(limit-hard))
	}
}

// why adds a sentence to the reasoning.
func (f *Figure) why(format string, args ...any) { f.Why = append(f.Why, fmt.Sprintf(format, args...)) }

// healthy is a peak without leaks.
type healthy struct {
	bytes uint64
	at    time.Time
	why   string
}

// healthyPeak returns the highest usage, less what leaks have added. Where a pod that does not leak
// was evicted, or the kernel killed at the limit, the limit has cut off the usage: there it counts
// a fifth more, and at least 100Mi.
func healthyPeak(list []samples.Sample, leaks []Leak) healthy {
	var best healthy
	for i := range list {
		p := list[i].Partition
		less := uint64(excessAt(leaks, p.PeakTime))
		h := healthy{bytes: p.UsedPeakBytes - min(less, p.UsedPeakBytes), at: p.PeakTime}
		if less >= mebi {
			h.why = fmt.Sprintf(": %s, less %s that leaks had added", bytesize.Text(p.UsedPeakBytes), bytesize.Text(less))
		}
		if cutOff(p, leaks) {
			bumped := max(uint64(float64(h.bytes)*oomRatio), h.bytes+oomBytes)
			h.why += fmt.Sprintf("; usage of %s was cut off there by an eviction or a kill, which counts a fifth more, at least 100Mi", bytesize.Text(h.bytes))
			h.bytes = bumped
		}
		if h.bytes > best.bytes {
			best = h
		}
	}
	return best
}

// cutOff reports whether the limit has ended a usage that is no leak.
func cutOff(p *samples.Partition, leaks []Leak) bool {
	during := func(match func(Leak) bool) bool {
		return slices.ContainsFunc(leaks, func(l Leak) bool {
			return match(l) && !p.PeakTime.Before(l.From) && !p.PeakTime.After(l.To.Add(block))
		})
	}
	for _, pod := range p.Evicted {
		if !during(func(l Leak) bool { return l.Name == pod || l.UID == "" }) {
			return true
		}
	}
	return p.KilledAtLimit > 0 && !during(func(Leak) bool { return true })
}

// excessAt returns the bytes that leaks have added at a time.
func excessAt(leaks []Leak, at time.Time) float64 {
	sum := 0.0
	for i := range leaks {
		sum += leaks[i].trend.excess(at)
	}
	return sum
}

// maxRequests returns the largest sum of the requests of the members.
func maxRequests(list []samples.Sample) uint64 {
	most := uint64(0)
	for i := range list {
		sum := uint64(0)
		for _, m := range list[i].Members {
			sum += m.RequestBytes
		}
		most = max(most, sum)
	}
	return most
}

// leastThreshold returns the least threshold, and the highest threshold at which the kernel killed
// before an eviction.
func leastThreshold(list []samples.Sample, least uint64) (bytes, late uint64) {
	for i := range list {
		if p := list[i].Partition; p.KilledAtLimit > 0 {
			late = max(late, p.HardBytes)
		}
	}
	return max(least, 2*late), late
}

func (r *Recommendation) warnAboutMembers(list []samples.Sample) {
	if !r.History.Members {
		r.warn("the history has no pods: it shows when memory would have been low, and not which pods would have been evicted; " +
			"--history-members in PARTITION_MONITOR_ARGS records them")
	}
	if slices.ContainsFunc(list, func(s samples.Sample) bool { return len(s.Members) >= samples.MaxMembers }) {
		r.warn("the history has the %d pods that use most: the requests of others are not in the limit, and none of those would have been evicted",
			samples.MaxMembers)
	}
	pressure := slices.MaxFunc(list, func(a, b samples.Sample) int {
		return int(a.Partition.PressurePercent*100) - int(b.Partition.PressurePercent*100)
	}).Partition
	if pressure.PressurePercent >= 10 {
		r.warn("pods of the partition waited for memory in %.0f %% of a minute, at about %s: page cache counts as available, "+
			"and the limit leaves little of it; compare memory.current in the history", pressure.PressurePercent, output.Time(pressure.PeakTime))
	}
}

// text returns a duration for people.
func text(d time.Duration) string {
	if d < 48*time.Hour {
		return d.Round(time.Minute).String()
	}
	return fmt.Sprintf("%.1f days", d.Hours()/24)
}
