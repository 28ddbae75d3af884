package recorder

import (
	"nodepartition/internal/node/candidates"
	"nodepartition/internal/samples"
	"nodepartition/internal/unitname"
)

// readNode reads what the node has: CPUs and memory can be added while it runs.
func (r *Recorder) readNode() {
	node, err := r.Node()
	if err != nil {
		r.node = nil
		r.Warn(err)
		return
	}
	r.node = &node
}

// place adds to a sample, and to the usage of its partitions, where the pods are. A member that
// waits for its next start is charged outside of the partition, and comes into it with the next
// boot at the latest: a limit has to have room for it.
func (r *Recorder) place(s *samples.Sample, partitions []measured) {
	if r.Placement == nil {
		return
	}
	all, known := r.Placement(unitname.Default)
	if !known {
		return
	}
	if s.Node != nil {
		s.Node.Pods = all.Pods
	}
	for i := range partitions {
		if placed, known := r.Placement(partitions[i].Name); known {
			r.placeIn(partitions[i].usage, placed)
		}
	}
}

// placeIn adds to the usage of a partition where its members are.
func (r *Recorder) placeIn(p *samples.Usage, placed candidates.Placement) {
	p.Pods = &samples.Pods{
		Members: placed.Members, RequestBytes: placed.RequestBytes,
		Waiting: len(placed.Waiting), LeftBytes: placed.LeftBytes,
	}
	for _, pod := range placed.Waiting {
		p.Pods.WaitingRequestBytes += pod.Request
	}
	p.Pods.WaitingUsedBytes, p.Pods.WaitingWorkingSetBytes = placed.Outside(r.Cgroups, r.Warn)
	p.Pods.AllUsedBytes = p.UsedPeakBytes + p.Pods.WaitingUsedBytes + placed.LeftBytes
	p.Pods.AllWorkingSetBytes = p.Cache.WorkingSetBytes + p.Pods.WaitingWorkingSetBytes + placed.LeftBytes
}
