package recommend

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"nodepartition/internal/samples"
	"nodepartition/pkg/evict"
)

func compute(list []samples.Sample) Recommendation { return computeIn(Input{Samples: list}) }

// withoutLeaks computes the limit without what leaks have added.
func withoutLeaks(list []samples.Sample) Recommendation {
	return computeIn(Input{Samples: list, WithoutLeaks: true})
}

func computeIn(in Input) Recommendation {
	in.Protected = evict.DefaultProtected
	r, err := Compute(context.Background(), in)
	if err != nil {
		panic(err)
	}
	return r
}

// victims returns the names of a simulation's evictions, each once.
func victims(s Simulation) []string {
	var names []string
	for _, e := range s.Evictions {
		if !slices.Contains(names, e.Name) {
			names = append(names, e.Name)
		}
	}
	return names
}

func refuses(r Recommendation, text string) bool {
	return slices.ContainsFunc(r.NoSection, func(w string) bool { return strings.Contains(w, text) })
}

func warns(r Recommendation, text string) bool {
	return slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, text) })
}

// TestComputeWeek: without the growth, the limit for a recorded week would have evicted the leak
// and no other pod.
func TestComputeWeek(t *testing.T) {
	t.Parallel()
	r := withoutLeaks(recorded())
	t.Logf("%+v, %q", r.MemoryLimit, r.Warnings)
	if len(r.Leaks) == 0 {
		t.Fatal("no leak is found")
	}
	for _, l := range r.Leaks {
		if l.Name != "kube-system/collector" || l.BytesPerHour < 8.5*mebi || l.BytesPerHour > 9.5*mebi {
			t.Errorf("leak %s from %s, %d bytes an hour", l.Name, l.From, l.BytesPerHour)
		}
	}
	at := r.Simulations[len(r.Simulations)-1]
	if at.LimitBytes != r.MemoryLimit.Bytes || at.HardBytes != r.EvictionHard.Bytes {
		t.Errorf("simulated at %d", at.LimitBytes)
	}
	if got := victims(at); len(got) != 1 || got[0] != "kube-system/collector" {
		t.Errorf("at %dMi evicted are %q", at.LimitBytes/mebi, got)
	}
	for _, e := range at.Evictions {
		if !e.Leak {
			t.Errorf("%+v", e)
		}
	}
	// A pod that was started again is one that leaks.
	if all := strings.Join(compute(recorded()).Warnings, " "); strings.Count(all, "kube-system/collector grows by") != 1 {
		t.Errorf("%q", all)
	}
	// The highest usage includes the leak. The limit does not.
	highest := uint64(0)
	for _, s := range recorded() {
		highest = max(highest, s.Partition.UsedPeakBytes)
	}
	if r.MemoryLimit.Bytes >= highest {
		t.Errorf("limit %dMi, highest usage %dMi", r.MemoryLimit.Bytes/mebi, highest/mebi)
	}
	// The peak is in the night with the weekly job, without the leak: 380 + 330 + some 50 of
	// the base of the leak, and the other pods.
	if want := origin.Add(5*day + 3*time.Hour); r.MemoryLimit.PeakTime.Sub(want).Abs() > time.Hour {
		t.Errorf("peak at %s; want %s", r.MemoryLimit.PeakTime, want)
	}
	if r.History.Seconds < 6*86400 || !r.History.Members {
		t.Errorf("%+v", r.History)
	}
}

// TestComputeWeekWithoutMembers: without pods the leak is known as that of the partition, the limit
// is below the highest usage, and the times of low memory are known.
func TestComputeWeekWithoutMembers(t *testing.T) {
	t.Parallel()
	list := recorded()
	for i := range list {
		list[i].Members = nil
	}
	r := withoutLeaks(list)
	if len(r.Leaks) == 0 || r.Leaks[0].Name != memoryOfPods || r.Leaks[0].UID != "" {
		t.Errorf("%+v", r.Leaks)
	}
	at := r.Simulations[0]
	if len(at.Evictions) == 0 || at.Evictions[0].Name != "" || at.Evictions[0].NoCandidate {
		t.Errorf("%+v", at.Evictions)
	}
	if !refuses(r, "--history-members") {
		t.Errorf("%q", r.NoSection)
	}
}

