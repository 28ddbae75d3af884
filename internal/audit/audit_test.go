package audit

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/cpuset"

	"nodepartition/internal/membership"
	"nodepartition/internal/unitname"
)

var update = flag.Bool("update", false, "write testdata/findings.txt")

// TestRunHealthy: a healthy node has no finding, and its tree shows both formulas. kubepods.slice
// has the published figures of an e2-medium of GKE.
func TestRunHealthy(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	if k := s.Cgroups[kubepods]; k[cpuWeight] != "37" || k[memoryMax] != "3040550912" || k[pidsMax] != "4194304" || k[cpusetCPUs] != "0-1" {
		t.Errorf("the fixture has %v", k)
	}
	report := Run(s)
	if len(report.Findings)+len(report.NotChecked) != 0 || report.Formulas != (Formulas{"linear", "quadratic"}) {
		t.Errorf("%+v", report)
	}
}

// staticCPU0 is the static CPU manager with CPU 0 reserved.
const staticCPU0 = "cpuManagerPolicy: static\nreservedSystemCPUs: '0'\n"

func partitionOn(list string) change {
	return func(s *Facts) {
		cpus, _ := cpuset.Parse(list)
		s.Partitions = []Section{{Name: unitname.System, CPUs: cpus}}
		s.Members = membership.New(membership.Claim{Partition: unitname.System, Namespaces: []string{"kube-system"}})
	}
}

// exclusive keeps all other pods off the CPUs of the partition.
func exclusive(s *Facts) { s.Partitions[0].Exclusive = true }

// guaranteedMember makes the pod web a member with whole CPUs, to which CPU 1 is assigned.
func guaranteedMember(s *Facts) {
	pod("web", func(p *v1.Pod) {
		p.Namespace = "kube-system"
		p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("1")
		p.Spec.Containers[0].Resources.Limits[v1.ResourceCPU] = resource.MustParse("1")
	})(s)
	property(webSlice, "CPUWeight", "39", cpuWeight, "39")(s)
	s.Cgroups[webScope][cpuWeight] = "100"
	s.Cgroups[webScope][cpusetCPUs], s.Cgroups[webScope][effective] = "1", "0"
}

// on sets the CPUs that containers may run on.
func on(list string, scopes ...string) change {
	return func(s *Facts) {
		for _, scope := range scopes {
			s.Cgroups[scope][effective] = list
		}
	}
}

type fault struct {
	name   string
	change change
	rule   string
	path   string // the end of the finding's path
}

