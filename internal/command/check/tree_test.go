package check

import (
	"context"
	"path"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/pkg/slices/config"
	"node-partition.io/node-partition/tests/fakenode"
)

// The cgroups of the healthy node.
const (
	webSlice   = "kubepods.slice/kubepods-pod1_a.slice"
	agentSlice = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod3_c.slice"
	batchSlice = "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod4_d.slice"
	webScope   = webSlice + "/cri-containerd-web.scope"
	agentScope = agentSlice + "/cri-containerd-agent.scope"
	batchScope = batchSlice + "/cri-containerd-batch.scope"
)

// healthy returns the tree of a healthy node of two CPUs with a pod of each class.
func healthy(*testing.T) *tree {
	tr := &tree{
		names: []partition.Name{partition.System}, cgroups: map[string]map[string]string{}, scopes: map[string]string{},
		units: map[string]map[string]string{}, found: map[string]bool{},
	}
	tr.kubelet.Config = &kubeletconfig.Merged{}
	for _, cgroup := range []string{"system.slice", "user.slice", kubepods, path.Dir(agentSlice), path.Dir(batchSlice), webSlice, agentSlice, batchSlice} {
		tr.cgroups[cgroup] = map[string]string{
			cpuWeight: "100", cpuMax: "max 100000", memoryMax: "max", memoryHigh: "max", swapMax: "max", pidsMax: "max",
		}
		tr.units[path.Base(cgroup)] = map[string]string{
			"ActiveState": "active", "CPUWeight": "[not set]", "MemoryMax": "infinity", "MemoryHigh": "infinity", "MemorySwapMax": "infinity", "TasksMax": "infinity",
		}
	}
	for scope, p := range map[string]struct{ namespace, name, uid, class string }{
		webScope:   {"default", "web", "1-a", string(v1.PodQOSGuaranteed)},
		agentScope: {"kube-system", "agent", "3-c", string(v1.PodQOSBurstable)},
		batchScope: {"default", "batch", "4-d", string(v1.PodQOSBestEffort)},
	} {
		tr.scopes[p.name] = scope
		tr.cgroups[scope] = map[string]string{effectiveCPUs: "0-1", cpusetCPUs: ""}
		tr.pods = append(tr.pods, &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: p.name, UID: types.UID(p.uid)},
			Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main"}}},
			Status: v1.PodStatus{
				Phase: v1.PodRunning, QOSClass: v1.PodQOSClass(p.class),
				ContainerStatuses: []v1.ContainerStatus{{Name: "main", ContainerID: "containerd://" + p.name, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}},
			},
		})
	}
	return tr
}

// change changes a tree.
type change func(*tree)

func changes(all ...change) change {
	return func(tr *tree) {
		for _, c := range all {
			c(tr)
		}
	}
}

// echo writes a file of a cgroup, and systemd does not learn of it.
func echo(cgroup, name, text string) change {
	return func(tr *tree) { tr.cgroups[cgroup][name] = text }
}

// property changes a property of a slice, and systemd writes the file.
func property(cgroup, name, value, file, text string) change {
	return func(tr *tree) {
		tr.units[path.Base(cgroup)][name] = value
		tr.cgroups[cgroup][file] = text
	}
}

// foundIn applies the checks of the tree, in their order, and returns what is wrong. Both readings
// of the tree are the same.
func foundIn(t *testing.T, change change) []state.Finding {
	t.Helper()
	c := &checks{}
	for i := range c.trees {
		c.trees[i] = healthy(t)
		change(c.trees[i])
	}
	var found []state.Finding
	names := Names()
	for _, k := range allChecks[slices.Index(names, "second-writer"):] {
		for _, f := range k.look(c, context.Background()) {
			if f.Check = k.name; f.Grade != state.OK {
				found = append(found, f)
			}
		}
	}
	return found
}

