package budget

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/text"
)

// staticPolicy is the CPU manager policy that assigns CPUs to containers exclusively.
const staticPolicy = "static"

// staticMemory is the memory manager policy with which the kubelet compares reservedMemory with the
// sum of kubeReserved, systemReserved and evictionHard. It does not start if they differ.
const staticMemory = "Static"

// warnings returns the figures of a budget that cannot work together, and sets Short. Sums
// with which the kubelet does not start come first.
func warnings(in *Input, b *Budget, reserved cpuset.CPUSet, over []v1.ResourceName) []string {
	w := make(remarks, 0, len(in.Partitions))
	w.reservations(b, over)
	w.enforced(&in.Kubelet, b)
	for i := range in.Partitions {
		w.cpus(in, b, &b.Partitions[i], reserved)
		w.memory(&b.Partitions[i])
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

// enforced warns of limits that the kubelet sets for services of the node.
func (w *remarks) enforced(k *Kubelet, b *Budget) {
	for _, s := range []struct {
		enforce, cgroup string
		memory          int64
	}{
		{"kube-reserved", k.KubeReservedCgroup, b.KubeReserved.MemoryBytes},
		{"system-reserved", k.SystemReservedCgroup, b.SystemReserved.MemoryBytes},
	} {
		if k.enforces(s.enforce) && s.cgroup != "" && s.memory > 0 {
			w.add("enforceNodeAllocatable has %s: the kubelet sets memory.max of %s to %s, and the kernel kills services "+
				"there at that limit; %s-compressible limits CPU alone", s.enforce, s.cgroup, text.RoundBytes(s.memory), s.enforce)
		}
	}
}

// cpus warns of CPUs of the partition that are not kept for the system. The scheduler counts them,
// also where no other pod runs on them.
func (w *remarks) cpus(in *Input, b *Budget, p *Partition, reserved cpuset.CPUSet) {
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
	case b.KubeReserved.MilliCPU+b.SystemReserved.MilliCPU >= milli(cpus):
	case p.Advertised:
		w.add("%s.cpuset: CPU %s is allocatable, and pods can request it in the resource of the workload type, too: "+
			"other pods get less CPU time than they request; want it in reservedSystemCPUs, or advertise: false",
			p.Section, cpus)
	default:
		others := "and they run there too"
		if p.Exclusive {
			others = "which are kept off it"
		}
		w.add("%s.cpuset: the scheduler promises CPU %s to user pods, %s; want it in reservedSystemCPUs", p.Section, cpus, others)
	}
}

// memory warns of a memoryLimit that the members do not fit into.
func (w *remarks) memory(p *Partition) {
	limit := p.MemoryBytes
	if limit == 0 {
		return
	}
	if used := p.BelowUse(); used != "" {
		w.add("%s", used)
	}
	if m := p.Members; m != nil {
		if m.MemoryRequestBytes > limit {
			w.add("%s.memoryLimit of %s is below the requests of its %d pods, %s: "+
				"pods are evicted that use no more than they request",
				p.Section, text.RoundBytes(limit), m.Pods, text.RoundBytes(m.MemoryRequestBytes))
		}
		if m.MemoryLimitBytes > limit {
			w.add("%s.memoryLimit of %s is below the sum of the memory limits of its pods, %s "+
				"(%d of %d pods have none): pods may be evicted below their own limits",
				p.Section, text.RoundBytes(limit), text.RoundBytes(m.MemoryLimitBytes), m.Unlimited, m.Pods)
		}
	}
}

// BelowUse warns of a memoryLimit below what the members use now, wherever they are. It is empty if
// there is nothing to warn of, or the members are not known.
func (p *Partition) BelowUse() string {
	m := p.Members
	if p.MemoryBytes == 0 || m == nil || m.MemoryUsedBytes+p.Threshold <= p.MemoryBytes {
		return ""
	}
	return fmt.Sprintf("%s.memoryLimit of %s, with a threshold of %s, is below what its %d pods use now, %s: "+
		"pods are evicted as they come into the partition; want more (partition-monitor recommend)",
		p.Section, text.RoundBytes(p.MemoryBytes), text.RoundBytes(p.Threshold), m.Pods, text.RoundBytes(m.MemoryUsedBytes))
}

// short warns of partitions that leave user pods less than a tenth of the memory, or no CPU.
func short(in *Input, b *Budget, reserved cpuset.CPUSet) []string {
	var w remarks
	var limits int64
	var limited, placed []string
	cpus := cpuset.New()
	for i := range in.Partitions {
		p := &in.Partitions[i]
		if p.MemoryBytes > 0 {
			limited = append(limited, p.Section+".memoryLimit")
			limits += p.MemoryBytes
		}
		if !p.CPUs.IsEmpty() {
			placed = append(placed, p.Section+".cpuset")
			cpus = cpus.Union(p.CPUs)
		}
	}
	if left := b.Remainder.MemoryBytes; limits > 0 && left < b.Capacity.MemoryBytes/10 {
		w.add("%s: %s leaves %s of the node's %s for user pods, with reservations and the eviction threshold: less than 10 %%; "+
			"want less", strings.Join(limited, ", "), text.RoundBytes(limits), text.RoundBytes(left),
			text.RoundBytes(b.Capacity.MemoryBytes))
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
	const mebi = 1 << 20
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
		services = fmt.Sprintf(" in addition to the %s that services of the node use", text.RoundBytes(in.HostBytes))
	}
	// The static memory manager compares the sums (validateReservedMemory,
	// pkg/kubelet/cm/memorymanager).
	raise := "systemReserved"
	if in.Kubelet.MemoryManagerPolicy == staticMemory {
		raise = "systemReserved and reservedMemory"
	}
	w.add("kubeReserved and systemReserved, %s of memory, do not include the %s%s: the scheduler promises %s of "+
		"%s memoryLimit to user pods too; raise %s by %s, or accept that user pods have less than promised",
		text.RoundBytes(reserved), partition, services, text.RoundBytes(share), its, raise,
		text.RoundBytes((share+in.HostBytes-reserved+mebi-1)/mebi*mebi))
}
