package podmove

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// running returns a container that runs in a slice.
func running(name, slice string) Container {
	unit := "cri-containerd-" + name + ".scope"
	return Container{ID: name, Name: name, Running: true, Restarts: true, Unit: unit, Slice: slice}
}

// TestDecideReport checks the report that status shows of a pod: its place, its number of
// containers, and how many of them are misplaced.
func TestDecideReport(t *testing.T) {
	defaultSlice, partitionSlice := partition.PodSlice(partition.Default, v1.PodQOSBurstable, "a"), partition.PodSlice(partition.System, v1.PodQOSBurstable, "a")
	const other = "other.slice"
	containers := func(list ...Container) func(*Pod) { return func(p *Pod) { p.Containers = list } }
	elsewhere := func(name string) Container {
		return Container{ID: name, Name: name, Running: true, Foreign: true, Slice: "/kubepods/burstable/poda/" + name}
	}
	exited := func(c Container) Container {
		c.Running = false
		return c
	}
	moved := func(c Container) Container {
		c.Unit = partition.LiveScope(c.Unit)
		return c
	}
	halves := func(first, second string) Container {
		c := running("half", first)
		c.AlsoSlice, c.AlsoUnit = second, c.Unit
		return c
	}
	ended := func(p *Pod) { p.Ready = false }
	left := func(p *Pod) { p.DefaultCgroup.Bytes = 7000 }
	for name, test := range map[string]struct {
		pod  Pod
		want report.Pod // only the fields that differ
	}{
		"all where they belong": {
			pod("a", partition.System, containers(running("one", partitionSlice), running("two", partitionSlice))),
			report.Pod{Slice: partitionSlice, Containers: 2},
		},
		"all misplaced": {
			pod("a", partition.Default, containers(running("one", defaultSlice), running("two", defaultSlice))),
			report.Pod{Slice: defaultSlice, Containers: 2, Misplaced: 2, Reason: report.Pending},
		},
		"one of two misplaced": {
			pod("a", partition.System, containers(running("one", partitionSlice), running("two", defaultSlice))),
			report.Pod{Slice: defaultSlice, Containers: 2, Misplaced: 1, Reason: report.Pending},
		},
		"all in a foreign cgroup": {
			pod("a", partition.System, containers(elsewhere("one"))),
			report.Pod{Slice: "/kubepods/burstable/poda/one", Containers: 1, Misplaced: 1, Reason: report.Foreign},
		},
		"a user's pod in a foreign cgroup": {
			pod("a", partition.Default, inNamespace("default"), containers(elsewhere("one"))),
			report.Pod{Namespace: "default", Slice: defaultSlice, Containers: 1},
		},
		"in a foreign cgroup": {
			pod("a", partition.System, containers(running("one", other), running("two", partitionSlice))),
			report.Pod{Slice: partitionSlice, Containers: 2, Misplaced: 1, Reason: report.Foreign},
		},
		// Containers that can be moved come first.
		"misplaced, and in a foreign cgroup": {
			pod("a", partition.Default, containers(running("1", other), running("2", other), running("3", defaultSlice))),
			report.Pod{Slice: defaultSlice, Containers: 3, Misplaced: 3, Reason: report.Pending},
		},
		"ended containers do not count": {
			pod("a", partition.Default, containers(exited(running("old", defaultSlice)), running("new", defaultSlice))),
			report.Pod{Slice: defaultSlice, Containers: 1, Misplaced: 1, Reason: report.Pending},
		},
		"containers without a cgroup do not count": {
			pod("a", partition.System, containers(Container{ID: "1", Name: "1", Running: true}, running("2", partitionSlice))),
			report.Pod{Slice: partitionSlice, Containers: 1},
		},
		// A live move ended half-way: the misplaced half has to move.
		"half in its place": {
			pod("a", partition.System, containers(halves(partitionSlice, defaultSlice), halves(defaultSlice, partitionSlice))),
			report.Pod{Slice: defaultSlice, Containers: 2, Misplaced: 2, Reason: report.Pending},
		},
		"no containers yet": {pod("a", partition.System, containers()), report.Pod{Slice: partitionSlice}},
		"moved live, with memory left outside": {
			pod("a", partition.System, left, containers(
				moved(running("one", partitionSlice)), moved(running("two", partitionSlice)), running("three", partitionSlice),
			)),
			report.Pod{Slice: partitionSlice, Containers: 3, LiveMoved: 2, OutsideBytes: 7000},
		},
		// A container that was created in its place has left nothing behind.
		"not moved live": {pod("a", partition.System, left), report.Pod{Slice: partitionSlice, Containers: 1}},
		"its sandbox has ended, and a container runs": {
			pod("a", partition.System, ended), report.Pod{Slice: partitionSlice, Containers: 1},
		},
		"of no member": {
			pod("a", partition.Default, inNamespace("default")),
			report.Pod{Namespace: "default", Slice: defaultSlice, Containers: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide(snapshot(nil, test.pod))
			if len(d.Pods) != 1 {
				t.Fatalf("reported %+v, want one pod", d.Pods)
			}
			want := test.want
			want.UID, want.Name, want.QoS = "a", "pod-a", v1.PodQOSBurstable
			want.Belongs = partition.Default
			if want.Namespace == "" {
				want.Namespace, want.Member, want.Belongs = "kube-system", true, partition.System
			}
			want.Next = d.Pods[0].Next
			if d.Pods[0] != want {
				t.Errorf("reported %+v, want %+v", d.Pods[0], want)
			}
		})
	}
	// A pod that has ended is not reported.
	over := pod("a", partition.System, ended, containers(exited(running("one", partitionSlice))))
	if d := Decide(snapshot(nil, over)); len(d.Pods) != 0 {
		t.Errorf("reported %+v of a pod that has ended", d.Pods)
	}
}