func faults(t *testing.T) []fault {
	t.Helper()
	const besteffort = "kubepods.slice/kubepods-besteffort.slice"
	const burst = "kubepods.slice/kubepods-burstable.slice"
	const enforced = "systemReserved: {cpu: 100m, memory: 1Gi, pid: '1000'}\nkubeReserved: {cpu: 960m, memory: 1019Mi}\nenforceNodeAllocatable: [pods, "
	reservedSystem := changes(
		property(kubepods, "MemoryMax", "1966809088", memoryMax, "1966809088"), property(kubepods, "TasksMax", "4193304", pidsMax, "4193304"),
		property("system.slice", "CPUWeight", "4", cpuWeight, "4"), property("system.slice", "TasksMax", "1000", pidsMax, "1000"),
	)
	return []fault{
		{"no limit of all pods", property(kubepods, "MemoryMax", "infinity", memoryMax, "max"), "node-limits", "kubepods.slice/memory.max"},
		{"a smaller limit of all pods", property(kubepods, "MemoryMax", "1073741824", memoryMax, "1073741824"), "node-limits", "kubepods.slice/memory.max"},
		{"the weight of all pods", property(kubepods, "CPUWeight", "100", cpuWeight, "100"), "node-limits", "kubepods.slice/cpu.weight"},
		{"no limit of processes", property(kubepods, "TasksMax", "infinity", pidsMax, "max"), "node-limits", "kubepods.slice/pids.max"},
		{"pods without CPU 1", property(kubepods, "AllowedCPUs", "0", cpusetCPUs, "0"), "node-limits", "kubepods.slice/cpuset.cpus"},
		{"a quota of all pods", property(kubepods, "CPUQuotaPerSecUSec", "1.500000s", cpuMax, "150000 100000"), "collective-limit", "kubepods.slice/cpu.max"},
		{"memory.high of all pods", property(kubepods, "MemoryHigh", "1073741824", memoryHigh, "1073741824"), "collective-limit", "kubepods.slice/memory.high"},
		{"a quota of burstable pods", property(burst, "CPUQuotaPerSecUSec", "1s", cpuMax, "100000 100000"), "collective-limit", "kubepods-burstable.slice/cpu.max"},
		{"a limit of burstable pods", property(burst, "MemoryMax", "1073741824", memoryMax, "1073741824"), "collective-limit", "kubepods-burstable.slice/memory.max"},
		{"memory.high of BestEffort pods", property(besteffort, "MemoryHigh", "4096", memoryHigh, "4096"), "collective-limit", "kubepods-besteffort.slice/memory.high"},
		{"processes of BestEffort pods", property(besteffort, "TasksMax", "100", pidsMax, "100"), "collective-limit", "kubepods-besteffort.slice/pids.max"},
		{"a partition's class with a limit", func(s *Facts) {
			s.Cgroups["kubepods.slice/kubepods-system.slice"] = Files{memoryMax: "67108864", cpuMax: "max 100000"}
			s.Cgroups["kubepods.slice/kubepods-system.slice/kubepods-system-burstable.slice"] = Files{memoryMax: "4096"}
		}, "collective-limit", "kubepods-system-burstable.slice/memory.max"},
		{"the weight of BestEffort pods", property(besteffort, "CPUWeight", "100", cpuWeight, "100"), "qos-weight", "kubepods-besteffort.slice/cpu.weight"},
		{"the weight of burstable pods", property(burst, "CPUWeight", "100", cpuWeight, "100"), "qos-weight", "kubepods-burstable.slice/cpu.weight"},
		{"a guaranteed pod without a limit", property(webSlice, "MemoryMax", "infinity", memoryMax, "max"), "pod-limits", "pod1_a.slice/memory.max"},
		{"a guaranteed pod without a quota", property(webSlice, "CPUQuotaPerSecUSec", "infinity", cpuMax, "max 100000"), "pod-limits", "pod1_a.slice/cpu.max"},
		{"a pod by the other formula", property(webSlice, "CPUWeight", "29", cpuWeight, "29"), "pod-limits", "pod1_a.slice/cpu.weight"},
		{"a burstable pod with another limit", property(appSlice, "MemoryMax", "33554432", memoryMax, "33554432"), "pod-limits", "pod2_b.slice/memory.max"},
		{"a burstable pod with a limit of its own making", property(agentSlice, "CPUQuotaPerSecUSec", "500ms", cpuMax, "50000 100000"), "pod-limits", "pod3_c.slice/cpu.max"},
		{"a BestEffort pod with a limit", property(batchSlice, "MemoryMax", "33554432", memoryMax, "33554432"), "pod-limits", "pod4_d.slice/memory.max"},
		{"a BestEffort pod with a weight", property(batchSlice, "CPUWeight", "100", cpuWeight, "100"), "pod-limits", "pod4_d.slice/cpu.weight"},
		{"processes of a pod", property(appSlice, "TasksMax", "50", pidsMax, "50"), "pod-limits", "pod2_b.slice/pids.max"},
		{"podPidsLimit of a pod", changes(
			kubelet(t, "podPidsLimit: 100"), property(webSlice, "TasksMax", "100", pidsMax, "100"), property(appSlice, "TasksMax", "100", pidsMax, "100"),
			property(agentSlice, "TasksMax", "100", pidsMax, "100"),
		), "pod-limits", "pod4_d.slice/pids.max"},
		{"a container without a limit", echo(webScope, memoryMax, "max"), "container-limits", "webweb.scope/memory.max"},
		{"a container with another quota", echo(appScope, cpuMax, "50000 100000"), "container-limits", "appapp.scope/cpu.max"},
		{"a container with a weight of no formula", echo(appScope, cpuWeight, "100"), "container-limits", "appapp.scope/cpu.weight"},
		{"a second writer of memory.max", echo("system.slice", memoryMax, "1073741824"), "second-writer", "system.slice/memory.max"},
		{"a second writer of kubepods.slice", echo(kubepods, memoryMax, "max"), "second-writer", "kubepods.slice/memory.max"},
		{"a second writer of a weight", echo("user.slice", cpuWeight, "50"), "second-writer", "user.slice/cpu.weight"},
		{"a second writer of a quota", echo(appSlice, cpuMax, "max 100000"), "second-writer", "pod2_b.slice/cpu.max"},
		{"a second writer of CPUs", echo("system.slice", cpusetCPUs, "0"), "second-writer", "system.slice/cpuset.cpus"},
		{"a second writer of swap", echo(batchSlice, swapMax, "0"), "second-writer", "pod4_d.slice/memory.swap.max"},
		{"systemd-oomd above the pods", func(s *Facts) { s.Units["-.slice"]["ManagedOOMSwap"], s.OomdActive = "kill", true }, "systemd-oomd", "-.slice: ManagedOOMSwap"},
		{"systemd-oomd, not running", func(s *Facts) { s.Units[kubepods]["ManagedOOMMemoryPressure"] = "kill" }, "systemd-oomd", "kubepods.slice: ManagedOOMMemoryPressure"},
		{"no overcommit", func(s *Facts) { s.Sysctls["vm.overcommit_memory"] = "0" }, "kernel-parameter", "/proc/sys/vm/overcommit_memory"},
		{"panic on OOM", func(s *Facts) { s.Sysctls["vm.panic_on_oom"] = "1" }, "kernel-parameter", "/proc/sys/vm/panic_on_oom"},
		{"no reboot", func(s *Facts) { s.Sysctls["kernel.panic"] = "0" }, "kernel-parameter", "/proc/sys/kernel/panic"},
		{"no panic", func(s *Facts) { s.Sysctls["kernel.panic_on_oops"] = "0" }, "kernel-parameter", "/proc/sys/kernel/panic_on_oops"},
		{"few keys", func(s *Facts) { s.Sysctls["kernel.keys.root_maxkeys"] = "200" }, "kernel-parameter", "/proc/sys/kernel/keys/root_maxkeys"},
		{"a kubelet that is killed first", func(s *Facts) { s.Processes[0].OOMScoreAdj = 0 }, "oom-score", "/proc/700/oom_score_adj"},
		{"a runtime like guaranteed pods", func(s *Facts) { s.Processes[1].OOMScoreAdj = -997 }, "oom-score", "/proc/600/oom_score_adj"},
		{"a container that is killed last", score(batchScope, -998), "oom-score", "/proc/904/oom_score_adj"},
		{"a burstable container", score(appScope, 1000), "oom-score", "/proc/902/oom_score_adj"},
		{"a kubelet in the system container", changes(reservedSystem, property("system.slice", "MemoryMax", "1073741824", memoryMax, "1073741824"),
			kubelet(t, enforced+"system-reserved]\nsystemReservedCgroup: /system.slice\n")), "kubelet-cgroup", "system.slice/kubelet.service"},
		{"a kubelet in systemCgroups", kubelet(t, "systemCgroups: /system.slice"), "kubelet-cgroup", "system.slice/kubelet.service"},
		{"a kubelet outside of its reservation", changes(kubelet(t, "kubeReserved: {cpu: 1060m, memory: 1019Mi}\nenforceNodeAllocatable: [pods, kube-reserved]\nkubeReservedCgroup: /kube"),
			func(s *Facts) { s.Cgroups["kube.slice"] = Files{cpuWeight: "42", memoryMax: "1068498944"} }), "kubelet-cgroup", "system.slice/kubelet.service"},
		{"a reserved cgroup that is missing", changes(kubelet(t, "kubeReserved: {cpu: 1060m, memory: 1019Mi}\nenforceNodeAllocatable: [pods, kube-reserved]\nkubeReservedCgroup: /a/b-c"),
			func(s *Facts) { s.Processes[0].Cgroup = "b.slice/b-c.slice/kubelet.service" }), "reserved-limits", "b.slice/b-c.slice"},
		{"a reserved cgroup without its limit", changes(reservedSystem, kubelet(t, enforced+"system-reserved]\nsystemReservedCgroup: /system.slice\n"),
			func(s *Facts) { s.Processes[0].Cgroup = "kubernetes.slice/kubelet.service" }), "reserved-limits", "system.slice/memory.max"},
		{"user pods on the partition's CPUs", changes(partitionOn("0"), on("0", agentScope)), "partition-cpus", "batchbatch.scope/cpuset.cpus.effective"},
		{"user pods assigned CPUs of the partition", changes(partitionOn("0"), kubelet(t, "cpuManagerPolicy: static\nreservedSystemCPUs: '1'"),
			on("0", agentScope, webScope), on("1", appScope, batchScope)), "partition-cpus", "webweb.scope/cpuset.cpus.effective"},
		{"no strict reservation", changes(partitionOn("0"), kubelet(t, staticCPU0), on("0", agentScope)), "partition-cpus", "cpuManagerPolicyOptions.strict-cpu-reservation"},
		{"no strict reservation beside an exclusive partition", changes(partitionOn("0"), exclusive, kubelet(t, staticCPU0), on("0", agentScope), on("1", webScope, appScope, batchScope)),
			"partition-cpus", "cpuManagerPolicyOptions.strict-cpu-reservation"},
		{"CPUs that are not reserved", changes(partitionOn("1"), kubelet(t, staticCPU0+"cpuManagerPolicyOptions: {strict-cpu-reservation: 'true'}"),
			on("1", agentScope), on("0", webScope, appScope, batchScope)), "partition-cpus", "reservedSystemCPUs"},
		{"exclusive CPUs that are not reserved", changes(partitionOn("1"), exclusive, kubelet(t, staticCPU0), on("1", agentScope), on("0", webScope, appScope, batchScope)),
			"partition-cpus", "reservedSystemCPUs"},
		{"a member with CPUs that idle", changes(partitionOn("0"), kubelet(t, staticCPU0+"cpuManagerPolicyOptions: {strict-cpu-reservation: 'true'}"),
			guaranteedMember, on("0", agentScope), on("1", appScope, batchScope)), "partition-cpus", "webweb.scope/cpuset.cpus"},
	}
}

