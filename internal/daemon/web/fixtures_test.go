package web

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/sizing/sizefile"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/podmove/report"
)

const mi = 1 << 20

// candidate returns a pod in the order of evictions.
func candidate(name string, priority int32, uses, request uint64, skip evict.Skip) state.Candidate {
	return state.Candidate{
		Namespace: "kube-system", Name: name, UID: name, Priority: priority, WorkingSetBytes: uses, RequestBytes: request, Skip: skip,
	}
}

// member returns a pod in its place.
func member(name string, qos v1.PodQOSClass) report.Pod {
	return report.Pod{
		Namespace: "kube-system", Name: name, UID: name, QoS: qos, Member: true, Belongs: partition.System, Containers: 1,
		Slice: partition.PodSlice(partition.System, qos, "0a1b2c3d-0000-4000-8000-00000000000"+fmt.Sprint(len(name)%10)),
	}
}

// outside returns a pod in the default partition.
func outside(name string) report.Pod {
	return report.Pod{
		Namespace: "web", Name: name, UID: name, QoS: v1.PodQOSBurstable, Containers: 1,
		Slice: partition.PodSlice(partition.Default, v1.PodQOSBurstable, name),
	}
}

// eviction returns an eviction.
func eviction(at time.Time, name string, method evict.Method) evict.Eviction {
	return evict.Eviction{
		PodMeta: evict.PodMeta{Namespace: "kube-system", Name: name},
		Verdict: evict.Verdict{Time: at, Threshold: evict.Hard, Method: method},
		Amounts: evict.Amounts{WorkingSetBytes: 180 * mi, RequestBytes: 64 * mi, AvailableBytes: 61 * mi},
	}
}

// newNode returns a node on which all is well.
func newNode() Page {
	now, limit := time.Now().UTC(), uint64(512*mi)
	day := &sizefile.Day{PeakBytes: 456 * mi, PeakTime: now.Add(-3 * time.Hour), Minutes: 460}
	for ago := range 8 {
		day.Hours[ago] = uint64(180+8*(ago*5%7)) * mi
	}
	day.Hours[3], day.Hours[5] = 456*mi, 0
	s := state.Status{
		Service: "ready",
		Report: report.Report{Time: now.Add(-20 * time.Second), Pods: []report.Pod{
			member("etcd-node-1", v1.PodQOSGuaranteed), member("coredns-6d4b75cb6d-x2x4z", v1.PodQOSBurstable),
			member("kube-proxy-k7w2p", v1.PodQOSBestEffort), member("log-collector-x7k2p", v1.PodQOSBurstable),
			member("metrics-server-6d8f4c-q2wvz", v1.PodQOSBurstable), outside("shop-1"),
		}},
		Partitions: []state.Partition{{
			Name: partition.System, Slice: partition.System.Slice(), Namespaces: []string{"kube-system"}, CPUWeight: 79,
			MemoryBytes: 300 * mi, LimitBytes: &limit, UsedBytes: 184 * mi, UsedPeakBytes: 210 * mi, LastDay: day,
			Eviction: &state.Eviction{
				Mode: "on", AvailableBytes: 328 * mi, HardBytes: 64 * mi, SoftBytes: 128 * mi, SoftGrace: 90 * time.Second,
				Order: []state.Candidate{
					candidate("log-collector-x7k2p", 0, 81*mi, 64*mi, ""),
					candidate("kube-proxy-k7w2p", 2_000_001_000, 14*mi, 0, evict.SkipNodeCritical),
					candidate("metrics-server-6d8f4c-q2wvz", 2_000_000_000, 21*mi, 32*mi, ""),
					candidate("coredns-6d4b75cb6d-x2x4z", 2_000_000_000, 18*mi, 70*mi, ""),
					candidate("etcd-node-1", 2_000_001_000, 50*mi, 100*mi, evict.SkipStatic),
				},
				Last: []evict.Eviction{eviction(now.Add(-3*time.Hour), "log-collector-b4s8d", evict.Evict)},
			},
		}},
	}
	return Page{Node: "node-1", Version: "v1.2.3", State: func() state.Status { return s }}
}

// changed returns a node on which something is otherwise.
func changed(change func(*state.Status)) Page {
	p := newNode()
	s := p.State()
	change(&s)
	p.State = func() state.Status { return s }
	return p
}