func partitionOn(list string) change {
	return func(tr *tree) {
		cpus, _ := cpuset.Parse(list)
		tr.partitions = []config.Partition{{Name: partition.System, CPUs: cpus, NodeCPUs: cpuset.New(0, 1)}}
		tr.members.Add(partition.System, "kube-system")
	}
}

// exclusive keeps all other pods off the CPUs of the partition.
func exclusive(tr *tree) { tr.partitions[0].Exclusive = true }

// staticCPU0 is the static CPU manager with CPU 0 reserved, and strict its option.
func staticCPU0(tr *tree) {
	tr.kubelet.Kubelet.CPUManagerPolicy, tr.kubelet.Kubelet.ReservedSystemCPUs = static, "0"
}

func strict(tr *tree) {
	tr.kubelet.Kubelet.CPUManagerPolicyOptions = map[string]string{strictReservation: "true"}
}

// guaranteedMember makes the pod web a member with a whole CPU, to which CPU 1 is assigned.
func guaranteedMember(tr *tree) {
	for _, p := range tr.pods {
		if p.Name == "web" {
			p.Namespace = "kube-system"
			p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
		}
	}
	tr.cgroups[webScope][cpusetCPUs] = "1"
}

// on sets the CPUs that containers may run on.
func on(list string, scopes ...string) change {
	return func(tr *tree) {
		for _, scope := range scopes {
			tr.cgroups[scope][effectiveCPUs] = list
		}
	}
}

// TestTreeFaults puts in one fault after the other. Each is found once, with what to change, and
// nothing else is.
func TestTreeFaults(t *testing.T) {
	t.Parallel()
	for _, f := range []struct {
		name   string
		change change
		check  string
		found  string // in the finding
	}{
		{"a quota of all pods", echo(kubepods, cpuMax, "150000 100000"), "collective-limit", "kubepods.slice/cpu.max is 150000 100000; expected max: "},
		{"memory.high of all pods", property(kubepods, "MemoryHigh", "1073741824", memoryHigh, "1073741824"), "collective-limit", "kubepods.slice/memory.high"},
		{"a partition's class with a limit", func(tr *tree) {
			tr.cgroups["kubepods.slice/kubepods-system.slice"] = map[string]string{memoryMax: "67108864", cpuMax: "max 100000"}
			tr.cgroups["kubepods.slice/kubepods-system.slice/kubepods-system-burstable.slice"] = map[string]string{memoryMax: "4096"}
		}, "collective-limit", "kubepods-system-burstable.slice/memory.max"},
		{"a second writer of memory.max", echo("system.slice", memoryMax, "1073741824"), "second-writer", "system.slice/memory.max is 1073741824; expected max: systemd keeps MemoryMax=infinity"},
		{"a second writer of a limit", changes(property(kubepods, "MemoryMax", "8191", memoryMax, "4096"), echo(kubepods, memoryMax, "max")), "second-writer", "kubepods.slice/memory.max is max; expected 4096: "},
		{"a second writer of a weight", echo("user.slice", cpuWeight, "50"), "second-writer", "user.slice/cpu.weight is 50; expected 100: "},
		{"a second writer of swap", echo(batchSlice, swapMax, "0"), "second-writer", "pod4_d.slice/memory.swap.max"},
		{"user pods on the partition's CPUs", changes(partitionOn("0"), on("0", agentScope)), "cpu-manager", "batch.scope/cpuset.cpus.effective is 0-1; expected 1: "},
		{"user pods assigned CPUs of the partition", changes(partitionOn("0"), staticCPU0, strict, on("0", agentScope, webScope), on("1", batchScope)), "cpu-manager", "web.scope/cpuset.cpus.effective"},
		{"no strict reservation", changes(partitionOn("0"), staticCPU0, on("0", agentScope)), "cpu-manager", "cpuManagerPolicyOptions.strict-cpu-reservation is empty; expected true: "},
		{
			"no strict reservation beside an exclusive partition",
			changes(partitionOn("0"), exclusive, staticCPU0, on("0", agentScope), on("1", webScope, batchScope)), "cpu-manager", "cpuManagerPolicyOptions.strict-cpu-reservation",
		},
		{
			"a member with CPUs that idle", changes(partitionOn("0"), staticCPU0, strict, guaranteedMember, on("0", agentScope), on("1", batchScope)),
			"cpu-manager", "web.scope/cpuset.cpus is 1; expected 0: ",
		},
	} {
		found := foundIn(t, f.change)
		if len(found) != 1 || found[0].Check != f.check || found[0].Grade != state.Warning || !strings.Contains(found[0].Found, f.found) || found[0].Change == "" {
			t.Errorf("%s: want one finding of %s with %q:\n%s", f.name, f.check, f.found, lines(found))
		}
	}
}

