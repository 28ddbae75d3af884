package recommend

import (
	"math"
	"slices"
	"testing"
	"time"

	"nodepartition/internal/node"
	"nodepartition/internal/samples"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
)

const day = 24 * time.Hour

// now is the end of all histories, in the zone in which the output has its times.
var now = time.Date(2026, 11, 23, 0, 0, 0, 0, time.Local)

// made is a made-up history of eight days of a node with 8 CPUs and 16 GiB.
type made struct {
	name string
	// pods returns the usage of each pod at a time since the beginning.
	pods []pod
	// change changes a sample.
	change func(since time.Duration, s *samples.Sample)
}

// pod is a pod of a made-up history. Amounts are in MiB.
type pod struct {
	name    string
	request uint64
	static  bool
	uses    func(since time.Duration) uint64
	// startedAt is the time of its second start, 0 for none.
	startedAt time.Duration
}

func flat(mebis uint64) func(time.Duration) uint64 {
	return func(time.Duration) uint64 { return mebis }
}

// usual returns pods that most nodes have.
func usual(more ...pod) []pod {
	return append([]pod{
		{name: "dns", request: 70, uses: flat(60)}, {name: "proxy", request: 50, uses: flat(45)}, {name: "etcd", request: 100, static: true, uses: flat(90)},
	}, more...)
}

// histories lists what recommend has to be right about. docs/history.md explains each.
func histories() []made {
	const length = 8 * day
	nightly := func(since time.Duration) uint64 {
		if of := since % day; of >= 3*time.Hour && of < 3*time.Hour+40*time.Minute {
			return 380
		}
		return 60
	}
	leak := func(since time.Duration) uint64 {
		if since >= 7*day {
			since -= 7 * day
		}
		return 50 + uint64(3*since.Hours())
	}
	growing := func(since time.Duration) uint64 { return 200 + uint64(300*since.Hours()/length.Hours()) }
	return []made{
		{name: "steady", pods: usual()},
		{name: "nightly batch", pods: usual(pod{name: "backup", request: 100, uses: nightly})},
		{name: "leak in a member", pods: usual(pod{name: "collector", request: 64, uses: leak, startedAt: 7 * day})},
		{name: "leak in the kubelet", pods: usual(), change: func(since time.Duration, s *samples.Sample) {
			added := uint64(300*since.Hours()/length.Hours()) * mebi
			s.Groups[0].WorkingSetBytes += added
			s.Groups[1].WorkingSetBytes += added
		}},
		{name: "growing cluster", pods: usual(pod{name: "metrics", request: 200, uses: growing})},
		{name: "cache of 5 GiB", pods: usual(pod{name: "search", request: 700, uses: flat(705)}), change: func(_ time.Duration, s *samples.Sample) {
			s.Partition.CurrentPeakBytes = (900 + 5*1024) * mebi
			s.Partition.Cache = &samples.Cache{WorkingSetBytes: 2100 * mebi, FileMappedBytes: 800 * mebi, InactiveFileBytes: 3920 * mebi}
			s.Partition.Pods.AllWorkingSetBytes = 2100 * mebi
		}},
		{name: "members waiting", pods: usual()[:2], change: func(_ time.Duration, s *samples.Sample) {
			p := s.Partition.Pods
			p.Members, p.Waiting = 5, 3
			p.WaitingUsedBytes, p.WaitingWorkingSetBytes, p.WaitingRequestBytes = 800*mebi, 950*mebi, 600*mebi
			p.RequestBytes += p.WaitingRequestBytes
			p.AllUsedBytes += p.WaitingUsedBytes
			p.AllWorkingSetBytes += p.WaitingWorkingSetBytes
		}},
	}
}

// samples returns the history in samples of ten minutes.
func (m made) samples(has samples.Node) samples.History {
	var h samples.History
	const length, step = 8 * day, 10 * time.Minute
	for since := step; since <= length; since += step {
		h.Tens = append(h.Tens, m.sample(since, now.Add(since-length), has))
	}
	return h
}

func (m made) sample(since time.Duration, at time.Time, has samples.Node) samples.Sample {
	at = at.UTC()
	p := &samples.Usage{PeakTime: at, MilliCPU: 50, Pods: &samples.Pods{Members: len(m.pods)}, Cache: &samples.Cache{}}
	s := samples.Sample{
		Time: at, Seconds: 600, Boot: "0a1b2c3d", Up: uint64(since / time.Second), Node: &has, Partition: p,
		Groups: []samples.Group{
			{Name: "system.slice", WorkingSetBytes: 520 * mebi, MilliCPU: 200},
			{Name: "system.slice/kubelet.service", Kube: true, WorkingSetBytes: 120 * mebi, MilliCPU: 80},
			{Name: "system.slice/containerd.service", Kube: true, WorkingSetBytes: 180 * mebi, MilliCPU: 70},
		},
	}
	for _, pod := range m.pods {
		noise := uint64(math.Round(1 + math.Sin(since.Hours()*7)))
		bytes := (pod.uses(since) + noise) * mebi
		life := "first"
		if pod.startedAt > 0 && since >= pod.startedAt {
			life = "second"
		}
		s.Members = append(s.Members, samples.Member{
			UID: "uid-" + pod.name, Namespace: "kube-system", Name: pod.name, Containers: life, QoS: "Burstable",
			RequestBytes: pod.request * mebi, Static: pod.static, WorkingSetBytes: bytes + 20*mebi, UsedBytes: bytes,
		})
		p.UsedPeakBytes += bytes
		p.Pods.RequestBytes += pod.request * mebi
	}
	p.UsedLowBytes = p.UsedPeakBytes
	p.CurrentPeakBytes = p.UsedPeakBytes * 5 / 4
	p.Cache.WorkingSetBytes = p.UsedPeakBytes + 20*mebi
	p.Pods.AllUsedBytes, p.Pods.AllWorkingSetBytes = p.UsedPeakBytes, p.Cache.WorkingSetBytes
	if m.change != nil {
		m.change(since, &s)
	}
	return s
}

// advise computes the recommendation of a history.
func (m made) advise(t *testing.T, has samples.Node) Advice {
	t.Helper()
	o := Options{Dir: t.TempDir(), Now: now, Protected: evict.DefaultProtected}
	a, err := o.advise(t.Context(), m.samples(has))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// named returns a history by its name.
func named(name string) made {
	list := histories()
	return list[slices.IndexFunc(list, func(m made) bool { return m.name == name })]
}

// beside returns the history as the one of the partition telemetry, which the node has at some
// times, beside a steady system partition.
func (m made) beside(has func(since time.Duration) bool) samples.History {
	h, of := named("steady").samples(usualNode), m.samples(usualNode)
	h.Partitions = []unitname.PartitionName{unitname.System, "telemetry"}
	for i := range h.Tens {
		if s := &of.Tens[i]; has(time.Duration(s.Up) * time.Second) {
			for j := range s.Members {
				s.Members[j].Namespace = "telemetry"
			}
			h.Tens[i].Others = []samples.Other{{Name: "telemetry", Usage: *s.Partition, Members: s.Members}}
		}
	}
	return h
}

// adviseOf computes the recommendation for a partition; "" means the system partition.
func adviseOf(t *testing.T, h samples.History, name unitname.PartitionName) (Advice, error) {
	t.Helper()
	o := Options{Dir: t.TempDir(), Now: now, Protected: evict.DefaultProtected, Partition: name}
	return o.advise(t.Context(), h.Of(node.Shown(name)))
}
