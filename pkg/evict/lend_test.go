package evict

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// spare returns what the node can spare: what the partition takes from it is missing there.
func (n *node) spare() (Spare, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.looks++
	workingSet := n.sum() - n.cache[0]
	var err error
	if n.silent {
		err = errors.New("silent")
	}
	return Spare{Bytes: int64(n.spares) - int64(workingSet), Margin: 50 * mi}, err
}

// reclaim takes back page cache, as the kernel does. It takes that which was used once first.
func (n *node) reclaim(bytes uint64) {
	n.set(func() {
		for i := range 2 {
			freed := min(n.cache[i], bytes)
			n.cache[i], bytes = n.cache[i]-freed, bytes-freed
		}
	})
}

// bursting is hardOnly with a burst.
func bursting() Settings {
	c := hardOnly
	c.Burst = 400 * mi
	return c
}

// setLimit sets memory.max.
func (n *node) setLimit(limit uint64) {
	n.limit = limit
	n.files(n.slice, map[string]string{"memory.max": number(limit)})
}

// burst has the partition of a busy node use 600 MiB. It may use 1000 and borrow 400, and the node
// has so much for it in all.
func (n *node) burst(spares uint64) {
	n.setLimit(1400 * mi)
	n.spares = spares
	n.set(func() { n.pod("greedy").containers[0].uses, n.pod("greedy").containers[1].uses = 100*mi, 50*mi })
}

// borrowing returns a manager whose partition has borrowed 400 MiB and uses 200 of them, by a pod
// above its request.
func (n *node) borrowing() *Manager {
	n.t.Helper()
	n.burst(4000 * mi)
	m := n.started(bursting())
	n.start(sized("leak", -10, 0, 0), 10)
	n.leaks(m, "leak", 59, 10*mi, 20*time.Millisecond)
	n.run(m, 3*time.Second)
	if r := m.Report(); r.Lent != 400*mi || r.Limit != 1400*mi || n.sum() != 1200*mi || r.Crossed != "" {
		n.t.Fatalf("reported %+v, and %d MiB are used", r, n.sum()/mi)
	}
	n.expect()
	return m
}

// guards fails unless the manager guards the limit and has done this.
func (n *node) guards(m *Manager, want uint64, did ...string) {
	n.t.Helper()
	n.expect(did...)
	if got := m.Report().Limit; got != want || len(n.kernel.killed) > 0 {
		n.t.Errorf("%d MiB are guarded, want %d; the kernel has killed %q", got/mi, want/mi, n.kernel.killed)
	}
}

var leakEvicted = []string{"kill leak.c1", "evict leak", "confirm leak"}

// TestManagerLendsToLeaks: twenty pods, one after the other, leak past the limit and free their
// memory again. Few of them are evicted while the node has memory to spare, and as many as without
// a burst while it has none.
func TestManagerLendsToLeaks(t *testing.T) {
	leaks := func(t *testing.T, c Settings, spares uint64) (evicted int, limit uint64) {
		t.Helper()
		bubble(t, func(n *node) {
			n.burst(spares)
			n.setLimit(c.Max())
			m := n.started(c)
			for i := range 20 {
				name := "leak" + string(rune('a'+i))
				n.start(sized(name, -10, 0, 0), 10)
				n.leaks(m, name, 50, 10*mi, 20*time.Millisecond)
				n.run(m, 3*time.Second)
				limit = max(limit, m.Report().Limit)
				n.set(func() {
					if slices.ContainsFunc(n.pods, func(p *nodePod) bool { return p.Name == name }) {
						n.end(n.pod(name), 0)
					}
				})
				n.run(m, 5*time.Second)
			}
			if r := m.Report(); r.Limit != 1000*mi || r.Lent != 0 || len(n.kernel.killed) > 0 {
				t.Errorf("at the end %d MiB are guarded; the kernel has killed %q", r.Limit/mi, n.kernel.killed)
			}
			for _, event := range n.takeEvents() {
				if strings.HasPrefix(event, "warn ") {
					t.Error(event)
				}
			}
			for _, what := range n.all() {
				if strings.HasPrefix(what, "evict ") {
					evicted++
				}
			}
			n.stop(m)
		})
		return evicted, limit
	}
	without, _ := leaks(t, hardOnly, 4000*mi)
	with, limit := leaks(t, bursting(), 4000*mi)
	t.Logf("%d evictions without a burst, %d with", without, with)
	if without != 20 || with > without/5 || limit != 1400*mi {
		t.Errorf("%d evictions without a burst, %d with one, up to a limit of %d MiB", without, with, limit/mi)
	}
	// 1000 MiB and the margin of 50 are needed before anything is lent.
	if short, limit := leaks(t, bursting(), 1049*mi); short != without || limit != 1000*mi {
		t.Errorf("on a node that is short: %d evictions, want %d; limit %d MiB", short, without, limit/mi)
	}
}

