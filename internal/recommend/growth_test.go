package recommend

import (
	"context"
	"math"
	"strconv"
	"testing"
	"time"

	"nodepartition/internal/samples"
	"nodepartition/pkg/evict"
)

// TestComputeGrowth: what grows may leak, or may be a cache or a cluster that grows. What is in use
// is never above what the recommended limit leaves, unless that is asked for.
func TestComputeGrowth(t *testing.T) {
	t.Parallel()
	const length = 8 * day
	logarithm := func(since time.Duration) (float64, string) { return 200 + 60*math.Log(1+since.Hours()), "a" }
	for name, test := range map[string]struct {
		uses           shape
		limit, without uint64 // MiB
	}{
		// 649 x 1.15 = 747, and 42; 352 x 1.15 = 405, and 32, raised until dns is not evicted.
		"a growing cluster":  {leak(200, 300.0/192, 0), 832, 480},
		"a cache that fills": {logarithm, 832, 480},
	} {
		list := history(length, oneBoot, nil, pod{"dns", 0, 70, false, flat(150)}, pod{"metrics", 0, 200, false, test.uses})
		r := compute(list)
		used := list[len(list)-1].Partition.UsedPeakBytes
		if r.MemoryLimit.Bytes != test.limit*mebi || r.MemoryLimit.Bytes-r.EvictionHard.Bytes < used || r.EvictsAtOnce || len(r.NoSection) > 0 {
			t.Errorf("%s: %dMi of %dMi, %q", name, r.MemoryLimit.Bytes/mebi, used/mebi, r.NoSection)
		}
		if r.WithGrowth.Bytes != r.MemoryLimit.Bytes || r.WithoutGrowth.Bytes >= used || !warns(r, "--without-leaks gives") {
			t.Errorf("%s: %+v, %q", name, r.WithoutGrowth, r.Warnings)
		}
		// The reason of the smaller figure has the largest usage, too.
		if highest, _ := highestUsage(list); r.MemoryLimit.PeakBytes != highest {
			t.Errorf("%s: peak %d; want %d", name, r.MemoryLimit.PeakBytes, highest)
		}
		r = withoutLeaks(list)
		if r.MemoryLimit.Bytes > test.without*mebi || !r.EvictsAtOnce || !warns(r, "it evicts as soon as it is in force") {
			t.Errorf("%s: without %dMi, %q", name, r.MemoryLimit.Bytes/mebi, r.Warnings)
		}
		for _, e := range r.Simulations[0].Evictions {
			if e.Name != "kube-system/metrics" {
				t.Errorf("%s: %+v", name, e)
			}
		}
	}
}

// TestComputeBounded: a leak to many times what the pods need makes no partition of that size, and
// it is found in few replays. 14 days of 500 members, of which a sample has the 32 that use most.
func TestComputeBounded(t *testing.T) {
	t.Parallel()
	for _, to := range []float64{16 << 10, 64 << 10, 256 << 10} {
		c := computation{Context: context.Background()}
		c.compute(Input{Samples: crowd(to), Protected: evict.DefaultProtected, WithoutLeaks: true})
		need := c.WithoutGrowth.need
		if c.MemoryLimit.Bytes > limitFor(2*need, 0) || c.WithGrowth.Bytes < uint64(to)*mebi {
			t.Errorf("to %.0fMi: limit %dMi of a need of %dMi", to, c.MemoryLimit.Bytes/mebi, need/mebi)
		}
		// No limit up to the bound spares the others, so none is raised in vain.
		if c.MemoryLimit.Bytes != c.WithoutGrowth.Bytes {
			t.Errorf("to %.0fMi: limit %dMi; want %dMi", to, c.MemoryLimit.Bytes/mebi, c.WithoutGrowth.Bytes/mebi)
		}
		// One at the limit, one at the bound, and the bisection between them.
		if c.replays > 16 {
			t.Errorf("to %.0fMi: %d replays", to, c.replays)
		}
	}
}

// crowd returns two weeks of 500 pods, of which each sample has another 32, and one with a higher
// priority leaks to a size in MiB.
func crowd(to float64) []samples.Sample {
	list := history(14*day, oneBoot, nil, pod{"leak", 1_000_000, 10, false, leak(20, to/(14*24), 0)})
	for i := range list {
		s := &list[i]
		for n := range 31 {
			name := strconv.Itoa((i/50*31 + n) % 500)
			bytes := uint64(30+(n*7+i)%20) * mebi
			s.Members = append(s.Members, samples.Member{
				UID: name, Namespace: "kube-system", Name: "p" + name, Containers: "a", RequestBytes: 10 * mebi, UsedBytes: bytes, WorkingSetBytes: bytes,
			})
			s.Partition.UsedPeakBytes += bytes
		}
		s.Partition.UsedLowBytes = s.Partition.UsedPeakBytes
	}
	return list
}

// TestComputeEnds: a computation ends when its context does, and does not replay the history first.
func TestComputeEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	list := crowd(64 << 10)
	c := computation{Context: ctx}
	c.compute(Input{Samples: list, WithoutLeaks: true})
	if leaks := c.memberLeaks(list); len(leaks) > 0 || c.replays > 4 {
		t.Errorf("%d leaks, %d replays", len(leaks), c.replays)
	}
	if s := simulate(ctx, list, gibi, 32*mebi, evict.DefaultProtected, nil); len(s.Evictions) > 0 {
		t.Errorf("%d evictions", len(s.Evictions))
	}
	if _, err := Compute(ctx, Input{Samples: list}); err == nil {
		t.Error("no error")
	}
}

