package kubeletconfig

import "testing"

// TestNearlySection: a section with a typing error is noticed, and no field of a kubelet is taken
// for one.
func TestNearlySection(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"systempartition", "systemPartitions", "SystemPartition", "system-partition", "sytemPartition",
		"systemPartiton", "workloadPartition", "workloadsPartition", "workloadPartions",
	} {
		if !isNearlySection(name) {
			t.Errorf("%s is not noticed", name)
		}
	}
	for _, name := range append(KubeletFields(), append(sectionFields(), "apiVersion", "kind", "")...) {
		if isNearlySection(name) {
			t.Errorf("%q counts as a section with a typing error", name)
		}
	}
}