// newPressed returns a node that is short of memory, without a runtime.
func newPressed() Page {
	return changed(func(s *state.Status) {
		now := time.Now().UTC()
		s.Service = "not ready: runtime: unix:///run/containerd/containerd.sock: no answer"
		s.Time = now.Add(-7 * time.Minute)
		s.Pods = append(s.Pods, report.Pod{
			Namespace: "kube-system", Name: "backup-27a1", UID: "8", QoS: v1.PodQOSBestEffort, Member: true, Belongs: partition.System, Containers: 2, Misplaced: 2,
			Slice: partition.PodSlice(partition.Default, v1.PodQOSBestEffort, "8"), Reason: report.RestartPolicy,
			Next: "it ends, and its controller starts another: partition-monitor move kube-system/backup-27a1 does not bring it back",
		})
		p := &s.Partitions[0]
		p.MemoryBytes, p.UsedBytes, p.UsedPeakBytes = 509*mi, 480*mi, 491*mi
		e := p.Eviction
		e.AvailableBytes, e.Crossed, e.Estimated = 32*mi, evict.Hard, true
		failed, dry := eviction(now.Add(-11*time.Minute), "metrics-server-6d8f4c-b7tqc", evict.Evict), eviction(now.Add(-48*time.Hour), "log-collector-4tt2z", evict.Evict)
		failed.Problem, dry.DryRun = "not tried again: the API server does not allow it", true
		e.Open, e.Last = []evict.Eviction{eviction(now, "log-collector-x7k2p", evict.Restart)}, []evict.Eviction{dry, e.Last[0], failed}
		s.Partitions = append(s.Partitions, state.Partition{
			Name: "telemetry", Slice: partition.Name("telemetry").Slice(), MemoryBytes: 100 * mi, UsedBytes: 80 * mi,
			Eviction: &state.Eviction{Mode: "on", NoLimit: true},
		})
	})
}

// newCrowded returns a node with many pods of each kind.
func newCrowded() Page {
	return changed(func(s *state.Status) {
		e := s.Partitions[0].Eviction
		s.Pods, e.Order = nil, nil
		for i := range 400 {
			name := fmt.Sprintf("daemon-%03d-x%03dz", i, i*7%1000)
			s.Pods = append(s.Pods, member(name, v1.PodQOSBurstable))
			e.Order = append(e.Order, candidate(name, 0, uint64(2000-i)*100<<10, 64*mi, ""))
		}
		for i := range 40 {
			p := member(fmt.Sprintf("lost-%03d", i), v1.PodQOSBurstable)
			p.Slice, p.Misplaced, p.Reason, p.Next = partition.PodSlice(partition.Default, v1.PodQOSBurstable, fmt.Sprint(i)), 1, report.Pending, "it is moved next"
			s.Pods = append(s.Pods, p, outside(fmt.Sprint("shop-", i)))
		}
	})
}

// hostile is not allowed as a name, but a runtime may report it.
const hostile = `"><script>alert(1)</script><img src=x onerror=alert(2)>'` + "`{{.}}\u202e\x00\x1b[31m"

// newHostile returns a node on which all texts of others are hostile.
func newHostile() Page {
	pressed := newPressed()
	s := pressed.State()
	s.Service, s.Problem = hostile, hostile
	for i := range s.Pods {
		p := &s.Pods[i]
		p.Namespace, p.Name, p.QoS, p.Next = hostile, hostile, hostile, hostile
		if p.Reason != "" {
			p.Reason = hostile
		}
	}
	e := s.Partitions[0].Eviction
	for i := range e.Order {
		e.Order[i].Namespace, e.Order[i].Name = hostile, hostile
	}
	for i := range e.Last {
		e.Last[i].Namespace, e.Last[i].Name, e.Last[i].Problem = hostile, hostile, hostile
	}
	return Page{Node: hostile, Version: "v1.2.3", State: func() state.Status { return s }}
}

// newStarting returns a node without a name whose service has just started.
func newStarting() Page {
	p := changed(func(s *state.Status) {
		s.Report, s.Service, s.PodsUnknown = report.Report{}, "not ready: the first reconcile has not ended", "the first reconcile has not ended"
		s.Partitions[0].Eviction, s.Partitions[0].LastDay, s.Partitions[0].UsedPeakBytes = nil, nil, 0
	})
	p.Node = ""
	return p
}

// newEmpty returns a node without a partition.
func newEmpty() Page {
	return changed(func(s *state.Status) { *s = state.Status{Service: "ready"} })
}

// fixtures has all of these nodes.
var fixtures = map[string]func() Page{
	"normal": newNode, "pressed": newPressed, "crowded": newCrowded, "hostile": newHostile, "empty": newEmpty, "starting": newStarting,
}
