package podmove

import (
	"iter"
	"slices"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/admission"
	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// kubeletFormula returns the formula by which the kubelet has written the slices of pods, which
// exist before their containers. It returns the present formula if a pod's slice has the weight
// that this gives, or if no slice distinguishes the two: without requests both formulas give the
// minimum, and in the middle of a resize the slice has neither weight. So a node with slices of two
// kubelets keeps to one formula.
//
// If the kubelet does not report the requests, they are an approximation and distinguish nothing.
// Kubelets that cannot report them, before 1.37, have the linear formula.
func kubeletFormula(pods []Pod, present admission.WeightFormula) admission.WeightFormula {
	return shownByAll(present, func(yield func(milli int64, weight uint64) bool) {
		for _, pod := range pods {
			if !pod.DefaultCgroup.Exists || pod.Kubelet == nil || pod.Kubelet.Ends() {
				continue
			}
			if !yield(pod.MilliCPU, pod.DefaultCgroup.Limits.CPUWeight) {
				return
			}
		}
	})
}

// shownByAll returns the formula that CPU requests and their weights show: the present one if any
// of them shows it, or if none shows one.
func shownByAll(present admission.WeightFormula, weights iter.Seq2[int64, uint64]) admission.WeightFormula {
	found := present
	for milli, weight := range weights {
		f, ok := shownBy(admission.SharesOfMilliCPU(milli), weight)
		switch {
		case !ok:
		case f.Name == present.Name:
			return present
		default:
			found = f
		}
	}
	return found
}

// shownBy returns the formula that converts shares into a weight, and false if it is neither or
// both.
func shownBy(shares, weight uint64) (admission.WeightFormula, bool) {
	linear, quadratic := admission.LinearWeight.Weight(shares), admission.QuadraticWeight.Weight(shares)
	switch {
	case linear == quadratic:
	case weight == linear:
		return admission.LinearWeight, true
	case weight == quadratic:
		return admission.QuadraticWeight, true
	}
	return admission.WeightFormula{}, false
}

// weights decides about the weights and the protected memory of a partition and of its burstable
// slice. They follow the requests of the pods that run there. Without any the weight is the
// minimum, as for the kubelet's burstable slice (setCPUCgroupConfig,
// pkg/kubelet/cm/qos_container_manager_linux.go). places has where each pod belongs.
func (d *Decision) weights(s Snapshot, p *decision.Partition, pods []Pod, places []partition.Place) {
	if p.Off {
		return // reverted at the end
	}
	var whole, burstable load
	for i := range pods {
		pod := &pods[i]
		cgroup := pod.find(p.Name)
		if cgroup == nil {
			continue
		}
		share := load{memory: cgroup.Limits.Protection}
		switch {
		case pod.placed(cgroup):
			share = load{milli: pod.MilliCPU, memory: pod.DefaultCgroup.Limits.Protection}
			//guard: another partition does not weigh a pod by the resource
			if places[i].Partition == p.Name {
				if asked, ok := s.asked(pod, places[i]); ok {
					share.milli, share.cores = asked.MilliCPU, asked.Request
				}
			}
		case !cgroup.Exists:
			continue
		default:
			// It may be charged for memory that its processes left behind, and stays protected as it was.
		}
		whole.add(share)
		if pod.QoS == v1.PodQOSBurstable {
			burstable.add(share)
		}
	}
	whole.memory = whole.memory.AtLeast(p.Protection)
	// The node promises requests of CPU. Nothing but the partition's CPUs stands for requests of the
	// resource: more would take from the CPU that other pods are promised.
	own := s.Config.ownCPU(p.Name)
	//guard: the resource adds to the weight of a partition no more than its CPUs
	whole.cores, burstable.cores = min(whole.cores, own), min(burstable.cores, own)
	d.weigh(s, partition.QoSSlice(p.Name, v1.PodQOSBurstable), burstable)
	d.weigh(s, p.Name.Slice(), whole)
}

// load holds the requests of the pods in a slice of a partition: of CPU, and in cores of the
// resource of a type. A pod's protection has an effect as far as the slices above it have as much.
type load struct {
	milli, cores int64
	memory       cgroups.Protection
}

func (l *load) add(m load) {
	l.milli, l.cores = admission.AddMilliCPU(l.milli, m.milli), admission.AddMilliCPU(l.cores, m.cores)
	l.memory = l.memory.Plus(m.memory)
}

// weigh decides about the weight and the protected memory of one slice of a partition.
func (d *Decision) weigh(s Snapshot, slice string, l load) {
	weight := weightOf(s.Formula, l.milli, l.cores)
	if present, ok := s.Weights[slice]; ok && present != weight {
		d.Weights = append(d.Weights, WeightSpec{slice, weight})
	}
	if present, ok := s.Protected[slice]; ok && present != l.memory {
		d.Protect = append(d.Protect, ProtectSpec{slice, l.memory})
	}
}

// placed reports whether the pod has a container in its slice of a partition.
func (p *Pod) placed(in *PodCgroup) bool {
	return slices.ContainsFunc(p.Containers, func(c Container) bool { return c.Running && c.Slice == in.Slice })
}
