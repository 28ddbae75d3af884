package podmove

import (
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove/report"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// The partitions of these tests beside the system partition. The slice of one has an underscore.
const (
	telemetry partition.Name = "telemetry"
	appTeam   partition.Name = "app-team"
)

// three returns a policy of three partitions.
func three() Policy {
	return Policy{Mode: Auto, Partitions: []decision.Partition{
		{Name: partition.System, Namespaces: []string{"kube-system"}},
		{Name: telemetry, Namespaces: []string{"monitoring"}},
		{Name: appTeam, Namespaces: []string{"shop", "cart"}},
	}}
}

// partitioned returns a snapshot of a node with three partitions, whose slices exist.
func partitioned(change func(*Snapshot), pods ...Pod) Snapshot {
	s := snapshot(func(s *Snapshot) {
		s.Config = three()
		s.Weights, s.Protected = map[string]uint64{}, map[string]cgroups.Protection{"kubepods.slice": {}}
		for _, p := range s.Config.Partitions {
			for _, slice := range []string{p.Name.Slice(), partition.QoSSlice(p.Name, v1.PodQOSBurstable)} {
				s.Weights[slice], s.Protected[slice] = 1, cgroups.Protection{}
			}
		}
		if change != nil {
			change(s)
		}
	}, pods...)
	return s
}

// in returns a pod of a namespace that runs in a partition of three.
func in(namespace string, part partition.Name, change ...func(*Pod)) Pod {
	return pod("a", partition.Default, append([]func(*Pod){func(p *Pod) {
		p.Namespace = namespace
		p.Partitions = nil
		for _, name := range three().names() {
			p.Partitions = append(p.Partitions, PodCgroup{Partition: name, Slice: partition.PodSlice(name, p.QoS, p.UID)})
		}
		if cgroup := p.find(part); cgroup != nil {
			cgroup.Exists, cgroup.Limits, cgroup.Units = true, limited, p.DefaultCgroup.Units
			p.DefaultCgroup.Units, p.Containers[0].Slice = nil, cgroup.Slice
		}
	}}, change...)...)
}

func off(names ...partition.Name) func(*Snapshot) {
	return func(s *Snapshot) {
		for i := range s.Config.Partitions {
			p := &s.Config.Partitions[i]
			p.Off = p.Off || slices.Contains(names, p.Name)
		}
	}
}

// TestDecidePartitions: a pod that is in the slice of another partition than its own moves from
// there to its place, without a stop in the default partition.
func TestDecidePartitions(t *testing.T) {
	t.Parallel()
	live := func(s *Snapshot) { s.NRI = Unavailable }
	for name, test := range map[string]struct {
		change func(*Snapshot)
		pod    Pod
		method Method // empty: not moved
		to     partition.Name
	}{
		"in its place":                   {nil, in("monitoring", telemetry), "", ""},
		"in its place, name with a dash": {nil, in("cart", appTeam), "", ""},
		"from the default partition":     {nil, in("shop", partition.Default), Restart, appTeam},
		"from another partition":         {nil, in("monitoring", partition.System), Restart, telemetry},
		"from a partition with a dash":   {nil, in("kube-system", appTeam), Restart, partition.System},
		"from another partition, live":   {live, in("kube-system", telemetry), Live, partition.System},
		"of no member":                   {nil, in("default", appTeam), Restart, partition.Default},
		"of no member, live":             {live, in("default", telemetry), Live, partition.Default},
		"of no member, in its place":     {nil, in("default", partition.Default), "", ""},
		"its partition is switched off":  {off(telemetry), in("monitoring", telemetry), Restart, partition.Default},
		"another partition is":           {off(telemetry), in("kube-system", partition.System), "", ""},
		"in one that is switched off":    {off(telemetry), in("shop", telemetry), Restart, appTeam},
		"no longer in the configuration": {off(partition.System, telemetry, appTeam), in("shop", appTeam), Restart, partition.Default},
		"no member, in one that is off":  {off(appTeam), in("default", appTeam), Restart, partition.Default},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := Decide(partitioned(test.change, test.pod))
			found, belongs := d.Pods[0], test.to
			if test.method == "" {
				belongs = test.pod.where()
			}
			if found.Belongs != belongs || found.Member != (belongs != partition.Default) {
				t.Errorf("reported %+v, want a member of %s", found, belongs)
			}
			if found.Partition() != test.pod.where() {
				t.Errorf("reported in %s, want %s", found.Partition(), test.pod.where())
			}
			if test.method == "" {
				if d.Move != nil || found.Misplaced != 0 || found.Reason != "" {
					t.Errorf("moves %+v, reported %+v; want it left where it is", d.Move, found)
				}
				return
			}
			want := partition.PodSlice(test.to, v1.PodQOSBurstable, "a")
			if d.Move == nil || d.Move.Method != test.method || d.Move.To != test.to || d.Move.Slice != want {
				t.Fatalf("move is %+v, want %s to %s", d.Move, test.method, want)
			}
			if from := d.Move.Containers[0].Slice; from != found.Slice || found.Misplaced != 1 || found.Reason != report.Pending {
				t.Errorf("from %s, reported %+v", from, found)
			}
		})
	}
}

