// Package recorder takes a sample of the node each minute, and writes it to the history.
package recorder

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/node/candidates"
	"nodepartition/internal/samples"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
)

// interval is the time between two samples.
const interval = time.Minute

// Options lists the sources of a Recorder beside the partitions. All are required but Placement.
type Options struct {
	Cgroups cgroupfs.FS
	// Members adds the pods of the partitions to the samples.
	Members bool
	// Placement returns where the pods of a partition are, and false before that is known; nil where
	// it never is.
	Placement func(unitname.PartitionName) (candidates.Placement, bool)
	// Node returns what the node has, without its pods.
	Node func() (samples.Node, error)
	// Boot distinguishes the boots of the node, and Up returns the seconds since the boot.
	Boot string
	Up   func() uint64
	// Warn is called with problems. None ends the Recorder.
	Warn func(error)
}

// Polls has the results of the polls of a partition's memory. *evict.Manager is one.
type Polls interface {
	// TakePeak returns the extremes of the partition's usage since its last call, and Report the last
	// poll.
	TakePeak() evict.Peak
	Report() evict.Report
	// Candidates lists the pods of the partition without their usage.
	Candidates() []evict.Pod
}

// Partition is a partition that the node has.
type Partition struct {
	Name unitname.PartitionName
	Polls
}

// Recorder takes samples. Evicting and KernelKilled may be called from any goroutine.
type Recorder struct {
	Options
	counters counters
	// names lists the partitions of the last sample.
	names []unitname.PartitionName
	// groups is the list of cgroups outside of kubepods.slice, made by discover.
	groups []samples.Group
	// node has the size of the node, nil if it could not be read.
	node         *samples.Node
	discoveredAt time.Time

	mu     sync.Mutex
	events map[unitname.PartitionName]samples.Usage
}

// New returns a Recorder that records nothing before Run.
func New(o Options) *Recorder {
	return &Recorder{Options: o, counters: counters{}, events: map[unitname.PartitionName]samples.Usage{}}
}

// Evicting records that a pod of a partition is evicted.
func (r *Recorder) Evicting(partition unitname.PartitionName, namespace, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	const most = 16 // of a minute
	if events := r.events[partition]; len(events.Evicted) < most {
		events.Evicted = append(events.Evicted, namespace+"/"+name)
		r.events[partition] = events
	}
}

// KernelKilled records processes of a partition that the kernel has killed.
func (r *Recorder) KernelKilled(partition unitname.PartitionName, at evict.KilledAt, processes uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := r.events[partition]
	if at == evict.AtPartition {
		events.KilledAtLimit += uint32(processes)
	} else {
		events.KilledElsewhere += uint32(processes)
	}
	r.events[partition] = events
}

// Run samples into ring at each full minute until ctx ends, and once then, and closes the ring.
// partitions returns those that the node has.
func (r *Recorder) Run(ctx context.Context, ring *samples.Ring, partitions func() []Partition) {
	defer func() {
		if err := ring.Close(); err != nil {
			r.Warn(err)
		}
	}()
	last := time.Now()
	r.sample(partitions(), last, 0)
	timer := time.NewTimer(untilFull(last))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		now := time.Now()
		// Sub uses the monotonic clock: setting the clock does not change the difference.
		if err := ring.Add(r.sample(partitions(), now, now.Sub(last))); err != nil {
			r.Warn(err)
		}
		if ctx.Err() != nil {
			return
		}
		last = now
		timer.Reset(untilFull(now))
	}
}

// untilFull returns the time until the next full minute, at least half a minute: a clock that is
// set does not make samples short.
func untilFull(now time.Time) time.Duration {
	d := interval - now.Sub(now.Truncate(interval))
	if d < interval/2 {
		d += interval
	}
	return d
}

// sample reads the node. took is the time since the last sample, 0 for the first, which only begins
// the rates.
func (r *Recorder) sample(partitions []Partition, now time.Time, took time.Duration) samples.Sample {
	s := samples.Sample{
		Time:    now.UTC().Truncate(time.Second),
		Seconds: uint32(took.Round(time.Second) / time.Second),
		Boot:    r.Boot,
		Up:      r.Up(),
	}
	r.forget(partitions)
	measured := r.partitions(partitions, s.Time, took)
	s.Groups = r.outside(now, took)
	if r.node != nil {
		node := *r.node
		s.Node = &node
	}
	r.place(&s, measured)
	for i := range measured {
		m := &measured[i]
		var pods []samples.Member
		if r.Members {
			pods = r.members(m.Candidates())
		}
		if m.Name == unitname.First {
			s.Partition, s.Members = m.usage, pods
		} else {
			s.Others = append(s.Others, samples.Other{Name: m.Name, Usage: *m.usage, Members: pods})
		}
	}
	return s
}

// measured is a partition with its usage.
type measured struct {
	Partition
	usage *samples.Usage
}

// partitions returns the partitions whose usage is known.
func (r *Recorder) partitions(all []Partition, at time.Time, took time.Duration) []measured {
	var list []measured
	for _, p := range all {
		if usage := r.partition(p, at, took); usage != nil {
			list = append(list, measured{p, usage})
		}
	}
	return list
}

// forget drops what is known of partitions that the node has no more. Another of the same name may
// come later.
func (r *Recorder) forget(partitions []Partition) {
	has := func(name unitname.PartitionName) bool {
		return slices.ContainsFunc(partitions, func(p Partition) bool { return p.Name == name })
	}
	for _, name := range r.names {
		if !has(name) {
			//guard: CPU time of a removed partition does not count for the next of its name
			delete(r.counters, unitname.CgroupPath(name.Slice()))
		}
	}
	r.names = r.names[:0]
	for _, p := range partitions {
		r.names = append(r.names, p.Name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	//guard: events of a removed partition are not those of the next of its name
	maps.DeleteFunc(r.events, func(name unitname.PartitionName, _ samples.Usage) bool { return !has(name) })
}

// partition returns the usage of a partition, nil without one: the events then belong to the next
// sample. The first sample takes no events and no peak. The evictor may have begun before, and
// evicted.
func (r *Recorder) partition(of Partition, at time.Time, took time.Duration) *samples.Usage {
	path := unitname.CgroupPath(of.Name.Slice())
	rates, err := r.rates(path, took)
	pressed := 0.0
	if pressure, readErr := r.Cgroups.MemoryPressure(path); readErr == nil {
		pressed = r.counters.percent(path, pressure.Some.Total, took)
	}
	if took == 0 {
		return nil
	}
	report, peak := of.Report(), of.TakePeak()
	if err != nil || report.Time.IsZero() || peak.Polls == 0 {
		return nil
	}
	p := r.takeEvents(of.Name)
	p.PeakTime = at
	p.UsedPeakBytes, p.UsedLowBytes, p.CurrentPeakBytes = peak.Used, peak.UsedLow, peak.Current
	if report.Limit != cgroupfs.Unlimited {
		p.LimitBytes = report.Limit
	}
	p.HardBytes, p.SoftBytes = report.Hard, report.Soft
	p.Cache = &samples.Cache{
		WorkingSetBytes: rates.workingSet, FileMappedBytes: rates.fileMapped, InactiveFileBytes: rates.inactiveFile,
	}
	p.MilliCPU = rates.milliCPU
	p.PressurePercent = pressed
	return &p
}

// takeEvents returns the events of a partition since its last call.
func (r *Recorder) takeEvents(partition unitname.PartitionName) samples.Usage {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := r.events[partition]
	delete(r.events, partition)
	return events
}
