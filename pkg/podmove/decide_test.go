package podmove

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/admission"
	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove/report"
	"node-partition.io/node-partition/pkg/slices/decision"
)

var limited = cgroups.Limits{MemoryMax: 256 << 20, MemoryHigh: 240 << 20, CPUWeight: 4, CPUQuotaPerSec: 500_000, CPUQuotaPeriod: 100_000, TasksMax: 1000}

// pod returns a burstable pod of kube-system that runs one container in partition p.
func pod(uid string, p partition.Name, change ...func(*Pod)) Pod {
	defaultSlice, partitionSlice := partition.PodSlice(partition.Default, v1.PodQOSBurstable, uid), partition.PodSlice(partition.System, v1.PodQOSBurstable, uid)
	unit := "cri-containerd-c" + uid + ".scope"
	result := Pod{
		UID: uid, Namespace: "kube-system", Name: "pod-" + uid, QoS: v1.PodQOSBurstable, Ready: true, Exists: true, MilliCPU: 100,
		Kubelet:       &kubelet.Pod{GracePeriod: 7 * time.Second},
		DefaultCgroup: PodCgroup{Slice: defaultSlice, Exists: true, Limits: limited},
		Partitions:    []PodCgroup{{Partition: partition.System, Slice: partitionSlice}},
	}
	container := Container{ID: "c" + uid, Name: "main", Running: true, Restarts: true, Unit: unit, Slice: defaultSlice}
	if p == partition.System {
		result.Partitions[0].Exists, result.Partitions[0].Limits, result.Partitions[0].Units = true, limited, []string{unit}
		container.Slice = partitionSlice
	} else {
		result.DefaultCgroup.Units = []string{unit}
	}
	result.Containers = []Container{container}
	for _, f := range change {
		f(&result)
	}
	return result
}

// inSystem returns the policy of the system partition with namespaces.
func inSystem(namespaces ...string) Policy {
	return Policy{Partitions: []decision.Partition{{Name: partition.System, Namespaces: namespaces}}, Mode: Auto}
}

// switchOff switches the first partition off.
func switchOff(s *Snapshot) { s.Config.Partitions[0].Off = true }

func snapshot(change func(*Snapshot), pods ...Pod) Snapshot {
	s := Snapshot{
		Config: inSystem("kube-system"), Pods: pods, NRI: Working, KubeletAnswers: true, Formula: admission.LinearWeight,
		Weights: map[string]uint64{"kubepods-system.slice": 1, "kubepods-system-burstable.slice": 1},
	}
	if change != nil {
		change(&s)
	}
	s.Rules = s.Config.Rules()
	return s
}

func inNamespace(name string) func(*Pod) { return func(p *Pod) { p.Namespace = name } }

