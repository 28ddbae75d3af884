package check

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/membership"
	"node-partition.io/node-partition/internal/podsapi"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/internal/unitname"
	"node-partition.io/node-partition/pkg/slices/config"
	"node-partition.io/node-partition/tests/fakenode"
)

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

// TestTreeHealthy: a healthy node has no finding. kubepods.slice has the published figures of an
// e2-medium of GKE.
func TestTreeHealthy(t *testing.T) {
	t.Parallel()
	if k := healthy(t).cgroups[kubepods]; k[cpuWeight] != "37" || k[memoryMax] != "3040550912" || k[pidsMax] != "4194304" || k[cpusetCPUs] != "0-1" {
		t.Errorf("the fixture has %v", k)
	}
	if found := foundIn(t, func(*tree) {}); len(found) > 0 {
		t.Errorf("%+v", found)
	}
}

// staticCPU0 is the static CPU manager with CPU 0 reserved.
const (
	staticCPU0 = "cpuManagerPolicy: static\nreservedSystemCPUs: '0'\n"
	strict     = "cpuManagerPolicyOptions: {strict-cpu-reservation: 'true'}"
)

func partitionOn(list string) change {
	return func(tr *tree) {
		cpus, _ := cpuset.Parse(list)
		tr.partitions = []config.Partition{{}}
		tr.partitions[0].Name, tr.partitions[0].CPUs = unitname.System, cpus
		tr.members = membership.New(membership.Claim{Partition: unitname.System, Namespaces: []string{"kube-system"}})
	}
}

// exclusive keeps all other pods off the CPUs of the partition.
func exclusive(tr *tree) { tr.partitions[0].Exclusive = true }

