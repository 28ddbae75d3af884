package budget

import "testing"

// TestProviders: 110 pods unless the name of the case has others.
func TestProviders(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		provider             func(machine) Provider
		cpus, memory, pods   int64
		wantMilli, wantBytes int64
	}{
		// 60; 60 + 10; 60 + 10 + 2 * 5; 80 + 12 * 2.5; and 400 for more than 110 pods.
		{gke, 1, gibi / 2, 110, 60, 255 * mebi},
		// 25 % of 1Gi.
		{gke, 2, gibi, 110, 70, 256 * mebi},
		// 1Gi + 20 % of 4Gi.
		{gke, 4, 8 * gibi, 110, 80, gibi + 4*gibi/5},
		// 1Gi + 0.8Gi + 10 % of 8Gi, each rounded down to bytes, + 6 % of 16Gi.
		{gke, 16, 32 * gibi, 110, 110, gibi + 2*(4*gibi/5) + 16*gibi*6/100},
		{gke, 16, 32 * gibi, 111, 510, gibi + 2*(4*gibi/5) + 16*gibi*6/100},
		// ... + 6 % of 112Gi + 2 % of 128Gi.
		{gke, 64, 256 * gibi, 110, 230, gibi + 2*(4*gibi/5) + 112*gibi*6/100 + 128*gibi*2/100},
		// 11 * 110 + 255 = 1465; 11 * 737 + 255 = 8362, of a node with 737 pods.
		{eks, 2, 8 * gibi, 110, 70, 1465 * mebi},
		{eks, 96, 384 * gibi, 737, 310, 8362 * mebi},
		// 20 * 30 + 50 = 650, as in the page's example; at most 25 %, as in its other one.
		{aks, 2, 8 * gibi, 30, 100, 650 * mebi},
		{aks, 4, 4 * gibi, 70, 140, gibi},
		{aks, 1, gibi, 110, 60, gibi / 4},
		{aks, 8, 64 * gibi, 110, 180, 2250 * mebi},
		{aks, 16, 64 * gibi, 250, 260, 5050 * mebi},
		{aks, 32, 64 * gibi, 110, 420, 2250 * mebi},
		{aks, 64, 64 * gibi, 110, 740, 2250 * mebi},
		// At least 500; 60 + 12 * 37 = 504, rounded to 500; 60 + 12 * 63 = 816, rounded to 820.
		{openShift, 1, 4 * gibi, 250, 500, gibi},
		{openShift, 38, 8*gibi - 1, 250, 500, gibi},
		// 1 + 6 % of 8 = 1.48, rounded to 1; 1 + 6 % of 24 = 2.44, rounded to 2.
		{openShift, 64, 16 * gibi, 250, 820, gibi},
		{openShift, 64, 32 * gibi, 250, 820, 2 * gibi},
		// Memory of 33Gi less a byte counts as 32; of 33Gi as 33: 1 + 6 % of 25 = 2.5, rounded to 3.
		{openShift, 64, 33*gibi - 1, 250, 820, 2 * gibi},
		{openShift, 64, 33 * gibi, 250, 820, 3 * gibi},
		// 1 + 7.2 = 8.2; 1 + 6.72 + 2 % of 9 = 7.9; 1 + 6.72 + 2 % of 136 = 10.44.
		{openShift, 64, 128 * gibi, 250, 820, 8 * gibi},
		{openShift, 64, 129 * gibi, 250, 820, 8 * gibi},
		{openShift, 64, 256 * gibi, 250, 820, 10 * gibi},
	} {
		p := test.provider(machine{test.cpus * 1000, test.memory, test.pods})
		got := p.Reserved
		// Shares of bands are rounded down one by one: a byte for each of five bands.
		if diff := test.wantBytes - got.MemoryBytes; got.MilliCPU != test.wantMilli || diff < 0 || diff > 5 {
			t.Errorf("%s, %d CPUs, %d bytes, %d pods: %dm and %d bytes; want %dm and %d", p.Name, test.cpus, test.memory, test.pods,
				got.MilliCPU, got.MemoryBytes, test.wantMilli, test.wantBytes)
		}
	}
}

// TestProvidersAllocatable: EKS reserves 80m and 1465Mi of 4 CPUs and 8Gi; 8192 - 1465 - 100 =
// 6627.
func TestProvidersAllocatable(t *testing.T) {
	t.Parallel()
	names := ""
	for _, p := range providers(capacity(t, "cpu=4 memory=8Gi"), 110) {
		names += p.Name + " "
		if p.Date == "" || p.Source == "" {
			t.Errorf("%s has no date or no source", p.Name)
		}
		if got := p.Allocatable.String(); p.Name == "EKS" && got != amounts(3920, 6627*mebi) {
			t.Errorf("EKS: %s", got)
		}
	}
	if names != "GKE EKS AKS OpenShift " {
		t.Error(names)
	}
	for _, p := range providers(capacity(t, "cpu=0 memory=1Mi"), 110) {
		if p.Allocatable.MilliCPU != 0 || p.Allocatable.MemoryBytes != 0 {
			t.Errorf("%s: %s; want nothing on a node that is too small", p.Name, p.Allocatable)
		}
	}
}