// TestManagerLentBack: a node that needs memory has it back a second later, by evictions in the
// usual order, and of no more than it needs.
func TestManagerLentBack(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*node, *Manager)
		within time.Duration
		limit  uint64
		did    []string
	}{
		"a user pod takes all of it":     {func(n *node, _ *Manager) { n.spares = 900 * mi }, time.Second, 1000 * mi, leakEvicted[:2]},
		"it needs what is used, too":     {func(n *node, _ *Manager) { n.spares = 1240 * mi }, 2 * time.Second, 1000 * mi, leakEvicted},
		"it needs what is not used":      {func(n *node, _ *Manager) { n.spares = 1300 * mi }, time.Second, 1300 * mi, nil},
		"the pod frees its memory":       {func(n *node, _ *Manager) { n.set(func() { n.pod("leak").containers[0].uses = mi }) }, time.Second, 1000 * mi, nil},
		"less, and it is not known":      {func(n *node, m *Manager) { n.silent = true; n.reconfigure(m, 1150) }, 5 * time.Second, 1000 * mi, []string{"kill leak.c1", "lower", "evict leak", "confirm leak"}},
		"it is not known for a moment":   {func(n *node, _ *Manager) { n.silent = true }, lendPatience - time.Second, 1400 * mi, nil},
		"it is not known for long":       {func(n *node, _ *Manager) { n.silent = true }, lendPatience + time.Second, 1000 * mi, leakEvicted[:2]},
		"the burst is made smaller":      {func(n *node, m *Manager) { n.reconfigure(m, 1150) }, time.Second, 1000 * mi, []string{"kill leak.c1", "lower", "evict leak"}},
		"the burst is taken away":        {func(n *node, m *Manager) { n.reconfigure(m, 1000) }, time.Second, 1000 * mi, []string{"kill leak.c1", "lower", "evict leak"}},
		"evictions are reported only":    {func(n *node, m *Manager) { n.spares = 900 * mi; c := bursting(); c.DryRun = true; m.SetConfig(c) }, time.Second, 1000 * mi, nil},
		"eviction is switched off":       {func(n *node, m *Manager) { n.spares = 900 * mi; c := bursting(); c.Off = true; m.SetConfig(c) }, time.Second, 1400 * mi, nil},
		"an operator raises the limit":   {func(n *node, _ *Manager) { n.spares = 900 * mi; n.setLimit(3000 * mi) }, time.Second, 3000 * mi, nil},
		"an operator lowers it somewhat": {func(n *node, _ *Manager) { n.setLimit(1300 * mi) }, time.Second, 1300 * mi, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				m := n.borrowing()
				test.change(n, m)
				n.run(m, test.within+20*time.Millisecond)
				n.guards(m, test.limit, test.did...)
				n.stop(m)
			})
		})
	}
}

// reconfigure configures so much for memoryLimit and burst, in MiB. The limit in force follows when
// the partition uses less.
func (n *node) reconfigure(m *Manager, most uint64) {
	c := bursting()
	c.Burst, c.Lowering = most*mi-c.Limit, true
	n.lower = func() error { n.setLimit(most * mi); return nil }
	m.SetConfig(c)
}

