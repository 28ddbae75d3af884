package budget

import (
	v1 "k8s.io/api/core/v1"
)

// Provider is a managed Kubernetes service, with the values that it would give to a node.
type Provider struct {
	Name string `json:"name"`
	// Date is the date of the source, a page or a file of source code.
	Date   string `json:"date"`
	Source string `json:"source"`
	// Reserved is the sum of kubeReserved and systemReserved. StorageBytes is nil if the source gives
	// none.
	Reserved          Resources `json:"reserved"`
	EvictionThreshold Resources `json:"evictionThreshold"`
	Allocatable       Resources `json:"allocatable"`
}

const (
	mebi = 1 << 20
	gibi = 1 << 30
)

// evictionDefault is memory.available of all four: 100Mi.
const evictionDefault = 100 * mebi

// machine holds the properties of a node that the formulas of the providers use.
type machine struct {
	milliCPU, memoryBytes, maxPods int64
}

// providers returns the values of each provider for a node.
func providers(capacity v1.ResourceList, maxPods int64) []Provider {
	cpu, memory := capacity[v1.ResourceCPU], capacity[v1.ResourceMemory]
	m := machine{cpu.MilliValue(), memory.Value(), maxPods}
	list := []Provider{gke(m), eks(m), aks(m), openShift(m)}
	for i := range list {
		p := &list[i]
		p.EvictionThreshold.MemoryBytes = evictionDefault
		p.Allocatable = Resources{
			MilliCPU:    max(0, m.milliCPU-p.Reserved.MilliCPU),
			MemoryBytes: max(0, m.memoryBytes-p.Reserved.MemoryBytes-evictionDefault),
		}
	}
	return list
}

// band is the part of an amount up to a bound, and the share of it that is reserved, in
// hundred-thousandths.
type band struct{ upTo, share int64 }

// without is the bound of the last band.
const without = 1<<63 - 1

// banded returns the sum of the shares of an amount, each rounded down.
func banded(amount int64, bands []band) int64 {
	var sum, from int64
	for _, b := range bands {
		part := min(amount, b.upTo) - from
		if part <= 0 {
			break
		}
		// Without an overflow, up to 2^63 bytes.
		sum += part/100_000*b.share + part%100_000*b.share/100_000
		from = b.upTo
	}
	return sum
}

// cpuBands holds the bands of GKE and EKS: 6 % of the first CPU, 1 % of the second, 0.5 % of the
// next two, and 0.25 % of the others.
var cpuBands = []band{{1000, 6000}, {2000, 1000}, {4000, 500}, {without, 250}}
