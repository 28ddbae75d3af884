package evict

import "math"

// The memory of a pod may stay when its processes end, and grow before they do, or in a container
// that was started again. Another pod would be evicted for that memory in vain.

// halfway returns the usage in bytes at which half of what was left at the Base is used up. Then
// another pod grows. Without a Base none does.
func (s Situation) halfway(base uint64) uint64 {
	if base == 0 {
		return math.MaxInt64
	}
	return s.Memory.Max - (s.Memory.Max-min(base, s.Memory.Max))/2
}

// setBase sets the Base, and what each pod uses unless the pods were not read.
func (state *State) setBase(s Situation) {
	state.Base = s.Memory.Used()
	if len(s.Pods) == 0 {
		return
	}
	state.PodBase = map[string]uint64{}
	for i := range s.Pods {
		state.PodBase[s.Pods[i].UID] = s.Pods[i].Usage.Used
	}
}

// remainsGrow reports whether usage has risen from the Base because memory that stays has grown.
func (s Situation) remainsGrow(order []Candidate) bool {
	growth := uint64(0)
	for i := range order {
		growth += s.remainsGrowth(order[i])
	}
	used, most := s.othersUsed(), s.halfway(s.State.Base)
	return used > most && used-min(growth, used) <= most
}

// remainsGrowth returns the bytes by which a pod whose memory stays has grown since the Base was
// set. The Base may have been set without reading the pods: a pod that is not known from before
// has grown from nothing.
func (s Situation) remainsGrowth(c Candidate) uint64 {
	if c.Skip != SkipUnreclaimable {
		return 0
	}
	before, known := s.State.PodBase[c.UID]
	if !known {
		//guard: memory that stays may have grown since a base was set without reading the pods
		before = s.State.Unreclaimable[c.UID]
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

// usedUp reports whether a pod has itself used up half of what was left at the Base. A pod that did
// not run then has come back, and has not grown.
func (s Situation) usedUp(p Pod, state State) bool {
	before := state.PodBase[p.UID]
	//guard: a container that was started again has not grown
	//guard: without a base no pod has grown
	return state.Base > 0 && before > 0 && p.Usage.Used > before &&
		s.Memory.Used() <= s.halfway(state.Base)+p.Usage.Used-before
}
