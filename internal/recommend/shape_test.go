package recommend

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"nodepartition/internal/samples"
)

// start is the first hour of the nodes of these tests.
var start = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// hourly returns the hours of a node that uses so many MiB in the hour that begins so long after
// start.
func hourly(name string, hours int, used func(at int) uint64) NodeHistory {
	n := NodeHistory{Name: name, LeastThreshold: 4 * mebi, NodeBytes: 16 * gibi}
	for at := range hours {
		when := start.Add(time.Duration(at) * time.Hour)
		bytes := used(at) * mebi
		n.Hours = append(n.Hours, samples.Sample{
			Time: when, Seconds: 3600, Groups: []samples.Group{{Name: "services", WorkingSetBytes: 500 * mebi}},
			Partition: &samples.Usage{
				UsedPeakBytes: bytes, UsedLowBytes: bytes, PeakTime: when,
				Pods: &samples.Pods{RequestBytes: 100 * mebi, AllUsedBytes: bytes},
			},
		})
	}
	return n
}

func steady(mebis uint64) func(int) uint64 { return func(int) uint64 { return mebis } }

// shaped computes a recommendation for nodes.
func shaped(o ShapeOptions, nodes ...NodeHistory) ForShape {
	s := NewShape("m5.large")
	for _, n := range nodes {
		s.Add(n)
	}
	return s.Recommend(context.Background(), o)
}

func (f *ForShape) says(text string) bool {
	return slices.ContainsFunc(slices.Concat(f.Warnings, f.NoSection), func(w string) bool { return strings.Contains(w, text) })
}

// TestShape: the limit is for the node that needs most, whatever the order of the nodes, and it is
// shown how many need less.
func TestShape(t *testing.T) {
	t.Parallel()
	nodes := make([]NodeHistory, 0, 100)
	for i := range 99 {
		nodes = append(nodes, hourly(fmt.Sprintf("node-%02d", i), 8*24, steady(200)))
	}
	nodes = append(nodes, hourly("other", 8*24, steady(400)))
	f := shaped(ShapeOptions{AtLimit: 300 * mebi}, nodes...)
	// 460Mi and 32Mi, and for the others 230Mi and 32Mi.
	if f.Nodes != 100 || f.Node != "other" || f.MemoryLimit.Bytes != 496*mebi || f.EvictionHard.Bytes != 32*mebi || len(f.NoSection) > 0 || f.EvictsAtOnce {
		t.Errorf("%+v, %+v", f, f.MemoryLimit)
	}
	want := []shapeShare{{50, 272 * mebi}, {90, 272 * mebi}, {99, 272 * mebi}, {100, 496 * mebi}}
	if !slices.Equal(f.Shares, want) {
		t.Errorf("%+v", f.Shares)
	}
	if f.Reserved.Bytes != 576*mebi || f.AtLimit.Nodes != 1 || f.AtLimit.Names[0] != "other" || len(f.Warnings) > 0 {
		t.Errorf("%+v, %+v, %q", f.Reserved, f.AtLimit, f.Warnings)
	}
	slices.Reverse(nodes)
	if again := shaped(ShapeOptions{AtLimit: 300 * mebi}, nodes...); again.Node != f.Node || !slices.Equal(again.Shares, f.Shares) ||
		!slices.Equal(again.MemoryLimit.Why, f.MemoryLimit.Why) {
		t.Errorf("%+v", again)
	}
}

