package config

import "testing"

func TestSlicesOf(t *testing.T) {
	want := Slices{
		Partition: "kubepods-system.slice", Burstable: "kubepods-system-burstable.slice", BestEffort: "kubepods-system-besteffort.slice",
		Below: "kubepods-system-.slice",
	}
	got := slicesOf(system)
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if cgroup := got.Cgroup(); cgroup != "/sys/fs/cgroup/kubepods.slice/kubepods-system.slice" {
		t.Errorf("its cgroup is %s", cgroup)
	}
}
