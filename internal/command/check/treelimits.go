package check

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	pods "k8s.io/component-helpers/resource"
	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/cpuweight"
	"node-partition.io/node-partition/internal/unitname"
)

// The files of a cgroup that checks name.
const (
	cpuWeight     = "cpu.weight"
	cpuMax        = "cpu.max"
	memoryMax     = "memory.max"
	memoryHigh    = "memory.high"
	swapMax       = "memory.swap.max"
	pidsMax       = "pids.max"
	cpusetCPUs    = "cpuset.cpus"
	effectiveCPUs = "cpuset.cpus.effective"
)

// properties holds the settings of systemctl set-property by the name of the file that systemd
// writes (systemd.resource-control(5)).
var properties = map[string]string{
	cpuWeight: "CPUWeight", cpuMax: "CPUQuota", memoryMax: "MemoryMax", memoryHigh: "MemoryHigh", swapMax: "MemorySwapMax",
	pidsMax: "TasksMax", cpusetCPUs: "AllowedCPUs",
}

// The slices of all pods and of their classes.
var (
	kubepods   = unitname.Default.Slice()
	burstable  = unitname.CgroupPath(unitname.QoSSlice(unitname.Default, v1.PodQOSBurstable))
	bestEffort = unitname.CgroupPath(unitname.QoSSlice(unitname.Default, v1.PodQOSBestEffort))
)

// value is an expected value of a file: its texts, each of which is right, and what systemctl
// set-property takes.
type value struct {
	texts    []string
	property string
}

func number(n uint64) value {
	text := strconv.FormatUint(n, 10)
	return value{[]string{text}, text}
}

// byteLimit is a limit of memory, which the kernel rounds down to whole pages.
func byteLimit(bytes uint64) value {
	return value{number(wholePages(bytes)).texts, strconv.FormatUint(bytes, 10)}
}

// weight returns the weight of CPU shares by either formula: the kubelet up to 1.37 has the linear
// one, and newer runtimes the other.
func weight(shares uint64) value {
	linear, quadratic := number(cpuweight.Linear.Weight(shares)), number(cpuweight.Quadratic.Weight(shares))
	return value{slices.Compact([]string{linear.property, quadratic.property}), linear.property}
}

// unlimited is the absence of a limit in a file.
func unlimited(file string) value {
	if file == cpuMax {
		return value{[]string{"max"}, ""}
	}
	return value{[]string{"max"}, "infinity"}
}

// quota is a limit of CPU. The smallest is a millisecond (MinQuotaPeriod,
// pkg/kubelet/cm/helpers_linux.go). For systemd, runc rounds it up to a whole percent of a CPU, and
// the file has either (addCPUQuota, opencontainers/cgroups systemd/common.go).
func quota(milli int64) value {
	const period, least = 100_000, 1000
	micros := max(milli*period/1000, least)
	percent := (micros*100 + period - 1) / period
	return value{
		slices.Compact([]string{fmt.Sprintf("%d %d", micros, period), fmt.Sprintf("%d %d", percent*period/100, period)}),
		fmt.Sprintf("%d%%", percent),
	}
}

// expect adds a finding if a file of a cgroup does not have its value. A file that is missing is
// none.
func (t *tree) expect(cgroup, name string, want value, why string, args ...any) {
	text, ok := t.cgroups[cgroup][name]
	first, _, _ := strings.Cut(text, " ") // cpu.max has the period behind max
	if !ok || slices.Contains(want.texts, text) || first == "max" && slices.Contains(want.texts, first) {
		return
	}
	unit := path.Base(cgroup)
	t.add(fileOf(cgroup, name), text, strings.Join(want.texts, " or "),
		fmt.Sprintf("systemctl set-property --runtime %s %s=%s", unit, properties[name], want.property), why, args...)
}

// within reports whether a cgroup is another, or below it.
func within(cgroup, other string) bool {
	return cgroup == other || strings.HasPrefix(cgroup, other+"/")
}

// pidAmount returns the processes of a reservation.
func pidAmount(reserved map[string]string) int64 {
	q, err := resource.ParseQuantity(reserved["pid"])
	if err != nil {
		return 0
	}
	return q.Value()
}

