package node

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/budget"
	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/partition"
)

// CountMembers adds to each partition the sums over its members, where the kubelet serves its Pods
// API.
func CountMembers(
	ctx context.Context, tree cgroups.FS, socket string, rules partition.Rules, partitions []budget.Partition,
) {
	if len(partitions) == 0 {
		return
	}
	pods, known := kubelet.Listed(ctx, socket).Pods()
	if !known {
		return
	}
	of := map[partition.Name]*budget.Members{}
	places := []partition.Name{partition.Default} // a trial may move it from one partition to another
	for i := range partitions {
		places = append(places, partitions[i].Name)
		partitions[i].Members = &budget.Members{}
		of[partitions[i].Name] = partitions[i].Members
	}
	for _, pod := range pods {
		in := rules.Partition(partition.Pod{
			Namespace: pod.Namespace, Guaranteed: pod.QoS == v1.PodQOSGuaranteed, Origin: pod.Origin,
		})
		m := of[in]
		if pod.Ended || m == nil {
			continue
		}
		m.Pods++
		m.MemoryRequestBytes += pod.MemoryRequest
		m.MemoryLimitBytes += pod.MemoryLimit
		if pod.MemoryLimit == 0 {
			m.Unlimited++
		}
		for _, at := range places {
			if reading, err := tree.Memory(partition.CgroupPath(partition.PodSlice(at, pod.QoS, pod.UID))); err == nil {
				m.MemoryUsedBytes += int64(reading.Used())
			}
		}
	}
}