// where returns the partition of the pod's only container.
func (p *Pod) where() partition.Name {
	partition, _, _, _ := partition.ParsePodSlice(p.Containers[0].Slice)
	return partition
}

// TestDecidePartitionWeights: each partition has the weight and the protection of its pods, and
// at least its own floor. kubepods.slice has the sum of the floors.
func TestDecidePartitionWeights(t *testing.T) {
	t.Parallel()
	const mebi = 1 << 20
	small := func(p *Pod) { p.MilliCPU = 300 }
	protections := func(s *Snapshot) {
		s.Config.Partitions[0].Protection = cgroups.Protection{Min: 4 * mebi}
		s.Config.Partitions[1].Protection = cgroups.Protection{Min: 2 * mebi, Low: mebi}
		s.Config.Partitions[2].Protection = cgroups.Protection{Low: 8 * mebi}
	}
	d := Decide(partitioned(protections, in("kube-system", partition.System, small), in("shop", appTeam)))
	wantWeights := []WeightSpec{
		{"kubepods-system-burstable.slice", 12}, {"kubepods-system.slice", 12},
		{"kubepods-app_team-burstable.slice", 4}, {"kubepods-app_team.slice", 4},
	}
	if !slices.Equal(d.Weights, wantWeights) {
		t.Errorf("weights %+v, want %+v", d.Weights, wantWeights)
	}
	sum := cgroups.Protection{Min: 6 * mebi, Low: 9 * mebi}
	want := []ProtectSpec{
		{"kubepods-system.slice", cgroups.Protection{Min: 4 * mebi}},
		{"kubepods-telemetry.slice", cgroups.Protection{Min: 2 * mebi, Low: mebi}},
		{"kubepods-app_team.slice", cgroups.Protection{Low: 8 * mebi}},
		{"kubepods.slice", sum},
	}
	if !slices.Equal(d.Protect, want) || d.Raised != sum {
		t.Errorf("protects %+v, raised %+v; want %+v", d.Protect, d.Raised, want)
	}
	// A partition that is switched off protects nothing, and its own slices are left alone.
	d = Decide(partitioned(func(s *Snapshot) {
		protections(s)
		s.Raised, s.Protected["kubepods.slice"] = sum, sum
		off(telemetry)(s)
	}))
	want = []ProtectSpec{want[0], want[2], {"kubepods.slice", cgroups.Protection{Min: 4 * mebi, Low: 8 * mebi}}}
	if !slices.Equal(d.Protect, want) || len(d.Weights) != 0 {
		t.Errorf("protects %+v, weights %+v; want %+v and none", d.Protect, d.Weights, want)
	}
}

