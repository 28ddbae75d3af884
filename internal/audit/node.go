package audit

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/utils/cpuset"

	"nodepartition/internal/cpuweight"
	"nodepartition/internal/unitname"
)

// enforces reports whether enforceNodeAllocatable contains a value. Its default is pods alone
// (SetDefaults_KubeletConfiguration, pkg/kubelet/apis/config/v1beta1/defaults.go).
func (k *Kubelet) enforces(what string) bool {
	if k.EnforceNodeAllocatable == nil {
		return what == "pods"
	}
	return slices.Contains(k.EnforceNodeAllocatable, what)
}

// left returns an amount without the reservations of both, never negative
// (getNodeAllocatableAbsoluteImpl, pkg/kubelet/cm/node_container_manager_linux.go). The eviction
// threshold is not a part of it. If Node Allocatable is not enforced, the whole capacity is left.
func (k *Kubelet) left(capacity int64, of func(Amounts) *int64) int64 {
	if !k.enforces("pods") {
		return capacity
	}
	for _, reserved := range []Amounts{k.KubeReserved, k.SystemReserved} {
		if amount := of(reserved); amount != nil {
			capacity -= *amount
		}
	}
	return max(capacity, 0)
}

func milliCPU(a Amounts) *int64    { return a.MilliCPU }
func memoryBytes(a Amounts) *int64 { return a.MemoryBytes }
func pids(a Amounts) *int64        { return a.PIDs }

// allocatableShares returns the CPU shares of kubepods.slice.
func (a *audit) allocatableShares() (uint64, bool) {
	if a.Kubelet == nil {
		return 0, false
	}
	return cpuweight.SharesOfMilliCPU(a.Kubelet.left(a.Node.MilliCPU, milliCPU)), true
}

// nodeLimits checks kubepods.slice (getCgroupConfig,
// pkg/kubelet/cm/node_container_manager_linux.go).
func (a *audit) nodeLimits() {
	a.allCPUs()
	k := a.Kubelet
	if k == nil {
		return
	}
	memory := uint64(k.left(a.Node.MemoryBytes, memoryBytes))
	a.expect(limit{kubepods, memoryMax, byteLimit{memoryMax, memory, a.Node.PageSize}, Error,
		fmt.Sprintf("the limit of all pods is the memory of the node, %d bytes, without kubeReserved and systemReserved%s: "+
			"it keeps pods from the memory of the node's services", a.Node.MemoryBytes, k.notEnforced()),
		docReserve})
	milli := k.left(a.Node.MilliCPU, milliCPU)
	a.expect(limit{kubepods, cpuWeight, a.weight(cpuweight.SharesOfMilliCPU(milli)), Error,
		fmt.Sprintf("pods weigh as the CPU that is left for them, %dm, by the %s formula%s; by this weight they share the CPU with system.slice",
			milli, a.formula.Name, k.notEnforced()),
		docWeight})
	if a.Node.PIDs > 0 {
		a.expect(limit{kubepods, pidsMax, count{pidsMax, uint64(k.left(a.Node.PIDs, pids))}, Error,
			fmt.Sprintf("all pods may have the processes of the node, %d, without pid of kubeReserved and systemReserved%s", a.Node.PIDs, k.notEnforced()),
			docPIDs})
	}
}

func (k *Kubelet) notEnforced() string {
	if k.enforces("pods") {
		return ""
	}
	return " (enforceNodeAllocatable does not have pods: nothing is reserved)"
}

// allCPUs checks that pods have all CPUs. The kubelet writes all, or none, which is all. It keeps
// reserved CPUs from containers, and not from the slice.
func (a *audit) allCPUs() {
	set, err := cpuset.Parse(a.Cgroups[kubepods][cpusetCPUs])
	if err != nil || set.IsEmpty() || a.Node.CPUs.IsSubsetOf(set) {
		return
	}
	a.expect(limit{kubepods, cpusetCPUs, cpus(a.Node.CPUs), Error,
		"pods have all CPUs of the node. The CPU manager keeps reserved CPUs from containers, and not from this slice", docCPUs})
}

// collectiveLimits checks that groups of pods have no limits beyond the memory limit of all pods. A
// limit of a group throttles, or kills, a pod for what its neighbours use.
func (a *audit) collectiveLimits() {
	const why = "the kubelet limits no group of pods, so that no pod is throttled or killed for what its neighbours use. " +
		"Each pod has its own limits, and weights divide what is left"
	for cgroup, files := range unlimitedFiles(a.Names) {
		for _, name := range files {
			// qosReserved has the kubelet limit the memory of the classes (QOSReserved, alpha).
			if name == memoryMax && (a.Kubelet == nil || len(a.Kubelet.QOSReserved) > 0) {
				continue
			}
			a.expect(limit{cgroup, name, none(name), warning, why, docQoS})
		}
	}
}

