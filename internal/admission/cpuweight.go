package admission

import "github.com/opencontainers/cgroups"

// This file converts CPU requests and CPU shares into the cpu.weight of cgroup v2, by the
// formulas of kubelets and of container runtimes.

// WeightFormula converts CPU shares, 2 to 262144, into a cpu.weight, 1 to 10000. Two formulas are
// in use. Siblings share CPU in the ratio of their weights, so the siblings of a cgroup have to be
// weighed by the same one.
type WeightFormula struct {
	// Name is for people: linear or quadratic.
	Name string
	// Weight converts.
	Weight func(shares uint64) uint64
}

var (
	// LinearWeight is the older formula, which converts one CPU to 39: the kubelet up to 1.37.0
	// (getCPUWeight, pkg/kubelet/cm/cgroup_manager_linux.go), runc before 1.3.2, crun before 1.23.
	LinearWeight = WeightFormula{"linear", func(shares uint64) uint64 {
		return 1 + (min(max(shares, MinShares), maxShares)-MinShares)*9999/262142
	}}
	// QuadraticWeight is the newer formula, which converts one CPU to 100, the kernel's default
	// (opencontainers/cgroups 0.0.3; the Kubernetes blog of January 2026 explains why).
	QuadraticWeight = WeightFormula{"quadratic", cgroups.ConvertCPUSharesToCgroupV2Value}
)

// MinShares are the shares of a container without a CPU request (MinShares,
// pkg/kubelet/cm/helpers_linux.go).
const MinShares = 2

const maxShares = 262144 // MaxShares, same file

// maxWeighed is the CPU request with the most shares, in thousandths of a CPU: 256 CPUs. A larger
// one counts as it.
const maxWeighed = maxShares * 1000 / 1024

// SharesOfMilliCPU converts a CPU request in thousandths of a CPU as the kubelet does
// (MilliCPUToShares, pkg/kubelet/cm/helpers_linux.go): no request is the minimum.
func SharesOfMilliCPU(milli int64) uint64 {
	return max(uint64(bounded(milli))*1024/1000, MinShares)
}

// AddMilliCPU returns the sum of two CPU requests in thousandths of a CPU. It does not overflow: no
// sum is larger than the request with the most shares.
func AddMilliCPU(a, b int64) int64 {
	//guard: sums of requests do not overflow
	return bounded(bounded(a) + bounded(b))
}

func bounded(milli int64) int64 { return min(max(milli, 0), maxWeighed) }
