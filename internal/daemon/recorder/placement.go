package recorder

import (
	"nodepartition/internal/samples"
	"nodepartition/pkg/evict"
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

// place adds to a sample where the pods are. A member that waits for its next start is charged
// outside of the partition, and comes into it with the next boot at the latest: a limit has to have
// room for it.
func (r *Recorder) place(s *samples.Sample) {
	if r.Placement == nil {
		return
	}
	placed, known := r.Placement()
	if !known {
		return
	}
	if s.Node != nil {
		s.Node.Pods = placed.Pods
	}
	p := s.Partition
	if p == nil {
		return
	}
	p.Pods = &samples.Pods{
		Members: placed.Members, RequestBytes: placed.RequestBytes,
		Waiting: len(placed.Waiting), LeftBytes: placed.LeftBytes,
	}
	for _, pod := range placed.Waiting {
		p.Pods.WaitingRequestBytes += pod.Request
	}
	for _, pod := range evict.Measure(r.Cgroups, placed.Waiting, r.Warn) {
		p.Pods.WaitingUsedBytes += pod.Usage.Used
		p.Pods.WaitingWorkingSetBytes += pod.Usage.WorkingSet
	}
	p.Pods.AllUsedBytes = p.UsedPeakBytes + p.Pods.WaitingUsedBytes + placed.LeftBytes
	p.Pods.AllWorkingSetBytes = p.Cache.WorkingSetBytes + p.Pods.WaitingWorkingSetBytes + placed.LeftBytes
}
