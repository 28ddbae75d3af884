package budget

// gke returns the reservation of Google Kubernetes Engine. Memory: 25 % of the first 4 GiB, 20 % of
// the next 4, 10 % of the next 8, 6 % of the next 112 and 2 % of the rest; 255 MiB for less than
// 1 GiB. CPU: cpuBands, and 400 m more for more than 110 pods. The shared-core types of E2, which
// have a separate rule, are left out. The page gives storage by the image and the boot disk.
//
// Source: "About GKE node sizing",
// cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes, as of 2026-07-20.
func gke(m machine) Provider {
	p := Provider{
		Name: "GKE", Date: "2026-07-20",
		Source: "https://cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes",
	}
	p.Reserved.MilliCPU = banded(m.milliCPU, cpuBands)
	if m.maxPods > 110 {
		p.Reserved.MilliCPU += 400
	}
	p.Reserved.MemoryBytes = 255 * mebi
	if m.memoryBytes >= gibi {
		p.Reserved.MemoryBytes = banded(m.memoryBytes, []band{
			{4 * gibi, 25_000}, {8 * gibi, 20_000}, {16 * gibi, 10_000}, {128 * gibi, 6000}, {without, 2000},
		})
	}
	return p
}
