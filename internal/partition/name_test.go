package partition

import (
	"strings"
	"testing"
)

// TestPodSliceNesting: systemd nests a slice by its name, so the name of a pod's slice begins with
// the name of the slice of its class.
func TestPodSliceNesting(t *testing.T) {
	const (
		node   = "kubepods.slice/"
		system = node + "kubepods-system.slice/"
	)
	for _, test := range []struct {
		p            Name
		q            string
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
		if got := CgroupPath(slice); got != test.path {
			t.Errorf("%s, %s: the pod's slice is %s, want %s", test.p, test.q, got, test.path)
		}
		if got := QoSSlice(test.p, test.q); got != test.parent {
			t.Errorf("%s, %s: it is looked for in %s, want %s", test.p, test.q, got, test.parent)
		}
		p, q, uid, ok := ParsePodSlice(slice)
		if !ok || p != test.p || q != test.q || uid != "a_b" {
			t.Errorf("%s is of %s, %s, %q, %t", slice, p, q, uid, ok)
		}
	}
}

func TestParsePodSliceOtherNames(t *testing.T) {
	for _, slice := range []string{
		"", "kubepods-system.slice", "other.slice", "kubepods-pod.slice", "kubepods-poda", "kubepods.slice/kubepods-poda.slice",
		"kubepods-poda-b.slice", "kubepods-poda-podb.slice", "kubepods-a-b-podc.slice", "kubepods--podc.slice", "xkubepods-poda.slice",
	} {
		if p, q, uid, ok := ParsePodSlice(slice); ok {
			t.Errorf("%q is of %s, %s, %q", slice, p, q, uid)
		}
	}
	// The node may have other partitions than ours.
	if p, q, uid, ok := ParsePodSlice("kubepods-batch-burstable-podc.slice"); !ok || p != "batch" || q != Burstable || uid != "c" {
		t.Errorf("a pod of another partition is of %s, %s, %q, %t", p, q, uid, ok)
	}
}

func TestPartitionNames(t *testing.T) {
	for got, want := range map[string]string{
		System.Slice(): "kubepods-system.slice", System.Below(): "kubepods-system-.slice", Default.Slice(): "kubepods.slice",
		System.Cgroup(): "/sys/fs/cgroup/kubepods.slice/kubepods-system.slice", Name("batch").Slice(): "kubepods-batch.slice",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := strings.Join(System.Slices(), " "); got != "kubepods-system.slice kubepods-system-burstable.slice kubepods-system-besteffort.slice" {
		t.Errorf("its slices are %s", got)
	}
}

// TestPartitionNameCheck: a name that systemd or the kubelet would take for another slice is
// refused, with the reason.
func TestPartitionNameCheck(t *testing.T) {
	for name, want := range map[string]string{
		"system": "", "telemetry": "", "my-batch": "", "0": "", strings.Repeat("a", 40): "",
		"":                      "not an RFC 1123 label",
		"-a":                    "not an RFC 1123 label",
		"a-":                    "not an RFC 1123 label",
		"a_b":                   "not an RFC 1123 label",
		"Batch":                 "not an RFC 1123 label",
		"a.b":                   "not an RFC 1123 label",
		"a/b":                   "not an RFC 1123 label",
		strings.Repeat("a", 41): "at most 40 characters",
		"default":               "kubelet's slices have",
		"burstable":             "kubelet's slices have",
		"besteffort":            "kubelet's slices have",
		"podman":                `contains "pod"`,
		"tripod":                `contains "pod"`,
		"my-podman":             `contains "pod"`,
	} {
		err := Name(name).Check()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v; want %q", name, err, want)
		}
	}
}

// TestPartitionNameDash: systemd nests slices by dashes, so a name with a dash has an underscore in
// its slices, and each slice leads back to the name.
func TestPartitionNameDash(t *testing.T) {
	const batch Name = "my-batch"
	if got := CgroupPath(batch.Slice()); got != "kubepods.slice/kubepods-my_batch.slice" {
		t.Errorf("its cgroup is %s", got)
	}
	for _, class := range []string{Guaranteed, Burstable, BestEffort} {
		slice := PodSlice(batch, class, "a-b")
		if p, q, uid, ok := ParsePodSlice(slice); !ok || p != batch || q != class || uid != "a_b" {
			t.Errorf("%s is of %s, %s, %q, %t", slice, p, q, uid, ok)
		}
	}
	for _, slice := range []string{"kubepods-_-poda.slice", "kubepods-a_-poda.slice", "kubepods-default-poda.slice", "kubepods-podman-poda.slice"} {
		if p, q, uid, ok := ParsePodSlice(slice); ok {
			t.Errorf("%s is of %s, %s, %q", slice, p, q, uid)
		}
	}
	// The kubelet's own slice of burstable pods is not a partition.
	if p, q, _, ok := ParsePodSlice("kubepods-burstable-poda.slice"); !ok || p != Default || q != Burstable {
		t.Errorf("a burstable pod is of %s, %s, %t", p, q, ok)
	}
}
