package nri

import (
	"github.com/containerd/nri/pkg/api"

	"nodepartition/internal/cpuweight"
	"nodepartition/internal/workload"
)

// defaultPeriod is the kubelet's period of a CPU quota in microseconds (QuotaPeriod,
// pkg/kubelet/cm/helpers_linux.go), and minQuota the smallest quota that the kernel accepts
// (min_cfs_quota_period, kernel/sched/core.c).
const (
	defaultPeriod = 100_000
	minQuota      = 1_000
	// maxPeriod is the kernel's longest period (max_cfs_quota_period).
	maxPeriod = 1_000_000
)

// withCPU adds the shares and the quota that a container has by the resource of its type. The
// kubelet has given it neither, because its CPU request became that resource. A value that is set
// stays: an answer with another value is a conflict with the plugin that has set it, for which the
// runtime does not create the container.
func withCPU(adjust *api.ContainerAdjustment, c *api.Container, asked workload.CPU) *api.ContainerAdjustment {
	cpu := c.GetLinux().GetResources().GetCpu()
	shares, quota := cpu.GetShares().GetValue(), cpu.GetQuota().GetValue()
	if asked.Cores > 0 && shares <= cpuweight.MinShares {
		if adjust == nil {
			adjust = &api.ContainerAdjustment{}
		}
		adjust.SetLinuxCPUShares(cpuweight.SharesOfMilliCPU(asked.Cores))
	}
	if asked.Limit > 0 && quota <= 0 {
		if adjust == nil {
			adjust = &api.ContainerAdjustment{}
		}
		// The kubelet sets a period without a quota, too.
		period := int64(min(cpu.GetPeriod().GetValue(), maxPeriod))
		if period == 0 {
			period = defaultPeriod
			adjust.SetLinuxCPUPeriod(defaultPeriod)
		}
		adjust.SetLinuxCPUQuota(max(asked.Limit*period/1000, minQuota))
	}
	return adjust
}
