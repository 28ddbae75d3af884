package podmove

import (
	"node-partition.io/node-partition/internal/admission"
	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// asked returns the CPU time that a pod has by the resource of its type, and whether it has any.
func (s Snapshot) asked(pod *Pod, place partition.Place) (PodTime, bool) {
	if s.isAnnotated(pod, place) {
		return annotated(pod.Annotated, pod.MilliCPU, s.Config.ownCPU(place.Partition))
	}
	return s.reported(pod, place)
}

// isAnnotated reports whether the annotations of a pod stand in for its requests. The kubelet
// serves no Pods API, or has not reported the pod yet. An author of pods can write annotations
// where no admission removes them. So they count for a pod with a right to its type alone, and not
// beside what a kubelet has said of it.
func (s Snapshot) isAnnotated(pod *Pod, place partition.Place) bool {
	//guard: annotations count for a pod with a right alone
	//guard: annotations of another type do not count
	//guard: annotations do not count beside what a kubelet has reported
	return place.Resource && pod.Annotated.Type == place.Type && s.CPU.Pods[pod.UID].Type != place.Type
}

// annotated returns the CPU time of a pod by its annotations, which is not more than the CPUs of
// its partition have, and whether it has any.
func annotated(asked admission.PodCPU, milli, most int64) (PodTime, bool) {
	//guard: annotations give a pod no more than the CPUs of its partition
	asked.Request = min(asked.Request, most)
	return PodTime{asked, milli}, asked.Request > 0
}

// reported returns the CPU time that the kubelet reports of a pod. The figures that were known last
// count while the kubelet does not report it.
func (s Snapshot) reported(pod *Pod, place partition.Place) (PodTime, bool) {
	if !place.Resource {
		return PodTime{}, false
	}
	reported := PodTime{}
	if pod.Kubelet != nil {
		reported = PodTime{pod.Kubelet.Requested, pod.MilliCPU}
	}
	//guard: the figure that was known last counts while the kubelet does not report the pod
	return counts(place.Type, reported, s.CPU.Pods[pod.UID])
}

// reportsRequested reports whether the kubelet reports what the pod requests of the resource of its
// type. The annotations may have changed since the sandbox was made, which decides about the type.
func (p *Pod) reportsRequested(place partition.Place) bool {
	return p.Kubelet != nil && p.Kubelet.Requested.Type == place.Type
}

// limitsIn returns the limits of the slice of a pod in a partition: the limits of the kubelet's
// slice of it, with the CPU time that the pod has by the resource of its type.
func (s Snapshot) limitsIn(pod *Pod, place partition.Place, in partition.Name) cgroups.Limits {
	asked, ok := s.asked(pod, place)
	//guard: the slice of another partition has no CPU time of the resource
	if !ok || place.Partition != in {
		return pod.DefaultCgroup.Limits
	}
	return withRequested(pod.DefaultCgroup.Limits, asked.MilliCPU, asked.CPU, s.Formula)
}

// workloadReport returns what is reported of a place; nil if no type has to do with it.
func workloadReport(p partition.Place) *report.Workload {
	if p.Type == "" && p.Refused == "" {
		return nil
	}
	return &report.Workload{Type: p.Type, By: p.By, Refused: p.Refused}
}

// reportRequested adds to the report of a pod what it requests of the resource of its type, and
// which annotation is not followed.
func (s Snapshot) reportRequested(pod *Pod, place partition.Place, out *report.Workload) {
	if out == nil {
		return
	}
	asked, ok := s.asked(pod, place)
	if ok {
		out.MilliCPU = asked.Request
	}
	switch {
	case s.isAnnotated(pod, place):
		out.Flaw = pod.Annotated.Flaw
	case ok && pod.reportsRequested(place):
		out.Flaw = pod.Kubelet.Requested.Flaw
	}
}

// withRequested returns the limits that the kubelet would have given the slice of a pod if the
// resource were CPU (ResourceConfigForPod, pkg/kubelet/cm/helpers_linux.go). milli is the CPU
// request of the pod. A quota of the kubelet stays.
func withRequested(
	mirrored cgroups.Limits, milli int64, asked admission.CPU, f admission.WeightFormula,
) cgroups.Limits {
	mirrored.CPUWeight = max(mirrored.CPUWeight, weightOf(f, milli, asked.Request))
	//guard: a quota of the kubelet stays
	if asked.Limit > 0 && mirrored.CPUQuotaPerSec == cgroups.Unlimited {
		mirrored.CPUQuotaPerSec = quotaPerSec(asked.Limit, mirrored.CPUQuotaPeriod)
	}
	return mirrored
}

const (
	// quotaStep is the step of CPUQuotaPerSecUSec in microseconds: systemd keeps whole percents of a
	// CPU over a reload (bus_cgroup_set_property, src/core/dbus-cgroup.c).
	quotaStep = 10_000
	// minQuota is the smallest quota of a period in microseconds (MinQuotaPeriod,
	// pkg/kubelet/cm/helpers_linux.go). systemd would make the period longer for a smaller one.
	minQuota = 1_000
)

// quotaPerSec converts a limit in thousandths of a CPU to microseconds per second, rounded up to
// whole percents of a CPU.
func quotaPerSec(milli int64, period uint64) uint64 {
	//guard: a quota is not so small that systemd would change the period
	micro := max(uint64(milli)*1000, minQuota*1_000_000/max(period, 1))
	return (micro + quotaStep - 1) / quotaStep * quotaStep
}