func TestDecideReportSorted(t *testing.T) {
	named := func(namespace, name, uid string) Pod {
		return pod(uid, partition.Default, func(p *Pod) { p.Namespace, p.Name = namespace, name })
	}
	want := []Pod{
		named("a", "b", "5"), named("b", "a", "1"), named("b", "a", "4"), named("b", "b", "3"),
		named("c", "a", "2"),
	}
	pods := []Pod{want[3], want[1], want[4], want[0], want[2]}
	d := Decide(snapshot(nil, pods...))
	same := func(r report.Pod, p Pod) bool { return r.UID == p.UID }
	if !slices.EqualFunc(d.Pods, want, same) {
		t.Errorf("reported %+v, want it by namespace, name and UID", d.Pods)
	}
	if pods[0].UID != "3" {
		t.Error("Decide has changed its argument")
	}
}

// TestDecideWait: a change without an event is checked for again soon, whatever pods come after it.
func TestDecideWait(t *testing.T) {
	noDefaultSlice := func(p *Pod) { p.DefaultCgroup.Exists = false }
	ended := func(p *Pod) { p.Ready = false }
	creating := func(p *Pod) {
		p.Containers = append(p.Containers, Container{ID: "x", Name: "second", Creating: true})
	}
	once := func(p *Pod) { p.Containers[0].Restarts = false }
	users := inNamespace("default")
	noRequests := func(p *Pod) { p.MilliCPU = 0 }
	awaited := func(s *Snapshot) { s.NRI = Awaited }
	noNRI := func(s *Snapshot) { s.NRI, s.Config.Mode = Unavailable, OnlyRestart }
	for name, test := range map[string]struct {
		change func(*Snapshot)
		pod    Pod
		want   bool
	}{
		"in its place":                                  {nil, pod("a", partition.System), false},
		"the kubelet makes no slice for systemd":        {nil, pod("a", partition.Default, noDefaultSlice), false},
		"the kubelet has removed its slice":             {nil, pod("a", partition.System, noDefaultSlice, ended), false},
		"the runtime connects again, which wakes us":    {awaited, pod("a", partition.Default), false},
		"in its place while the runtime reconnects":     {awaited, pod("a", partition.System), false},
		"the runtime serves no NRI":                     {noNRI, pod("a", partition.Default), false},
		"its containers are being created":              {nil, pod("a", partition.Default, creating), true},
		"its containers are being created in its place": {nil, pod("a", partition.System, creating), false},
		"would not be restarted":                        {nil, pod("a", partition.Default, once), false},
		"of no member, and without a slice":             {nil, pod("a", partition.Default, users, noDefaultSlice), false},
	} {
		t.Run(name, func(t *testing.T) {
			if d := Decide(snapshot(test.change, test.pod)); d.Wait != test.want {
				t.Errorf("waits: %t, want %t", d.Wait, test.want)
			}
			among := []Pod{test.pod, pod("b", partition.System, noRequests), pod("c", partition.Default, once)}
			if d := Decide(snapshot(test.change, among...)); test.want && !d.Wait {
				t.Error("waits for a pod alone, and not for it among others")
			}
		})
	}
}

// TestPodReportPartition: a pod is in the partition that its slice names, and otherwise in the
// default one.
func TestPodReportPartition(t *testing.T) {
	for slice, want := range map[string]partition.Name{
		"": partition.Default, "kubepods-system.slice": partition.Default, "other.slice": partition.Default,
		"kubepods-burstable-poda.slice": partition.Default, "kubepods-system-burstable-poda.slice": partition.System,
	} {
		if got := (report.Pod{Slice: slice}).Partition(); got != want {
			t.Errorf("a pod in %q is reported in %s, want %s", slice, got, want)
		}
	}
}
