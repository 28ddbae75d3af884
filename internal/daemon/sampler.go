package daemon

import (
	"context"
	"slices"
	"sync"
	"time"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/sizing"
	"node-partition.io/node-partition/internal/sizing/sizefile"
	"node-partition.io/node-partition/pkg/evict"
)

// writeEvery is the number of minutes between two writes of a record.
const writeEvery = 10

// polls is what an evictor knows of its partition. *evict.Manager implements it.
type polls interface {
	Peak(window time.Duration) (used uint64, noted bool)
	Candidates() []evict.Pod
	Usage() map[string]evict.Usage
}

// sampler records what each partition uses, by the minute.
type sampler struct {
	root       host.Root
	cgroups    cgroups.FS
	partitions func() map[partition.Name]polls
	placement  func(partition.Name) (node.MemberPlaces, bool)
	warn       func(error)

	mu    sync.Mutex
	files map[partition.Name]sampled
}

// sampled is the record of a partition, with the advice of its last write.
type sampled struct {
	sizefile.Record
	advice sizing.Advice
}

func (m *monitor) newSampler() *sampler {
	return &sampler{
		root: m.options.Node.Root, cgroups: m.options.Node.Cgroups, partitions: m.partitions.polls,
		placement: m.placement, files: map[partition.Name]sampled{},
		warn: m.complaints("what a partition uses is not recorded whole"),
	}
}

// run samples each minute until ctx ends. It writes each ten minutes and at the end.
func (s *sampler) run(ctx context.Context) error {
	last := time.Now()
	s.open() // so that the recommendation is served from the start
	ticker := time.NewTicker(time.Minute)
	defer ticker.Stop()
	for minute := 1; ; minute++ {
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
		now := time.Now()
		s.sample(now, now.Sub(last))
		last = now
		if ctx.Err() != nil {
			s.write()
			return ctx.Err()
		}
		if minute%writeEvery == 0 {
			s.write()
		}
	}
}

// open opens the records of new partitions, and writes and forgets those of partitions that are
// gone.
func (s *sampler) open() map[partition.Name]polls {
	partitions := s.partitions()
	for name := range partitions {
		if _, known := s.files[name]; known {
			continue
		}
		record, err := sizefile.Open(s.root, name)
		if err != nil {
			s.warn(err)
		}
		s.keep(name, record)
	}
	for name := range s.files {
		if partitions[name] == nil {
			s.writeOne(name)
			s.mu.Lock()
			delete(s.files, name)
			s.mu.Unlock()
		}
	}
	return partitions
}

// sample adds a minute that ends at a time of the clock and began took before. Before the first
// pass it is not known who the members are, and nothing is added.
func (s *sampler) sample(now time.Time, took time.Duration) {
	for name, of := range s.open() {
		peak, noted := of.Peak(took)
		placed, known := s.placement(name)
		minute := sizefile.Minute{}
		if known && noted {
			minute = s.measure(of, placed, peak)
		}
		s.mu.Lock()
		file := s.files[name]
		file.Add(now, took, minute)
		s.files[name] = file
		s.mu.Unlock()
	}
}

// measure returns what the members use, inside and outside of the partition. Those that eviction
// has not measured yet are measured here.
func (s *sampler) measure(of polls, placed node.MemberPlaces, peak uint64) sizefile.Minute {
	minute := sizefile.Minute{
		Used: peak + placed.LeftBytes, Members: placed.Members, RequestBytes: placed.RequestBytes,
		Usage: map[string]uint64{},
	}
	outside := evict.Measure(s.cgroups, placed.Waiting, s.warn)
	for i := range outside {
		minute.Used += outside[i].Usage.Used
	}
	var inside, missing []evict.Pod
	usage := of.Usage()
	for _, pod := range of.Candidates() {
		var known bool
		if pod.Usage, known = usage[pod.UID]; known {
			inside = append(inside, pod)
		} else {
			missing = append(missing, pod)
		}
	}
	for _, pod := range slices.Concat(outside, inside, evict.Measure(s.cgroups, missing, s.warn)) {
		// A UID would say nothing to people, and each rollout has another.
		owner := evict.EstimateOwner(pod.Namespace, pod.Name)
		if pod.Name == "" {
			owner = pod.UID
		}
		minute.Usage[owner] = max(minute.Usage[owner], pod.Usage.Used)
	}
	return minute
}

func (s *sampler) write() {
	for name := range s.files {
		s.writeOne(name)
	}
}

// writeOne writes a record. No reader waits for the disk: nobody else changes the record.
func (s *sampler) writeOne(name partition.Name) {
	record := s.files[name].Record
	if err := record.Write(s.root); err != nil {
		s.warn(err)
	}
	s.keep(name, record)
}

// keep keeps a record that was read or written, and computes its advice.
func (s *sampler) keep(name partition.Name, record sizefile.Record) {
	advice := node.Advise(s.root, &record)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[name] = sampled{record, advice}
}

// day returns what a partition has used in the last day, nil if nothing was measured.
func (s *sampler) day(name partition.Name) *sizefile.Day {
	s.mu.Lock()
	defer s.mu.Unlock()
	file := s.files[name]
	return file.Day()
}

// advice returns the advice for a partition. It is zero without a record.
func (s *sampler) advice(name partition.Name) sizing.Advice {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files[name].advice
}
