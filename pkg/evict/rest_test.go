package evict

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/partition"
)

// resting are nodes on which a threshold is crossed and no pod is to be evicted.
var resting = map[string]func(n *node, c *Settings, m *Manager){
	"dry run": func(_ *node, c *Settings, _ *Manager) { c.DryRun = true },
	"no candidate": func(n *node, _ *Settings, _ *Manager) {
		n.set(func() {
			for _, p := range n.pods {
				p.Priority = partition.NodeCritical
			}
		})
	},
	"memory stays": func(_ *node, _ *Settings, m *Manager) { m.executor.state.Unreclaimable["greedy"] = 500 * mi },
}

// TestManagerRestReadings: the pods are listed ten times a second at most while nothing is to be
// done, and not for more than a hundredth of the time: to decide, and where memory stays once more
// to find out whether it still does.
func TestManagerRestReadings(t *testing.T) {
	for name, change := range resting {
		for takes, most := range map[time.Duration]int{0: 210, 10 * time.Millisecond: 24, 40 * time.Millisecond: 8} {
			t.Run(fmt.Sprint(name, " ", takes), func(t *testing.T) {
				bubble(t, func(n *node) {
					c := hardOnly
					m := n.started(c)
					defer n.stop(m)
					change(n, &c, m)
					m.SetConfig(c)
					readings, pods := 0, m.Pods
					m.Pods = func() []Pod {
						readings++
						<-time.After(takes)
						return pods()
					}
					n.run(m, 10*time.Second)
					if report := m.Report(); readings > most || readings < 2 || report.Crossed == "" {
						n.t.Errorf("the pods were listed %d times in ten seconds, want %d at most; crossed %q", readings, most, report.Crossed)
					}
					if did := n.all(); len(did) > 0 {
						n.t.Errorf("did %q", did)
					}
				})
			})
		}
	}
}

// slowList makes the list of pods take so long that a decision to do nothing holds for four
// seconds.
func slowList(m *Manager) {
	pods := m.Pods
	m.Pods = func() []Pod {
		<-time.After(40 * time.Millisecond)
		return pods()
	}
}

// TestManagerRestLeak: a leak that begins while nothing is to be done is evicted as soon as memory
// falls.
func TestManagerRestLeak(t *testing.T) {
	bubble(t, func(n *node) {
		m := n.started(hardOnly)
		defer n.stop(m)
		resting["no candidate"](n, nil, nil)
		slowList(m)
		n.run(m, 5*time.Second)
		n.start(sized("leaker", 0, 0, 0), 1)
		for range 10 {
			n.set(func() { n.pods[3].containers[0].uses += 2 * mi })
			n.run(m, 50*time.Millisecond)
			if len(n.running()) == 4 {
				break
			}
		}
		if did := n.all(); !slices.Contains(did, "kill leaker.c1") {
			n.t.Errorf("did %q after half a second in which 20 of 50 MiB were taken", did)
		}
	})
}

// TestManagerRestRise: memory becomes available while nothing is to be done, and a leak takes it
// again. It is evicted when half of that is gone, and not when as little is left as before.
func TestManagerRestRise(t *testing.T) {
	bubble(t, func(n *node) {
		m := n.started(hardOnly)
		defer n.stop(m)
		resting["memory stays"](n, nil, m)
		n.set(func() { n.pod("modest").containers[0].uses += 44 * mi }) // 6 are left
		slowList(m)
		n.run(m, 5*time.Second)
		n.set(func() { n.pod("modest").containers[0].uses -= 60 * mi })
		n.start(sized("leaker", 0, 0, 0), 1)
		n.run(m, 100*time.Millisecond)
		n.leaks(m, "leaker", 20, 4*mi, 40*time.Millisecond)
		if did := n.all(); !slices.Contains(did, "kill leaker.c1") || len(n.kernel.killed) > 0 {
			n.t.Errorf("did %q, and the kernel killed %q", did, n.kernel.killed)
		}
	})
}

// TestManagerRestConfig: another configuration is followed at once.
func TestManagerRestConfig(t *testing.T) {
	bubble(t, func(n *node) {
		c := hardOnly
		c.DryRun = true
		m := n.started(c)
		defer n.stop(m)
		slowList(m)
		n.run(m, 5*time.Second)
		m.SetConfig(hardOnly)
		n.run(m, 300*time.Millisecond)
		if did := n.all(); !slices.Contains(did, "kill greedy.c1") {
			n.t.Errorf("did %q after the end of the dry run", did)
		}
	})
}

// TestManagerRestGrower: nothing can be done about memory that stays, and the node has taken back
// what it had lent, so that nothing is available. Who grows is seen all the same, before the kernel
// kills.
func TestManagerRestGrower(t *testing.T) {
	bubble(t, func(n *node) {
		n.burst(4000 * mi)
		n.kernel.hostile = true
		m := n.started(bursting())
		n.set(func() { n.left = 650 * mi })
		for _, p := range n.pods {
			p.Request = 500 * mi
		}
		pods := m.Pods
		m.Pods = func() []Pod {
			<-time.After(50 * time.Millisecond)
			return pods()
		}
		n.run(m, 3*time.Second)
		n.spares = 1150 * mi
		n.run(m, 10*time.Second)
		n.pod("greedy").Request = 150 * mi
		n.leaks(m, "greedy", 40, 5*mi, 50*time.Millisecond)
		if n.run(m, time.Second); len(n.kernel.killed) > 0 {
			t.Errorf("the kernel has killed %q", n.kernel.killed)
		}
		n.stop(m)
	})
}
