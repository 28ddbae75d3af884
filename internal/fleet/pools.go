package fleet

import "time"

// pools counts the places that nodes take. The nodes of one pool have their turns before the nodes
// of the next: the pools of the settings, the nodes of none of them, and the control plane.
type pools struct {
	settings Settings
	sizes    []int // selected nodes
	taken    []int // nodes with a Job, or that rest
	all      int   // of taken
	reached  int   // the last pool in which this roll has made a Job
	rests    []rest
}

// rest is a place that stays free until a time. They all rest equally long, so the first one ends
// first.
type rest struct {
	until time.Time
	pool  int
	m     *member
	job   *Job // whose end it follows
}

func newPools(s Settings) pools {
	n := len(s.Pools) + 2
	return pools{settings: s, sizes: make([]int, n), taken: make([]int, n)}
}

// last returns the pool of the control plane.
func (p *pools) last() int { return len(p.sizes) - 1 }

// poolOf returns the pool of a member, noPool if it is not selected.
func (r *Roll) poolOf(m *member) int {
	n, s := &m.node, &r.plan.Settings
	control := n.controlPlane()
	selected := s.Selector.selects(n.Labels) && (!control || bool(s.ControlPlane))
	switch r.plan.Action {
	case Add:
		selected = selected && !n.ours()
	case Uninstall:
		// Also what an earlier selection has left. A Node that was registered again has lost its
		// labels, so that those alone do not suffice.
		selected = selected || n.ours() || m.tried
	}
	switch {
	case !m.present || !n.linux() || !selected:
		return noPool
	case control:
		return r.pools.last()
	}
	for i, pool := range s.Pools {
		if pool.selects(n.Labels) {
			return i
		}
	}
	return len(s.Pools)
}

// move counts a node that leaves a pool for another.
func (p *pools) move(from, to int) {
	//guard: a node that leaves a pool does not count in the share of it
	if from != noPool {
		p.sizes[from]--
	}
	if to != noPool {
		p.sizes[to]++
	}
}

func (p *pools) take(pool int) {
	p.taken[pool]++
	//guard: the Jobs of a roll before give no earlier pool the share of a later one
	p.all++
}

// reach says that this roll has made a Job in a pool. Those that an earlier one has left running in
// a later pool do not count: the canaries would have the share of that.
func (p *pools) reach(pool int) {
	//guard: a worker that comes back after the control plane has the share of its own pool
	if pool != p.last() {
		p.reached = max(p.reached, pool)
	}
}

func (p *pools) free(pool int) {
	p.taken[pool]--
	p.all--
}

// rest makes a place free after the pause.
func (p *pools) rest(r rest) { p.rests = append(p.rests, r) }

// over returns the next rest that has ended, and takes it out.
func (p *pools) over(now time.Time) (r rest, ok bool) {
	if len(p.rests) == 0 || p.rests[0].until.After(now) {
		return rest{}, false
	}
	r, p.rests = p.rests[0], p.rests[1:]
	p.free(r.pool)
	return r, true
}

// allow reports whether the first node that waits, which is of this pool, may have a place.
func (p *pools) allow(pool int) bool {
	last := p.last()
	//guard: no worker begins beside a node of the control plane
	if p.taken[last] > 0 || pool == last {
		return p.all == 0
	}
	for before := range pool {
		if p.taken[before] > 0 {
			return false
		}
	}
	// A node of an earlier pool that has come back must not wait until the present one, which may
	// be larger, is idle.
	//guard: a node of an earlier pool that comes back does not wait for an idle cluster
	share := max(pool, p.reached)
	return p.all < p.settings.Nodes.of(p.sizes[share])
}
