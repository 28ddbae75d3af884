package budget

// eks returns the reservation of Amazon EKS: 11 MiB for each pod of maxPods and 255 MiB, whatever
// the memory is; cpuBands; and 1 GiB of storage. EKS derives maxPods from the network interfaces of
// the instance. Here it is the kubelet's.
//
// Source: nodeadm/internal/kubelet/config.go of github.com/awslabs/amazon-eks-ami
// (getMemoryMebibytesToReserve, getCPUMillicoresToReserve), commit 81fec2e8 of 2026-07-23.
func eks(m machine) Provider {
	storage := int64(gibi)
	return Provider{
		Name: "EKS", Date: "2026-07-23",
		Source: "https://github.com/awslabs/amazon-eks-ami/blob/81fec2e8/nodeadm/internal/kubelet/config.go",
		Reserved: Resources{
			MilliCPU:     banded(m.milliCPU, cpuBands),
			MemoryBytes:  (11*m.maxPods + 255) * mebi,
			StorageBytes: &storage,
		},
	}
}
