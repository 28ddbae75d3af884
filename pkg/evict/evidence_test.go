package evict

import (
	"testing"
	"time"
)

// TestManagerOOMDuringEviction: ooms that the kernel counts while a pod ends cost no other pod,
// however long it takes to end.
func TestManagerOOMDuringEviction(t *testing.T) {
	for _, ends := range []time.Duration{time.Millisecond, 100 * time.Millisecond, 4 * time.Second} {
		t.Run(ends.String(), func(t *testing.T) {
			bubble(t, func(n *node) {
				n.ends = ends
				m := n.started(hardOnly)
				n.run(m, 10*time.Minute)
				n.expect("kill greedy.c1", "kill greedy.c2", "evict greedy", "confirm greedy")
			})
		})
	}
}

// TestManagerOOMBeforeSignal: the kernel kills between the reading that chose a pod and the
// second one. The memory of the killed process is awaited, and no pod is evicted.
func TestManagerOOMBeforeSignal(t *testing.T) {
	bubble(t, func(n *node) {
		m := n.started(hardOnly)
		pods, first := m.Pods, true
		m.Pods = func() []Pod {
			if first {
				first = false
				n.set(func() { n.kernelKills(n.pod("greedy"), 2*time.Second) })
			}
			return pods()
		}
		n.run(m, time.Second)
		n.expect()
		if r := m.Report(); r.Crossed != Hard || r.NoCandidate {
			n.t.Errorf("reported %+v", r)
		}
		n.run(m, time.Minute)
		n.expect()
	})
}

// TestManagerKernelKilledGrower: the kernel has killed the pod that grew. No other has to go,
// while it ends or after it.
func TestManagerKernelKilledGrower(t *testing.T) {
	for _, ends := range []time.Duration{0, 30 * time.Millisecond, 2 * time.Second} {
		t.Run(ends.String(), func(t *testing.T) {
			bubble(t, func(n *node) {
				n.set(func() { n.pod("greedy").containers[0].uses = mi })
				m := n.started(hardOnly)
				n.run(m, 3*time.Second)
				n.set(func() {
					n.pod("greedy").containers[0].uses = 350 * mi
					n.kernelKills(n.pod("greedy"), ends)
				})
				n.run(m, time.Minute)
				n.expect()
			})
		})
	}
}

// TestManagerKernelKillInVain: what the kernel has killed brings back nothing. After a while
// the pod that holds the memory is evicted, and the next kill is not waited for.
func TestManagerKernelKillInVain(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { n.pod("greedy").containers[0].uses = mi })
		m := n.started(hardOnly)
		n.run(m, time.Second)
		n.set(func() {
			n.pod("greedy").containers[0].uses = 345 * mi
			n.kernelCounts(1)
		})
		n.run(m, reapTimeout-100*time.Millisecond)
		n.expect()
		n.run(m, time.Second)
		n.expect("kill greedy.c1", "kill greedy.c2", "evict greedy")
	})
}

// TestManagerOOMSlabs: files that a pod holds open hide its memory. An oom that no process
// explains evicts it, and one that is over does not.
func TestManagerOOMSlabs(t *testing.T) {
	for name, test := range map[string]struct {
		cache [3]uint64
		over  bool
		want  []string
	}{
		"slabs":                   {[3]uint64{0, 0, 250 * mi}, false, []string{"kill greedy.c1", "kill greedy.c2", "evict greedy", "confirm greedy"}},
		"slabs, freed since":      {[3]uint64{0, 0, 250 * mi}, true, nil},
		"page cache, being freed": {[3]uint64{125 * mi, 125 * mi, 0}, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.set(func() { n.pod("greedy").containers[0].uses = 100 * mi; n.cache = test.cache })
				m := n.started(hardOnly)
				n.run(m, 5*time.Second)
				n.expect()
				n.set(n.countOOM)
				if test.over {
					<-time.After(time.Millisecond)
					n.set(func() { n.cache = [3]uint64{} })
				}
				n.run(m, oomSettle-10*time.Millisecond)
				n.expect()
				n.run(m, time.Minute)
				n.expect(test.want...)
			})
		})
	}
}

// TestManagerOOMLongAgo: page cache fills the partition, as on any node after a while. An oom that
// met a process that was ending proves nothing an hour later, nor does the next one of that kind.
func TestManagerOOMLongAgo(t *testing.T) {
	for name, later := range map[string]func(*node){
		"another oom":      (*node).countOOM,
		"slabs have grown": func(n *node) { n.cache = [3]uint64{40 * mi, 40 * mi, 170 * mi} },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.set(func() { n.pod("greedy").containers[0].uses = 100 * mi; n.cache = [3]uint64{125 * mi, 125 * mi, 0} })
				m := n.started(hardOnly)
				n.run(m, time.Second)
				n.set(n.countOOM)
				n.run(m, time.Minute)
				n.set(func() { later(n) })
				n.run(m, time.Minute)
				n.expect()
			})
		})
	}
}