// TestDecideEmpty: a partition that is switched off comes to its end alone. Done waits for all.
func TestDecideEmpty(t *testing.T) {
	t.Parallel()
	all := off(partition.System, telemetry, appTeam)
	for name, test := range map[string]struct {
		snapshot Snapshot
		empty    []partition.Name
		done     bool
	}{
		"all are on":                 {partitioned(nil), nil, false},
		"one is off":                 {partitioned(off(telemetry), in("shop", appTeam)), []partition.Name{telemetry}, false},
		"one is off, a pod is in it": {partitioned(off(telemetry), in("default", telemetry)), nil, false},
		"all are off":                {partitioned(all), three().names(), true},
		"all are off, a pod is in one": {
			partitioned(all, in("shop", appTeam)), []partition.Name{partition.System, telemetry}, false,
		},
		"a move is under way": {partitioned(func(s *Snapshot) { all(s); s.Moving = "b" }), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if d := Decide(test.snapshot); !slices.Equal(d.Empty, test.empty) || d.Done != test.done {
				t.Errorf("empty %v, done %t; want %v and %t", d.Empty, d.Done, test.empty, test.done)
			}
		})
	}
}

// TestRules: a partition that is switched off has no members, and another one may claim its
// namespaces.
func TestRules(t *testing.T) {
	t.Parallel()
	c := three()
	c.Partitions[0].Off, c.Partitions[1].Namespaces = true, []string{"kube-system", "monitoring"}
	rules := c.Rules()
	for namespace, want := range map[string]partition.Name{
		"kube-system": telemetry, "monitoring": telemetry, "cart": appTeam, "default": partition.Default,
	} {
		if got := rules.Partition(partition.Pod{Namespace: namespace}); got != want {
			t.Errorf("%s: %v, want %v", namespace, got, want)
		}
	}
	c.Partitions[2].Off = true
	if got := c.Rules().Partition(partition.Pod{Namespace: "shop"}); got != partition.Default {
		t.Errorf("a pod of a partition that is switched off belongs to %s", got)
	}
	if got := c.Namespaces(); !slices.Equal(got, []string{"kube-system", "kube-system", "monitoring", "shop", "cart"}) || c.Off() {
		t.Errorf("namespaces %q, off %t", got, c.Off())
	}
}

// TestPolicySameMembers: a floor moves no pod. Whatever else changes may.
func TestPolicySameMembers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*Policy)
		same   bool
	}{
		"nothing":      {func(*Policy) {}, true},
		"a floor":      {func(p *Policy) { p.Partitions[1].Protection.Min = 1 }, true},
		"the mode":     {func(p *Policy) { p.Mode = Never }, false},
		"off":          {func(p *Policy) { p.Partitions[1].Off = true }, false},
		"a name":       {func(p *Policy) { p.Partitions[1].Name = "batch" }, false},
		"namespaces":   {func(p *Policy) { p.Partitions[2].Namespaces = []string{"shop"} }, false},
		"a partition":  {func(p *Policy) { p.Partitions = p.Partitions[:2] }, false},
		"their order":  {func(p *Policy) { slices.Reverse(p.Partitions) }, false},
		"all are gone": {func(p *Policy) { p.Partitions = nil }, false},
		"a type":       {func(p *Policy) { p.Workloads = []partition.Workload{{Type: "a", Partition: telemetry}} }, false},
	} {
		c := three()
		test.change(&c)
		if got := three().sameMembers(c); got != test.same {
			t.Errorf("%s: the same members: %t, want %t", name, got, test.same)
		}
	}
}

// TestTableEvicting: each eviction manager replaces its own marks.
func TestTableEvicting(t *testing.T) {
	t.Parallel()
	var table Table
	marked := func(want ...string) {
		t.Helper()
		for _, uid := range []string{"a", "b", "c"} {
			if got := table.isEvicting(uid); got != slices.Contains(want, uid) {
				t.Errorf("%s is marked: %t", uid, got)
			}
		}
	}
	marked()
	table.SetEvicting(partition.System, map[string]bool{"a": true})
	table.SetEvicting(telemetry, map[string]bool{"b": true})
	marked("a", "b")
	table.SetEvicting(telemetry, map[string]bool{"c": true})
	marked("a", "c")
	table.SetEvicting(partition.System, nil)
	marked("c")
}