// TestComputeWaiting: members that wait outside for their next start count with what they use and
// request, and so does memory that live moves left there.
func TestComputeWaiting(t *testing.T) {
	t.Parallel()
	list := history(8*day, oneBoot, nil, pod{"dns", 0, 70, false, flat(150)})
	for i := range list {
		p := list[i].Partition
		p.Pods = &samples.Pods{
			Members: 4, RequestBytes: 1500 * mebi, Waiting: 3, WaitingUsedBytes: 800 * mebi, WaitingRequestBytes: 1400 * mebi,
			LeftBytes: 20 * mebi, AllUsedBytes: p.UsedPeakBytes + 820*mebi,
		}
	}
	r := compute(list)
	// At a limit that the pods in the partition fit into, they and those that come do not.
	if at := computeIn(Input{Samples: list, AtLimit: 512 * mebi}).Simulations[0]; len(at.Evictions) == 0 || at.Evictions[0].UsedBytes < 960*mebi {
		t.Errorf("%+v", at)
	}
	// The requests of 1500 are more than (152 + 820) x 1.15 = 1117.
	if r.MemoryLimit.PeakBytes < 970*mebi || r.MemoryLimit.Bytes != 1600*mebi {
		t.Errorf("%dMi, %q", r.MemoryLimit.Bytes/mebi, r.MemoryLimit.Why)
	}
	for i := range list {
		list[i].Partition.Pods.RequestBytes = 0
	}
	if r := compute(list); r.MemoryLimit.Bytes != 1216*mebi {
		t.Errorf("%dMi, %q", r.MemoryLimit.Bytes/mebi, r.MemoryLimit.Why)
	}
	// Members that request more than all pods together were known to.
	for i := range list {
		list[i].Partition.Pods.RequestBytes, list[i].Members[0].RequestBytes = 70*mebi, 1500*mebi
	}
	if r := compute(list); r.MemoryLimit.Bytes != 1600*mebi {
		t.Errorf("%dMi, %q", r.MemoryLimit.Bytes/mebi, r.MemoryLimit.Why)
	}
}

// TestComputeWorkingSet: a limit has room for the page cache that is in use, and says so where more
// was there, or where that is not known.
func TestComputeWorkingSet(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		set, limit uint64 // MiB
		warning    string
	}{
		"not known":  {0, 1152, "the history does not show how much of it is in use"},
		"in use":     {3000, 3200, "3000Mi were in use"},
		"not in use": {1000, 1152, "1000Mi were in use"},
	} {
		list := history(8*day, oneBoot, nil, pod{"etcd", 0, 100, false, flat(900)})
		for i := range list {
			p := list[i].Partition
			p.CurrentPeakBytes = 5000 * mebi
			if test.set > 0 {
				p.Cache = &samples.Cache{WorkingSetBytes: test.set * mebi}
			}
		}
		if r := compute(list); r.MemoryLimit.Bytes != test.limit*mebi || !warns(r, test.warning) {
			t.Errorf("%s: %dMi, %q, %q", name, r.MemoryLimit.Bytes/mebi, r.MemoryLimit.Why, r.Warnings)
		}
	}
}

// TestComputeReservedWithPartition: what members do not request of memoryLimit is promised to user
// pods, too, unless systemReserved includes it.
func TestComputeReservedWithPartition(t *testing.T) {
	t.Parallel()
	// 100 x 1.15 = 117, and 32: 160. Less 40, that is 128 in steps of 64; 256 for the services.
	list := history(7*day, oneBoot, nil, pod{"a", 0, 40, false, flat(100)})
	r := compute(list)
	if s := r.SystemReserved; r.MemoryLimit.Bytes != 160*mebi || s.Memory.Bytes != 256*mebi || s.WithPartition.Bytes != 384*mebi || r.KubeReserved.WithPartition != nil {
		t.Errorf("%dMi, %+v, %+v", r.MemoryLimit.Bytes/mebi, s.Memory, s.WithPartition)
	}
	for i := range list {
		list[i].Members = nil
	}
	// All of 160 in steps of 64.
	if s := compute(list).SystemReserved; s.WithPartition.Bytes != 448*mebi {
		t.Errorf("%+v", s.WithPartition)
	}
}

// TestComputeShort: figures of less than a day, or without pods, are shown and not to be applied.
func TestComputeShort(t *testing.T) {
	t.Parallel()
	steady := pod{"a", 0, 40, false, flat(20)}
	for length, want := range map[time.Duration]bool{10 * time.Minute: true, 23 * time.Hour: true, day: false} {
		r := compute(history(length, oneBoot, nil, steady))
		if r.MemoryLimit == nil || refuses(r, "a section needs a day") != want || len(r.NoSection) > 0 != want {
			t.Errorf("%s: %q", length, r.NoSection)
		}
	}
	list := history(2*day, oneBoot, nil, steady)
	for i := range list {
		list[i].Members = nil
	}
	if r := compute(list); r.MemoryLimit == nil || !refuses(r, "--history-members") {
		t.Errorf("%q", r.NoSection)
	}
}

// TestComputeDensity: kubeReserved was measured with as many pods as ran.
func TestComputeDensity(t *testing.T) {
	t.Parallel()
	for pods, want := range map[int]bool{0: false, 5: true, 54: true, 55: false} {
		list := history(7*day, oneBoot, nil, pod{"a", 0, 40, false, flat(20)})
		for i := range list {
			if pods > 0 {
				list[i].Node = &samples.Node{CPUs: 4, MemoryBytes: 8 * gibi, Pods: pods}
			}
		}
		if r := computeIn(Input{Samples: list, MaxPods: 110}); warns(r, "kubeReserved is for so few") != want || r.History.Pods != pods {
			t.Errorf("%d pods: %q", pods, r.Warnings)
		}
	}
}