func TestDecideMove(t *testing.T) {
	live := func(s *Snapshot) { s.NRI = Unavailable }
	restart := func(s *Snapshot) { s.Config.Mode = OnlyRestart }
	away := func(s *Snapshot) { s.KubeletAnswers = false }
	isStatic := func(p *Pod) { p.Static = true }
	priority := func(n int32) func(*Pod) { return func(p *Pod) { p.Kubelet.Priority = n } }
	tests := []struct {
		name   string
		change func(*Snapshot)
		pod    Pod
		method Method // empty: not moved
		to     partition.Name
		reason report.Reason
	}{
		{"placed member", nil, pod("a", partition.System), "", "", ""},
		{"user pod in its place", nil, pod("a", partition.Default, inNamespace("default")), "", "", ""},
		{"misplaced member", nil, pod("a", partition.Default), Restart, partition.System, report.Pending},
		{"user pod in the partition", nil, pod("a", partition.System, inNamespace("default")), Restart, partition.Default, report.Pending},
		{"namespace that a member's is a prefix of", nil, pod("a", partition.Default, inNamespace("kube-system-2")), "", "", ""},
		{"namespace that is a prefix of a member's", nil, pod("a", partition.Default, inNamespace("kube")), "", "", ""},
		{"no NRI", live, pod("a", partition.Default), Live, partition.System, report.Pending},
		{"no NRI, mode restart", func(s *Snapshot) { s.NRI = Unavailable; s.Config.Mode = OnlyRestart }, pod("a", partition.Default), "", "", report.NoNRI},
		{"runtime restarts", func(s *Snapshot) { s.NRI = Awaited }, pod("a", partition.Default), "", "", report.NoNRI},
		{"mode live", func(s *Snapshot) { s.Config.Mode = OnlyLive }, pod("a", partition.Default), Live, partition.System, report.Pending},
		{"forbidden", func(s *Snapshot) { s.Config.Mode = Never }, pod("a", partition.Default), "", "", report.Forbidden},
		{"would not be restarted", nil, pod("a", partition.Default, func(p *Pod) { p.Containers[0].Restarts = false }), "", "", report.RestartPolicy},
		{"would not be restarted, live", live, pod("a", partition.Default, func(p *Pod) { p.Containers[0].Restarts = false }), Live, partition.System, report.Pending},
		{"kubelet does not report", nil, pod("a", partition.Default, func(p *Pod) { p.Kubelet = nil }), "", "", report.UnknownPolicy},
		{"kubelet does not report, live", live, pod("a", partition.Default, func(p *Pod) { p.Kubelet = nil }), Live, partition.System, report.Pending},
		{"kubelet is away", away, pod("a", partition.Default), "", "", report.NoKubelet},
		{"kubelet is away, mode restart", func(s *Snapshot) { away(s); restart(s) }, pod("a", partition.Default), "", "", report.NoKubelet},
		{"kubelet is away, switched off", func(s *Snapshot) { away(s); switchOff(s) }, pod("a", partition.System), "", "", report.NoKubelet},
		{"kubelet is away, live", func(s *Snapshot) { away(s); live(s) }, pod("a", partition.Default), Live, partition.System, report.Pending},
		{"terminating", nil, pod("a", partition.Default, func(p *Pod) { p.Kubelet.Terminating = true }), "", "", report.Terminating},
		{"initializing", nil, pod("a", partition.Default, func(p *Pod) { p.Kubelet.Initializing = true }), "", "", report.Starting},
		{"one container is being created", live, pod("a", partition.Default, func(p *Pod) {
			p.Containers = append(p.Containers, Container{ID: "x", Name: "second", Creating: true})
		}), "", "", report.Starting},
		{"being created itself", live, pod("a", partition.Default, func(p *Pod) { p.Containers[0].Running, p.Containers[0].Creating = false, true }), "", "", ""},
		{"cgroups of its own", live, pod("a", partition.Default, func(p *Pod) { p.Containers[0].OwnCgroups = true }), "", "", report.OwnCgroups},
		{"cgroups of its own, restarted", nil, pod("a", partition.Default, func(p *Pod) { p.Containers[0].OwnCgroups = true }), Restart, partition.System, report.Pending},
		{"in a foreign cgroup", nil, pod("a", partition.Default, func(p *Pod) { p.Containers[0].Slice = "other.slice" }), "", "", report.Foreign},
		{"static", nil, pod("a", partition.Default, isStatic), "", "", report.NextStart},
		{"static, back to the default partition", func(s *Snapshot) { switchOff(s) }, pod("a", partition.System, isStatic), "", "", report.NextStart},
		{"static, mode restart", restart, pod("a", partition.Default, isStatic), Restart, partition.System, report.Pending},
		{"static, live", live, pod("a", partition.Default, isStatic), Live, partition.System, report.Pending},
		{"critical for the node", nil, pod("a", partition.Default, priority(2_000_001_000)), "", "", report.NextStart},
		{"critical for the node, mode restart", restart, pod("a", partition.Default, priority(2_000_001_000)), Restart, partition.System, report.Pending},
		{"critical for the cluster", nil, pod("a", partition.Default, priority(2_000_000_000)), Restart, partition.System, report.Pending},
		{"kubelet does not report, guaranteed", nil, pod("a", partition.Default, func(p *Pod) { p.Kubelet, p.QoS = nil, v1.PodQOSGuaranteed }), "", "", report.NextStart},
		{"restarts fail", func(s *Snapshot) { s.RestartsFail = true }, pod("a", partition.Default), "", "", report.Failed},
		{"restarts fail, live", func(s *Snapshot) { live(s); s.RestartsFail = true }, pod("a", partition.Default), Live, partition.System, report.Pending},
		{"its restart did not help", func(s *Snapshot) { s.GivenUp = map[string]bool{"a": true} }, pod("a", partition.Default), "", "", report.Failed},
		{"another pod is not ready again", func(s *Snapshot) { s.Awaited = "kube-system/b" }, pod("a", partition.Default), "", "", report.Pending},
		{"failed a moment ago", func(s *Snapshot) { s.Backoff = map[string]bool{"a": true} }, pod("a", partition.Default), "", "", report.Failed},
		{"another is being moved", func(s *Snapshot) { s.Moving = "b" }, pod("a", partition.Default), "", "", report.Pending},
		{"is being moved", func(s *Snapshot) { s.Moving = "a" }, pod("a", partition.Default), "", "", report.Moving},
		{"switched off", func(s *Snapshot) { switchOff(s) }, pod("a", partition.System), Restart, partition.Default, report.Pending},
		{"static, ordered", orderedA(), pod("a", partition.Default, isStatic), Restart, partition.System, report.Pending},
		{"static, ordered, switched off", orderedA(func(s *Snapshot) { switchOff(s) }), pod("a", partition.System, isStatic), Restart, partition.Default, report.Pending},
		{"critical for the node, ordered", orderedA(), pod("a", partition.Default, priority(2_000_001_000)), Restart, partition.System, report.Pending},
		{"forbidden, ordered", orderedA(func(s *Snapshot) { s.Config.Mode = Never }), pod("a", partition.Default), Restart, partition.System, report.Pending},
		{"forbidden, ordered, no NRI", orderedA(func(s *Snapshot) { s.Config.Mode = Never }, live), pod("a", partition.Default), "", "", report.NoNRI},
		{"mode live, ordered", orderedA(func(s *Snapshot) { s.Config.Mode = OnlyLive }), pod("a", partition.Default), Live, partition.System, report.Pending},
		{
			"mode live, ordered, would not be restarted", orderedA(func(s *Snapshot) { s.Config.Mode = OnlyLive }),
			pod("a", partition.Default, func(p *Pod) { p.Containers[0].Restarts = false }), Live, partition.System, report.Pending,
		},
		{
			"mode live, ordered, cgroups of its own", orderedA(func(s *Snapshot) { s.Config.Mode = OnlyLive }),
			pod("a", partition.Default, func(p *Pod) { p.Containers[0].OwnCgroups = true }), Restart, partition.System, report.Pending,
		},
		{
			"mode live, cgroups of its own", func(s *Snapshot) { s.Config.Mode = OnlyLive },
			pod("a", partition.Default, func(p *Pod) { p.Containers[0].OwnCgroups = true }), "", "", report.OwnCgroups,
		},
		{"ordered, no NRI", orderedA(live), pod("a", partition.Default), Live, partition.System, report.Pending},
		{"ordered, runtime restarts", orderedA(func(s *Snapshot) { s.NRI = Awaited }), pod("a", partition.Default), "", "", report.NoNRI},
		{"ordered, failed before", orderedA(func(s *Snapshot) {
			s.RestartsFail, s.GivenUp, s.Backoff, s.Awaited = true, map[string]bool{"a": true}, map[string]bool{"a": true}, "kube-system/b"
		}), pod("a", partition.Default), Restart, partition.System, report.Pending},
		{"ordered, would not be restarted", orderedA(), pod("a", partition.Default, func(p *Pod) { p.Containers[0].Restarts = false }), "", "", report.RestartPolicy},
		{"ordered, kubelet does not report", orderedA(), pod("a", partition.Default, func(p *Pod) { p.Kubelet = nil }), "", "", report.UnknownPolicy},
		{"ordered, kubelet is away", orderedA(away), pod("a", partition.Default), "", "", report.NoKubelet},
		{"ordered, terminating", orderedA(), pod("a", partition.Default, func(p *Pod) { p.Kubelet.Terminating = true }), "", "", report.Terminating},
		{"ordered, initializing", orderedA(), pod("a", partition.Default, func(p *Pod) { p.Kubelet.Initializing = true }), "", "", report.Starting},
		{"ordered, another is being moved", orderedA(func(s *Snapshot) { s.Moving = "b" }), pod("a", partition.Default), "", "", report.Pending},
		{"ordered, where it belongs", orderedA(), pod("a", partition.System), "", "", ""},
		{"switched off, in its place", func(s *Snapshot) { switchOff(s) }, pod("a", partition.Default), "", "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := Decide(snapshot(test.change, test.pod))
			if test.method == "" {
				if d.Move != nil {
					t.Errorf("moves %+v", d.Move)
				}
			} else if d.Move == nil || d.Move.Method != test.method || d.Move.To != test.to ||
				d.Move.Method == Restart && d.Move.Kubelet == nil {
				t.Errorf("move is %+v, want %s to %s", d.Move, test.method, test.to)
			}
			if len(d.Pods) != 1 || d.Pods[0].Reason != test.reason {
				t.Errorf("reported %+v, want reason %q", d.Pods, test.reason)
			}
			if (d.Pods[0].Reason == "") != (d.Pods[0].Next == "") {
				t.Errorf("reason %q with the next step %q: want both or neither", d.Pods[0].Reason, d.Pods[0].Next)
			}
		})
	}
}

