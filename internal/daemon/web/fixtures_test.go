package web

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/thresholds"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
	"nodepartition/pkg/podmove"
)

const mi = 1 << 20

// fake is a monitor whose state a test sets.
type fake struct {
	report    podmove.Report
	evictors  []*fakeEvictor
	connected map[string]bool
	ready     error
	alive     error
	// minutes is what the system partition has used in the minutes until to.
	minutes []uint64
	to      time.Time
	// cgroups has the slices of partitions that were not polled.
	cgroups string
	node    string
	hosts   []string
}

func (f *fake) Report() podmove.Report { return f.report }

// fakeEvictor is the evictor of a partition.
type fakeEvictor struct {
	name     unitname.PartitionName
	poll     evict.Report
	outlook  evict.Outlook
	err      error
	happened []Event
	// asked counts the outlooks.
	asked int
}

func (e *fakeEvictor) Report() evict.Report { return e.poll }

func (e *fakeEvictor) Outlook() (evict.Outlook, error) {
	e.asked++
	return e.outlook, e.err
}

func (f *fake) handler(t *testing.T) http.Handler {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "answer"}))
	if f.cgroups == "" {
		f.cgroups = t.TempDir()
	}
	o := Options{
		Version: "v1.2.3", Node: f.node, Gatherer: registry, Reports: f, Sources: func() map[string]bool { return f.connected },
		Alive: func() error { return f.alive }, Ready: func() error { return f.ready }, Cgroups: cgroupfs.FS(f.cgroups), Hosts: f.hosts,
		Partitions: func() []Partition {
			list := make([]Partition, 0, len(f.evictors))
			for _, e := range f.evictors {
				list = append(list, Partition{Name: e.name, Evictor: e, Happened: func() []Event { return e.happened }})
			}
			return list
		},
		Minutes: func(name unitname.PartitionName) ([]uint64, time.Time) {
			if name != unitname.System {
				return nil, time.Time{}
			}
			return f.minutes, f.to
		},
	}
	return Handler(o)
}

// pod returns a candidate.
func pod(name string, qos v1.PodQOSClass, priority int32, uses, request uint64, skip evict.Skip) evict.Candidate {
	return evict.Candidate{Skip: skip, Pod: evict.Pod{
		PodMeta: evict.PodMeta{Namespace: "kube-system", Name: name, UID: name, QoS: qos, Priority: priority},
		Request: request, Usage: evict.Usage{WorkingSet: uses, Used: uses}, Measured: true,
	}}
}

// member returns a pod in its place.
func member(name string, qos v1.PodQOSClass) podmove.PodReport {
	return podmove.PodReport{
		Namespace: "kube-system", Name: name, UID: name, QoS: qos, Member: true, Belongs: unitname.System, Containers: 1,
		Slice: unitname.PodSlice(unitname.System, qos, "0a1b2c3d-0000-4000-8000-00000000000"+fmt.Sprint(len(name)%10)),
	}
}

// newFake returns a node on which all is well.
func newFake() *fake {
	now := time.Now()
	return &fake{
		node: "node-1",
		report: podmove.Report{Time: now.Add(-20 * time.Second), Pods: []podmove.PodReport{
			member("etcd-node-1", v1.PodQOSGuaranteed), member("coredns-6d4b75cb6d-x2x4z", v1.PodQOSBurstable),
			member("kube-proxy-k7w2p", v1.PodQOSBestEffort), member("log-collector-x7k2p", v1.PodQOSBurstable),
			member("metrics-server-6d8f4c-q2wvz", v1.PodQOSBurstable),
			{
				Namespace: "web", Name: "shop-1", UID: "6", QoS: v1.PodQOSBurstable, Containers: 1,
				Slice: unitname.PodSlice(unitname.Default, v1.PodQOSBurstable, "6"),
			},
		}},
		connected: map[string]bool{"systemd": true, "kubelet": true, "runtime": true, "nri": true},
		minutes:   usage(), to: now.Truncate(time.Minute),
		evictors: []*fakeEvictor{{
			name: unitname.System,
			poll: evict.Report{
				Partition: unitname.System, Time: now.Add(-time.Second), UsedPeak: 210 * mi, Available: 328 * mi,
				Memory:     cgroupfs.MemoryReading{Current: 300 * mi, InactiveFile: 100 * mi, ActiveFile: 16 * mi, Max: 512 * mi},
				Thresholds: thresholds.Thresholds{Limit: 512 * mi, Hard: 64 * mi, Soft: 128 * mi, SoftGrace: 90 * time.Second},
			},
			outlook: evict.Outlook{Order: []evict.Candidate{
				pod("log-collector-x7k2p", v1.PodQOSBurstable, 0, 81*mi, 64*mi, ""),
				pod("kube-proxy-k7w2p", v1.PodQOSBestEffort, 2_000_001_000, 14*mi, 0, evict.SkipNodeCritical),
				pod("metrics-server-6d8f4c-q2wvz", v1.PodQOSBurstable, 2_000_000_000, 21*mi, 32*mi, ""),
				pod("coredns-6d4b75cb6d-x2x4z", v1.PodQOSBurstable, 2_000_000_000, 18*mi, 70*mi, ""),
				pod("etcd-node-1", v1.PodQOSGuaranteed, 2_000_001_000, 64*mi, 100*mi, evict.SkipStatic),
			}, Last: []evict.Eviction{eviction1(now.Add(-3*time.Hour), "log-collector-b4s8d", evict.Evict)}},
			happened: []Event{{Time: now.Add(-26 * time.Hour), Times: 2, Text: "kube-system/etcd-node-1 was restarted to be in partition system."}},
		}},
	}
}