// TestGathererPartitions: the slices of all partitions of the policy are read, also if one is
// switched off. A slice of a name that the policy does not have is somebody else's, and is left
// alone.
func TestGathererPartitions(t *testing.T) {
	t.Parallel()
	path := func(p partition.Name, uid string) string {
		return partition.CgroupPath(partition.PodSlice(p, v1.PodQOSBurstable, uid))
	}
	n := newNode(t)
	removeAll(t, filepath.Join(n.root, defaultA, "cri-containerd-one.scope"))
	n.cgroup(path(telemetry, uidA)+"/cri-containerd-one.scope", map[string]string{"cpu.weight": "4"})
	n.cgroup(path(appTeam, uidB), nil) // left over
	n.pods = map[types.UID]*kubelet.Pod{uidA: {
		UID: uidA, RestartPolicy: v1.RestartPolicyAlways, MilliCPU: 100, Containers: map[string]kubelet.Container{"main": {}},
	}}
	others := Policy{Mode: Auto, Partitions: three().Partitions[:2]}
	s, err := n.gatherer().Snapshot(t.Context(), others, others.Rules(), Working)
	if err != nil {
		t.Fatal(err)
	}
	if d := Decide(s); len(s.Config.Partitions) != 2 || len(d.Stop) != 0 {
		t.Fatalf("stops %+v, want that a slice of another name is left alone", d.Stop)
	}
	configured := three()
	configured.Partitions[2].Off = true
	if s, err = n.gatherer().Snapshot(t.Context(), configured, configured.Rules(), Working); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(s.Pods, func(p Pod) bool { return p.Exists })
	p := s.Pods[i]
	if c := p.Containers[0]; c.Foreign || c.Slice != p.Cgroup(telemetry).Slice || c.Unit != "cri-containerd-one.scope" {
		t.Errorf("container %+v, want it in the slice of %s", c, telemetry)
	}
	if len(p.Partitions) != 3 || !p.Partitions[1].Exists || p.Partitions[0].Exists || p.Partitions[2].Exists {
		t.Errorf("slices %+v, want the second alone", p.Partitions)
	}
	d := Decide(s)
	if d.Move == nil || d.Move.To != partition.System || d.Move.Containers[0].Slice != p.Cgroup(telemetry).Slice {
		t.Errorf("move %+v, want it from %s to %s", d.Move, telemetry, partition.System)
	}
	if len(d.Stop) != 1 || d.Stop[0].Slice != partition.PodSlice(appTeam, v1.PodQOSBurstable, uidB) {
		t.Errorf("stops %+v, want what is left in %s", d.Stop, appTeam)
	}
	if _, ok := s.Weights["kubepods-telemetry-burstable.slice"]; !ok {
		t.Errorf("weights %v", s.Weights)
	}
}

// TestSnapshotFollow: a partition that the configuration has got since the node was read has a
// place for each pod.
func TestSnapshotFollow(t *testing.T) {
	t.Parallel()
	s := snapshot(nil, pod("a", partition.Default, inNamespace("shop")))
	s.follow(three(), three().Rules())
	d := Decide(s)
	want := partition.PodSlice(appTeam, v1.PodQOSBurstable, "a")
	if len(d.Ensure) != 1 || d.Ensure[0].Name != want || d.Move == nil || d.Move.Slice != want {
		t.Errorf("makes %+v, moves %+v; want %s", d.Ensure, d.Move, want)
	}
}