// orderedA changes a snapshot so that an operator wants pod a moved.
func orderedA(changes ...func(*Snapshot)) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Ordered = map[string]bool{"a": true}
		for _, change := range changes {
			change(s)
		}
	}
}

// TestDecideOrderedFirst: a pod that an operator wants moved comes before the others, and the
// report keeps its order.
func TestDecideOrderedFirst(t *testing.T) {
	d := Decide(snapshot(func(s *Snapshot) {
		s.Ordered = map[string]bool{"c": true}
	}, pod("b", partition.Default), pod("c", partition.Default), pod("a", partition.Default)))
	if d.Move == nil || d.Move.UID != "c" {
		t.Fatalf("move is %+v, want the ordered one", d.Move)
	}
	for i, p := range d.Pods {
		if p.UID != string("abc"[i]) || p.Reason != report.Pending {
			t.Errorf("%d is %+v, want it pending, by name", i, p)
		}
	}
}

func TestDecideOneAtATime(t *testing.T) {
	d := Decide(snapshot(nil, pod("b", partition.Default), pod("a", partition.Default), pod("c", partition.Default)))
	if d.Move == nil || d.Move.UID != "a" {
		t.Fatalf("move is %+v, want the first by name", d.Move)
	}
	for _, p := range d.Pods {
		if p.Reason != report.Pending || p.Misplaced != 1 {
			t.Errorf("%+v: want it pending", p)
		}
	}
}