// TestComputeFigures follows the arithmetic.
func TestComputeFigures(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		length      time.Duration
		pods        []pod
		limit, hard uint64 // MiB
		warning     string
	}{
		// 400 x 1.15 = 460, and 32: 492, which is 496 in steps of 16.
		"a week": {7 * day, []pod{{"a", 0, 100, false, once(100, 400, 3*day)}}, 496, 32, ""},
		// 400 x 2 = 800, and 42: 842, which is 896 in steps of 64, whose threshold is 45.
		"a day": {day, []pod{{"a", 0, 100, false, once(100, 400, 3*time.Hour)}}, 896, 45, "24h0m0s without gaps: the margin is 100 %"},
		// 1 + 1/4 of 400 is 500, and 32: 532, which is 576.
		"four days": {4 * day, []pod{{"a", 0, 100, false, once(100, 400, day)}}, 576, 32, "the margin is 25 %"},
		// The pods request 800, and 42: 842.
		"requests": {7 * day, []pod{{"a", 0, 500, false, flat(100)}, {"b", 0, 300, false, flat(100)}}, 896, 45, ""},
		// 6000 x 1.15 = 6900, and 5 %: 7263, which is 7424 in steps of 256.
		"large": {7 * day, []pod{{"a", 0, 100, false, once(100, 6000, day)}}, 7424, 372, ""},
	} {
		r := compute(history(test.length, oneBoot, nil, test.pods...))
		if r.MemoryLimit.Bytes != test.limit*mebi || r.EvictionHard.Bytes != test.hard*mebi {
			t.Errorf("%s: %dMi and %dMi; want %d and %d: %q", name, r.MemoryLimit.Bytes/mebi, r.EvictionHard.Bytes/mebi, test.limit, test.hard, r.MemoryLimit.Why)
		}
		if test.warning == "" && len(r.Warnings) > 0 || !warns(r, test.warning) && test.warning != "" {
			t.Errorf("%s: %q; want %q", name, r.Warnings, test.warning)
		}
		if at := r.Simulations[0]; len(at.Evictions) != 0 || len(r.Leaks) != 0 {
			t.Errorf("%s: %+v, leaks %+v", name, at, r.Leaks)
		}
	}
}

// TestComputeReserved: the services of kubelet and runtime, and the rest of the node without them.
func TestComputeReserved(t *testing.T) {
	t.Parallel()
	r := compute(history(7*day, oneBoot, nil, pod{"a", 0, 100, false, flat(100)}))
	// (120 + 180) x 1.15 = 345, rounded to 384; (80 + 70) x 1.15 = 172.5, rounded to 180.
	if k := r.KubeReserved; k.Memory.Bytes != 384*mebi || k.MilliCPU != 180 || k.Memory.PeakBytes != 300*mebi {
		t.Errorf("kubeReserved %+v", k)
	}
	// (500 + 20 - 300) x 1.15 = 253, rounded to 256; (200 + 10 - 150) x 1.15 = 69, rounded to 70.
	if s := r.SystemReserved; s.Memory.Bytes != 256*mebi || s.MilliCPU != 70 || len(s.Memory.Why) != 2 {
		t.Errorf("systemReserved %+v", s)
	}
	list := history(7*day, oneBoot, nil, pod{"a", 0, 100, false, flat(100)})
	for i := range list {
		list[i].Partition, list[i].Members = nil, nil
		list[i].Groups[2].WorkingSetBytes += uint64(i) * mebi / 3 // 2 MiB an hour
		list[i].Groups[0].WorkingSetBytes += uint64(i) * mebi / 3
		if i == 30 {
			list[i].Groups[3].MilliCPU = 4000 // one busy minute of a week
		}
	}
	r = compute(list)
	// Nothing evicts a service: what it has added stays in use. (300 + 336) x 1.15 = 731, which is
	// 768 in steps of 64.
	if len(r.Leaks) != 1 || r.Leaks[0].Name != kubeServices || r.KubeReserved.Memory.Bytes != 768*mebi || r.KubeReserved.MilliCPU != 180 {
		t.Errorf("%d leaks, %+v", len(r.Leaks), r.KubeReserved)
	}
	if !strings.Contains(r.KubeReserved.Memory.Why[0], "the largest working set is 635Mi") || !warns(r, "nothing evicts them") {
		t.Errorf("%q, %q", r.KubeReserved.Memory.Why, r.Warnings)
	}
	if r.MemoryLimit != nil || !refuses(r, "no partition") {
		t.Errorf("%+v, %q", r.MemoryLimit, r.NoSection)
	}
}

// TestComputeNothing: an empty history gives no section.
func TestComputeNothing(t *testing.T) {
	t.Parallel()
	if r := compute(nil); r.MemoryLimit != nil || !refuses(r, "the history is empty") {
		t.Errorf("%+v", r)
	}
}

