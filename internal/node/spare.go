package node

import (
	"errors"
	"io/fs"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/evict"
)

// marginShare is the part of the node's memory that is kept free above the kubelet's threshold, if
// the threshold itself is less. User pods may take it before a partition has given memory back.
const marginShare = 20

// Spare reads the memory that the node n can lend to a partition: what is available above the
// kubelet's threshold, in bytes, and the margin, and what nobody else may still take. That is what
// pods have requested and do not use, and what the other partitions may use below their configured
// limits. Members of these, and of the borrower, take from that limit, also before they have
// started, unless they run outside.
func Spare(
	n host.Node, borrower partition.Name, c Followed, pods map[types.UID]*kubelet.Pod, threshold int64,
) (evict.Spare, error) {
	var problems []error
	uses := func(slice string) int64 {
		memory, err := n.Cgroups.Memory(partition.CgroupPath(slice))
		if !errors.Is(err, fs.ErrNotExist) { // what has not started uses nothing
			problems = append(problems, err)
		}
		return int64(memory.WorkingSet())
	}
	total, available, memoryErr := host.MemoryAvailable(n.Root)
	limit, limitErr := n.Cgroups.MemoryMax(partition.CgroupPath(partition.Default.Slice()))
	//guard: memory that the limit of all pods keeps from them is not lent
	if limitErr == nil && limit != cgroups.Unlimited { // the kubelet evicts for it, too (allocatableMemory.available)
		available = min(available, int64(limit)-uses(partition.Default.Slice()))
	}
	needed, limited := int64(0), map[partition.Name]bool{borrower: true}
	for _, p := range c.Partitions {
		if p.Name != borrower && p.Eviction != nil && p.Eviction.Limit > 0 {
			needed += max(0, int64(p.Eviction.Limit)-uses(p.Name.Slice()))
			limited[p.Name] = true
		}
	}
	rules := c.Policy().Rules()
	for _, pod := range pods {
		of := rules.Partition(partition.Pod{
			Namespace: pod.Namespace, Guaranteed: pod.QoS == v1.PodQOSGuaranteed, Origin: pod.Origin,
		})
		if pod.Ended || pod.MemoryRequest == 0 {
			continue
		}
		//guard: a member that runs outside of its partition is not bounded by it
		if limited[of] && n.Cgroups.Has(partition.CgroupPath(partition.PodSlice(partition.Default, pod.QoS, pod.UID))) {
			of = partition.Default
		}
		if !limited[of] {
			//guard: what one pod uses beyond its request is no memory that another one has requested
			needed += max(0, pod.MemoryRequest-uses(partition.PodSlice(of, pod.QoS, pod.UID)))
		}
	}
	margin := max(threshold, total/marginShare)
	spare := evict.Spare{Bytes: available - threshold - margin - needed, Margin: uint64(margin)}
	return spare, errors.Join(append(problems, memoryErr, limitErr)...)
}