// TestManagerLendsAtOnce: a pod takes so much between two polls that the threshold is crossed. The
// node is looked at before it is evicted, and no more than once a second.
func TestManagerLendsAtOnce(t *testing.T) {
	bubble(t, func(n *node) {
		n.burst(4000 * mi)
		m := n.started(bursting())
		n.run(m, 5*time.Second)
		if n.looks > 0 {
			t.Errorf("%d looks at the node for a partition that needs nothing", n.looks)
		}
		n.start(sized("leak", -10, 0, 0), 680) // a threshold is near: each poll could look
		n.run(m, 10*time.Second)
		n.guards(m, 1400*mi)
		if n.looks < 10 || n.looks > 14 {
			t.Errorf("%d looks at the node in ten seconds", n.looks)
		}
		n.stop(m)
	})
}

// TestManagerLentToPageCache: page cache takes no more of the node than without a burst, whether
// something is lent or not.
func TestManagerLentToPageCache(t *testing.T) {
	for name, used := range map[string]uint64{"nothing is lent": 600, "memory is lent": 980} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.burst(1150 * mi)
				m := n.started(bursting())
				n.set(func() { n.pod("greedy").containers[0].uses += (used - 600) * mi })
				n.run(m, 2*time.Second)
				n.set(func() { n.cache[1] = n.limit - n.sum() })
				n.run(m, 2*time.Second)
				// The node has the margin above the kubelet's threshold.
				if spare, _ := n.spare(); spare.Bytes+int64(spare.Margin) < 0 {
					t.Errorf("the kubelet lacks %d MiB", -(spare.Bytes+int64(spare.Margin))/mi)
				}
				n.expect()
				n.stop(m)
			})
		})
	}
}

// TestManagerLentNoMore: who has freed the memory borrows nothing for page cache.
func TestManagerLentNoMore(t *testing.T) {
	bubble(t, func(n *node) {
		m := n.borrowing()
		n.set(func() { n.pod("leak").containers[0].uses = 640 * mi }) // a threshold is near: each poll reads memory.stat
		n.run(m, 1100*time.Millisecond)
		n.set(func() { n.pod("leak").containers[0].uses, n.cache[1] = mi, 500*mi })
		n.run(m, 2*time.Second)
		n.looks = 0
		n.run(m, 5*time.Second)
		n.guards(m, 1000*mi)
		if n.looks > 0 {
			t.Errorf("%d looks at the node", n.looks)
		}
		n.stop(m)
	})
}

// TestManagerLentEdited: an edit that lends more and limits to less, with the same sum, takes
// nothing back between two looks.
func TestManagerLentEdited(t *testing.T) {
	bubble(t, func(n *node) {
		m := n.borrowing()
		n.set(func() { n.pod("leak").containers[0].uses += 50 * mi })
		for n.looks = 0; n.looks == 0; {
			n.run(m, 20*time.Millisecond)
		}
		c := bursting()
		c.Limit, c.Burst = 900*mi, 500*mi
		m.SetConfig(c)
		n.run(m, 3*time.Second)
		n.guards(m, 1400*mi)
		n.stop(m)
	})
}

// expectKills fails unless these containers were killed since the last time, in the order of their
// names, and none by the kernel.
func (n *node) expectKills(want ...string) {
	n.t.Helper()
	var killed []string
	for _, did := range n.all() {
		if id, ok := strings.CutPrefix(did, "kill "); ok {
			killed = append(killed, id)
		}
	}
	if slices.Sort(killed); !slices.Equal(killed, want) || len(n.kernel.killed) > 0 {
		n.t.Errorf("killed %q, want %q; the kernel has killed %q", killed, want, n.kernel.killed)
	}
}