// TestManagerKernelKillAfterOneInVain: a kill brought back nothing, and the soft threshold has been
// crossed since, which may take hours. The memory of the next killed process is awaited, also after
// a restart.
func TestManagerKernelKillAfterOneInVain(t *testing.T) {
	for name, restart := range map[string]bool{"in the same run": false, "in the next run": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				c := hardOnly
				c.Soft, c.SoftGrace = 300*mi, time.Hour
				n.set(func() { n.pod("greedy").containers[0].uses = 100 * mi }) // 250 MiB are left
				n.start(sized("leaker", 1000, 0, 200), 1)
				m := n.started(c)
				n.run(m, time.Second)
				n.set(func() { n.kernelCounts(1) })
				n.run(m, reapTimeout+time.Second)
				if restart {
					m = n.again(m, c, 0)
				}
				n.run(m, endTimeout)
				n.expect()
				n.set(func() {
					n.pod("leaker").containers[0].uses = 250 * mi
					n.kernelKills(n.pod("leaker"), 500*time.Millisecond)
				})
				n.run(m, time.Minute)
				n.expect()
			})
		})
	}
}

// reading is a reading of the counts and of the memory, some time after the last one. The amounts
// are in MiB.
type reading struct {
	after       time.Duration
	counted     counted
	ending      bool
	used, slabs uint64
}

// TestEvidenceNext: what the counts prove after some readings, with a limit of 1000 and a threshold
// of 100 MiB.
func TestEvidenceNext(t *testing.T) {
	oom, kill := counted{oom: true}, counted{oom: true, killed: true}
	inVain := []reading{{0, kill, false, 990, 0}, {reapTimeout, counted{}, false, 990, 0}}
	flutter := make([]reading, 24)
	for i := range flutter {
		flutter[i] = reading{500 * time.Millisecond, counted{}, false, 650 + uint64(i%2)*20, 300}
	}
	const second = time.Second
	for name, test := range map[string]struct {
		readings []reading
		dying    bool
		stuck    bool
	}{
		"a kill is awaited":                {[]reading{{0, kill, false, 990, 0}, {2 * second, counted{}, false, 990, 0}}, true, false},
		"for a while":                      {inVain, false, true},
		"one after another in vain is not": {append(inVain, reading{second, kill, false, 990, 0}), false, true},
		"one after another that helped is": {[]reading{{0, kill, false, 990, 0}, {second, counted{}, false, 500, 0}, {endTimeout, kill, false, 990, 0}, {second, counted{}, false, 990, 0}}, true, false},
		"one in a later shortage is":       {append(inVain, reading{second, counted{}, false, 500, 0}, reading{second, kill, false, 990, 0}), true, false},
		"not if its memory has come back":  {[]reading{{0, kill, false, 990, 0}, {second / 2, counted{}, false, 500, 0}, {second / 2, counted{}, false, 990, 0}}, false, false},
		"longer while usage falls":         {[]reading{{0, kill, false, 990, 0}, {2500 * time.Millisecond, counted{}, false, 950, 0}, {2500 * time.Millisecond, counted{}, false, 950, 0}}, true, false},
		"also if it has grown before":      {[]reading{{0, kill, false, 920, 0}, {second / 2, counted{}, false, 990, 0}, {2 * second, counted{}, false, 950, 0}, {2500 * time.Millisecond, counted{}, false, 950, 0}}, true, false},
		"also if an eviction has ended":    {[]reading{{0, kill, false, 990, 0}, {second / 2, counted{}, true, 990, 0}, {2 * second, counted{}, false, 950, 0}, {2500 * time.Millisecond, counted{}, false, 950, 0}}, true, false},
		"an oom":                           {[]reading{{0, oom, false, 650, 300}, {second, counted{}, false, 650, 300}}, false, true},
		"while usage falls":                {[]reading{{0, oom, false, 680, 300}, {second, counted{}, false, 650, 300}}, false, false},
		"while usage flutters":             {append([]reading{{0, oom, false, 650, 300}}, flutter[:18]...), false, false},
		"while usage flutters for long":    {append([]reading{{0, oom, false, 650, 300}}, flutter...), false, true},
		"an oom of an eviction":            {[]reading{{0, oom, true, 650, 300}, {second, counted{}, false, 650, 300}}, false, false},
		"an oom with memory left":          {[]reading{{0, oom, false, 500, 0}, {second, counted{}, false, 650, 300}}, false, false},
		"an oom that a kill has answered":  {[]reading{{0, kill, false, 990, 0}, {second, counted{}, false, 500, 200}, {2 * second, counted{}, false, 650, 300}}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			var e evidence
			s := snapshotOf(0)
			for _, r := range test.readings {
				s.Now = s.Now.Add(r.after)
				s.Memory.Current, s.Memory.SlabReclaimable = (r.used+r.slabs)*mi, r.slabs*mi
				e = e.next(s.Now, r.counted, r.ending, s)
			}
			s.Evidence = e
			if e.dying(s.Now) != test.dying || s.stuck() != test.stuck {
				t.Errorf("awaited %t, stuck %t; want %t, %t", e.dying(s.Now), s.stuck(), test.dying, test.stuck)
			}
		})
	}
}

// kernelCounts counts an oom and the kill of some processes.
func (n *node) kernelCounts(processes int) {
	n.kernel.kills += processes
	n.countOOM()
}

// kernelKills kills the containers of a pod, as the kernel does, which end after a time.
func (n *node) kernelKills(p *nodePod, ends time.Duration) {
	for _, c := range p.containers {
		n.kernel.kills++
		n.countOOM()
		n.ends, ends = ends, n.ends
		n.exit(c.cgroup, n.ends)
		n.ends, ends = ends, n.ends
	}
}