// TestTreeUnknown: what cannot be known, and what is as good, is no finding.
func TestTreeUnknown(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	for name, c := range map[string]change{
		"a healthy node": func(*tree) {},
		"members of another partition on the same CPUs": changes(partitionOn("0"), staticCPU0, strict, on("0", agentScope, batchScope), on("1", webScope), func(tr *tree) {
			tr.partitions = append(tr.partitions, config.Partition{Name: "telemetry", CPUs: cpuset.New(0), NodeCPUs: cpuset.New(0, 1)})
			tr.members.Add("telemetry", "telemetry")
			for _, p := range tr.pods {
				if p.Name == "batch" {
					p.Namespace = "telemetry"
				}
			}
		}),
		"a controller off": func(tr *tree) { delete(tr.cgroups[kubepods], pidsMax) },
		"a pod that ends": changes(partitionOn("0"), on("0", agentScope), on("1", batchScope), func(tr *tree) {
			for _, p := range tr.pods {
				if p.Name == "web" {
					p.DeletionTimestamp = &now
				}
			}
		}),
		"a unit that is gone":              changes(property("user.slice", "ActiveState", "inactive", cpuWeight, "5")),
		"a value of a new kind":            property("user.slice", "CPUWeight", "idle", cpuWeight, "0"),
		"a limit between pages":            property(kubepods, "MemoryMax", "3040550913", memoryMax, "3040550912"),
		"a partition with CPUs of its own": changes(partitionOn("0"), staticCPU0, strict, on("0", agentScope), on("1", webScope, batchScope)),
		"a partition without CPUs":         partitionOn(""),
	} {
		if found := foundIn(t, c); len(found) > 0 {
			t.Errorf("%s:\n%s", name, lines(found))
		}
	}
}

// TestTreeTwice: a finding counts if a second reading has it too.
func TestTreeTwice(t *testing.T) {
	t.Parallel()
	c := &checks{trees: [2]*tree{healthy(t), healthy(t)}}
	echo(webSlice, pidsMax, "7")(c.trees[0])
	echo(webSlice, pidsMax, "8")(c.trees[1])
	if found := compared(ofSystemd, (*tree).secondWriters)(c, t.Context()); len(found) != 1 || found[0].Grade != state.OK {
		t.Errorf("%+v", found)
	}
}

// TestCheckTree: the findings come from the cgroups and from systemd. Before the kubelet has
// started there is nothing to compare.
func TestCheckTree(t *testing.T) {
	t.Parallel()
	n := fakenode.Audited(t)
	expect(t, n, fails, []string{
		"warning  second-writer: /sys/fs/cgroup/kubepods.slice/kubepods-besteffort.slice/cpu.weight is 1; expected 50: ",
		"change: echo 50 > /sys/fs/cgroup/kubepods.slice/kubepods-besteffort.slice/cpu.weight\n",
	})
	n.RemoveAll(kubelet.PodsSocket)
	expect(t, n, fails, []string{"ok       cpu-manager: not compared: "})
	n.RemoveAll("/sys/fs/cgroup/kubepods.slice")
	expect(t, n, fails, []string{"warning  second-writer, collective-limit, cpu-manager: /sys/fs/cgroup/kubepods.slice does not exist: the kubelet has not started yet"})
}