// TestRunFaults puts in one fault after the other. Each is found once, and nothing else is.
// testdata/findings.txt has the findings as an operator sees them.
func TestRunFaults(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for _, f := range faults(t) {
		s := healthy(t)
		f.change(s)
		found := Run(s).Findings
		if len(found) != 1 || found[0].Rule != f.rule || !strings.HasSuffix(found[0].Path, f.path) {
			t.Errorf("%s: want one finding of %s at %s:", f.name, f.rule, f.path)
			for _, got := range found {
				t.Errorf("  %s: %s is %q; expected %q", got.Rule, got.Path, got.Value, got.Expected)
			}
			continue
		}
		got := found[0]
		for name, text := range map[string]string{"expectation": got.Expected, "reason": got.Why, "document": got.Document, "cure": got.Cure} {
			if text == "" && got.Rule != "second-writer" {
				t.Errorf("%s: no %s", f.name, name)
			}
		}
		fmt.Fprintf(&all, "%s\n  %s %s: %s is %q; expected %q\n  why: %s\n  see: %s\n  cure: %s\n\n", f.name, got.Severity, got.Rule, got.Path, got.Value, got.Expected, got.Why, got.Document, got.Cure)
	}
	const golden = "testdata/findings.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(golden); err != nil || string(want) != all.String() {
		t.Errorf("%s differs (%v); go test -update writes it. The findings are\n%s", golden, err, all.String())
	}
}

