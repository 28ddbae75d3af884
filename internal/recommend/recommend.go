package recommend

import (
	"context"
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
	// MaxPods is the number of pods that the kubelet admits, 0 if it is not known.
	MaxPods int64
	// AtLimit in bytes is a limit to simulate beside the recommended one, 0 for none.
	AtLimit uint64
	// WithoutLeaks asks for the limit without what leaks have added, even if more is in use.
	WithoutLeaks bool
	// Alone leaves out the figures of the node, and the time in which it did not have the partition:
	// that time tells nothing about a partition that was added later.
	Alone bool
	// Others names the partitions of a history that does not have the partition, "" if it has none.
	Others string
}

// Recommendation is the output. Its JSON is for scripts: new versions add fields and do not change
// them. Amounts are in bytes and in thousandths of a CPU.
type Recommendation struct {
	History Covered `json:"history"`
	// ForPartition has the figures of the partition. In JSON they are an element of the list
	// partitions.
	ForPartition `json:"-"`
	// KubeReserved and SystemReserved are absent if the history has no cgroups outside of pods, and
	// KubeReserved also if no service of the kubelet or of the runtime is among them.
	KubeReserved   *Reserved `json:"kubeReserved,omitempty"`
	SystemReserved *Reserved `json:"systemReserved,omitempty"`
	// Leaks lists what grows without returning.
	Leaks    []Leak   `json:"leaks"`
	Warnings []string `json:"warnings"`
}

// ForPartition holds the figures of a partition.
type ForPartition struct {
	// MemoryLimit and EvictionHard are absent if the history has no partition.
	MemoryLimit  *Figure `json:"memoryLimit,omitempty"`
	EvictionHard *Figure `json:"evictionHard,omitempty"`
	// WithGrowth and WithoutGrowth are two limits: with what leaks have added, and without. They are
	// absent if nothing leaks. What looks like a leak may be a cluster that grows.
	WithGrowth    *Figure `json:"withGrowth,omitempty"`
	WithoutGrowth *Figure `json:"withoutGrowth,omitempty"`
	// EvictsAtOnce means that more was in use at the end of the history than MemoryLimit leaves.
	EvictsAtOnce bool `json:"evictsAtOnce"`
	// NoSection lists the reasons why MemoryLimit is not to be applied as it is.
	NoSection []string `json:"noSection"`
	// Simulations lists what would have happened at a limit: at AtLimit, and at MemoryLimit.
	Simulations []Simulation `json:"simulations"`
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
	// Pods is the largest number of pods on the node, and MaxPods the number that the kubelet admits.
	// 0 means that it is not known.
	Pods    int   `json:"pods,omitempty"`
	MaxPods int64 `json:"maxPods,omitempty"`
}

func (c Covered) duration() time.Duration { return time.Duration(c.Seconds) * time.Second }