// TestDecideOrder: sidecars are moved last, so that the others end before the sidecars that they
// need. A restart ends sidecars from the last to the first, as the kubelet does. A live move ends
// nothing, and keeps their order.
func TestDecideOrder(t *testing.T) {
	at := func(name string, order int, sidecar bool) Container {
		return Container{ID: name, Name: name, Running: true, Restarts: true, Container: kubelet.Container{Order: order, Sidecar: sidecar}, Unit: "cri-containerd-" + name + ".scope"}
	}
	list := []Container{at("proxy", 0, true), at("b", 1, false), at("log", 1, true), at("c", 2, false), at("mesh", 2, true), at("a", 0, false)}
	for state, want := range map[NRIState][]string{
		Working:     {"a", "b", "c", "mesh", "log", "proxy"},
		Unavailable: {"a", "b", "c", "proxy", "log", "mesh"},
	} {
		for shift := range list {
			p := pod("a", partition.Default, func(p *Pod) { p.Containers = slices.Concat(list[shift:], list[:shift]) })
			for i := range p.Containers {
				p.Containers[i].Slice = p.DefaultCgroup.Slice
			}
			var got []string
			for _, c := range Decide(snapshot(func(s *Snapshot) { s.NRI = state }, p)).Move.Containers {
				got = append(got, c.Name)
			}
			if !slices.Equal(got, want) {
				t.Errorf("NRI %d: moved in the order %q, want %q", state, got, want)
			}
		}
	}
}

