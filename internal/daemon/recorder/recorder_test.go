package recorder

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/node/candidates"
	"nodepartition/internal/samples"
	"nodepartition/internal/thresholds"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
)

const (
	mebi      = 1 << 20
	partition = "kubepods.slice/kubepods-system.slice"
)

// tree is a folder with cgroups.
type tree struct {
	t    testing.TB
	root string
}

// cgroup writes a cgroup with a usage in MiB, of which a quarter is inactive page cache, and CPU
// time in seconds.
func (n tree) cgroup(path string, usage, cpu string) {
	n.t.Helper()
	n.write(path, "memory.current", usage)
	n.write(path, "memory.stat", "anon 0\ninactive_file 1048576\nactive_file 0\nslab_reclaimable 0\n")
	n.write(path, "cpu.stat", "usage_usec "+cpu+"\n")
}

func (n tree) write(path, name, text string) {
	n.t.Helper()
	dir := filepath.Join(n.root, path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

// newTree returns a node with a partition, a kubelet, a runtime in a slice of its own, and a login.
func newTree(t *testing.T) tree {
	t.Helper()
	n := tree{t, t.TempDir()}
	n.cgroup("kubepods.slice", "900000000", "9")
	n.cgroup(partition, "104857600", "1000000")
	n.write(partition, "memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
	n.cgroup("system.slice", "314572800", "60000000")
	n.cgroup("system.slice/ssh.service", "1048577", "1")
	n.cgroup("system.slice/kubelet.service", "83886080", "30000000")
	n.cgroup("kube.slice", "209715200", "20000000")
	n.cgroup("kube.slice/kube-runtime.slice/containerd.service", "157286400", "10000000")
	n.cgroup("user.slice", "2097152", "1000000")
	return n
}

// polls holds the results of polls.
type polls struct {
	Peak   func() evict.Peak
	Report func() evict.Report
	Pods   func() []evict.Pod
}

// polled is a Recorder with a partition, and the polls of it.
type polled struct {
	*Recorder
	name  unitname.PartitionName
	polls polls
}

func (p polled) TakePeak() evict.Peak    { return p.polls.Peak() }
func (p polled) Report() evict.Report    { return p.polls.Report() }
func (p polled) Candidates() []evict.Pod { return p.polls.Pods() }

func (p polled) partitions() []Partition { return []Partition{{p.name, p}} }

func (p polled) sample(now time.Time, took time.Duration) samples.Sample {
	return p.Recorder.sample(p.partitions(), now, took)
}

// of returns another partition with the same polls.
func (p polled) of(name unitname.PartitionName) Partition { return Partition{name, p} }

func (n tree) recorder(o Options) polled { return n.polled(o, polls{}) }

func (n tree) polled(o Options, p polls) polled {
	o.Cgroups, o.Boot = cgroupfs.FS(n.root), "0a1b2c3d"
	if p.Peak == nil {
		p.Peak = func() evict.Peak {
			return evict.Peak{Used: 120 * mebi, UsedLow: 80 * mebi, Current: 150 * mebi, Polls: 600}
		}
	}
	if p.Report == nil {
		p.Report = func() evict.Report {
			return evict.Report{Time: time.Now(), Thresholds: thresholds.Thresholds{Limit: 512 * mebi, Hard: 32 * mebi, Soft: 64 * mebi}}
		}
	}
	if o.Node == nil {
		o.Node = func() (samples.Node, error) {
			return samples.Node{CPUs: 8, MemoryBytes: 16 << 30, PageBytes: 4096}, nil
		}
	}
	o.Up = func() uint64 { return 7200 }
	o.Warn = func(err error) { n.t.Errorf("warning: %v", err) }
	o.Members = p.Pods != nil
	return polled{New(o), unitname.System, p}
}

// TestSample: the extremes of the evictor's polls, rates of the minute, and the cgroups outside of
// kubepods.slice with the services of the kubelet and the runtime, wherever they are.
func TestSample(t *testing.T) {
	t.Parallel()
	n := newTree(t)
	r := n.recorder(Options{})
	now := time.Now()
	r.sample(now, 0)
	r.Evicting(unitname.System, "kube-system", "collector")
	r.KernelKilled(unitname.System, evict.AtPartition, 2)
	r.KernelKilled(unitname.System, evict.AtPod, 1)
	n.cgroup(partition, "104857600", "7000000")                      // 6 s of a minute
	n.cgroup("system.slice/kubelet.service", "94371840", "60000000") // 30 s
	n.write(partition, "memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=3500000\n")
	s := r.sample(now.Add(time.Minute), time.Minute)
	p := s.Partition
	if p == nil {
		t.Fatal("no partition")
	}
	if p.UsedPeakBytes != 120*mebi || p.UsedLowBytes != 80*mebi || p.CurrentPeakBytes != 150*mebi || p.LimitBytes != 512*mebi ||
		p.HardBytes != 32*mebi || p.SoftBytes != 64*mebi || p.MilliCPU != 100 || p.PressurePercent != 5 || !p.PeakTime.Equal(s.Time) {
		t.Errorf("%+v", p)
	}
	if len(p.Evicted) != 1 || p.Evicted[0] != "kube-system/collector" || p.KilledAtLimit != 2 || p.KilledElsewhere != 1 {
		t.Errorf("events %+v", p)
	}
	if s.Seconds != 60 || s.Boot != "0a1b2c3d" || s.Members != nil {
		t.Errorf("%+v", s)
	}
	want := []samples.Group{
		{Name: "kube.slice", WorkingSetBytes: 199 * mebi}, {Name: "system.slice", WorkingSetBytes: 299 * mebi},
		{Name: "user.slice", WorkingSetBytes: 1 * mebi},
		{Name: "kube.slice/kube-runtime.slice/containerd.service", Kube: true, WorkingSetBytes: 149 * mebi},
		{Name: "system.slice/kubelet.service", Kube: true, WorkingSetBytes: 89 * mebi, MilliCPU: 500},
	}
	if len(s.Groups) != len(want) {
		t.Fatalf("%+v", s.Groups)
	}
	for i := range want {
		if s.Groups[i] != want[i] {
			t.Errorf("%+v; want %+v", s.Groups[i], want[i])
		}
	}
	// The next minute begins without events.
	if p := r.sample(now.Add(2*time.Minute), time.Minute).Partition; len(p.Evicted) != 0 || p.KilledAtLimit != 0 || p.MilliCPU != 0 {
		t.Errorf("%+v", p)
	}
}

// TestSampleEventWithoutReading: an eviction in a minute without a reading of the partition, or
// before the first sample that is kept, belongs to the next one.
func TestSampleEventWithoutReading(t *testing.T) {
	t.Parallel()
	count := 1
	r := newTree(t).polled(Options{}, polls{Peak: func() evict.Peak { return evict.Peak{Used: mebi, Polls: count} }})
	r.Evicting(unitname.System, "kube-system", "early")
	r.sample(time.Now(), 0)
	count = 0
	r.KernelKilled(unitname.System, evict.AtPartition, 1)
	if s := r.sample(time.Now(), time.Minute); s.Partition != nil {
		t.Fatalf("%+v", s.Partition)
	}
	count = 1
	if p := r.sample(time.Now(), time.Minute).Partition; len(p.Evicted) != 1 || p.KilledAtLimit != 1 {
		t.Errorf("%+v", p)
	}
}

// TestSampleServiceRestart: a service that was started again has no negative rate, and one that is
// stopped or moved to another slice is found there.
func TestSampleServiceRestart(t *testing.T) {
	t.Parallel()
	n := newTree(t)
	r := n.recorder(Options{})
	now := time.Now()
	r.sample(now, 0)
	n.cgroup("system.slice/kubelet.service", "94371840", "1000")
	for _, g := range r.sample(now.Add(time.Minute), time.Minute).Groups {
		if g.Name == "system.slice/kubelet.service" && g.MilliCPU != 0 {
			t.Errorf("%+v", g)
		}
	}
	if err := os.RemoveAll(filepath.Join(n.root, "system.slice/kubelet.service")); err != nil {
		t.Fatal(err)
	}
	n.cgroup("kube.slice/kubelet.service", "94371840", "1000")
	r.sample(now.Add(2*time.Minute), time.Minute)
	found := false
	for _, g := range r.sample(now.Add(3*time.Minute), time.Minute).Groups {
		found = found || g.Name == "kube.slice/kubelet.service" && g.Kube
		if g.Name == "system.slice/kubelet.service" {
			t.Error("the stopped service is still there")
		}
	}
	if !found {
		t.Error("the service is not found in its new slice")
	}
}

// TestSampleNoPartition: without a reading of the partition the rest of the node is recorded.
func TestSampleNoPartition(t *testing.T) {
	t.Parallel()
	n := newTree(t)
	for name, p := range map[string]polls{
		"no poll":     {Peak: func() evict.Peak { return evict.Peak{} }},
		"failed poll": {Report: func() evict.Report { return evict.Report{} }},
	} {
		p.Pods = func() []evict.Pod { return nil }
		r := n.polled(Options{}, p)
		r.Placement = func(unitname.PartitionName) (candidates.Placement, bool) { return candidates.Placement{Pods: 3}, true }
		if s := r.sample(time.Now(), time.Minute); s.Partition != nil || len(s.Groups) != 5 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	r := n.polled(Options{}, polls{Report: func() evict.Report {
		return evict.Report{Time: time.Now(), Thresholds: thresholds.Thresholds{Limit: cgroupfs.Unlimited}}
	}})
	if s := r.sample(time.Now(), time.Minute); s.Partition == nil || s.Partition.LimitBytes != 0 {
		t.Errorf("without a limit: %+v", s.Partition)
	}
}

// TestSampleMembers: the pods with what ranks them, and a checksum that changes with a restart.
func TestSampleMembers(t *testing.T) {
	t.Parallel()
	n := newTree(t)
	const pod = partition + "/kubepods-system-pod1.slice"
	n.cgroup(pod, "52428800", "1")
	container := "c1"
	r := n.polled(Options{}, polls{Pods: func() []evict.Pod {
		return []evict.Pod{
			{PodMeta: evict.PodMeta{UID: "1", Namespace: "kube-system", Name: "dns", QoS: "Burstable", Cgroup: pod, Priority: 7}, Request: 10 * mebi, Containers: []evict.Container{{ID: container}}},
			{PodMeta: evict.PodMeta{UID: "2", Namespace: "kube-system", Name: "gone", Cgroup: partition + "/gone.slice"}},
		}
	}})
	members := r.sample(time.Now(), time.Minute).Members
	if len(members) != 1 {
		t.Fatalf("%+v", members)
	}
	m := members[0]
	if m.Name != "dns" || m.Priority != 7 || m.RequestBytes != 10*mebi || m.WorkingSetBytes != 49*mebi || m.UsedBytes != 49*mebi || m.QoS != "Burstable" {
		t.Errorf("%+v", m)
	}
	container = "c2"
	if again := r.sample(time.Now(), time.Minute).Members[0]; again.Containers == m.Containers {
		t.Error("a restart of the container is not seen")
	}
}

// TestUntilFull: samples are at full minutes, and none is shorter than half a minute.
func TestUntilFull(t *testing.T) {
	t.Parallel()
	base := time.Date(2026, 11, 9, 12, 0, 0, 0, time.UTC)
	for after, want := range map[time.Duration]time.Duration{
		0:                        time.Minute,
		time.Millisecond:         time.Minute - time.Millisecond,
		20 * time.Second:         40 * time.Second,
		40 * time.Second:         80 * time.Second,
		59999 * time.Millisecond: time.Minute + time.Millisecond,
	} {
		if got := untilFull(base.Add(after)); got != want {
			t.Errorf("%s: %s; want %s", after, got, want)
		}
	}
}

// TestRunEnds: the end of the service writes what has been measured since the last minute.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	n := newTree(t)
	dir := t.TempDir()
	ring, err := samples.Open(dir, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 1100*time.Millisecond)
	defer cancel()
	r := n.recorder(Options{})
	r.Run(ctx, ring, r.partitions)
	h, err := samples.Read(t.Context(), dir)
	if err != nil || len(h.Minutes) != 1 || len(h.Tens) != 1 || h.Minutes[0].Seconds != 1 || h.Minutes[0].Partition == nil {
		t.Errorf("%+v, %v", h, err)
	}
}

// BenchmarkSample measures a sample without its writing, with one partition and with four.
func BenchmarkSample(b *testing.B) {
	names := []unitname.PartitionName{unitname.System, "telemetry", "batch", "management"}
	for _, count := range []int{1, len(names)} {
		b.Run(fmt.Sprintf("partitions=%d", count), func(b *testing.B) {
			n := tree{b, b.TempDir()}
			r := n.recorder(Options{})
			var partitions []Partition
			for _, name := range names[:count] {
				path := unitname.CgroupPath(name.Slice())
				n.cgroup(path, "104857600", "1000000")
				n.write(path, "memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=500000\n")
				partitions = append(partitions, r.of(name))
			}
			for _, name := range []string{"system.slice", "user.slice", "init.scope", "system.slice/kubelet.service", "system.slice/containerd.service"} {
				n.cgroup(name, "314572800", "60000000")
			}
			now := time.Now()
			b.ReportAllocs()
			for b.Loop() {
				r.Recorder.sample(partitions, now, time.Minute)
			}
		})
	}
}

// TestSampleWaitingMembers: a member that waits for its next start outside of the partition is
// recorded with its usage and its request, and so is memory that a live move left outside.
func TestSampleWaitingMembers(t *testing.T) {
	t.Parallel()
	n := newTree(t)
	const etcd = "kubepods.slice/kubepods-pod1.slice"
	n.cgroup(etcd, "209715200", "1")
	n.write(partition, "memory.stat", "anon 0\nfile_mapped 4194304\ninactive_file 1048576\nactive_file 0\nslab_reclaimable 0\n")
	known := true
	r := n.recorder(Options{Placement: func(unitname.PartitionName) (candidates.Placement, bool) {
		return candidates.Placement{
			Pods: 12, Members: 3, RequestBytes: 300 * mebi, LeftBytes: 7 * mebi,
			Waiting: []evict.Pod{
				{PodMeta: evict.PodMeta{UID: "1", Name: "etcd", Cgroup: etcd}, Request: 100 * mebi},
				{PodMeta: evict.PodMeta{UID: "2", Name: "gone", Cgroup: "kubepods.slice/kubepods-pod2.slice"}, Request: 10 * mebi},
			},
		}, known
	}})
	s := r.sample(time.Now(), time.Minute)
	want := samples.Pods{
		Members: 3, RequestBytes: 300 * mebi, Waiting: 2, WaitingRequestBytes: 110 * mebi, LeftBytes: 7 * mebi,
		WaitingUsedBytes: 199 * mebi, WaitingWorkingSetBytes: 199 * mebi,
		AllUsedBytes: (120 + 199 + 7) * mebi, AllWorkingSetBytes: (99 + 199 + 7) * mebi,
	}
	if p := s.Partition.Pods; p == nil || *p != want {
		t.Errorf("%+v; want %+v", p, want)
	}
	if c := s.Partition.Cache; c == nil || *c != (samples.Cache{WorkingSetBytes: 99 * mebi, FileMappedBytes: 4 * mebi, InactiveFileBytes: mebi}) {
		t.Errorf("%+v", c)
	}
	if s.Node == nil || *s.Node != (samples.Node{CPUs: 8, MemoryBytes: 16 << 30, PageBytes: 4096, Pods: 12}) || s.Up != 7200 {
		t.Errorf("%+v, %d s", s.Node, s.Up)
	}
	// Before the first pass nothing is known: that is not zero.
	known = false
	if s := r.sample(time.Now(), time.Minute); s.Partition.Pods != nil {
		t.Errorf("%+v", s.Partition.Pods)
	}
}

const telemetry unitname.PartitionName = "telemetry"

// TestSamplePartitions: a sample has each partition of the node, with its own memory, pods and
// events, and in the order of the node.
func TestSamplePartitions(t *testing.T) {
	t.Parallel()
	n := newTree(t)
	n.cgroup(unitname.CgroupPath(telemetry.Slice()), "31457280", "1000000")
	const agent = "kubepods.slice/kubepods-telemetry.slice/kubepods-telemetry-pod1.slice"
	n.cgroup(agent, "20971520", "1")
	asked := map[unitname.PartitionName]candidates.Placement{
		unitname.Default: {Pods: 9}, unitname.System: {Members: 4}, telemetry: {Members: 2, RequestBytes: 7 * mebi},
	}
	r := n.recorder(Options{Placement: func(name unitname.PartitionName) (candidates.Placement, bool) { return asked[name], true }})
	r.Members, r.polls.Pods = true, func() []evict.Pod { return nil }
	of := n.polled(Options{}, polls{
		Peak: func() evict.Peak { return evict.Peak{Used: 30 * mebi, Polls: 1} },
		Pods: func() []evict.Pod {
			return []evict.Pod{{PodMeta: evict.PodMeta{UID: "1", Namespace: "logs", Name: "agent", Cgroup: agent}}}
		},
	}).of(telemetry)
	both := []Partition{of, r.of(unitname.System)}
	now := time.Now()
	r.Recorder.sample(both, now, 0)
	r.Evicting(telemetry, "logs", "agent")
	r.KernelKilled(unitname.System, evict.AtPod, 3)
	s := r.Recorder.sample(both, now.Add(time.Minute), time.Minute)
	if s.Partition == nil || len(s.Others) != 1 || s.Node.Pods != 9 {
		t.Fatalf("%+v", s)
	}
	if p := s.Partition; p.Cache.WorkingSetBytes != 99*mebi || p.UsedPeakBytes != 120*mebi || len(p.Evicted) != 0 || p.KilledElsewhere != 3 || p.Pods.Members != 4 {
		t.Errorf("system: %+v, %+v", p, p.Pods)
	}
	o := s.Others[0]
	if o.Name != telemetry || o.Cache.WorkingSetBytes != 29*mebi || o.UsedPeakBytes != 30*mebi || len(o.Evicted) != 1 || o.KilledElsewhere != 0 || o.Pods.RequestBytes != 7*mebi {
		t.Errorf("telemetry: %+v, %+v", o, o.Pods)
	}
	if len(o.Members) != 1 || o.Members[0].Name != "agent" || len(s.Members) != 0 {
		t.Errorf("pods %+v of telemetry, %+v of system", o.Members, s.Members)
	}
	// On a node without a system partition there is the other one alone.
	if s := r.Recorder.sample([]Partition{of}, now.Add(2*time.Minute), time.Minute); s.Partition != nil || len(s.Others) != 1 {
		t.Errorf("%+v", s)
	}
}

// TestSamplePartitionComesBack: a partition that is removed has no usage. Neither its CPU time nor
// its events count for one that is added later with the same name.
func TestSamplePartitionComesBack(t *testing.T) {
	t.Parallel()
	n := newTree(t)
	path := unitname.CgroupPath(telemetry.Slice())
	stalled := func(total string) {
		n.write(path, "memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total="+total+"\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
	}
	n.cgroup(path, "31457280", "1000000")
	stalled("0")
	r := n.recorder(Options{})
	both := []Partition{r.of(unitname.System), r.of(telemetry)}
	now := time.Now()
	r.Recorder.sample(both, now, 0)
	r.KernelKilled(telemetry, evict.AtPartition, 1)
	if s := r.Recorder.sample(both[:1], now.Add(time.Minute), time.Minute); len(s.Others) != 0 || s.Partition == nil {
		t.Fatalf("%+v", s)
	}
	n.cgroup(path, "31457280", "31000000") // 30 s more than the one before
	stalled("30000000")
	s := r.Recorder.sample(both, now.Add(2*time.Minute), time.Minute)
	if len(s.Others) != 1 || s.Others[0].MilliCPU != 0 || s.Others[0].PressurePercent != 0 || s.Others[0].KilledAtLimit != 0 {
		t.Errorf("%+v", s.Others)
	}
	n.cgroup(path, "31457280", "37000000") // 6 s of a minute
	if s = r.Recorder.sample(both, now.Add(3*time.Minute), time.Minute); s.Others[0].MilliCPU != 100 {
		t.Errorf("%+v", s.Others)
	}
}
