package podmove

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/cpuweight"
	"nodepartition/internal/unitname"
)

// kubeletFormula returns the formula by which the kubelet has written the slices of pods, which
// exist before their containers. It returns the present formula if a pod's slice has the weight
// that this gives, or if no slice distinguishes the two: without requests both formulas give the
// minimum, and in the middle of a resize the slice has neither weight. So a node with slices of two
// kubelets keeps to one formula.
//
// If the kubelet does not report the requests, they are an approximation and distinguish nothing.
// Kubelets that cannot report them, before 1.37, have the linear formula.
func kubeletFormula(pods []Pod, present cpuweight.Formula) cpuweight.Formula {
	found := present
	for _, pod := range pods {
		if !pod.DefaultCgroup.Exists || pod.Kubelet == nil || pod.Kubelet.Terminating {
			continue
		}
		shares, weight := cpuweight.SharesOfMilliCPU(pod.MilliCPU), pod.DefaultCgroup.Limits.CPUWeight
		for _, f := range []cpuweight.Formula{cpuweight.Linear, cpuweight.Quadratic} {
			if f.Weight(shares) != weight || cpuweight.Linear.Weight(shares) == cpuweight.Quadratic.Weight(shares) {
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
		weight := s.Formula.Weight(cpuweight.SharesOfMilliCPU(milli[slice]))
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