func TestDecideMisplacedContainersOnly(t *testing.T) {
	p := pod("a", partition.Default, func(p *Pod) {
		p.Containers = append(p.Containers, Container{ID: "new", Name: "second", Running: true, Restarts: true, Unit: "cri-containerd-new.scope", Slice: p.Partitions[0].Slice})
		p.Partitions[0].Exists, p.Partitions[0].Limits, p.Partitions[0].Units = true, limited, []string{"cri-containerd-new.scope"}
	})
	d := Decide(snapshot(nil, p))
	if d.Move == nil || len(d.Move.Containers) != 1 || d.Move.Containers[0].Name != "main" {
		t.Errorf("move is %+v, want container main alone", d.Move)
	}
}

// gone turns a pod into one whose containers and sandbox have ended, and that the kubelet has
// cleaned up. After it, inDefault turns the pod into one that the kubelet has yet to clean up.
func gone(p *Pod) {
	p.Exists, p.Ready, p.Partitions[0].Units, p.Containers, p.DefaultCgroup.Exists = false, false, nil, nil, false
}
func inDefault(p *Pod) { p.DefaultCgroup.Exists = true }

func TestDecideSlices(t *testing.T) {
	a := partition.PodSlice(partition.System, v1.PodQOSBurstable, "a")
	tests := []struct {
		name   string
		change func(*Snapshot)
		pod    Pod
		ensure bool
		stop   bool
	}{
		{"as the kubelet's", nil, pod("a", partition.System), false, false},
		{"before its first container", nil, pod("a", partition.Default, func(p *Pod) { p.Containers, p.DefaultCgroup.Units = nil, nil }), true, false},
		{"resized", nil, pod("a", partition.System, func(p *Pod) { p.DefaultCgroup.Limits.MemoryMax *= 2 }), true, false},
		{"made by systemd, without limits", nil, pod("a", partition.System, func(p *Pod) { p.Partitions[0].Limits = cgroups.NoLimits }), true, false},
		{"of no member", nil, pod("a", partition.Default, inNamespace("default")), false, false},
		{"pod gone", nil, pod("a", partition.System, gone), false, true},
		{"pod gone, its files in memory not unmounted", nil, pod("a", partition.System, gone, inDefault), false, false},
		{"pod gone, its files in memory not unmounted, no sandbox", nil, pod("a", partition.System, gone, inDefault, inNamespace("")), false, false},
		{"pod gone, of no member", nil, pod("a", partition.System, gone, inDefault, inNamespace("default")), false, true},
		{"pod gone, its files in memory not unmounted, switched off", func(s *Snapshot) { switchOff(s) }, pod("a", partition.System, gone, inDefault), false, true},
		{"pod gone, a container still being removed", nil, pod("a", partition.System, func(p *Pod) { p.Exists, p.Ready = false, false }), false, false},
		{"pod ended", nil, pod("a", partition.System, gone, func(p *Pod) { p.Exists = true }), false, true},
		{"pod ended, its files in memory not unmounted", nil, pod("a", partition.System, gone, inDefault, func(p *Pod) { p.Exists = true }), false, false},
		// Limits of zero would have the kernel kill all of the pod.
		{"kubelet's slice gone first", nil, pod("a", partition.System, func(p *Pod) { p.DefaultCgroup = PodCgroup{Slice: p.DefaultCgroup.Slice} }), false, false},
		{"no member any more, and moved", nil, pod("a", partition.Default, inNamespace("default"), func(p *Pod) { p.Partitions[0].Exists = true }), false, true},
		{
			"no member any more, and its memory stays charged", nil,
			pod("a", partition.Default, inNamespace("default"), func(p *Pod) { p.Partitions[0].Exists, p.Partitions[0].Bytes = true, 1 }), false, false,
		},
		{"switched off, not moved yet", func(s *Snapshot) { switchOff(s) }, pod("a", partition.System), false, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := Decide(snapshot(test.change, test.pod))
			if got := len(d.Ensure) > 0; got != test.ensure {
				t.Errorf("ensures %+v, want %t", d.Ensure, test.ensure)
			}
			if test.ensure && (d.Ensure[0] != SliceSpec{a, "Pod kube-system/pod-a", test.pod.DefaultCgroup.Limits}) {
				t.Errorf("ensures %+v", d.Ensure[0])
			}
			if got := slices.Contains(d.Stop, StopSpec{a, "a"}); got != test.stop {
				t.Errorf("stops %+v, want %t", d.Stop, test.stop)
			}
		})
	}
}

