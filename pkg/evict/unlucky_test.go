package evict

import (
	"slices"
	"testing"
	"time"
)

// TestLeakWhileAnotherEnds: if memory vanishes between two polls while the last evicted pod does
// not end, another pod leaks.
func TestLeakWhileAnotherEnds(t *testing.T) {
	t.Run("after there was enough", func(t *testing.T) {
		bubble(t, func(n *node) {
			n.noAPI = true
			n.set(func() { n.pod("greedy").containers[0].immortal = true })
			m := n.started(hardOnly)
			n.run(m, 50*time.Millisecond)
			n.expect("kill greedy.c1", "kill greedy.c2")
			n.run(m, time.Second) // 250 are left
			n.set(func() { n.pod("modest").containers[0].uses = 510 * mi })
			n.run(m, time.Second) // 40 of 100 are left
			n.expect("kill modest.c1")
		})
	})
	t.Run("after a restart of the program", func(t *testing.T) {
		bubble(t, func(n *node) {
			n.noAPI = true
			n.set(func() { n.pod("greedy").containers[0].immortal = true })
			m := n.started(hardOnly)
			n.run(m, 50*time.Millisecond)
			n.expect("kill greedy.c1", "kill greedy.c2")
			n.stop(m)
			n.boot()
			n.set(func() { n.pod("modest").containers[0].uses = 510 * mi })
			m = n.started(hardOnly)
			n.run(m, time.Second)
			if did := n.all(); !slices.Contains(did, "kill modest.c1") {
				n.t.Errorf("did %q", did)
			}
		})
	})
}

// TestMemoryCameBackAfterAll: memory that a pod once did not give back does not protect memory that
// it takes later.
func TestMemoryCameBackAfterAll(t *testing.T) {
	back := func(n *node, m *Manager) {
		n.t.Helper()
		n.set(func() { n.pod("greedy").containers[0].immortal = true })
		n.run(m, 20*time.Second)
		n.expect("kill greedy.c1", "kill greedy.c2")
		if len(m.executor.state.Stays) != 1 {
			n.t.Fatalf("remembered is %v", m.executor.state.Stays)
		}
		n.set(func() { // it ends, and is started again
			c := n.pod("greedy").containers[0]
			c.immortal = false
			n.exited(n.pod("greedy"), c)
		})
		n.run(m, 20*time.Second)
		n.all()
	}
	leaks := func(n *node, m *Manager) {
		n.t.Helper()
		n.set(func() { n.pod("greedy").containers[0].uses = 500 * mi })
		n.run(m, time.Second)
		if did := n.all(); len(did) == 0 || did[0] != "kill greedy.c1.2" {
			n.t.Errorf("did %q, reported %+v", did, m.Report())
		}
	}
	t.Run("in this run", func(t *testing.T) {
		bubble(t, func(n *node) {
			n.noAPI, n.restarts, n.restarted = true, time.Second, mi
			m := n.started(hardOnly)
			back(n, m)
			leaks(n, m)
		})
	})
	t.Run("in the next run", func(t *testing.T) {
		bubble(t, func(n *node) {
			n.noAPI, n.restarts, n.restarted = true, time.Second, mi
			m := n.started(hardOnly)
			back(n, m)
			n.stop(m)
			n.boot()
			m = n.started(hardOnly)
			leaks(n, m)
		})
	})
}

// TestRestartBeforePodsAreKnown: State.Stays is kept until the pods are known.
func TestRestartBeforePodsAreKnown(t *testing.T) {
	bubble(t, func(n *node) {
		n.noAPI, n.restarts, n.restarted = true, 10*time.Second, mi
		full(n)
		m := n.started(hardOnly)
		n.run(m, time.Minute)
		n.expect("kill greedy.c1", "kill greedy.c2")
		n.stop(m)
		n.boot()
		m = n.started(hardOnly)
		pods, begin := m.Pods, time.Now()
		m.Pods = func() []Pod {
			if time.Since(begin) < time.Second {
				return nil // the kubelet has not answered
			}
			return pods()
		}
		n.run(m, time.Minute)
		n.expect()
	})
}

// TestFilesThatFlutter: memory that comes and goes is not coming back, and the pod is evicted for
// good like one whose files stay the same.
func TestFilesThatFlutter(t *testing.T) {
	bubble(t, func(n *node) {
		n.restarts, n.restarted = 50*time.Millisecond, mi
		full(n)
		m := n.started(hardOnly)
		m.executor.state.Cooldown["kube-system/greedy"] = time.Now().Add(4 * time.Minute)
		for i := range 200 {
			n.mu.Lock()
			stays := slices.ContainsFunc(n.pods, func(p *nodePod) bool { return p.Name == "greedy" && !p.ending })
			n.mu.Unlock()
			if stays {
				n.set(func() { n.pod("greedy").rest = 480*mi + uint64(i%2)*4096 })
			}
			n.run(m, 50*time.Millisecond)
		}
		if did := n.all(); !slices.Contains(did, "tell greedy") {
			n.t.Errorf("did %q, reported %+v", did, m.Report())
		}
	})
}

