package podmove

import "github.com/opencontainers/cgroups"

// Formula converts CPU shares, 2 to 262144, into a cpu.weight, 1 to 10000. There are two of them in the field, and a
// container's weight and its slices' have to come from the same one: siblings share by the ratio of their weights.
type Formula struct {
	// Name is for people: linear or quadratic.
	Name string
	// Weight converts.
	Weight func(shares uint64) uint64
}

var (
	// Linear is the older formula, which makes 39 of one CPU: runc before 1.3.2, crun before 1.23, and kubelets that
	// are built with them (CpuSharesToCpuWeight, kubelet 1.36).
	Linear = Formula{"linear", func(shares uint64) uint64 { return 1 + (max(shares, minShares)-minShares)*9999/262142 }}
	// Quadratic is the newer formula, which makes 100, the kernel's default, of one CPU
	// (opencontainers/cgroups 0.0.3; the Kubernetes blog of January 2026 tells why).
	Quadratic = Formula{"quadratic", cgroups.ConvertCPUSharesToCgroupV2Value}
)

const (
	minShares = 2      // MinShares, pkg/kubelet/cm/helpers_linux.go
	maxShares = 262144 // MaxShares, same file
)

// SharesOfMilliCPU converts a CPU request in thousandths of a CPU as the kubelet does (MilliCPUToShares,
// pkg/kubelet/cm/helpers_linux.go): nothing is the minimum.
func SharesOfMilliCPU(milli int64) uint64 {
	milli = min(max(milli, 0), maxShares*1000/1024)
	return max(uint64(milli)*1024/1000, minShares)
}

// Observation is the weight that the runtime gave a container for its shares.
type Observation struct{ Shares, Weight uint64 }

// FormulaOf tells from what the node's runtime did which formula it uses. It reports false where nothing tells: then all
// containers have the minimum, for which both formulas agree.
//
// Versions do not tell: distributions backport, and what containerd runs is a matter of its configuration.
func FormulaOf(seen []Observation) (Formula, bool) {
	for _, o := range seen {
		linear, quadratic := Linear.Weight(o.Shares), Quadratic.Weight(o.Shares)
		switch {
		case linear == quadratic:
		case o.Weight == linear:
			return Linear, true
		case o.Weight == quadratic:
			return Quadratic, true
		}
	}
	return Formula{}, false
}
