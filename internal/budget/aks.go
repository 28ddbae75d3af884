package budget

// aks returns the reservation of Azure Kubernetes Service 1.29 and later. Memory: 20 MB for each
// pod of maxPods and 50 MB, at most 25 % of the memory. The page says MB, and its nodes have Mi.
// CPU: a table for 1 to 64 cores, of 60, 100, 140, 180, 260, 420 and 740 m: 40 m for the second
// core, 20 m for each of the next two, and 10 m for each of the others. Numbers between the
// table's, and above 64, are on these lines.
//
// Source: "Node resource reservations in Azure Kubernetes Service (AKS)",
// learn.microsoft.com/azure/aks/node-resource-reservations, dated 2024-04-16.
func aks(m machine) Provider {
	return Provider{
		Name: "AKS", Date: "2024-04-16",
		Source: "https://learn.microsoft.com/azure/aks/node-resource-reservations",
		Reserved: Resources{
			MilliCPU:    banded(m.milliCPU, []band{{1000, 6000}, {2000, 4000}, {4000, 2000}, {without, 1000}}),
			MemoryBytes: min((20*m.maxPods+50)*mebi, m.memoryBytes/4),
		},
	}
}