// unlimitedFiles returns the files of groups of pods that have no limit. The section of a
// partition may limit its memory.
func unlimitedFiles(partitions []unitname.PartitionName) map[string][]string {
	all := map[string][]string{
		kubepods:   {cpuMax, memoryHigh},
		burstable:  {cpuMax, memoryMax, memoryHigh, pidsMax},
		bestEffort: {cpuMax, memoryMax, memoryHigh, pidsMax},
	}
	for _, partition := range partitions {
		for _, slice := range partition.Slices() {
			all[unitname.CgroupPath(slice)] = []string{cpuMax, memoryMax, pidsMax}
		}
		all[unitname.CgroupPath(partition.Slice())] = []string{cpuMax, pidsMax}
	}
	return all
}

// qosWeights checks the weights of the classes (setCPUCgroupConfig,
// pkg/kubelet/cm/qos_container_manager_linux.go).
func (a *audit) qosWeights() {
	a.expect(limit{bestEffort, cpuWeight, a.weight(cpuweight.MinShares), warning,
		"pods without requests have the least weight, and get the CPU time that others leave", docQoS})
	if shares, ok := a.burstableShares(); ok {
		a.expect(limit{burstable, cpuWeight, a.weight(shares), warning,
			fmt.Sprintf("the burstable pods weigh as the sum of their CPU requests, %d shares by the %s formula. The kubelet writes it every minute",
				shares, a.formula.Name), docQoS})
	}
}

// burstableShares returns the CPU shares of the burstable pods. It is not known while pods come and
// go: the kubelet counts each pod until it has ended, and writes the sum without it up to a minute
// later (periodicQOSCgroupUpdateInterval, pkg/kubelet/cm/qos_container_manager_linux.go).
func (a *audit) burstableShares() (uint64, bool) {
	if !a.PodsKnown {
		return 0, false
	}
	sum := int64(0)
	for _, pod := range a.Pods {
		switch {
		case pod.Status.QOSClass != unitname.Burstable, ended(pod) && a.Time.Sub(endedAt(pod).Time) > endIsWritten:
			continue
		case !isSettled(pod):
			return 0, false
		}
		sum += podResources(pod).milliCPU
	}
	return cpuweight.SharesOfMilliCPU(sum), true
}

// endIsWritten is the time in nanoseconds after which the kubelet has written the weight of the
// burstable pods without a pod that has ended: a minute, and one more on a busy node.
const endIsWritten = 120_000_000_000

// reservedSlices checks the cgroups that the kubelet limits for the services of the node
// (enforceExistingCgroup, pkg/kubelet/cm/node_container_manager_linux.go).
func (a *audit) reservedSlices() {
	k := a.Kubelet
	if k == nil {
		return
	}
	for _, r := range []struct {
		enforcement, field, name string
		amounts                  Amounts
	}{
		{"kube-reserved", "kubeReserved", k.KubeReservedCgroup, k.KubeReserved},
		{"system-reserved", "systemReserved", k.SystemReservedCgroup, k.SystemReserved},
	} {
		whole, part := k.enforces(r.enforcement), k.enforces(r.enforcement+"-compressible")
		if r.name == "" || !whole && !part {
			continue
		}
		cgroup := reservedCgroup(r.name)
		if a.Cgroups[cgroup] == nil {
			a.add(Finding{
				Severity: Error, Path: file(cgroup, ""), Value: "missing", Expected: "a cgroup",
				Why:      fmt.Sprintf("enforceNodeAllocatable has %s, and %sCgroup names this cgroup: the kubelet does not start again without it", r.enforcement, r.field),
				Document: docReserve, Cure: "systemctl daemon-reload && systemctl start slices.target",
			})
			continue
		}
		why := fmt.Sprintf("enforceNodeAllocatable has %s: the cgroup has the amounts of %s", r.enforcement, r.field)
		if amount := r.amounts.MilliCPU; amount != nil {
			a.expect(limit{cgroup, cpuWeight, a.weight(cpuweight.SharesOfMilliCPU(*amount)), warning, why, docReserve})
		}
		if amount := r.amounts.MemoryBytes; amount != nil && whole && *amount > 0 {
			a.expect(limit{cgroup, memoryMax, byteLimit{memoryMax, uint64(*amount), a.Node.PageSize}, Error, why, docReserve})
		}
		if amount := r.amounts.PIDs; amount != nil && whole && *amount > 0 {
			a.expect(limit{cgroup, pidsMax, count{pidsMax, uint64(*amount)}, Error, why, docReserve})
		}
	}
}

// reservedCgroup converts the name of a reserved cgroup as the kubelet's systemd driver does: by
// its last part alone (ParseSystemdToCgroupName, pkg/kubelet/cm/cgroup_manager_linux.go).
func reservedCgroup(name string) string {
	return unitname.CgroupPath(strings.TrimSuffix(path.Base(name), ".slice") + ".slice")
}