// TestShapeTime: nodes that come and go cover the time together, and many that are new make the
// history short.
func TestShapeTime(t *testing.T) {
	t.Parallel()
	inTurn := make([]NodeHistory, 0, 8)
	for i := range 8 {
		n := hourly(fmt.Sprintf("node-%d", i), 8*24, steady(200))
		n.Hours = n.Hours[i*24 : (i+1)*24]
		inTurn = append(inTurn, n)
	}
	f := shaped(ShapeOptions{}, inTurn...)
	if h := f.History; h.Seconds != 8*86400 || h.MostNodes != 1 || !h.From.Equal(start) || !h.To.Equal(start.Add(8*24*time.Hour)) {
		t.Errorf("%+v", h)
	}
	if f.MemoryLimit.Bytes != 272*mebi || f.says("the margin is") {
		t.Errorf("%+v, %q", f.MemoryLimit, f.Warnings)
	}
	fresh := make([]NodeHistory, 0, 101)
	fresh = append(fresh, hourly("old", 14*24, steady(200)))
	for i := range 100 {
		fresh = append(fresh, hourly(fmt.Sprintf("new-%d", i), 2*24, steady(200)))
	}
	if f := shaped(ShapeOptions{}, fresh...); !f.says("the margin is 47 %") {
		t.Errorf("%+v, %q", f.History, f.Warnings)
	}
}

// TestShapeTooLittle: what cannot be defended is not there.
func TestShapeTooLittle(t *testing.T) {
	t.Parallel()
	short := hourly("node", 20, steady(200))
	if f := shaped(ShapeOptions{}, short); f.MemoryLimit != nil || f.Reserved != nil || !f.says("20h0m0s of history each") {
		t.Errorf("%+v", f)
	}
	if f := shaped(ShapeOptions{Force: true}, short); f.MemoryLimit == nil || !f.says("the margin is 100 %") {
		t.Errorf("%+v", f)
	}
	unknown := hourly("node", 8*24, steady(200))
	unknown.LeastThreshold = 0
	if f := shaped(ShapeOptions{}, unknown); f.MemoryLimit != nil || !f.says("the CPUs of no node are known") {
		t.Errorf("%+v", f)
	}
	if f := shaped(ShapeOptions{}, unknown, hourly("known", 8*24, steady(100))); f.MemoryLimit == nil || f.Node != "node" {
		t.Errorf("%+v", f)
	}
	full := hourly("node", 8*24, steady(200))
	if f := shaped(ShapeOptions{Doubt: "a store is down"}, full); f.MemoryLimit != nil || !f.says("a store is down") {
		t.Errorf("%+v", f)
	}
	if f := shaped(ShapeOptions{Doubt: "a store is down", Force: true}, full); f.MemoryLimit == nil {
		t.Errorf("%+v", f)
	}
	none := hourly("node", 8*24, steady(200))
	for i := range none.Hours {
		none.Hours[i].Partition = nil
	}
	if f := shaped(ShapeOptions{}, none); !f.says("no node of the shape had the partition") || !f.says("left out: node node") {
		t.Errorf("%+v", f)
	}
	small := hourly("node", 8*24, steady(200))
	small.NodeBytes = 256 * mebi
	if f := shaped(ShapeOptions{}, small); f.MemoryLimit == nil || !f.says("not below the memory of a node") {
		t.Errorf("%+v", f)
	}
	silent := hourly("node", 8*24, steady(200))
	for i := range silent.Hours {
		silent.Hours[i].Partition.Pods = nil
	}
	if f := shaped(ShapeOptions{}, silent); !f.says("request on node node is not known") {
		t.Errorf("%+v", f)
	}
}

// TestShapeLeak: a node whose leak needs more than twice as much does not make the limit of all.
func TestShapeLeak(t *testing.T) {
	t.Parallel()
	leaks := hourly("leaks", 8*24, func(at int) uint64 { return 200 + 3*uint64(at) })
	others := hourly("other", 8*24, steady(210))
	f := shaped(ShapeOptions{}, leaks, others)
	if f.Node != "other" || f.MemoryLimit.Bytes != 288*mebi || !f.EvictsAtOnce || !f.says("left out: node leaks") || len(f.Leaks) != 1 ||
		f.Leaks[0].Node != "leaks" || f.Leaks[0].BytesPerHour != 3*mebi {
		t.Errorf("%+v, %+v", f, f.MemoryLimit)
	}
	if f := shaped(ShapeOptions{Force: true}, leaks, others); f.Node != "leaks" || f.MemoryLimit.Bytes < 889*mebi {
		t.Errorf("%+v", f.MemoryLimit)
	}
	if f := shaped(ShapeOptions{WithoutLeaks: true}, leaks, others); f.MemoryLimit.Bytes > 300*mebi || !f.EvictsAtOnce {
		t.Errorf("%+v", f.MemoryLimit)
	}
	if f := shaped(ShapeOptions{}, leaks); f.MemoryLimit != nil || !f.says("no node is without a leak") {
		t.Errorf("%+v", f)
	}
}

