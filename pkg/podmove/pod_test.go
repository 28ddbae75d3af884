package podmove

import (
	"testing"

	"nodepartition/internal/cgroupfs"
)

// TestSlicesNest: systemd puts a slice below the one that its name names, so the name of a pod's
// slice begins with that of the slice of its class.
func TestSlicesNest(t *testing.T) {
	const (
		node   = "kubepods.slice/"
		system = node + "kubepods-system.slice/"
	)
	for _, test := range []struct {
		p            Partition
		q            QoS
		parent, path string
	}{
		{Default, Guaranteed, "kubepods.slice", node + "kubepods-poda_b.slice"},
		{
			Default, Burstable, "kubepods-burstable.slice",
			node + "kubepods-burstable.slice/kubepods-burstable-poda_b.slice",
		},
		{
			Default, BestEffort, "kubepods-besteffort.slice",
			node + "kubepods-besteffort.slice/kubepods-besteffort-poda_b.slice",
		},
		{System, Guaranteed, "kubepods-system.slice", system + "kubepods-system-poda_b.slice"},
		{
			System, Burstable, "kubepods-system-burstable.slice",
			system + "kubepods-system-burstable.slice/kubepods-system-burstable-poda_b.slice",
		},
		{
			System, BestEffort, "kubepods-system-besteffort.slice",
			system + "kubepods-system-besteffort.slice/kubepods-system-besteffort-poda_b.slice",
		},
	} {
		slice := PodSlice(test.p, test.q, "a-b")
		if got := cgroupfs.SlicePath(slice); got != test.path {
			t.Errorf("%s, %s: the pod's slice is %s, want %s", test.p, test.q, got, test.path)
		}
		if got := parentSlice(test.p, test.q); got != test.parent {
			t.Errorf("%s, %s: it is looked for in %s, want %s", test.p, test.q, got, test.parent)
		}
		p, q, uid, ok := ParsePodSlice(slice)
		if !ok || p != test.p || q != test.q || uid != "a_b" {
			t.Errorf("%s is of %s, %s, %q, %t", slice, p, q, uid, ok)
		}
		if got := (PodReport{Slice: slice}).Partition(); got != test.p {
			t.Errorf("a pod in %s is reported in %s, want %s", slice, got, test.p)
		}
	}
	// What is no slice of a pod is not in the partition.
	for _, slice := range []string{"", "kubepods-system.slice", "other.slice"} {
		if got := (PodReport{Slice: slice}).Partition(); got != Default {
			t.Errorf("a pod in %q is reported in %s", slice, got)
		}
	}
}
