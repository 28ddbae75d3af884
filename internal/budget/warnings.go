package budget

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/bytesize"
	"node-partition.io/node-partition/internal/quantity"
)

// staticPolicy is the CPU manager policy that assigns CPUs to containers exclusively.
const staticPolicy = "static"

// staticMemory is the memory manager policy with which the kubelet compares reservedMemory with the
// sum of kubeReserved, systemReserved and evictionHard. It does not start if they differ.
const staticMemory = "Static"

// warnings returns the figures of a budget that cannot work together, and sets Short. Figures
// with which the kubelet does not start come first.
func warnings(in *Input, b *Budget, reserved cpuset.CPUSet, over []v1.ResourceName) []string {
	w := make(remarks, 0, len(in.Partitions))
	w.reservations(b, over)
	w.kubelet(in, b, reserved)
	for i := range in.Partitions {
		w.cpus(in, b, &in.Partitions[i], reserved)
		w.memory(&in.Partitions[i])
	}
	b.Short = short(in, b, reserved)
	w = append(w, b.Short...)
	w.forgotten(in, b)
	return w
}

// remarks collects warnings.
type remarks []string

func (w *remarks) add(format string, args ...any) { *w = append(*w, fmt.Sprintf(format, args...)) }

// reservations warns of more reservations than there is capacity.
func (w *remarks) reservations(b *Budget, over []v1.ResourceName) {
	for _, name := range over {
		w.add("kubeReserved, systemReserved and evictionHard take more %s than the node has: "+
			"the kubelet does not start", name)
	}
	if b.Allocatable.MemoryBytes == 0 && len(over) == 0 {
		w.add("no memory is allocatable: huge pages and reservations take all of it")
	}
}

// kubelet warns of settings that the kubelet refuses (ValidateKubeletConfiguration,
// pkg/kubelet/apis/config/validation; getReservedCPUs, cmd/kubelet/app/server.go; NewManager,
// pkg/kubelet/cm/cpumanager), and of limits that it sets for services of the node.
func (w *remarks) kubelet(in *Input, b *Budget, reserved cpuset.CPUSet) {
	k := &in.Kubelet
	if k.ReservedSystemCPUs != "" && (k.KubeReservedCgroup != "" || k.SystemReservedCgroup != "") {
		w.add("reservedSystemCPUs is set together with kubeReservedCgroup or systemReservedCgroup: " +
			"the kubelet does not start; remove one of them")
	}
	if missing := reserved.Difference(in.CPUs); !missing.IsEmpty() {
		w.add("reservedSystemCPUs: the node has no CPU %s: the kubelet does not start; want CPUs of %s", missing, in.CPUs)
	}
	if k.CPUManagerPolicy == staticPolicy && b.KubeReserved.MilliCPU+b.SystemReserved.MilliCPU == 0 {
		w.add("cpuManagerPolicy is static and no CPU is reserved: the kubelet does not start; set reservedSystemCPUs")
	}
	for _, signal := range unknownSignals(k.EvictionHard) {
		w.add("evictionHard: %s is not a signal of a kubelet 1.37, which does not start with it; want %s",
			signal, strings.Join(signals, ", "))
	}
	for _, signal := range slices.Sorted(maps.Keys(k.EvictionSoft)) {
		if _, ok := k.EvictionSoftGracePeriod[signal]; !ok {
			w.add("evictionSoft: %s has no grace period: the kubelet does not start; add it to evictionSoftGracePeriod", signal)
		}
	}
	w.enforced(k)
	w.reservedMemory(in, b)
	for _, s := range []struct {
		enforce, list, cgroup string
		amounts               map[string]string
		memory                int64
	}{
		{"kube-reserved", "kubeReserved", k.KubeReservedCgroup, k.KubeReserved, b.KubeReserved.MemoryBytes},
		{"system-reserved", "systemReserved", k.SystemReservedCgroup, k.SystemReserved, b.SystemReserved.MemoryBytes},
	} {
		switch whole, part := k.enforces(s.enforce), k.enforces(s.enforce+"-compressible"); {
		case !whole && !part:
		case whole && part:
			w.add("enforceNodeAllocatable has %s and %[1]s-compressible: the kubelet does not start; remove one of them", s.enforce)
		case s.cgroup == "":
			w.add("enforceNodeAllocatable has %s, and %sCgroup is not set: the kubelet does not start", s.enforce, s.list)
		case len(s.amounts) == 0: // enforceExistingCgroup, pkg/kubelet/cm
			w.add("enforceNodeAllocatable has %s, and %s is empty: the kubelet does not start", s.enforce, s.list)
		case whole && s.memory > 0:
			w.add("enforceNodeAllocatable has %s: the kubelet sets memory.max of %s to %s, and the kernel kills services "+
				"there at that limit; %s-compressible limits CPU alone", s.enforce, s.cgroup, bytesize.Round(s.memory), s.enforce)
		}
	}
}

