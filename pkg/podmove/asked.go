package podmove

import (
	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/cpuweight"
	"nodepartition/internal/workload"
)

// askedLimits returns the limits of the slice of a pod that is a member by annotation. The kubelet
// gives its own slice of such a pod the minimum weight, and no quota: the API server's admission
// has turned the pod's CPU requests and limits into the type's resource and an annotation. The
// weight is the kubelet's for a CPU request of that size (ResourceConfigForPod,
// pkg/kubelet/cm/helpers_linux.go).
func askedLimits(mirrored cgroupfs.Limits, asked workload.CPU, formula cpuweight.Formula) cgroupfs.Limits {
	if asked.Cores > 0 {
		mirrored.CPUWeight = max(mirrored.CPUWeight, formula.Weight(cpuweight.SharesOfMilliCPU(asked.Cores)))
	}
	if asked.Limit > 0 && mirrored.CPUQuotaPerSec == cgroupfs.Unlimited {
		mirrored.CPUQuotaPerSec = quotaPerSec(asked.Limit)
	}
	return mirrored
}

// quotaStep is the step of CPUQuotaPerSec in microseconds, which is runc's.
const quotaStep = 10_000

// quotaPerSec converts a limit in thousandths of a CPU to microseconds per second.
func quotaPerSec(milli int64) uint64 {
	micro := uint64(milli) * 1000
	return (micro + quotaStep - 1) / quotaStep * quotaStep
}