// TestManagerLentBackSlowly: the memory of the first victim takes its time, while the node is
// short. Another pod that grows meanwhile is evicted before the kernel kills, and nobody else is.
func TestManagerLentBackSlowly(t *testing.T) {
	never := func(n *node) { n.ends = 8 * time.Second }
	for name, test := range map[string]struct {
		slow   func(*node)
		spares uint64
		grows  int
		want   []string
	}{
		"another one grows":                       {never, 1140, 14, []string{"greedy.c1", "greedy.c2", "leak.c1"}},
		"another one grows, and little was left":  {never, 1204, 14, []string{"greedy.c1", "greedy.c2", "leak.c1"}},
		"another one grows, and nothing was left": {never, 1200, 14, []string{"greedy.c1", "greedy.c2", "leak.c1"}},
		"another one has grown somewhat":          {never, 1225, 1, []string{"leak.c1"}},
		"files that wait for the kubelet": {func(n *node) {
			n.fails = 8 * time.Second
			p := n.pod("leak")
			p.containers[0].uses, p.rest = 100*mi, 500*mi
		}, 1140, 0, []string{"leak.c1"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				m := n.borrowing()
				n.kernel.hostile = true
				n.set(func() { test.slow(n) })
				n.spares = test.spares * mi
				n.run(m, 1100*time.Millisecond)
				n.leaks(m, "greedy", test.grows, 15*mi, 250*time.Millisecond)
				n.run(m, 3*time.Second)
				n.expectKills(test.want...)
				n.stop(m)
			})
		})
	}
}

// TestManagerLentBackMeanwhile: the memory of an eviction is awaited, and is enough, while less is
// lent, or the limit is lowered. Nobody else is evicted, but who takes nearly all that is left.
func TestManagerLentBackMeanwhile(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*node, *Manager)
		want   []string
	}{
		"less is lent": {func(n *node, _ *Manager) { n.spares = 1140 * mi }, nil},
		"the limit is lowered": {func(n *node, m *Manager) {
			c := hardOnly
			c.Limit, c.Lowering = 1140*mi, true
			n.lower = func() error { n.setLimit(1140 * mi); return nil }
			m.SetConfig(c)
		}, nil},
		"another one takes all but 6 MiB": {func(n *node, m *Manager) {
			most := n.limit - n.sum() - 6*mi
			n.set(func() { n.pod("greedy").containers[0].uses += most })
			n.run(m, 200*time.Millisecond)
			n.leaks(m, "greedy", 10, mi, 200*time.Millisecond)
		}, []string{"greedy.c1", "greedy.c2"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.burst(4000 * mi)
				n.fails, n.kernel.hostile = 8*time.Second, true
				m := n.started(bursting())
				n.start(sized("leak", -10, 0, 0), 110)
				n.set(func() { n.pod("leak").rest = 500 * mi })
				n.run(m, 3*time.Second)
				n.leaks(m, "leak", 10, 10*mi, 20*time.Millisecond)
				n.run(m, time.Second)
				n.expect("kill leak.c1", "evict leak")
				test.change(n, m)
				n.run(m, 15*time.Second)
				n.expectKills(test.want...)
				n.stop(m)
			})
		})
	}
}

// TestManagerLentNotKnown: that nothing can be lent is said half a minute after it was needed, and
// not at all while eviction is off.
func TestManagerLentNotKnown(t *testing.T) {
	for name, test := range map[string]struct {
		off  bool
		said int
	}{"on": {false, 1}, "off": {true, 0}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.burst(4000 * mi)
				c := bursting()
				c.Off = test.off
				m := n.started(c)
				n.run(m, time.Hour)
				n.silent = true
				n.set(func() { n.pod("greedy").containers[0].uses += 250 * mi })
				n.run(m, lendPatience-time.Second)
				n.expectEvents()
				n.run(m, 5*time.Second)
				if events := n.takeEvents(); len(events) != test.said {
					t.Errorf("%q", events)
				}
				n.stop(m)
			})
		})
	}
}

