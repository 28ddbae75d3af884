package node

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/cri"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// TestPlaceWaiting: a member that waits for its next start has the request that the kubelet
// reports, or the one that its containers outside show, and the cgroup that it is charged to.
func TestPlaceWaiting(t *testing.T) {
	t.Parallel()
	etcd := placed("etcd", v1.PodQOSBurstable, true)
	etcd = with(etcd, etcd.DefaultCgroup, "etcd", cri.Resources{OOMScoreAdj: 900})
	dns := inGuest("dns", v1.PodQOSBurstable, cri.Resources{OOMScoreAdj: 950})
	web := placed("web", v1.PodQOSBurstable, false)
	web = with(web, web.DefaultCgroup, "web", cri.Resources{})
	reports := []report.Pod{
		{UID: etcd.UID, Name: "etcd", Member: true, Belongs: partition.System, Misplaced: 1, Containers: 1, Slice: etcd.DefaultCgroup.Slice},
		{UID: dns.UID, Name: "dns", Member: true, Belongs: partition.System, Containers: 1, Slice: dns.Partitions[0].Slice, OutsideBytes: 5},
		{UID: web.UID, Name: "web", Containers: 1, Slice: web.DefaultCgroup.Slice, OutsideBytes: 3},
	}
	found := []podmove.Pod{etcd, dns, web}
	p := MemberPlacesOf(partition.System, reports, found, nil, capacity)
	// 10 % and 5 % of the node, less the 3 that the kubelet keeps apart (EstimateRequest).
	if p.Pods != 3 || p.Members != 2 || p.LeftBytes != 5 || len(p.Waiting) != 1 || p.Waiting[0].Request < 190*mebi || p.RequestBytes < 280*mebi {
		t.Fatalf("%+v", p)
	}
	if w := p.Waiting[0]; w.UID != etcd.UID || w.Cgroup != partition.CgroupPath(etcd.DefaultCgroup.Slice) {
		t.Errorf("%+v", w)
	}
	known := told(&kubelet.Pod{UID: etcd.UID, MemoryRequest: 100 * mebi}, &kubelet.Pod{UID: dns.UID, MemoryRequest: 70 * mebi})
	p = MemberPlacesOf(partition.System, reports, found, known, capacity)
	if p.RequestBytes != 170*mebi || p.Waiting[0].Request != 100*mebi {
		t.Errorf("%+v", p)
	}
	// With the partition switched off a pod that is still in it does not wait outside.
	reports[0].Slice = etcd.Partitions[0].Slice
	if p := MemberPlacesOf(partition.System, reports, found, known, capacity); len(p.Waiting) != 0 {
		t.Errorf("%+v", p.Waiting)
	}
}
