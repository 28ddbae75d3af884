package recorder

import (
	"fmt"
	"hash/crc32"
	"slices"

	"nodepartition/internal/samples"
	"nodepartition/pkg/evict"
)

// members returns the pods of the partition with their usage.
func (r *Recorder) members(candidates []evict.Pod) []samples.Member {
	pods := evict.Measure(r.Cgroups, candidates, r.Warn)
	list := make([]samples.Member, 0, len(pods))
	for i := range pods {
		p := &pods[i]
		if !p.Measured {
			continue
		}
		list = append(list, samples.Member{
			UID: p.UID, Namespace: p.Namespace, Name: p.Name, Containers: containers(p), QoS: string(p.QoS),
			Priority: p.Priority, RequestBytes: p.Request, Static: p.Static, Estimated: p.Estimated,
			WorkingSetBytes: p.Usage.WorkingSet, UsedBytes: p.Usage.Used,
		})
	}
	return list
}

// containers returns a checksum of the IDs of a pod's containers, which changes with each restart.
func containers(p *evict.Pod) string {
	ids := make([]string, 0, len(p.Containers))
	for _, c := range p.Containers {
		ids = append(ids, c.ID)
	}
	slices.Sort(ids)
	return fmt.Sprintf("%08x", crc32.ChecksumIEEE(fmt.Append(nil, ids)))
}