// guaranteedMember makes the pod web a member with whole CPUs, to which CPU 1 is assigned.
func guaranteedMember(tr *tree) {
	pod("web", func(p *v1.Pod) {
		p.Namespace = "kube-system"
		p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("1")
		p.Spec.Containers[0].Resources.Limits[v1.ResourceCPU] = resource.MustParse("1")
	})(tr)
	property(webSlice, "CPUWeight", "39", cpuWeight, "39")(tr)
	tr.cgroups[webScope][cpusetCPUs], tr.cgroups[webScope][effectiveCPUs] = "1", "0"
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
	const besteffort = "kubepods.slice/kubepods-besteffort.slice"
	const burst = "kubepods.slice/kubepods-burstable.slice"
	const enforced = "systemReserved: {cpu: 100m, memory: 1Gi, pid: '1000'}\nkubeReserved: {cpu: 960m, memory: 1019Mi}\nenforceNodeAllocatable: [pods, "
	reservedSystem := changes(
		property(kubepods, "MemoryMax", "1966809088", memoryMax, "1966809088"), property(kubepods, "TasksMax", "4193304", pidsMax, "4193304"),
		property("system.slice", "CPUWeight", "4", cpuWeight, "4"), property("system.slice", "TasksMax", "1000", pidsMax, "1000"),
	)
	for _, f := range []struct {
		name   string
		change change
		check  string
		found  string // in the finding
	}{
		{"no limit of all pods", property(kubepods, "MemoryMax", "infinity", memoryMax, "max"), "node-limits", "kubepods.slice/memory.max is max; expected 3040550912: "},
		{"the weight of all pods", property(kubepods, "CPUWeight", "100", cpuWeight, "100"), "node-limits", "kubepods.slice/cpu.weight is 100; expected 37 or 96: "},
		{"no limit of processes", property(kubepods, "TasksMax", "infinity", pidsMax, "max"), "node-limits", "kubepods.slice/pids.max is max; expected 4194304: "},
		{"pods without CPU 1", property(kubepods, "AllowedCPUs", "0", cpusetCPUs, "0"), "node-limits", "kubepods.slice/cpuset.cpus is 0; expected 0-1: "},
		{"a quota of all pods", property(kubepods, "", "", cpuMax, "150000 100000"), "collective-limit", "kubepods.slice/cpu.max is 150000 100000; expected max: "},
		{"memory.high of all pods", property(kubepods, "MemoryHigh", "1073741824", memoryHigh, "1073741824"), "collective-limit", "kubepods.slice/memory.high"},
		{"a limit of burstable pods", property(burst, "MemoryMax", "1073741824", memoryMax, "1073741824"), "collective-limit", "kubepods-burstable.slice/memory.max"},
		{"processes of BestEffort pods", property(besteffort, "TasksMax", "100", pidsMax, "100"), "collective-limit", "kubepods-besteffort.slice/pids.max"},
		{"a partition's class with a limit", func(tr *tree) {
			tr.cgroups["kubepods.slice/kubepods-system.slice"] = map[string]string{memoryMax: "67108864", cpuMax: "max 100000"}
			tr.cgroups["kubepods.slice/kubepods-system.slice/kubepods-system-burstable.slice"] = map[string]string{memoryMax: "4096"}
		}, "collective-limit", "kubepods-system-burstable.slice/memory.max"},
		{"a guaranteed pod without a limit", property(webSlice, "MemoryMax", "infinity", memoryMax, "max"), "pod-limits", "pod1_a.slice/memory.max is max; expected 134217728: "},
		{"a guaranteed pod without a quota", echo(webSlice, cpuMax, "max 100000"), "pod-limits", "pod1_a.slice/cpu.max is max 100000; expected 20000 100000: "},
		{"a pod by no formula", property(webSlice, "CPUWeight", "30", cpuWeight, "30"), "pod-limits", "pod1_a.slice/cpu.weight is 30; expected 8 or 29: "},
		{"a burstable pod with a limit of its own making", echo(agentSlice, cpuMax, "50000 100000"), "pod-limits", "pod3_c.slice/cpu.max"},
		{"a BestEffort pod with a limit", property(batchSlice, "MemoryMax", "33554432", memoryMax, "33554432"), "pod-limits", "pod4_d.slice/memory.max"},
		{"processes of a pod", property(appSlice, "TasksMax", "50", pidsMax, "50"), "pod-limits", "pod2_b.slice/pids.max"},
		{"podPidsLimit of a pod", changes(
			kubelet(t, "podPidsLimit: 100"), property(webSlice, "TasksMax", "100", pidsMax, "100"), property(appSlice, "TasksMax", "100", pidsMax, "100"),
			property(agentSlice, "TasksMax", "100", pidsMax, "100"),
		), "pod-limits", "pod4_d.slice/pids.max"},
		{"a second writer of memory.max", echo("system.slice", memoryMax, "1073741824"), "second-writer", "system.slice/memory.max is 1073741824; expected max: systemd keeps MemoryMax=infinity"},
		{"a second writer of kubepods.slice", echo(kubepods, memoryMax, "max"), "second-writer", "kubepods.slice/memory.max"},
		{"a second writer of a weight", echo("user.slice", cpuWeight, "50"), "second-writer", "user.slice/cpu.weight is 50; expected 100: "},
		{"a second writer of swap", echo(batchSlice, swapMax, "0"), "second-writer", "pod4_d.slice/memory.swap.max"},
		{"a kubelet that is killed first", func(tr *tree) { tr.scores[700] = 0 }, "oom-score", "/proc/700/oom_score_adj is 0; expected -999: "},
		{"a runtime like guaranteed pods", func(tr *tree) { tr.scores[600] = -997 }, "oom-score", "/proc/600/oom_score_adj"},
		{"a kubelet in the system container", changes(reservedSystem, property("system.slice", "MemoryMax", "1073741824", memoryMax, "1073741824"),
			kubelet(t, enforced+"system-reserved]\nsystemReservedCgroup: /system.slice\n")), "kubelet-cgroup", "system.slice/kubelet.service is kubelet.service; expected outside /system.slice: "},
		{"a kubelet in systemCgroups", kubelet(t, "systemCgroups: /system.slice"), "kubelet-cgroup", "expected outside /system.slice: "},
		{"a kubelet outside of its reservation", changes(kubelet(t, "enforceNodeAllocatable: [pods, kube-reserved]\nkubeReservedCgroup: /kube"),
			func(tr *tree) { tr.cgroups["kube.slice"] = map[string]string{cpuWeight: "42", memoryMax: "1068498944"} }), "kubelet-cgroup", "expected in /kube.slice: "},
		{"a reserved cgroup without its limit", changes(reservedSystem, kubelet(t, enforced+"system-reserved]\nsystemReservedCgroup: /system.slice\n"),
			inside("/kubernetes.slice/kubelet.service")), "reserved-limits", "system.slice/memory.max is max; expected 1073741824: "},
		{"user pods on the partition's CPUs", changes(partitionOn("0"), on("0", agentScope)), "cpu-manager", "batchbatch.scope/cpuset.cpus.effective is 0-1; expected 1: "},
		{"user pods assigned CPUs of the partition", changes(partitionOn("0"), kubelet(t, "cpuManagerPolicy: static\nreservedSystemCPUs: '1'"),
			on("0", agentScope, webScope), on("1", appScope, batchScope)), "cpu-manager", "webweb.scope/cpuset.cpus.effective"},
		{"no strict reservation", changes(partitionOn("0"), kubelet(t, staticCPU0), on("0", agentScope)), "cpu-manager", "cpuManagerPolicyOptions.strict-cpu-reservation is empty; expected true: "},
		{"no strict reservation beside an exclusive partition", changes(partitionOn("0"), exclusive, kubelet(t, staticCPU0), on("0", agentScope), on("1", webScope, appScope, batchScope)),
			"cpu-manager", "cpuManagerPolicyOptions.strict-cpu-reservation"},
		{"CPUs that are not reserved", changes(partitionOn("1"), kubelet(t, staticCPU0+strict), on("1", agentScope), on("0", webScope, appScope, batchScope)),
			"cpu-manager", "config.yaml: reservedSystemCPUs is 0; expected 0-1: "},
		{"exclusive CPUs that are not reserved", changes(partitionOn("1"), exclusive, kubelet(t, staticCPU0), on("1", agentScope), on("0", webScope, appScope, batchScope)),
			"cpu-manager", "reservedSystemCPUs"},
		{"a member with CPUs that idle", changes(partitionOn("0"), kubelet(t, staticCPU0+strict), guaranteedMember, on("0", agentScope), on("1", appScope, batchScope)),
			"cpu-manager", "webweb.scope/cpuset.cpus is 1; expected 0: "},
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
	resizing := func(p *v1.Pod) {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizeInProgress, Status: v1.ConditionTrue}}
	}
	noLimit := property(webSlice, "MemoryMax", "infinity", memoryMax, "max")
	for name, c := range map[string]change{
		"no kubelet": changes(func(tr *tree) { tr.settings, tr.Kubelet = nil, nil }, property(kubepods, "MemoryMax", "infinity", memoryMax, "max"),
			property(kubepods, "CPUWeight", "100", cpuWeight, "100"), echo(webSlice, cpuMax, "max 100000")),
		"no pods":          changes(func(tr *tree) { tr.pods, tr.podsUnknown = nil, context.Canceled }, noLimit),
		"a pod that ends":  changes(pod("web", func(p *v1.Pod) { p.DeletionTimestamp = &now }), noLimit),
		"a resized pod":    changes(pod("app", resizing), property(appSlice, "MemoryMax", "infinity", memoryMax, "max")),
		"a pod of claims":  changes(pod("web", func(p *v1.Pod) { p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu"}} }), noLimit),
		"another period":   changes(kubelet(t, "cpuCFSQuotaPeriod: 10ms"), echo(webSlice, cpuMax, "2000 10000")),
		"CPUs of its own":  changes(kubelet(t, staticCPU0), echo(webSlice, cpuMax, "max 100000")),
		"quotas are off":   changes(kubelet(t, "cpuCFSQuota: false"), echo(webSlice, cpuMax, "max 100000"), echo(appSlice, cpuMax, "max 100000")),
		"qosReserved":      changes(kubelet(t, "qosReserved: {memory: 50%}"), property("kubepods.slice/kubepods-besteffort.slice", "MemoryMax", "4096", memoryMax, "4096")),
		"a controller off": func(tr *tree) { delete(tr.cgroups[kubepods], pidsMax) },
		"a unit that is gone": func(tr *tree) {
			tr.units["user.slice"]["ActiveState"] = "inactive"
			tr.cgroups["user.slice"][cpuWeight] = "5"
		},
		"a value of a new kind": func(tr *tree) {
			tr.units["user.slice"]["CPUWeight"] = "idle"
			tr.cgroups["user.slice"][cpuWeight] = "0"
		},
		"a quota that systemd rounded up": changes(pod("app", func(p *v1.Pod) { p.Spec.Containers[0].Resources.Limits[v1.ResourceCPU] = resource.MustParse("255m") }),
			echo(appSlice, cpuMax, "26000 100000")),
		"the exact quota": changes(pod("app", func(p *v1.Pod) { p.Spec.Containers[0].Resources.Limits[v1.ResourceCPU] = resource.MustParse("255m") }),
			echo(appSlice, cpuMax, "25500 100000")),
		"a limit between pages": changes(kubelet(t, "kubeReserved: {cpu: 1060m, memory: '1068498943'}"), property(kubepods, "MemoryMax", "3040550913", memoryMax, "3040550912")),
		"nothing enforced": changes(kubelet(t, "enforceNodeAllocatable: [none]"),
			property(kubepods, "MemoryMax", "4109049856", memoryMax, "4109049856"), property(kubepods, "CPUWeight", "79", cpuWeight, "79")),
		"the other formula":                changes(property(kubepods, "CPUWeight", "96", cpuWeight, "96"), property(webSlice, "CPUWeight", "29", cpuWeight, "29")),
		"a partition with CPUs of its own": changes(partitionOn("0"), kubelet(t, staticCPU0+strict), on("0", agentScope), on("1", webScope, appScope, batchScope)),
		"a partition without CPUs":         partitionOn(""),
		"a runtime that is killed earlier": func(tr *tree) { tr.scores[600] = -998 },
		"a kubelet with another score":     changes(kubelet(t, "oomScoreAdj: -500"), func(tr *tree) { tr.scores[700] = -500 }),
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
	echo(appSlice, pidsMax, "7")(c.trees[0])
	echo(appSlice, pidsMax, "8")(c.trees[1])
	if found := compared(ofSystemd, (*tree).secondWriters)(c, t.Context()); len(found) != 1 || found[0].Grade != state.OK {
		t.Errorf("%+v", found)
	}
}

// TestCheckTree: the findings come from the cgroups, the processes, systemd, the pods and the
// configuration of the kubelet, flags over drop-ins over the file.
func TestCheckTree(t *testing.T) {
	t.Parallel()
	n := fakenode.Audited(t)
	const slice = "/sys/fs/cgroup/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-poduid_shop.slice"
	stdout, _ := text(t, n, nil)
	for _, want := range []string{
		"warning node-limits: /sys/fs/cgroup/kubepods.slice/memory.max is 4096; expected ", "change: systemctl set-property --runtime kubepods.slice MemoryMax=",
		"warning node-limits: /sys/fs/cgroup/kubepods.slice/pids.max is max; expected ",
		"warning pod-limits: " + slice + "/memory.max is 8192; expected max: ",
		"warning second-writer: /sys/fs/cgroup/kubepods.slice/kubepods-besteffort.slice/cpu.weight is 1; expected 50: ",
		"warning oom-score: /proc/1/oom_score_adj is ", fmt.Sprintf("warning oom-score: /proc/%d/oom_score_adj is ", fakenode.PID), "; expected -500: ",
		"see: /usr/share/doc/node-partition/troubleshooting/node-limits.md\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("want %q in\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, slice+"/pids.max") { // podPidsLimit of the drop-in
		t.Error(stdout)
	}
	n.RemoveAll(podsapi.DefaultSocket)
	stdout, _ = text(t, n, nil)
	if !strings.Contains(stdout, "ok      pod-limits, cpu-manager: not compared: ") {
		t.Error(stdout)
	}
}

// TestCheckTreeElsewhere: the files of kubepods.slice are no findings for a kubelet that has its
// pods elsewhere, nor before the first one.
func TestCheckTreeElsewhere(t *testing.T) {
	t.Parallel()
	for want, fields := range map[string]string{
		`cgroupRoot of the kubelet is "/pods": its pods are not in kubepods.slice`:            "cgroupRoot: /pods\n",
		"cgroupsPerQOS of the kubelet is false: its pods are not in kubepods.slice":           "cgroupsPerQOS: false\nenforceNodeAllocatable: [none]\n",
		"node-limits: /sys/fs/cgroup/kubepods.slice/memory.max is 4096; expected ":            "",
		"kubepods.slice does not exist: the kubelet has not started yet, or does not use the": "cgroupRoot: /\n",
	} {
		n := fakenode.New(t, fakenode.Configuration(""))
		n.Write("/etc/k.yaml", fakenode.Configuration(fields))
		if fields != "cgroupRoot: /\n" {
			n.Cgroup("kubepods.slice", map[string]string{"memory.max": "4096", "cpu.weight": "1", "pids.max": "max", "cpu.max": "max 100000"})
		}
		n.RunKubelet("--config=/etc/k.yaml")
		if stdout, _ := text(t, n, nil); !strings.Contains(stdout, want) {
			t.Errorf("want %q in\n%s", want, stdout)
		}
	}
}