// eviction1 returns an eviction.
func eviction1(at time.Time, name string, method evict.Method) evict.Eviction {
	return evict.Eviction{
		PodMeta: evict.PodMeta{Namespace: "kube-system", Name: name},
		Verdict: evict.Verdict{Time: at, Threshold: evict.Hard, Method: method},
		Amounts: evict.Amounts{WorkingSetBytes: 180 * mi, RequestBytes: 64 * mi, AvailableBytes: 61 * mi},
	}
}

// usage returns the usage of eight hours, with a gap and a peak three hours ago.
func usage() []uint64 {
	list := make([]uint64, 8*60)
	for minute := range list {
		ago := 8*60 - 1 - minute
		if ago > 250 && ago < 270 {
			continue
		}
		list[minute] = uint64(180+8*(minute%7)) * mi
		if ago > 180 && ago < 225 {
			list[minute] += uint64(225-ago) * 5 * mi
		}
	}
	return list
}

// newPressed returns a node that is short of memory, without a runtime.
func newPressed() *fake {
	f := newFake()
	now := time.Now()
	f.connected["runtime"], f.connected["kubelet"] = false, false
	f.ready = errors.New("runtime: unix:///run/containerd/containerd.sock: no answer")
	f.report.Time = now.Add(-7 * time.Minute)
	f.report.Pods = append(f.report.Pods,
		podmove.PodReport{
			Namespace: "kube-system", Name: "backup-27a1", UID: "8", QoS: v1.PodQOSBestEffort, Member: true, Belongs: unitname.System, Containers: 2, Misplaced: 2,
			Slice: unitname.PodSlice(unitname.Default, v1.PodQOSBestEffort, "8"), Reason: podmove.ReasonRestartPolicy,
			Next: "it ends, and its controller starts another: partition-monitor move kube-system/backup-27a1 does not bring it back",
		},
		podmove.PodReport{
			Namespace: "kube-system", Name: "storage-0", UID: "9", QoS: v1.PodQOSGuaranteed, Member: true, Belongs: unitname.System, Containers: 1, LiveMoved: 1, OutsideBytes: 40 * mi,
			Slice: unitname.PodSlice(unitname.System, v1.PodQOSGuaranteed, "9"),
		})
	e := f.evictors[0]
	e.poll.Memory = cgroupfs.MemoryReading{Current: 509 * mi, InactiveFile: 20 * mi, ActiveFile: 9 * mi, Max: 512 * mi}
	e.poll.Available, e.poll.UsedPeak, e.poll.Crossed, e.poll.Held = 32*mi, 491*mi, evict.Hard, evict.HoldReclaiming
	open := eviction1(now.Add(-2*time.Second), "log-collector-x7k2p", evict.Restart)
	failed := eviction1(now.Add(-11*time.Minute), "metrics-server-6d8f4c-b7tqc", evict.Evict)
	failed.Problem = "not tried again: the API server does not allow it"
	dry := eviction1(now.Add(-2*24*time.Hour), "log-collector-4tt2z", evict.Evict)
	dry.DryRun = true
	e.outlook.Open, e.outlook.Last = []evict.Eviction{open}, []evict.Eviction{dry, e.outlook.Last[0], failed}
	for i := range e.outlook.Order {
		e.outlook.Order[i].Estimated = true
	}
	e.happened = append(e.happened, Event{Time: now.Add(-40 * time.Second), Times: 3, Text: "The kernel has killed a process at the limit of the partition.", Bad: true})
	f.evictors = append(f.evictors, &fakeEvictor{
		name: "telemetry",
		poll: evict.Report{
			Partition: "telemetry", Time: now, UsedPeak: 90 * mi, Memory: cgroupfs.MemoryReading{Current: 100 * mi, Max: cgroupfs.Unlimited, ActiveFile: 20 * mi},
			Thresholds: thresholds.Thresholds{Limit: cgroupfs.Unlimited},
		},
		outlook: evict.Outlook{Settings: evict.Settings{Off: true}},
	})
	return f
}