// nodeLimits checks kubepods.slice (getCgroupConfig,
// pkg/kubelet/cm/node_container_manager_linux.go).
func (t *tree) nodeLimits() {
	s := t.settings
	memory := s.left(t.Capacity.MemoryBytes, t.KubeReserved.MemoryBytes, t.SystemReserved.MemoryBytes)
	t.expect(kubepods, memoryMax, byteLimit(memory),
		"all pods have the memory of the node, %d bytes, without kubeReserved and systemReserved where enforceNodeAllocatable has pods",
		t.Capacity.MemoryBytes)
	milli := s.left(t.Capacity.MilliCPU, t.KubeReserved.MilliCPU, t.SystemReserved.MilliCPU)
	t.expect(kubepods, cpuWeight, weight(cpuweight.SharesOfMilliCPU(int64(milli))),
		"pods weigh as the CPU that is left for them, %dm, relative to system.slice", milli)
	if t.pids > 0 {
		t.expect(kubepods, pidsMax, number(s.left(t.pids, pidAmount(s.KubeReserved), pidAmount(s.SystemReserved))),
			"all pods may have the processes of the node, %d, without pid of kubeReserved and systemReserved", t.pids)
	}
	if set, err := cpuset.Parse(t.cgroups[kubepods][cpusetCPUs]); err == nil && !set.IsEmpty() && !t.CPUs.IsSubsetOf(set) {
		t.expect(kubepods, cpusetCPUs, value{[]string{t.CPUs.String()}, t.CPUs.String()},
			"pods have all CPUs. The CPU manager keeps reserved CPUs from containers, and not from this slice")
	}
}

// collectiveLimits checks that groups of pods have no limits beyond the memory limit of all pods
// and of a partition. A limit of a group throttles, or kills, a pod for what its neighbours use.
func (t *tree) collectiveLimits() {
	groups := map[string][]string{
		kubepods:   {cpuMax, memoryHigh},
		burstable:  {cpuMax, memoryMax, memoryHigh, pidsMax},
		bestEffort: {cpuMax, memoryMax, memoryHigh, pidsMax},
	}
	for _, partition := range t.names {
		for _, slice := range partition.Slices() {
			groups[unitname.CgroupPath(slice)] = []string{cpuMax, memoryMax, pidsMax}
		}
		groups[unitname.CgroupPath(partition.Slice())] = []string{cpuMax, pidsMax}
	}
	for cgroup, files := range groups {
		for _, name := range files {
			// qosReserved has the kubelet limit the memory of the classes (QOSReserved, alpha).
			if name == memoryMax && (t.settings == nil || len(t.settings.QOSReserved) > 0) {
				continue
			}
			t.expect(cgroup, name, unlimited(name), "no group of pods has a limit, so that no pod is throttled or killed for what its "+
				"neighbours use. Each pod has its own limits, and weights divide what is left")
		}
	}
}

// reservedCgroup converts the name of a reserved cgroup as the kubelet's systemd driver does: by
// its last part alone (ParseSystemdToCgroupName, pkg/kubelet/cm/cgroup_manager_linux.go).
func reservedCgroup(name string) string {
	return unitname.CgroupPath(strings.TrimSuffix(path.Base(name), ".slice") + ".slice")
}

// reservedLimits checks the cgroups that the kubelet limits for the services of the node
// (enforceExistingCgroup, pkg/kubelet/cm/node_container_manager_linux.go). The check reserved
// reports one that is missing.
func (t *tree) reservedLimits() {
	s := t.settings
	for _, r := range []struct {
		enforcement, name string
		milli, bytes, pid int64
	}{
		{
			"kube-reserved", s.KubeReservedCgroup,
			t.KubeReserved.MilliCPU, t.KubeReserved.MemoryBytes, pidAmount(s.KubeReserved),
		},
		{
			"system-reserved", s.SystemReservedCgroup,
			t.SystemReserved.MilliCPU, t.SystemReserved.MemoryBytes, pidAmount(s.SystemReserved),
		},
	} {
		whole := s.enforces(r.enforcement)
		if r.name == "" || !whole && !s.enforces(r.enforcement+"-compressible") {
			continue
		}
		cgroup := reservedCgroup(r.name)
		why := "enforceNodeAllocatable has " + r.enforcement + ": the cgroup has the reserved amounts"
		if r.milli > 0 {
			t.expect(cgroup, cpuWeight, weight(cpuweight.SharesOfMilliCPU(r.milli)), "%s", why)
		}
		if whole && r.bytes > 0 {
			t.expect(cgroup, memoryMax, byteLimit(uint64(r.bytes)), "%s", why)
		}
		if whole && r.pid > 0 {
			t.expect(cgroup, pidsMax, number(uint64(r.pid)), "%s", why)
		}
	}
}