// TestUnknownPodIsNotTold: a pod without a name, such as an unlisted pod, cannot be reported.
func TestUnknownPodIsNotTold(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { n.pod("greedy").containers[0].uses, n.pod("greedy").containers[1].uses = mi, mi })
		n.listed = n.list()
		n.passTakes, n.restarts, n.restarted = time.Hour, 10*time.Second, mi
		n.start(sized("newcomer", 0, 0, 0), 10)
		n.set(func() { n.pod("newcomer").rest = 490 * mi })
		m := n.started(hardOnly)
		pods := m.Pods
		m.Pods = func() []Pod {
			list := pods()
			for i := range list {
				if list[i].Unknown {
					list[i].Name = "(pod " + list[i].UID + ")"
				}
			}
			return list
		}
		n.run(m, time.Minute)
		n.expect("kill newcomer.c1")
	})
}

// TestKernelKillsBesideMemoryThatStays: a little memory that stays does not hold evictions back if
// the computed value is high enough and the kernel reports that the limit is reached.
func TestKernelKillsBesideMemoryThatStays(t *testing.T) {
	t.Parallel()
	s := look(300, sized("tmpfs", 0, 1, 0), sized("a", 0, 500, 0))
	s.OutOfMemory = true
	s.State.Stays = map[string]uint64{"tmpfs": mi}
	if d := Decide(s); d.Victim == nil || d.Victim.Name != "a" {
		t.Errorf("held %q, goes %+v", d.Held, d.Victim)
	}
}

// TestKernelKillsWhileHeld: if all memory has gone between two polls, an eviction does not wait
// until half of nothing is lost.
func TestKernelKillsWhileHeld(t *testing.T) {
	t.Parallel()
	unknown := with(sized("unknown", 0, 400, 0), func(p *Pod) { p.Unknown = true })
	for name, state := range map[string]State{
		"doubt":     {Doubt: noon.Add(time.Second)},
		"unknown":   {UnknownSince: noon.Add(-time.Second)},
		"reclaimed": {Open: []execution{{Eviction: Eviction{UID: "first"}, freedAt: noon.Add(-time.Second)}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := look(0, unknown, sized("a", 0, 500, 0))
			s.State, s.OutOfMemory = state, true
			s.State.Floored, s.State.Cooldown = true, map[string]time.Time{}
			if d := Decide(s); !Pressure(s) || d.Victim == nil || d.Victim.Name != "a" {
				t.Errorf("held %q, goes %+v", d.Held, d.Victim)
			}
		})
	}
}

// TestFilesOfAPodThatEndedBefore: a pod that only the kubelet has listed has containers without
// cgroups. After they have ended there is nothing to wait for.
func TestFilesOfAPodThatEndedBefore(t *testing.T) {
	bubble(t, func(n *node) {
		full(n)
		n.set(func() {
			for _, c := range n.pod("greedy").containers {
				n.exited(n.pod("greedy"), c)
			}
		})
		m := n.started(hardOnly)
		pods := m.Pods
		m.Pods = func() []Pod {
			list := pods()
			for i := range list {
				if list[i].Name == "greedy" {
					list[i].Containers = []Container{{ID: "greedy.c1", Name: "c1"}}
				}
			}
			return list
		}
		n.run(m, 5*time.Second)
		if did := n.all(); !slices.Equal(did, []string{"tell greedy", "confirm greedy"}) {
			n.t.Errorf("did %q, told %q", did, n.words())
		}
	})
}

// TestLooksWhileHeld: growth is found before half of the available memory is used up while
// evictions are held back, and polls are rare without growth.
func TestLooksWhileHeld(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		state State
		grown uint64 // in 10 ms, so that 10 MiB are a GiB in a second
		most  time.Duration
	}{
		"doubt":                   {State{Doubt: noon.Add(time.Second)}, 0, maxPollInterval / 10},
		"files stay":              {State{Stays: map[string]uint64{"tmpfs": 400 * mi}}, 0, maxPollInterval},
		"files stay, others grow": {State{Stays: map[string]uint64{"tmpfs": 400 * mi}}, 10 * mi, 25 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := look(80, sized("tmpfs", 0, 400, 0), sized("a", 0, 500, 0))
			s.State = test.state
			d := Decide(s)
			var w watch
			w.growth(noon.Add(-10*time.Millisecond), s.Memory.Used()-test.grown)
			if got := nextLook(s, d, nil, w.growth(s.Now, s.Memory.Used()), MaxBurst); d.Held == "" || got > test.most || test.most == maxPollInterval && got < maxPollInterval {
				t.Errorf("held %q, the next look is in %s, want %s", d.Held, got, test.most)
			}
		})
	}
}

// TestEvictionSwitchedOffInBetween: with --eviction=off or dry-run no pod is stopped, not even by
// an eviction that an earlier run began.
func TestEvictionSwitchedOffInBetween(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"off": func(c *Config) { c.Off = true }, "dry-run": func(c *Config) { c.DryRun = true },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				c := softOnly
				c.SoftGrace, c.Hard = 0, 50*mi
				m := n.started(c)
				n.run(m, 100*time.Millisecond)
				if did := n.all(); len(did) == 0 {
					n.t.Fatal("nobody goes")
				}
				n.stop(m)
				n.boot()
				change(&c)
				n.set(func() { n.pod("modest").containers[0].uses += 40 * mi }) // below the hard threshold
				m = n.started(c)
				n.run(m, time.Minute)
				n.expect()
				if h := n.history(); len(h.Open) != 0 || len(h.Last) == 0 || h.Last[0].Problem == "" {
					n.t.Errorf("written down is %+v", h)
				}
			})
		})
	}
}