// TestComputeCutOff: usage that an eviction has cut off counts a fifth more, except that of a leak.
func TestComputeCutOff(t *testing.T) {
	t.Parallel()
	steady := func() []samples.Sample { return history(7*day, oneBoot, nil, pod{"a", 0, 100, false, flat(600)}) }
	plain := compute(steady()).MemoryLimit.Bytes
	for name, happen := range map[string]func(*samples.Usage){
		"eviction": func(p *samples.Usage) { p.Evicted = []string{"kube-system/other"} },
		"kill":     func(p *samples.Usage) { p.KilledAtLimit = 1 },
	} {
		list := steady()
		happen(list[500].Partition)
		r := compute(list)
		// 602 x 1.2 x 1.15 = 831, and 44.
		if r.MemoryLimit.Bytes != 896*mebi || plain != 768*mebi || !strings.Contains(r.MemoryLimit.Why[0], "cut off") {
			t.Errorf("%s: %dMi, without it %dMi: %q", name, r.MemoryLimit.Bytes/mebi, plain/mebi, r.MemoryLimit.Why)
		}
	}
	// The kernel killed with a threshold of 60Mi left: twice that.
	list := steady()
	list[500].Partition.KilledAtLimit, list[500].Partition.HardBytes = 1, 60*mebi
	if r := compute(list); r.EvictionHard.Bytes != 120*mebi || !strings.Contains(r.EvictionHard.Why[0], "the kernel killed") {
		t.Errorf("%+v", r.EvictionHard)
	}
	// The pod that was evicted leaks.
	list = history(7*day, oneBoot, nil, pod{"a", 0, 100, false, flat(600)}, pod{"l", 0, 10, false, leak(20, 5, day)})
	list[len(list)-1].Partition.Evicted = []string{"kube-system/l"}
	if r := compute(list); strings.Contains(r.MemoryLimit.Why[0], "cut off") {
		t.Errorf("%q", r.MemoryLimit.Why)
	}
}

// TestComputePeakBeforeLeak: a pod that exceeds its request by more than a small leak would be
// evicted first. The limit is raised until it is not.
func TestComputePeakBeforeLeak(t *testing.T) {
	t.Parallel()
	pods := []pod{{"backup", 0, 10, false, nightly(20, 500)}, {"collector", 0, 10, false, leak(20, 5, 0)}}
	r := withoutLeaks(history(7*day, oneBoot, nil, pods...))
	if got := victims(r.Simulations[0]); len(got) != 1 || got[0] != "kube-system/collector" {
		t.Errorf("at %dMi evicted are %q: %q", r.MemoryLimit.Bytes/mebi, got, r.MemoryLimit.Why)
	}
	if !strings.Contains(strings.Join(r.MemoryLimit.Why, "\n"), "kube-system/backup would have been evicted before a leak") {
		t.Errorf("%q", r.MemoryLimit.Why)
	}
	// With a lower priority it is evicted first at every limit that evicts. The limit does not follow
	// the leak: 520 x 1.15 x 2 = 1196, and 64.
	pods[0].priority, pods[1].priority = -5, 0
	r = withoutLeaks(history(7*day, oneBoot, nil, pods...))
	if r.MemoryLimit.Bytes > 1280*mebi || !warns(r, "kube-system/backup would be evicted") || !warns(r, "give the pod that leaks a memory limit") {
		t.Errorf("at %dMi %q", r.MemoryLimit.Bytes/mebi, r.Warnings)
	}
}

// TestComputeAtLimit: the pods that would have been evicted at a limit, and when.
func TestComputeAtLimit(t *testing.T) {
	t.Parallel()
	list := history(2*day, oneBoot, nil,
		pod{"backup", 5, 10, false, nightly(20, 300)}, pod{"web", 0, 200, false, flat(150)},
		pod{"other", 0, 10, false, flat(50)}, pod{"etcd", 0, 10, true, flat(90)})
	r := computeIn(Input{Samples: list, AtLimit: 512 * mebi})
	at := r.Simulations[0]
	// 590 at night: other exceeds its request, with the lowest priority; then backup. web is below its
	// request, and etcd is static.
	if at.LimitBytes != 512*mebi || at.HardBytes != 32*mebi || len(at.Evictions) < 2 || at.Evictions[0].Name != "kube-system/other" || at.Evictions[1].Name != "kube-system/backup" {
		t.Fatalf("%+v", at)
	}
	if e := at.Evictions[0]; !e.Time.Equal(origin.Add(3*time.Hour)) || e.UsedBytes < 580*mebi || e.PodBytes < 45*mebi || e.Leak {
		t.Errorf("%+v", e)
	}
	// Only protected pods.
	list = history(day, oneBoot, nil, pod{"etcd", 0, 10, true, flat(90)})
	at = computeIn(Input{Samples: list, AtLimit: 96 * mebi}).Simulations[0]
	if len(at.Evictions) != 1 || !at.Evictions[0].NoCandidate {
		t.Errorf("%+v", at)
	}
}