// TestReconcilerBetweenPartitions: a pod whose namespace changes hands moves from one partition to
// the other one. A scope has another name after each live move, and the runtime's after the last.
func TestReconcilerBetweenPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		r, e := h.reconciler(Unavailable, inSystem("kube-system"))
		start(t, r)
		follow := func(owner int) {
			t.Helper()
			c := three()
			c.Partitions[0].Namespaces = nil
			if owner >= 0 {
				c.Partitions[owner].Namespaces = []string{"kube-system"}
			}
			r.SetConfig(c)
			<-time.After(time.Minute)
			synctest.Wait()
		}
		<-time.After(time.Minute)
		for _, owner := range []int{1, 2, -1} {
			follow(owner)
		}
		var moves []string
		for _, what := range h.all() {
			if len(what) > 5 && what[:5] == "live " {
				moves = append(moves, what[5:])
			}
		}
		const scope = "cri-containerd-one.scope"
		if want := []string{"partition-" + scope, "partition-again-" + scope, "partition-" + scope, scope}; !slices.Equal(moves, want) {
			t.Errorf("moved to %q, want %q", moves, want)
		}
		if want := []string{"live system success", "live telemetry success", "live app-team success", "live default success"}; !slices.Equal(e.placed, want) {
			t.Errorf("observed %q, want %q", e.placed, want)
		}
		for _, p := range three().names() {
			if slice := partition.PodSlice(p, v1.PodQOSBurstable, uidA); !slices.Contains(h.all(), "stop "+slice) {
				t.Errorf("%s is left", slice)
			}
		}
	})
}

// TestNewScope: the name of a scope is free, also if an earlier move to a third partition ended
// half-way.
func TestNewScope(t *testing.T) {
	t.Parallel()
	const scope, moved = "crio-1.scope", "partition-crio-1.scope"
	for name, test := range map[string]struct {
		to   partition.Name
		c    Container
		want string
	}{
		"first":                         {telemetry, Container{Unit: scope}, moved},
		"second":                        {telemetry, Container{Unit: moved}, "partition-again-" + scope},
		"again after half of it":        {telemetry, Container{Unit: scope, AlsoUnit: moved, AlsoSlice: "to.slice"}, moved},
		"half of it in another place":   {telemetry, Container{Unit: scope, AlsoUnit: moved, AlsoSlice: "third.slice"}, "partition-again-" + scope},
		"the rest in another place":     {telemetry, Container{Unit: moved, AlsoUnit: "partition-again-" + scope, AlsoSlice: "to.slice"}, "partition-again-" + scope},
		"half of a move between others": {telemetry, Container{Unit: moved, AlsoUnit: "partition-again-" + scope, AlsoSlice: "third.slice"}, scope},
		"back":                          {partition.Default, Container{Unit: moved}, scope},
		"placed by the runtime, out":    {partition.Default, Container{Unit: scope}, moved},
		"and half of it":                {partition.Default, Container{Unit: scope, AlsoUnit: moved, AlsoSlice: "to.slice"}, moved},
		"half of it in a third, out":    {partition.Default, Container{Unit: moved, AlsoUnit: scope, AlsoSlice: "third.slice"}, "partition-again-" + scope},
		"half of it out, in again":      {telemetry, Container{Unit: moved, AlsoUnit: scope, AlsoSlice: "to.slice"}, scope},
	} {
		if got := newScope(&Move{To: test.to, Slice: "to.slice"}, test.c); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// TestReconcilerMovedOutMemory: memory that a pod has left in a partition, which it has left alive,
// stays charged to the pod and not to the partition.
func TestReconcilerMovedOutMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		c := members
		c.Mode = OnlyLive
		r, _ := h.reconciler(Unavailable, c)
		start(t, r)
		<-time.After(time.Minute)
		h.cgroup(partitionA, map[string]string{"memory.current": "734003200"})
		c.Partitions = slices.Clone(c.Partitions)
		c.Partitions[0].Namespaces = []string{"other"}
		r.SetConfig(c)
		<-time.After(time.Minute)
		if slice := "stop " + filepath.Base(partitionA); slices.Contains(h.all(), slice) {
			t.Errorf("did %q; its slice is charged for 700 MiB", h.all())
		}
		h.cgroup(partitionA, map[string]string{"memory.current": "0"}) // nothing tells of it
		<-time.After(5 * time.Minute)
		if slice := "stop " + filepath.Base(partitionA); !slices.Contains(h.all(), slice) {
			t.Errorf("did %q; nothing is charged to its slice any more", h.all())
		}
	})
}