// isSettled reports whether the limits of a running pod are known: it is neither ending nor being
// resized, and uses no claims, which add to its resources.
func isSettled(pod *v1.Pod) bool {
	if pod.Status.Phase != v1.PodRunning || pod.DeletionTimestamp != nil ||
		len(pod.Spec.ResourceClaims) > 0 || pod.Status.QOSClass == "" {
		return false
	}
	return !slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return (c.Type == v1.PodResizePending || c.Type == v1.PodResizeInProgress) && c.Status == v1.ConditionTrue
	})
}

// declared returns the limit of a pod (ResourceConfigForPod, pkg/kubelet/cm/helpers_linux.go), 0
// for none. A pod has one if each of its containers, init containers too, has one, or if the pod
// itself has one.
func declared(pod *v1.Pod, name v1.ResourceName) resource.Quantity {
	lacks := func(c v1.Container) bool {
		q := c.Resources.Limits[name]
		return q.IsZero()
	}
	own := resource.Quantity{}
	if pod.Spec.Resources != nil {
		own = pod.Spec.Resources.Limits[name]
	}
	if own.IsZero() && slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), lacks) {
		return resource.Quantity{}
	}
	return pods.PodLimits(pod, pods.PodResourcesOptions{})[name]
}

// podLimits checks the slices that the kubelet has made for pods.
func (t *tree) podLimits() {
	for _, pod := range t.pods {
		if !isSettled(pod) {
			continue
		}
		cgroup := unitname.CgroupPath(unitname.PodSlice(unitname.Default, pod.Status.QOSClass, string(pod.UID)))
		name := pod.Namespace + "/" + pod.Name
		milli := int64(0)
		if pod.Status.QOSClass != v1.PodQOSBestEffort {
			requests := pods.PodRequests(pod, pods.PodResourcesOptions{})
			milli = requests.Cpu().MilliValue()
		}
		t.expect(cgroup, cpuWeight, weight(cpuweight.SharesOfMilliCPU(milli)), "the pod %s requests %dm of CPU, and weighs as that", name, milli)
		const why = "the pod %s has the sum of the limits of its containers, and no limit if one of them has none"
		memory, cpu := declared(pod, v1.ResourceMemory), declared(pod, v1.ResourceCPU)
		want := unlimited(memoryMax)
		if !memory.IsZero() {
			want = byteLimit(uint64(memory.Value()))
		}
		t.expect(cgroup, memoryMax, want, why, name)
		s := t.settings
		if s == nil {
			continue
		}
		// The kubelet writes no quota for a pod that may have CPUs for itself
		// (DisableCPUQuotaWithExclusiveCPUs, 1.33).
		otherPeriod := s.CPUCFSQuotaPeriod != "" && s.CPUCFSQuotaPeriod != "100ms"
		if !otherPeriod && (s.CPUManagerPolicy != static || pod.Status.QOSClass != v1.PodQOSGuaranteed) {
			want = unlimited(cpuMax)
			if !cpu.IsZero() && (s.CPUCFSQuota == nil || *s.CPUCFSQuota) {
				want = quota(cpu.MilliValue())
			}
			t.expect(cgroup, cpuMax, want, why, name)
		}
		want = unlimited(pidsMax)
		if s.PodPidsLimit != nil && *s.PodPidsLimit > 0 {
			want = number(uint64(*s.PodPidsLimit))
		}
		t.expect(cgroup, pidsMax, want, "podPidsLimit of the kubelet bounds the processes of each pod, %s too", name)
	}
}

