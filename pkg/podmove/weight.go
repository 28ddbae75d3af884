package podmove

import (
	"maps"
	"slices"

	"github.com/opencontainers/cgroups"
	v1 "k8s.io/api/core/v1"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/unitname"
)

// Formula converts CPU shares, 2 to 262144, into a cpu.weight, 1 to 10000. Two formulas are in use.
// Siblings share CPU in the ratio of their weights, and the siblings of the partition's slices are
// slices that the kubelet writes. So the kubelet's formula counts, and not that of the runtime,
// which writes containers.
type Formula struct {
	// Name is for people: linear or quadratic.
	Name string
	// Weight converts.
	Weight func(shares uint64) uint64
}

var (
	// Linear is the older formula, which converts one CPU to 39: the kubelet up to 1.37.0
	// (getCPUWeight, pkg/kubelet/cm/cgroup_manager_linux.go), runc before 1.3.2, crun before 1.23.
	Linear = Formula{"linear", func(shares uint64) uint64 { return 1 + (max(shares, minShares)-minShares)*9999/262142 }}
	// Quadratic is the newer formula, which converts one CPU to 100, the kernel's default
	// (opencontainers/cgroups 0.0.3; the Kubernetes blog of January 2026 explains why).
	Quadratic = Formula{"quadratic", cgroups.ConvertCPUSharesToCgroupV2Value}
)

const (
	minShares = 2      // MinShares, pkg/kubelet/cm/helpers_linux.go
	maxShares = 262144 // MaxShares, same file
)

// SharesOfMilliCPU converts a CPU request in thousandths of a CPU as the kubelet does
// (MilliCPUToShares, pkg/kubelet/cm/helpers_linux.go): no request is the minimum.
func SharesOfMilliCPU(milli int64) uint64 {
	milli = min(max(milli, 0), maxShares*1000/1024)
	return max(uint64(milli)*1024/1000, minShares)
}

// kubeletFormula returns the formula by which the kubelet has written the slices of pods, which
// exist before their containers. It returns the present formula if a pod's slice has the weight
// that this gives, or if no slice distinguishes the two: without requests both formulas give the
// minimum, and in the middle of a resize the slice has neither weight. So a node with slices of two
// kubelets keeps to one formula.
//
// If the kubelet does not report the requests, they are an approximation and distinguish nothing.
// Kubelets that cannot report them, before 1.37, have the linear formula.
func kubeletFormula(pods []Pod, present Formula) Formula {
	found := present
	for _, pod := range pods {
		if !pod.DefaultCgroup.Exists || pod.Kubelet == nil || pod.Kubelet.Terminating {
			continue
		}
		shares, weight := SharesOfMilliCPU(pod.MilliCPU), pod.DefaultCgroup.Limits.CPUWeight
		for _, f := range []Formula{Linear, Quadratic} {
			if f.Weight(shares) != weight || Linear.Weight(shares) == Quadratic.Weight(shares) {
				continue
			}
			if f.Name == present.Name {
				return present
			}
			found = f
		}
	}
	return found
}

// weights decides about the weights and the protected memory of the partition and of its burstable
// slice. They follow the requests of the pods that run there. Without any the weight is the
// minimum, as for the kubelet's burstable slice (setCPUCgroupConfig,
// pkg/kubelet/cm/qos_container_manager_linux.go).
func (d *Decision) weights(s Snapshot, pods []Pod) {
	if s.Config.Off {
		return // reverted at the end
	}
	whole, burstable := s.Config.Partition.Slice(), unitname.QoSSlice(s.Config.Partition, v1.PodQOSBurstable)
	milli := map[string]int64{whole: 0, burstable: 0}
	// A pod's protection has an effect as far as the slices above it have as much.
	memory := map[string]cgroupfs.Protection{}
	for _, pod := range pods {
		if !pod.placed() {
			if pod.PartitionCgroup.Exists {
				// It may be charged for memory that its processes left behind, and stays protected as it was.
				memory[whole] = memory[whole].Plus(pod.PartitionCgroup.Limits.Protection)
				if pod.QoS == v1.PodQOSBurstable {
					memory[burstable] = memory[burstable].Plus(pod.PartitionCgroup.Limits.Protection)
				}
			}
			continue
		}
		milli[whole] += pod.MilliCPU
		memory[whole] = memory[whole].Plus(pod.DefaultCgroup.Limits.Protection)
		if pod.QoS == v1.PodQOSBurstable {
			milli[burstable] += pod.MilliCPU
			memory[burstable] = memory[burstable].Plus(pod.DefaultCgroup.Limits.Protection)
		}
	}
	memory[whole] = memory[whole].AtLeast(s.Config.Floor)
	for _, slice := range slices.Sorted(maps.Keys(milli)) {
		weight := s.Formula.Weight(SharesOfMilliCPU(milli[slice]))
		if present, ok := s.Weights[slice]; ok && present != weight {
			d.Weights = append(d.Weights, WeightSpec{slice, weight})
		}
		if present, ok := s.Protected[slice]; ok && present != memory[slice] {
			d.Protect = append(d.Protect, ProtectSpec{slice, memory[slice]})
		}
	}
}

// placed reports whether the pod has a container in the partition.
func (pod Pod) placed() bool {
	return slices.ContainsFunc(pod.Containers, func(c Container) bool {
		return c.Running && c.Slice == pod.PartitionCgroup.Slice
	})
}
