package node

import (
	"os"
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/cri"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// TestPartitions: each partition has its own candidates, whether or not a reconcile has found them.
func TestPartitions(t *testing.T) {
	t.Parallel()
	const appTeam partition.Name = "app-team"
	dns := inGuest("dns", v1.PodQOSBurstable, cri.Resources{})
	shop := placed("shop", v1.PodQOSBurstable, false)
	slice := podmove.PodCgroup{
		Partition: appTeam, Slice: partition.PodSlice(appTeam, v1.PodQOSBurstable, shop.UID), Exists: true, Limits: cgroups.NoLimits,
	}
	shop.Partitions = append(shop.Partitions, slice)
	shop = with(shop, slice, "shop", cri.Resources{})
	found := []podmove.Pod{dns, shop}
	root := cgroups.FS(t.TempDir())
	const late = "99999999-2222-3333-4444-555555555555"
	for _, path := range []string{
		partition.CgroupPath(dns.Partitions[0].Slice), partition.CgroupPath(slice.Slice),
		partition.CgroupPath(partition.PodSlice(appTeam, v1.PodQOSBestEffort, late)),
	} {
		if err := os.MkdirAll(root.Path(path), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	uids := func(pods []evict.Pod) map[string]bool {
		found := map[string]bool{}
		for _, p := range pods {
			found[p.UID] = true
		}
		return found
	}
	for partition, want := range map[partition.Name][]string{partition.System: {dns.UID}, appTeam: {shop.UID, late}, "batch": nil} {
		m := PodMemory{Partition: partition}
		m.Note(root, found, nil)
		pods := m.Candidates(host.Node{Cgroups: root, Proc: "/proc"}, found, nil, true, capacity)
		got := uids(pods)
		for _, uid := range want {
			if !got[uid] {
				t.Errorf("%s: candidates %+v, want %s", partition, pods, uid)
			}
		}
		if len(pods) != len(want) {
			t.Errorf("%s: candidates %+v, want %q", partition, pods, want)
		}
	}
	reports := []report.Pod{
		{UID: dns.UID, Name: "dns", Member: true, Belongs: partition.System, Containers: 1, Slice: dns.Partitions[0].Slice},
		// It belongs to the system partition now, and runs where it was.
		{UID: shop.UID, Name: "shop", Member: true, Belongs: partition.System, Containers: 1, Misplaced: 1, Slice: slice.Slice},
	}
	p := MemberPlacesOf(partition.System, reports, found, nil, capacity)
	if p.Pods != 2 || p.Members != 2 || len(p.Waiting) != 1 || p.Waiting[0].Cgroup != partition.CgroupPath(slice.Slice) ||
		len(p.Waiting[0].Containers) != 1 {
		t.Errorf("%+v, want one that waits in another partition", p)
	}
	if p := MemberPlacesOf(appTeam, reports, found, nil, capacity); p.Members != 0 || len(p.Waiting) != 0 {
		t.Errorf("%+v, want no member", p)
	}
}