// TestShapeReboot: a fall by half is a restart, as of services. What grows again after each is not
// one leak.
func TestShapeReboot(t *testing.T) {
	t.Parallel()
	rebooted := hourly("node", 8*24, func(at int) uint64 {
		if at >= 4*24 {
			return 100
		}
		return 400
	})
	if f := shaped(ShapeOptions{}, rebooted); len(f.Leaks) > 0 || f.MemoryLimit.Bytes != 496*mebi {
		t.Errorf("%+v, %+v", f.Leaks, f.MemoryLimit)
	}
}

// TestShapeKill: where the kernel killed on one node, the threshold of all is twice as much, and
// the usage counts a fifth more.
func TestShapeKill(t *testing.T) {
	t.Parallel()
	killed := hourly("killed", 8*24, steady(600))
	killed.Hours[50].Partition.KilledAtLimit = 1
	killed.Hours[50].Partition.HardBytes = 40 * mebi
	f := shaped(ShapeOptions{}, killed, hourly("other", 8*24, steady(200)))
	// 720Mi and 15 % are 828Mi, and 80Mi beside them.
	if f.EvictionHard.Bytes != 80*mebi || f.MemoryLimit.Bytes != 960*mebi || !f.says("on killed the kernel killed") {
		t.Errorf("%+v, %+v, %q", f.MemoryLimit, f.EvictionHard, f.Warnings)
	}
}

// TestHours: ten minutes become hours without pods and boots, with all services as one group.
func TestHours(t *testing.T) {
	t.Parallel()
	list := make([]samples.Sample, 0, 7)
	for i := range 7 {
		at := start.Add(time.Duration(i)*10*time.Minute + 9*time.Minute)
		list = append(list, samples.Sample{
			Time: at, Seconds: 600, Boot: string(rune('a' + i)), Members: []samples.Member{{UID: "1"}},
			Groups: []samples.Group{
				{Name: "system.slice", WorkingSetBytes: uint64(100 + i)}, {Name: "kube.slice", WorkingSetBytes: 50},
				{Name: "init.scope", WorkingSetBytes: 9}, {Name: "system.slice/kubelet.service", Kube: true, WorkingSetBytes: 30},
			},
			Partition: &samples.Usage{
				UsedPeakBytes: uint64(200 + i), UsedLowBytes: uint64(200 - i), PeakTime: at, Evicted: []string{"kube-system/dns"},
				Pods: &samples.Pods{Waiting: 1, LeftBytes: 3, AllUsedBytes: uint64(300 - i)},
			},
		})
	}
	hours := Hours(list)
	if len(hours) != 2 || !hours[0].Time.Equal(start) || hours[0].Seconds != 3600 || !hours[1].Time.Equal(start.Add(time.Hour)) {
		t.Fatalf("%+v", hours)
	}
	p := hours[0].Partition
	if p.UsedPeakBytes != 205 || p.UsedLowBytes != 195 || !p.PeakTime.Equal(start) || len(p.Evicted) != 1 || p.Evicted[0] != eviction ||
		p.Pods.Waiting != 0 || p.Pods.LeftBytes != 0 || p.Pods.AllUsedBytes != 300 {
		t.Errorf("%+v, %+v", p, p.Pods)
	}
	if g := hours[0].Groups; len(g) != 1 || g[0].WorkingSetBytes != 155 || hours[0].Members != nil || hours[0].Boot != "" {
		t.Errorf("%+v", hours[0])
	}
	if list[0].Partition.Pods.Waiting != 1 || list[0].Boot != "a" {
		t.Errorf("the input is changed: %+v", list[0])
	}
}
