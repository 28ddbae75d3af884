package partition

import "testing"

func TestCgroupPath(t *testing.T) {
	for slice, want := range map[string]string{
		"kubepods.slice":                         "kubepods.slice",
		"kubepods-system-podabc.slice":           "kubepods.slice/kubepods-system.slice/kubepods-system-podabc.slice",
		"kubepods-system-burstable-pod1_2.slice": "kubepods.slice/kubepods-system.slice/kubepods-system-burstable.slice/kubepods-system-burstable-pod1_2.slice",
	} {
		if got := CgroupPath(slice); got != want {
			t.Errorf("%s is at %s, want %s", slice, got, want)
		}
	}
}
