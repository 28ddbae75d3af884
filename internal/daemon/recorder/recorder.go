// Package recorder takes a sample of the node each minute, and writes it to the history.
package recorder

import (
	"context"
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

// Options lists the sources of a Recorder beside the polls. All are required but Placement.
type Options struct {
	Cgroups cgroupfs.FS
	// Partition is the name of the partition that samples are about.
	Partition unitname.PartitionName
	// Members adds the pods of the partition to the samples.
	Members bool
	// Placement returns where the pods of the node are, and false before that is known; nil where it
	// never is.
	Placement func() (candidates.Placement, bool)
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

// Recorder takes samples. Evicting and KernelKilled may be called from any goroutine.
type Recorder struct {
	Options
	counters counters
	// groups is the list of cgroups outside of kubepods.slice, made by discover.
	groups []samples.Group
	// node has the size of the node, nil if it could not be read.
	node         *samples.Node
	discoveredAt time.Time

	mu     sync.Mutex
	events samples.Usage
}

// New returns a Recorder that records nothing before Run.
func New(o Options) *Recorder { return &Recorder{Options: o, counters: counters{}} }

// Evicting records that a pod is evicted.
func (r *Recorder) Evicting(namespace, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	const most = 16 // of a minute
	if len(r.events.Evicted) < most {
		r.events.Evicted = append(r.events.Evicted, namespace+"/"+name)
	}
}

// KernelKilled records processes of the partition that the kernel has killed.
func (r *Recorder) KernelKilled(at evict.KilledAt, processes uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at == evict.AtPartition {
		r.events.KilledAtLimit += uint32(processes)
		return
	}
	r.events.KilledElsewhere += uint32(processes)
}

// Run samples into ring at each full minute until ctx ends, and once then, and closes the ring.
func (r *Recorder) Run(ctx context.Context, ring *samples.Ring, polls Polls) {
	defer func() {
		if err := ring.Close(); err != nil {
			r.Warn(err)
		}
	}()
	last := time.Now()
	r.sample(polls, last, 0)
	timer := time.NewTimer(untilFull(last))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		now := time.Now()
		// Sub uses the monotonic clock: setting the clock does not change the difference.
		if err := ring.Add(r.sample(polls, now, now.Sub(last))); err != nil {
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
func (r *Recorder) sample(polls Polls, now time.Time, took time.Duration) samples.Sample {
	s := samples.Sample{
		Time:    now.UTC().Truncate(time.Second),
		Seconds: uint32(took.Round(time.Second) / time.Second),
		Boot:    r.Boot,
		Up:      r.Up(),
	}
	s.Partition = r.partition(polls, s.Time, took)
	s.Groups = r.outside(now, took)
	if r.node != nil {
		node := *r.node
		s.Node = &node
	}
	r.place(&s)
	if s.Partition != nil && r.Members {
		s.Members = r.members(polls.Candidates())
	}
	return s
}

// partition returns the usage of the partition, nil without one: the events then belong to the next
// sample. The first sample takes no events and no peak. The evictor may have begun before, and
// evicted.
func (r *Recorder) partition(polls Polls, at time.Time, took time.Duration) *samples.Usage {
	path := unitname.CgroupPath(r.Partition.Slice())
	rates, err := r.rates(path, took)
	pressed := 0.0
	if pressure, readErr := r.Cgroups.MemoryPressure(path); readErr == nil {
		pressed = r.counters.percent(path, pressure.Some.Total, took)
	}
	if took == 0 {
		return nil
	}
	report, peak := polls.Report(), polls.TakePeak()
	if err != nil || report.Time.IsZero() || peak.Polls == 0 {
		return nil
	}
	p := r.takeEvents()
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

// takeEvents returns the events since its last call.
func (r *Recorder) takeEvents() samples.Usage {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := r.events
	r.events = samples.Usage{}
	return events
}