// TestManagerLentToProtected: a protected pod keeps what it has borrowed when the node is short.
// The others keep the page cache that they need, such as their executables.
func TestManagerLentToProtected(t *testing.T) {
	bubble(t, func(n *node) {
		m := n.borrowing()
		n.set(func() {
			for _, p := range n.pods {
				p.Static = true
			}
		})
		n.spares = 1140 * mi
		n.run(m, 3*time.Second)
		n.set(func() { n.cache[1] = 80 * mi })
		n.run(m, 10*time.Second)
		if n.cache[1] != 80*mi {
			t.Errorf("%d of 80 MiB of page cache are left", n.cache[1]/mi)
		}
		n.stop(m)
	})
}

// TestManagerLentToFiles: files that stay and are less than what the node lacks do not end the
// giving back.
func TestManagerLentToFiles(t *testing.T) {
	bubble(t, func(n *node) {
		n.burst(4000 * mi)
		m := n.started(bursting())
		for _, pod := range []string{"leak1", "leak2", "leak3", "leak4", "leak5"} {
			n.start(sized(pod, -10, 0, 0), 100)
		}
		n.set(func() { n.left = 150 * mi })
		n.run(m, 3*time.Second)
		n.expect()
		n.spares = 1000 * mi
		n.run(m, 30*time.Second)
		if spare, _ := n.spare(); spare.Bytes+int64(spare.Margin) < 0 {
			t.Errorf("half a minute later the kubelet lacks %d MiB; did %q", -(spare.Bytes+int64(spare.Margin))/mi, n.all())
		}
		n.stop(m)
	})
}

// TestManagerLendsAgain: more is lent only where twice the margin is free.
func TestManagerLendsAgain(t *testing.T) {
	bubble(t, func(n *node) {
		m := n.borrowing()
		for _, step := range []struct{ spares, limit uint64 }{{1300, 1300}, {1350, 1300}, {1360, 1310}, {4000, 1400}} {
			n.spares = step.spares * mi
			n.run(m, 1020*time.Millisecond)
			n.guards(m, step.limit*mi)
		}
		n.stop(m)
	})
}

// TestManagerLentAtStart: a program that starts evicts nobody who borrows before it knows the node,
// for half a minute, and lends no more meanwhile.
func TestManagerLentAtStart(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*node, *Manager)
		limit  uint64
		did    []string
	}{
		"not known":          {func(*node, *Manager) {}, 1300 * mi, nil},
		"not known for long": {func(n *node, m *Manager) { n.run(m, lendPatience) }, 1000 * mi, leakEvicted},
		"the node can lend":  {func(n *node, _ *Manager) { n.silent = false }, 1400 * mi, nil},
		"the node is short":  {func(n *node, _ *Manager) { n.silent, n.spares = false, 1000*mi }, 1000 * mi, leakEvicted},
		"it grows":           {func(n *node, m *Manager) { n.leaks(m, "leak", 15, 10*mi, 20*time.Millisecond) }, 1000 * mi, leakEvicted},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.stop(n.borrowing())
				n.boot()
				n.set(func() { n.pod("leak").containers[0].uses = 500 * mi })
				n.silent = true
				m := n.started(bursting())
				n.run(m, 2*time.Second)
				n.guards(m, 1300*mi) // with twice the threshold
				test.change(n, m)
				n.run(m, 5*time.Second)
				n.guards(m, test.limit, test.did...)
				n.stop(m)
			})
		})
	}
}

// TestLendable: what is lent is never more than the burst, nor than the node can spare.
func TestLendable(t *testing.T) {
	c := bursting()
	for name, test := range map[string]struct {
		workingSet uint64
		more       int64
		want       uint64
	}{
		"plenty":                  {950 * mi, 8000 * mi, 400 * mi},
		"some":                    {950 * mi, 280 * mi, 230 * mi},
		"the node lacks memory":   {1300 * mi, -200 * mi, 100 * mi},
		"more than the partition": {1300 * mi, -2000 * mi, 0},
	} {
		if got := c.lendable(test.workingSet, test.more); got != test.want {
			t.Errorf("%s: %d MiB, want %d", name, got/mi, test.want/mi)
		}
	}
}
