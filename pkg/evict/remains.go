package evict

// The memory of a pod may stay when its processes end, and grow before they do, or in a container
// that was started again. Another pod would be evicted for that memory in vain.

// setFloor sets the Floor. pods is empty if they were not read.
func (state *State) setFloor(floor uint64, pods []Pod) {
	state.Floor, state.Floored = floor, true
	if len(pods) == 0 {
		return
	}
	state.FloorUsed = map[string]uint64{}
	for i := range pods {
		state.FloorUsed[pods[i].UID] = pods[i].Usage.Used
	}
}

// remainsGrow reports whether available memory has fallen below the Floor because memory that stays
// has grown.
func (s Situation) remainsGrow(order []Candidate) bool {
	growth := uint64(0)
	for i := range order {
		growth += s.remainsGrowth(order[i])
	}
	left := s.available() + s.victimsGrowth()
	return growth > 0 && left < s.State.Floor && left+growth >= s.State.Floor
}

// remainsGrowth returns the bytes by which a pod whose memory stays has grown since the Floor was
// set. The Floor may have been set without reading the pods: a pod that is not known from before
// has grown from nothing.
func (s Situation) remainsGrowth(c Candidate) uint64 {
	if c.Skip != SkipStays {
		return 0
	}
	before, known := s.State.FloorUsed[c.UID]
	if !known {
		//guard: memory that stays may have grown since a floor was set without reading the pods
		before = s.State.Stays[c.UID]
	}
	return c.Usage.Used - min(before, c.Usage.Used)
}

// growingRemains returns the pod whose memory stays and that grows most, nil if none can be
// stopped. Stopping it again brings back nothing, but it does not grow until it is restarted.
func (s Situation) growingRemains(order []Candidate) *Pod {
	var pod *Pod
	most := uint64(0)
	for i := range order {
		if growth := s.remainsGrowth(order[i]); growth > most && !order[i].Empty {
			pod, most = &order[i].Pod, growth
		}
	}
	return pod
}

// usedUp reports whether a pod has itself used up what is missing below the Floor. A pod that did
// not run when the Floor was set has come back, and has not grown.
func (state *State) usedUp(p Pod, left uint64) bool {
	before := state.FloorUsed[p.UID]
	//guard: a container that was started again has not grown
	//guard: without a floor no pod has grown
	return state.Floored && before > 0 && p.Usage.Used > before && left+p.Usage.Used-before >= state.Floor
}