func TestDecideWeights(t *testing.T) {
	guaranteed := func(p *Pod) { p.QoS, p.MilliCPU = v1.PodQOSGuaranteed, 1000 }
	quadratic := func(s *Snapshot) { s.Formula = admission.QuadraticWeight }
	ended := func(p *Pod) { p.Containers[0].Running = false }
	small := func(uid string) Pod { return pod(uid, partition.System, func(p *Pod) { p.MilliCPU = 300 }) }
	tests := []struct {
		name              string
		change            func(*Snapshot)
		pods              []Pod
		system, burstable uint64 // 0: unchanged
	}{
		{"empty", nil, nil, 0, 0},
		{"empty again", func(s *Snapshot) {
			s.Weights = map[string]uint64{"kubepods-system.slice": 7, "kubepods-system-burstable.slice": 7}
		}, nil, 1, 1},
		{"users do not count", nil, []Pod{pod("a", partition.Default, inNamespace("default"))}, 0, 0},
		// Written by kubelet 1.36.3 for its own burstable slice: 12, 28 and 39 for 300m, 700m and 1000m.
		{"300m", nil, []Pod{pod("a", partition.System, func(p *Pod) { p.MilliCPU = 300 })}, 12, 12},
		{"700m in two", nil, []Pod{pod("a", partition.System, func(p *Pod) { p.MilliCPU = 300 }), pod("b", partition.System, func(p *Pod) { p.MilliCPU = 400 })}, 28, 28},
		// Pods outside the partition do not count for the weights of its slices.
		{"one that is yet to come, and 300m", nil, []Pod{pod("a", partition.Default), small("b")}, 12, 12},
		{"one that has ended, and 300m", nil, []Pod{pod("a", partition.System, ended), small("b")}, 12, 12},
		{"300m, and the weights are right", func(s *Snapshot) {
			s.Weights = map[string]uint64{"kubepods-system.slice": 12, "kubepods-system-burstable.slice": 12}
		}, []Pod{small("a")}, 0, 0},
		{"300m, and a slice is not there", func(s *Snapshot) {
			delete(s.Weights, "kubepods-system-burstable.slice")
		}, []Pod{small("a")}, 12, 0},
		{"guaranteed", nil, []Pod{pod("a", partition.System, guaranteed)}, 39, 0},
		{"the newer formula", quadratic, []Pod{pod("a", partition.System, guaranteed)}, 100, 0},
		{"switched off", func(s *Snapshot) { switchOff(s) }, []Pod{pod("a", partition.System)}, 0, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := map[string]uint64{}
			for _, w := range Decide(snapshot(test.change, test.pods...)).Weights {
				got[w.Slice] = w.Weight
			}
			if got["kubepods-system.slice"] != test.system || got["kubepods-system-burstable.slice"] != test.burstable {
				t.Errorf("weights %v, want %d and %d", got, test.system, test.burstable)
			}
		})
	}
}

