package budget

// openShift returns the reservation of OpenShift's automatic sizing (autoSizingReserved), version 2
// of its rule for CPUs. Memory, in whole GiB: 1, and 6 % of the part between 8 and 128. Above 128
// the script adds 6.72 for that part, and 2 % of the part above 120. CPU: 60 m, and 12 m for each
// CPU but the first, in steps of 10 m, and at least 500 m. Storage: 1 GiB.
//
// Source: templates/common/_base/files/kubelet-auto-sizing.yaml of
// github.com/openshift/machine-config-operator, commit 36c7cead4 of 2026-05-14.
func openShift(m machine) Provider {
	storage := int64(gibi)
	// In hundredths of a GiB.
	total := m.memoryBytes / gibi
	memory := int64(100)
	switch {
	case total > 128:
		memory += 672 + (total-120)*2
	case total > 8:
		memory += (total - 8) * 6
	}
	cpus := max(1, m.milliCPU/1000)
	return Provider{
		Name: "OpenShift", Date: "2026-05-14",
		Source: "https://github.com/openshift/machine-config-operator/blob/36c7cead4/" +
			"templates/common/_base/files/kubelet-auto-sizing.yaml",
		Reserved: Resources{
			MilliCPU:     max(500, roundTo(60+12*(cpus-1), 10)),
			MemoryBytes:  roundTo(memory, 100) / 100 * gibi,
			StorageBytes: &storage,
		},
	}
}

// roundTo rounds to the nearest multiple of step, and halves up.
func roundTo(n, step int64) int64 { return (n + step/2) / step * step }