// enforced warns of values of enforceNodeAllocatable that the kubelet refuses
// (ValidateKubeletConfiguration). The combinations of reservations have separate warnings.
func (w *remarks) enforced(k *Kubelet) {
	const field = "enforceNodeAllocatable"
	values := k.EnforceNodeAllocatable
	if values == nil {
		values = []string{"pods"} // SetDefaults_KubeletConfiguration, v1beta1/defaults.go
	}
	seen := map[string]bool{}
	for _, value := range values {
		switch {
		case seen[value]:
			w.add("%s has %s twice: the kubelet does not start; remove one of them", field, value)
		case !slices.Contains(enforceable, value):
			w.add("%s has %q, which no kubelet knows: it does not start; want %s", field, value, strings.Join(enforceable, ", "))
		case value == enforceNone && len(values) > 1:
			w.add("%s has none together with other values: the kubelet does not start; remove it, or the others", field)
		case value != enforceNone && k.CgroupsPerQOS != nil && !*k.CgroupsPerQOS:
			w.add("%s has %s, and cgroupsPerQOS is false: the kubelet does not start; want cgroupsPerQOS: true, or none alone",
				field, value)
		}
		seen[value] = true
	}
}

// enforceNone switches enforcement off.
const enforceNone = "none"

// enforceable lists the values of enforceNodeAllocatable (pkg/kubelet/types/constants.go).
var enforceable = []string{
	"pods", "kube-reserved", "kube-reserved-compressible", "system-reserved", "system-reserved-compressible", enforceNone,
}

// reservedMemory warns of reservations of the static memory manager that differ from the node's
// reservations (validateReservedMemory, pkg/kubelet/cm/memorymanager/memory_manager.go).
func (w *remarks) reservedMemory(in *Input, b *Budget) {
	k := &in.Kubelet
	if k.MemoryManagerPolicy != staticMemory || in.IgnoreReservedMemory {
		return
	}
	var sum resource.Quantity
	for _, node := range k.ReservedMemory {
		raw, ok := node.Limits[string(v1.ResourceMemory)]
		if !ok {
			continue
		}
		text := strings.Trim(string(raw), `"`)
		q, err := quantity.Parse(text)
		if err != nil {
			w.add("reservedMemory: %q %v: the kubelet does not start with it", text, err)
			return
		}
		sum.Add(q)
	}
	want := b.KubeReserved.MemoryBytes + b.SystemReserved.MemoryBytes + b.EvictionThreshold.MemoryBytes
	if sum.CmpInt64(want) != 0 {
		w.add("memoryManagerPolicy is Static, and the memory of reservedMemory is %s: the kubelet does not start; want %s, "+
			"the sum of kubeReserved, systemReserved and evictionHard", sum.String(), resource.NewQuantity(want, resource.BinarySI))
	}
}

// cpus warns of CPUs of the partition that are not kept for the system. The scheduler counts them,
// also where no other pod runs on them.
func (w *remarks) cpus(in *Input, b *Budget, p *Share, reserved cpuset.CPUSet) {
	cpus := p.CPUs
	switch outside := cpus.Difference(reserved); {
	case outside.IsEmpty():
	case !reserved.IsEmpty():
		others := "user pods run there too"
		if p.Exclusive {
			others = "the scheduler promises it to user pods, which are kept off it"
		}
		w.add("%s.cpuset: CPU %s is not one of reservedSystemCPUs, %s: %s; want a part of those",
			p.Section, outside, reserved, others)
	case in.Kubelet.CPUManagerPolicy == staticPolicy:
		w.add("%s.cpuset is %s, and reservedSystemCPUs is not set: the static CPU manager selects the reserved "+
			"CPUs itself, and may assign those of the partition to containers exclusively; add %[2]s to reservedSystemCPUs",
			p.Section, cpus)
	case p.Advertised && b.KubeReserved.MilliCPU+b.SystemReserved.MilliCPU < 1000*int64(cpus.Size()):
		w.add("%s.cpuset: CPU %s is allocatable, and pods can request it in the resource of the workload type, too: "+
			"other pods get less CPU time than they request; want it in reservedSystemCPUs, or advertise: false",
			p.Section, cpus)
	}
}