// Figure is an amount of memory with its reasoning.
type Figure struct {
	Bytes uint64 `json:"bytes"`
	// PeakBytes was measured at PeakTime. Of a figure without growth it is less what leaks had added.
	PeakBytes uint64    `json:"peakBytes,omitempty"`
	PeakTime  time.Time `json:"peakTime,omitzero"`
	Why       []string  `json:"why"`

	// need has to fit below the threshold, in bytes.
	need uint64
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

// Compute computes a recommendation. It returns an error only if ctx ends.
func Compute(ctx context.Context, in Input) (Recommendation, error) {
	c := newComputation(ctx)
	c.compute(in)
	return c.Recommendation, ctx.Err()
}

func newComputation(ctx context.Context) computation {
	return computation{
		Context: ctx,
		Recommendation: Recommendation{
			ForPartition: ForPartition{NoSection: []string{}, Simulations: []Simulation{}},
			Leaks:        []Leak{}, Warnings: []string{},
		},
	}
}

// computation is a Recommendation that is being computed. Its loops end early if the context does.
type computation struct {
	context.Context
	Recommendation
	// replays counts the replays of the history.
	replays int
}

func (c *computation) compute(in Input) {
	if len(in.Samples) == 0 {
		c.noSection("the history is empty: wait until the monitor has written a sample")
		return
	}
	if in.Alone {
		//guard: a partition is judged by its own time
		in.Samples = withPartition(in.Samples)
		if len(in.Samples) == 0 {
			c.noSection("the history has no sample of the partition in that time: take an earlier --since")
			return
		}
	}
	c.cover(in)
	factor := 1 + margin(c.History.duration())
	c.partition(in, factor)
	if !in.Alone {
		c.reserved(in.Samples, factor)
		c.shareOfPartition(in.Samples)
	}
	if covered := c.History.duration(); factor > 1+marginPart {
		c.warn("the history is %s long, and %s without gaps: the margin is %.0f %%, and what happens once a week may be missing; "+
			"from a week on it is 15 %%", text(c.History.To.Sub(c.History.From)), text(covered), (factor-1)*100)
	}
	c.warnAboutDensity()
}

// noSection adds a reason why the limit is not to be applied as it is.
func (r *Recommendation) noSection(format string, args ...any) {
	r.NoSection = append(r.NoSection, fmt.Sprintf(format, args...))
}

func (r *Recommendation) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

func (r *Recommendation) cover(in Input) {
	list := in.Samples
	first, last := &list[0], &list[len(list)-1]
	from := first.Time.Add(-time.Duration(first.Seconds) * time.Second)
	r.History = Covered{From: from, To: last.Time, Samples: len(list), MaxPods: in.MaxPods}
	for i := range list {
		r.History.Seconds += int64(list[i].Seconds)
		r.History.Members = r.History.Members || len(list[i].Members) > 0
		if n := list[i].Node; n != nil {
			r.History.Pods = max(r.History.Pods, n.Pods)
		}
	}
}

// partition computes the limit and the threshold.
func (c *computation) partition(in Input, factor float64) {
	list := withPartition(in.Samples)
	switch {
	case len(list) > 0:
	case in.Others != "":
		c.noSection("the history has no system partition; --partition=NAME is for another one: %s", in.Others)
		return
	default:
		c.noSection("the history has no partition: write a section without memoryLimit, which measures and limits nothing")
		return
	}
	leaks := c.memberLeaks(list)
	leaks = append(leaks, partitionLeaks(list, leaks)...)
	c.Leaks = append(c.Leaks, leaks...)
	least, late := leastThreshold(list, in.LeastThreshold)
	replay := func(limit uint64) Simulation {
		c.replays++
		return simulate(c, list, limit, threshold(limit, least), in.Protected, leaks)
	}
	by := sizing{factor: factor, least: least, withoutLeaks: in.WithoutLeaks}
	limit := c.choose(measure(list, leaks), leaks, by, replay)
	hard := &Figure{Bytes: threshold(limit.Bytes, least)}
	hard.why("the default: 5 %% of memoryLimit, and at least 32Mi")
	if late > 0 {
		hard.Why = []string{fmt.Sprintf("the kernel killed at the limit, with a threshold of %s: twice that, or the default if it is more", bytesize.Text(late))}
	}
	c.MemoryLimit, c.EvictionHard = limit, hard
	if in.AtLimit > 0 {
		c.Simulations = append(c.Simulations, replay(in.AtLimit))
	}
	c.Simulations = append(c.Simulations, replay(limit.Bytes))
	c.warnAboutEvictions(c.Simulations[len(c.Simulations)-1])
	c.judge(in.NodeBytes, list)
	c.warnAboutMembers(list)
	c.warnAboutCache(list)
}

// withPartition returns the samples of the time in which the node had the partition.
func withPartition(list []samples.Sample) []samples.Sample {
	return slices.DeleteFunc(slices.Clone(list), func(s samples.Sample) bool { return s.Partition == nil })
}

// least is the length of a history from which on a limit is more than a guess: a day has a night.
const leastHistory = 24 * time.Hour

// judge finds the reasons why the limit is not to be applied as it is.
func (r *Recommendation) judge(node uint64, list []samples.Sample) {
	limit, hard := r.MemoryLimit.Bytes, r.EvictionHard.Bytes
	if covered := r.History.duration(); covered < leastHistory {
		r.noSection("the history has %s without gaps, and a section needs a day: wait", text(covered))
	}
	if !r.History.Members {
		r.noSection("the history has no pods: it shows when memory would have been low, and not which pods would have been evicted; " +
			"--history-members in PARTITION_MONITOR_ARGS records them")
	}
	if node > 0 && limit >= node {
		r.noSection("the limit of %s is not below the memory of the node, %s: it protects nothing; "+
			"give the pods of the partition less to do, or the node more memory", bytesize.Text(limit), bytesize.Text(node))
	}
	if used := usage(list[len(list)-1].Partition); used > limit-hard {
		r.EvictsAtOnce = true
		r.warn("%s are in use at the end of the history, and the recommended limit leaves %s above its threshold: it evicts as soon as it is in force; "+
			"restart what leaks first", bytesize.Text(used), bytesize.Text(limit-hard))
	}
}

// why adds a sentence to the reasoning.
func (f *Figure) why(format string, args ...any) { f.Why = append(f.Why, fmt.Sprintf(format, args...)) }

// cutOff reports whether the limit has ended a usage that is not a leak.
func cutOff(p *samples.Usage, leaks []Leak) bool {
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
	if slices.ContainsFunc(list, func(s samples.Sample) bool { return len(s.Members) >= samples.MaxMembers }) {
		r.warn("the history has the %d pods that use most: the replay evicts none of the others",
			samples.MaxMembers)
	}
	left := 0
	for i := range list {
		left = max(left, list[i].Partition.MembersLeft)
	}
	if left > 0 {
		r.warn("the partitions share the room for pods in the history, and a sample leaves out up to %d of this one, those that use least: "+
			"the replay evicts none of them", left)
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