// TestDecideProtect: the slices of the partition protect the sum of what their pods have.
func TestDecideProtect(t *testing.T) {
	protected := func(low uint64) func(*Pod) {
		return func(p *Pod) { p.DefaultCgroup.Limits.Protection.Low = low }
	}
	guaranteed := func(p *Pod) { p.QoS, p.DefaultCgroup.Limits.Protection.Min = v1.PodQOSGuaranteed, 1<<20 }
	// left turns a pod into one whose containers have ended. It keeps the given protection, because it
	// may be charged for what they left behind.
	left := func(kept cgroups.Protection) func(*Pod) {
		return func(p *Pod) { p.Containers, p.Partitions[0].Limits.Protection = nil, kept }
	}
	none := map[string]cgroups.Protection{"kubepods-system.slice": {}, "kubepods-system-burstable.slice": {}}
	for name, test := range map[string]struct {
		pods    []Pod
		present map[string]cgroups.Protection
		want    []ProtectSpec
	}{
		"the kubelet protects nothing": {[]Pod{pod("a", partition.System)}, none, nil},
		"two burstable and a guaranteed": {
			[]Pod{pod("a", partition.System, protected(1<<20)), pod("b", partition.System, protected(2<<20)), pod("c", partition.System, guaranteed)}, none,
			[]ProtectSpec{
				{"kubepods-system-burstable.slice", cgroups.Protection{Low: 3 << 20}},
				{"kubepods-system.slice", cgroups.Protection{Min: 1 << 20, Low: 3 << 20}},
			},
		},
		"of a burstable and a guaranteed pod that left": {
			[]Pod{pod("a", partition.System, left(cgroups.Protection{Low: 1 << 20})), pod("b", partition.System, guaranteed, left(cgroups.Protection{Min: 2 << 20}))}, none,
			[]ProtectSpec{
				{"kubepods-system-burstable.slice", cgroups.Protection{Low: 1 << 20}},
				{"kubepods-system.slice", cgroups.Protection{Min: 2 << 20, Low: 1 << 20}},
			},
		},
		"not of a pod elsewhere": {[]Pod{pod("a", partition.Default, protected(1<<20))}, none, nil},
		"no longer": {
			nil, map[string]cgroups.Protection{"kubepods-system.slice": {Low: 1 << 20}},
			[]ProtectSpec{{"kubepods-system.slice", cgroups.Protection{}}},
		},
		"more than there is": {
			[]Pod{pod("a", partition.System, protected(cgroups.Unlimited)), pod("b", partition.System, protected(1))},
			map[string]cgroups.Protection{"kubepods-system.slice": {}},
			[]ProtectSpec{{"kubepods-system.slice", cgroups.Protection{Low: cgroups.Unlimited}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide(snapshot(func(s *Snapshot) { s.Protected = test.present }, test.pods...))
			if !slices.Equal(d.Protect, test.want) {
				t.Errorf("protects %+v, want %+v", d.Protect, test.want)
			}
		})
	}
}

// TestPodTerminate: a pod that is being evicted is not moved, whatever the kubelet has reported so
// far.
func TestPodTerminate(t *testing.T) {
	t.Parallel()
	known := &kubelet.Pod{GracePeriod: time.Minute}
	reported, unreported := Pod{Kubelet: known}, Pod{}
	for _, p := range []*Pod{&reported, &unreported} {
		p.terminate()
		if !p.Kubelet.Terminating {
			t.Errorf("%+v", p.Kubelet)
		}
	}
	if reported.Kubelet.GracePeriod != time.Minute || known.Terminating {
		t.Errorf("%+v of %+v", reported.Kubelet, known)
	}
}