// TestPartitionCPUs: the rule has the same findings alone, from a snapshot with what it needs.
func TestPartitionCPUs(t *testing.T) {
	t.Parallel()
	rules := 0
	for _, f := range faults(t) {
		s := healthy(t)
		f.change(s)
		part := &Facts{
			Node: Node{CPUs: s.Node.CPUs}, Kubelet: s.Kubelet, Partitions: s.Partitions, Members: s.Members, Pods: s.Pods, PodsKnown: s.PodsKnown,
			Cgroups: map[string]Files{},
		}
		for cgroup := range s.Containers {
			part.Cgroups[cgroup] = Files{cpusetCPUs: s.Cgroups[cgroup][cpusetCPUs], effective: s.Cgroups[cgroup][effective]}
		}
		got := PartitionCPUs(part).Findings
		if f.rule != RulePartitionCPUs {
			if len(got) != 0 {
				t.Errorf("%s: %+v; want no finding of this rule", f.name, got)
			}
			continue
		}
		rules++
		if want := Run(s).Findings; !slices.Equal(got, want) {
			t.Errorf("%s: %+v; want %+v", f.name, got, want)
		}
	}
	if rules == 0 {
		t.Error("no fault is about this rule")
	}
}

// TestRunUnknown: what cannot be known is no finding.
func TestRunUnknown(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	always := v1.ContainerRestartPolicyAlways
	resizing := func(p *v1.Pod) {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizeInProgress, Status: v1.ConditionTrue}}
	}
	for name, c := range map[string]change{
		"no kubelet, wrong limits of all pods": changes(func(s *Facts) { s.Kubelet = nil }, property(kubepods, "MemoryMax", "infinity", memoryMax, "max"),
			property(kubepods, "CPUWeight", "100", cpuWeight, "100"), property(webSlice, "CPUQuotaPerSecUSec", "infinity", cpuMax, "max 100000")),
		"no pods, wrong limits of one": changes(func(s *Facts) { s.Pods, s.PodsKnown = nil, false }, property(webSlice, "MemoryMax", "infinity", memoryMax, "max")),
		"a pod that ends":              changes(pod("web", func(p *v1.Pod) { p.DeletionTimestamp = &now }), property(webSlice, "MemoryMax", "infinity", memoryMax, "max")),
		"a pod that is resized":        changes(pod("app", resizing), property(appSlice, "MemoryMax", "infinity", memoryMax, "max"), echo(appScope, memoryMax, "max")),
		"burstable pods that come and go": changes(pod("app", func(p *v1.Pod) { p.Status.Phase = v1.PodPending }),
			property("kubepods.slice/kubepods-burstable.slice", "CPUWeight", "12", cpuWeight, "12")),
		"a pod with claims": changes(pod("web", func(p *v1.Pod) { p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu"}} }),
			property(webSlice, "MemoryMax", "infinity", memoryMax, "max")),
		"another period of quotas": changes(kubelet(t, "cpuCFSQuotaPeriod: 10ms"), property(webSlice, "CPUQuotaPerSecUSec", "200ms", cpuMax, "2000 10000")),
		"CPUs of its own, without a quota": changes(kubelet(t, "cpuManagerPolicy: static\nreservedSystemCPUs: '0'"),
			property(webSlice, "CPUQuotaPerSecUSec", "infinity", cpuMax, "max 100000"), echo(webScope, cpuMax, "max 100000")),
		"quotas that are off": changes(kubelet(t, "cpuCFSQuota: false"),
			property(webSlice, "CPUQuotaPerSecUSec", "infinity", cpuMax, "max 100000"), echo(webScope, cpuMax, "max 100000"),
			property(appSlice, "CPUQuotaPerSecUSec", "infinity", cpuMax, "max 100000"), echo(appScope, cpuMax, "max 100000")),
		"memory of the classes by qosReserved": changes(kubelet(t, "qosReserved: {memory: 50%}"),
			property("kubepods.slice/kubepods-besteffort.slice", "MemoryMax", "4096", memoryMax, "4096")),
		"a sidecar's score": changes(pod("app", func(p *v1.Pod) { p.Spec.Containers[0].RestartPolicy = &always }), score(appScope, 5)),
		"a controller off":  func(s *Facts) { delete(s.Cgroups[kubepods], pidsMax) },
		"a unit that is gone": func(s *Facts) {
			s.Units["user.slice"]["ActiveState"] = "inactive"
			s.Cgroups["user.slice"][cpuWeight] = "5"
		},
		"a value of a new kind": func(s *Facts) {
			s.Units["user.slice"]["CPUWeight"] = "idle"
			s.Cgroups["user.slice"][cpuWeight] = "0"
		},
		"CPUs of the start": func(s *Facts) {
			s.Units["user.slice"]["StartupAllowedCPUs"] = "0"
			s.Cgroups["user.slice"][cpusetCPUs] = "0"
		},
		"a quota that systemd rounded up": changes(pod("app", func(p *v1.Pod) { p.Spec.Containers[0].Resources.Limits[v1.ResourceCPU] = resource.MustParse("255m") }),
			property(appSlice, "CPUQuotaPerSecUSec", "260ms", cpuMax, "25500 100000"), echo(appScope, cpuMax, "26000 100000")),
		"a limit between pages": changes(kubelet(t, "kubeReserved: {cpu: 1060m, memory: '1068498943'}"), property(kubepods, "MemoryMax", "3040550913", memoryMax, "3040550912")),
		"nothing enforced": changes(kubelet(t, "kubeReserved: {cpu: 1060m, memory: 1019Mi}\nenforceNodeAllocatable: [none]"),
			property(kubepods, "MemoryMax", "4109049856", memoryMax, "4109049856"), property(kubepods, "CPUWeight", "79", cpuWeight, "79")),
		"an old container's weight": echo(webScope, cpuWeight, "8"),
		"a partition with CPUs of its own": changes(partitionOn("0"), kubelet(t, staticCPU0+"cpuManagerPolicyOptions: {strict-cpu-reservation: 'true'}"),
			on("0", agentScope), on("1", webScope, appScope, batchScope)),
		"a partition without CPUs":         partitionOn(""),
		"a runtime that is killed earlier": func(s *Facts) { s.Processes[1].OOMScoreAdj = -998 },
		"a kubelet with another score":     changes(kubelet(t, "oomScoreAdj: -500"), func(s *Facts) { s.Processes[0].OOMScoreAdj = -500 }),
		"a static node-critical pod": changes(pod("batch", func(p *v1.Pod) {
			p.Spec.PriorityClassName, p.Annotations = "system-node-critical", map[string]string{"kubernetes.io/config.source": "file"}
		}), score(batchScope, -997)),
		"a node before its first kubelet": func(s *Facts) { *s = Facts{Sysctls: map[string]string{"kernel.panic": "0"}} },
	} {
		s := healthy(t)
		c(s)
		for _, f := range Run(s).Findings {
			t.Errorf("%s: %s: %s is %q; expected %q", name, f.Rule, f.Path, f.Value, f.Expected)
		}
	}
}

// TestRunNotChecked: a report says what it leaves out.
func TestRunNotChecked(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	s.Kubelet, s.PodsKnown = nil, false
	if got := Run(s).NotChecked; len(got) != 2 {
		t.Errorf("%q", got)
	}
}

// TestRunQuadraticKubelet: a kubelet with the other formula is as healthy, and the majority of
// weights shows which it has.
func TestRunQuadraticKubelet(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	for cgroup, weight := range map[string]string{
		kubepods: "96", "kubepods.slice/kubepods-burstable.slice": "49", webSlice: "29", appSlice: "17", agentSlice: "40",
	} {
		property(cgroup, "CPUWeight", weight, cpuWeight, weight)(s)
	}
	if report := Run(s); len(report.Findings) != 0 || report.Formulas.Kubelet != "quadratic" {
		t.Errorf("%+v", report)
	}
	property(kubepods, "CPUWeight", "37", cpuWeight, "37")(s)
	if found := Run(s).Findings; len(found) != 1 || found[0].Expected != "96" {
		t.Errorf("%+v", found)
	}
}

// TestParseSpan parses spans as systemctl prints them.
func TestParseSpan(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"500ms": 500_000, "1s": 1_000_000, "1.500000s": 1_500_000, "1min 4s": 64_000_000, "1h 2min 500us": 3_720_000_500, "1d": 86_400_000_000,
		"": -1, "infinity": -1, "5": -1, "ms": -1, "1s x": -1, "-1s": -1, "99999999999s": -1,
	} {
		got, ok := parseSpan(text)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%q is %d, want %d", text, got, want)
		}
	}
}

// TestQuota: the file has the exact quota, or the whole percent that runc has rounded it up to.
func TestQuota(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		milli quota
		text  string
		want  bool
	}{
		{125, "12500 100000", true}, {125, "13000 100000", true}, {125, "14000 100000", false}, {125, "12000 100000", false},
		{125, "max 100000", false}, {5, "1000 100000", true}, {2000, "200000 100000", true}, {125, "nonsense", true}, {125, "1 0", true},
	} {
		if got := test.milli.equal(test.text); got != test.want {
			t.Errorf("%q for %dm: %t, want %t", test.text, test.milli, got, test.want)
		}
	}
}