// newCrowded returns a node with many pods of each kind.
func newCrowded() *fake {
	f := newFake()
	e := f.evictors[0]
	f.report.Pods, e.outlook.Order, e.happened = nil, nil, nil
	for i := range 200 {
		name := fmt.Sprintf("daemon-%03d-x%03dz", i, i*7%1000)
		f.report.Pods = append(f.report.Pods, member(name, v1.PodQOSBurstable))
		e.outlook.Order = append(e.outlook.Order, pod(name, v1.PodQOSBurstable, 0, uint64(2000-i)*100<<10, 64*mi, ""))
		e.happened = append(e.happened, Event{Time: time.Now().Add(-time.Duration(i) * time.Minute), Times: 1, Text: name + " was moved live to partition system."})
	}
	for i := range 40 {
		p := member(fmt.Sprintf("lost-%03d", i), v1.PodQOSBurstable)
		p.Slice, p.Misplaced, p.Reason, p.Next = unitname.PodSlice(unitname.Default, v1.PodQOSBurstable, fmt.Sprint(i)), 1, podmove.ReasonPending, "it is moved next"
		f.report.Pods = append(f.report.Pods, p)
	}
	for i := range 400 {
		f.report.Pods = append(f.report.Pods, podmove.PodReport{
			Namespace: "web", Name: fmt.Sprintf("shop-%03d", i), UID: fmt.Sprint(i), QoS: v1.PodQOSBurstable, Containers: 1,
			Slice: unitname.PodSlice(unitname.Default, v1.PodQOSBurstable, fmt.Sprint(i)),
		})
	}
	return f
}

// hostile is not allowed as a name, but a runtime may report it.
const hostile = `"><script>alert(1)</script><img src=x onerror=alert(2)>'` + "`{{.}}\u202e\x00\x1b[31m"

// newHostile returns a node on which all texts of others are hostile.
func newHostile() *fake {
	f := newPressed()
	f.node = hostile
	f.alive, f.ready = errors.New("stuck at "+hostile), errors.New(hostile)
	for i := range f.report.Pods {
		p := &f.report.Pods[i]
		p.Namespace, p.Name, p.QoS, p.Next = hostile, hostile, hostile, hostile
		if p.Reason != "" {
			p.Reason = hostile
		}
	}
	for _, e := range f.evictors {
		e.err = errors.New(hostile)
		for i := range e.outlook.Order {
			c := &e.outlook.Order[i]
			c.Namespace, c.Name, c.QoS = hostile, hostile, hostile
		}
		for i := range e.happened {
			e.happened[i].Text = hostile
		}
		for _, list := range [][]evict.Eviction{e.outlook.Open, e.outlook.Last} {
			for i := range list {
				list[i].Namespace, list[i].Name, list[i].Problem = hostile, hostile, hostile
			}
		}
	}
	return f
}

// newEmpty returns a node without a partition, before the first pass.
func newEmpty() *fake {
	return &fake{connected: map[string]bool{"systemd": true, "kubelet": false, "runtime": false, "nri": false}}
}

// newStarting returns a node whose service has just started: no partition was polled, and the slice
// of one is not there.
func newStarting(t *testing.T) *fake {
	t.Helper()
	f := newEmpty()
	f.ready = errors.New("the first pass has not ended")
	f.cgroups = t.TempDir()
	slice := filepath.Join(f.cgroups, unitname.CgroupPath(unitname.System.Slice()))
	if err := os.MkdirAll(slice, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"memory.current": "104857600", "memory.max": "536870912", "memory.stat": "inactive_file 20971520", "cpu.stat": "usage_usec 1",
	} {
		if err := os.WriteFile(filepath.Join(slice, name), []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f.evictors = []*fakeEvictor{{name: unitname.System}, {name: "telemetry"}}
	return f
}

// fixtures returns all of these nodes.
func fixtures(t *testing.T) map[string]*fake {
	t.Helper()
	return map[string]*fake{
		"normal": newFake(), "pressed": newPressed(), "crowded": newCrowded(), "hostile": newHostile(), "empty": newEmpty(),
		"starting": newStarting(t),
	}
}
