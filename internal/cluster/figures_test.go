package cluster

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
)

// TestFiguresPartition: the message of an eviction names the partition of the pod's cgroup.
func TestFiguresPartition(t *testing.T) {
	t.Parallel()
	for cgroup, want := range map[string]string{
		unitname.CgroupPath(unitname.PodSlice(unitname.System, v1.PodQOSGuaranteed, "1")): "system",
		unitname.CgroupPath(unitname.PodSlice("telemetry", v1.PodQOSBurstable, "1")):      "telemetry",
	} {
		if got := figures(evict.Eviction{PodMeta: evict.PodMeta{Cgroup: cgroup}}).Partition; got != want {
			t.Errorf("%q: %s; want %s", cgroup, got, want)
		}
	}
}