// memory warns of a memoryLimit that the members do not fit into.
func (w *remarks) memory(p *Share) {
	limit := p.MemoryLimit
	if limit == 0 {
		return
	}
	if m := p.Members; m != nil {
		if m.MemoryRequestBytes > limit {
			w.add("%s.memoryLimit of %s is below the requests of its %d pods, %s: "+
				"pods are evicted that use no more than they request",
				p.Section, bytesize.Round(limit), m.Pods, bytesize.Round(m.MemoryRequestBytes))
		}
		if m.MemoryLimitBytes > limit {
			w.add("%s.memoryLimit of %s is below the sum of the memory limits of its pods, %s "+
				"(%d of %d pods have none): pods may be evicted below their own limits",
				p.Section, bytesize.Round(limit), bytesize.Round(m.MemoryLimitBytes), m.Unlimited, m.Pods)
		}
	}
}

// short warns of partitions that leave user pods less than a tenth of the memory, or no CPU.
func short(in *Input, b *Budget, reserved cpuset.CPUSet) []string {
	var w remarks
	var limits int64
	var limited, placed []string
	cpus := cpuset.New()
	for i := range in.Partitions {
		p := &in.Partitions[i]
		if p.MemoryLimit > 0 {
			limited = append(limited, p.Section+".memoryLimit")
			limits += p.MemoryLimit
		}
		if !p.CPUs.IsEmpty() {
			placed = append(placed, p.Section+".cpuset")
			cpus = cpus.Union(p.CPUs)
		}
	}
	if left := b.Remainder.MemoryBytes; limits > 0 && left < b.Capacity.MemoryBytes/10 {
		w.add("%s: %s leaves %s of the node's %s for user pods, with reservations and the eviction threshold: less than 10 %%; "+
			"want less", strings.Join(limited, ", "), bytesize.Round(limits), bytesize.Round(left),
			bytesize.Round(b.Capacity.MemoryBytes))
	}
	if !cpus.IsEmpty() && in.CPUs.IsSubsetOf(cpus.Union(reserved)) {
		w.add("%s: %s leaves user pods none of the node's CPUs %s for themselves; want fewer, or no cpuset",
			strings.Join(placed, ", "), cpus, in.CPUs)
	}
	return w
}

// forgotten warns if the reservations cannot include the partition. The kubelet does not subtract
// memoryLimit from Node Allocatable (KEP-5894, alpha), so the scheduler promises to user pods the
// part of it that members do not request. By the KEP the administrator accounts for that part in
// kubeReserved and systemReserved, or accepts that user pods have less. A reservation has no label:
// whether it includes the partition is not to be seen. It certainly does not if it is smaller than
// that part and the memory that the services of the node use now.
func (w *remarks) forgotten(in *Input, b *Budget) {
	share := b.PromisedBytes
	reserved := b.KubeReserved.MemoryBytes + b.SystemReserved.MemoryBytes
	if share == 0 || reserved >= share+in.HostBytes {
		return
	}
	partition, its := "partition", "its"
	if len(in.Partitions) > 1 {
		partition, its = "partitions", "their"
	}
	services := ""
	if in.HostBytes > 0 {
		services = fmt.Sprintf(" in addition to the %s that services of the node use", bytesize.Round(in.HostBytes))
	}
	// The static memory manager compares the sums (validateReservedMemory,
	// pkg/kubelet/cm/memorymanager).
	raise := "systemReserved"
	if in.Kubelet.MemoryManagerPolicy == staticMemory {
		raise = "systemReserved and reservedMemory"
	}
	w.add("kubeReserved and systemReserved, %s of memory, do not include the %s%s: the scheduler promises %s of "+
		"%s memoryLimit to user pods too; raise %s by that, or accept that user pods have less than promised",
		bytesize.Round(reserved), partition, services, bytesize.Round(share), its, raise)
}