// secondWriters compares numbers in files of slices with the properties that systemd keeps for
// them. systemd is the only writer of the cgroups of its units. Scopes are left out: those of
// containers are delegated to the runtime.
func (t *tree) secondWriters() {
	for cgroup, files := range t.cgroups {
		unit := t.units[path.Base(cgroup)]
		if !strings.HasSuffix(cgroup, ".slice") || unit["ActiveState"] != "active" {
			continue
		}
		for _, name := range []string{cpuWeight, memoryMax, memoryHigh, swapMax, pidsMax} {
			kept, want := unit[properties[name]], unlimited(name)
			n, err := strconv.ParseUint(kept, 10, 64)
			switch {
			case err == nil && (name == cpuWeight || name == pidsMax):
				want = number(n)
			case err == nil:
				want = byteLimit(n)
			case name == cpuWeight && kept == "[not set]":
				want = number(defaultWeight)
			case name == cpuWeight || kept != "infinity":
				continue // a value of a new kind
			}
			if text, ok := files[name]; ok && text != want.texts[0] {
				where := fileOf(cgroup, name)
				t.add(where, text, want.texts[0], "echo "+want.texts[0]+" > "+where, "systemd keeps %s=%s for %s, so another program has written "+
					"the file. systemd overwrites it, at the latest when a property changes", properties[name], kept, path.Base(cgroup))
			}
		}
	}
}

// defaultWeight is the kernel's cpu.weight of a cgroup without one.
const defaultWeight = 100

// kubeletCgroup checks that the kubelet is counted where its reservation is. A kubelet inside the
// cgroup of systemReserved uses up the reservation of other services, and is killed with them.
func (t *tree) kubeletCgroup() {
	s, cgroup := t.settings, strings.Trim(t.units[kubeletService]["ControlGroup"], "/")
	limited := func(enforcement, name string) string {
		if name == "" || !s.enforces(enforcement) && !s.enforces(enforcement+"-compressible") {
			return ""
		}
		return reservedCgroup(name)
	}
	system, kube := limited("system-reserved", s.SystemReservedCgroup), limited("kube-reserved", s.KubeReservedCgroup)
	if system == "" {
		system = strings.Trim(s.SystemCgroups, "/")
	}
	const change = "set SERVICES_SLICE=kubernetes.slice in /etc/default/node-partition, and kubeReservedCgroup: /kubernetes.slice " +
		"for the kubelet; then systemctl daemon-reload && systemctl restart " + kubeletService
	// The cgroup of kubeReserved may be below the cgroup of systemReserved.
	apart := kube != "" && within(cgroup, kube) && within(kube, system)
	switch where := fileOf(cgroup, ""); {
	case cgroup == "":
	case system != "" && within(cgroup, system) && !apart:
		t.add(where, kubeletService, "outside /"+system, change, "the cgroup of systemReserved is for other services, whose reservation the kubelet uses up")
	case kube != "" && !within(cgroup, kube):
		t.add(where, kubeletService, "in /"+kube, change, "enforceNodeAllocatable limits the cgroup of kubeReserved, and the kubelet is not in it")
	}
}

// The oom_score_adj of the kubelet and of runtimes (SetDefaults_KubeletConfiguration,
// v1beta1/defaults.go), and of guaranteed containers (pkg/kubelet/qos/policy.go).
const (
	defaultScore    = -999
	guaranteedScore = -997
)

// oomScores checks that the kernel kills kubelet and runtime after every container.
func (t *tree) oomScores() {
	for _, unit := range append([]string{kubeletService}, runtimeServices...) {
		pid := t.pidOf(unit)
		score, ok := t.scores[pid]
		expected := defaultScore
		if unit == kubeletService && t.settings != nil && t.settings.OOMScoreAdj != nil {
			expected = *t.settings.OOMScoreAdj
		}
		// The runtime has any value below the containers' values.
		if !ok || score == expected || unit != kubeletService && score < guaranteedScore {
			continue
		}
		change := fmt.Sprintf("echo %d > %s", expected, scoreFile(pid))
		if unit != kubeletService {
			change += fmt.Sprintf(" # until its next start; OOMScoreAdjust=%d in a drop-in of %s, or SERVICES_OOM_SCORE_ADJUST in "+
				"/etc/default/node-partition", expected, unit)
		}
		t.add(scoreFile(pid), strconv.Itoa(score), strconv.Itoa(expected), change,
			"%s: the kernel kills it after every container, and guaranteed containers have %d", unit, guaranteedScore)
	}
}
