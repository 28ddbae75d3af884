package audit

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"nodepartition/internal/admission"
	"nodepartition/internal/cpuweight"
	"nodepartition/internal/membership"
	"nodepartition/internal/unitname"
)

// askedTime is the CPU time that a pod has by the resource of a workload type, and the slice in
// which its containers have it.
type askedTime struct {
	cpu   admission.PodCPU
	slice string
}

// askedCPU returns the CPU time that a pod has by the resource of the workload type that it asks
// for. partition-monitor gives it to members by annotation alone, in their partition.
func (a *audit) askedCPU(pod *v1.Pod) askedTime {
	if _, known := a.asking[pod]; !known {
		a.asking[pod] = a.computeAsked(pod)
	}
	return a.asking[pod]
}

func (a *audit) computeAsked(pod *v1.Pod) askedTime {
	place := a.Members.Place(membership.Pod{
		Namespace: pod.Namespace, Guaranteed: pod.Status.QOSClass == v1.PodQOSGuaranteed,
		Origin: membership.OriginOf(pod.Annotations),
		In: func(p unitname.PartitionName) bool {
			_, there := a.Cgroups[sliceIn(p, pod)]
			return there
		},
	})
	if !place.Resource {
		return askedTime{}
	}
	return askedTime{admission.CPUOf(pod, place.Type), sliceIn(place.Partition, pod)}
}

func sliceIn(p unitname.PartitionName, pod *v1.Pod) string {
	return unitname.CgroupPath(unitname.PodSlice(p, pod.Status.QOSClass, string(pod.UID)))
}

// ask adds to a container what it has by the resource.
func (c *container) ask(of askedTime) {
	asked, ok := of.cpu.Containers[c.spec.Name]
	//guard: the audit expects the CPU time of the resource in the partition alone
	if !ok || !strings.HasPrefix(c.scope, of.slice+"/") {
		return
	}
	c.shares = cpuweight.SharesOfMilliCPU(cpuweight.Plus(c.milli, asked.Request))
	c.asked = true
	if c.milliLimit == nil && asked.Limit > 0 {
		c.askedLimit = asked.Limit
	}
}

// askedSlice checks the CPU time of the slice of a member by annotation in its partition. Its other
// limits are a copy of the kubelet's slice, which podSlices checks.
func (a *audit) askedSlice(pod *v1.Pod, r resources) {
	of := a.askedCPU(pod)
	cpu, slice := of.cpu, of.slice
	if cpu.Request == 0 {
		return
	}
	name := pod.Namespace + "/" + pod.Name
	shares := cpuweight.SharesOfMilliCPU(cpuweight.Plus(r.milliCPU, cpu.Request))
	a.expect(limit{slice, cpuWeight, a.weight(shares), warning,
		fmt.Sprintf("the pod %s requests %d of the resource of the workload type %s, in thousandths of a CPU. "+
			"partition-monitor gives its slice the weight of that by the %s formula, which the kubelet uses on this node", name, cpu.Request, cpu.Type, a.formula.Name), docAsked})
	if cpu.Limit > 0 && r.milliLimit == nil {
		a.expect(limit{slice, cpuMax, quota(cpu.Limit), warning,
			fmt.Sprintf("the annotations of the pod %s give each of its containers a CPU limit, and partition-monitor writes their sum", name), docAsked})
	}
}
