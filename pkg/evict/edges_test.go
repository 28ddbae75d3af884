package evict

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// TestPodThatIsDeletedGoes: a leaking pod that was deleted with a grace period is evicted, and the
// other pods are not evicted in its place.
func TestPodThatIsDeletedGoes(t *testing.T) {
	for name, noAPI := range map[string]bool{"evicted": false, "without API server": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.noAPI = noAPI
				n.set(func() { n.pod("greedy").Terminating = true })
				m := n.started(hardOnly)
				n.run(m, 5*time.Second)
				if did := n.all(); len(did) < 2 || did[0] != "kill greedy.c1" || did[1] != "kill greedy.c2" || slices.Contains(did, "kill modest.c1") {
					n.t.Errorf("did %q", did)
				}
				if len(m.executor.state.Cooldown) != 0 {
					n.t.Errorf("the owner's next pod is to be restarted only: %v", m.executor.state.Cooldown)
				}
			})
		})
	}
}

// full makes the first pod in eviction order hold most of its usage in files.
func full(n *node) {
	n.set(func() {
		greedy := n.pod("greedy")
		greedy.rest = 480 * mi
		greedy.containers[0].uses, greedy.containers[1].uses = 10*mi, 10*mi
	})
}

// TestFilesInMemory: no other pod is evicted for memory that outlives the processes.
func TestFilesInMemory(t *testing.T) {
	others := func(did []string) bool {
		return slices.ContainsFunc(did, func(what string) bool { return what == "kill modest.c1" || what == "kill critical.c1" })
	}
	t.Run("the pod stays, and nobody else goes", func(t *testing.T) {
		bubble(t, func(n *node) {
			n.noAPI, n.restarts, n.restarted = true, 10*time.Second, mi
			full(n)
			m := n.started(hardOnly)
			n.run(m, 10*time.Minute)
			if did := n.all(); !slices.Equal(did, []string{"kill greedy.c1", "kill greedy.c2"}) {
				n.t.Errorf("did %q", did)
			}
			if r := m.Report(); r.Held != HoldStays || !r.NoCandidate {
				n.t.Errorf("reported %+v", r)
			}
			if said := n.words(); !slices.Contains(said, "count failed reclaim") || !slices.Contains(said, "nobody greedy(memory-stays) critical(node-critical) modest()") {
				n.t.Errorf("told %q", said)
			}
			// Another run has the same state.
			n.stop(m)
			n.boot()
			m = n.started(hardOnly)
			n.run(m, time.Minute)
			n.expect()
			// After the operator has deleted the files, the pod is treated like any other.
			n.set(func() { n.pod("greedy").rest = 0 })
			n.run(m, time.Second)
			n.set(func() { n.pod("modest").containers[0].uses = 800 * mi })
			n.run(m, time.Second)
			n.expect("kill modest.c1")
		})
	})
	t.Run("in the cooldown it goes for good", func(t *testing.T) {
		bubble(t, func(n *node) {
			n.restarts, n.restarted = 10*time.Second, mi
			full(n)
			m := n.started(hardOnly)
			m.executor.state.Cooldown["kube-system/greedy"] = time.Now().Add(4 * time.Minute)
			n.run(m, 30*time.Second)
			if did := n.all(); !slices.Contains(did, "tell greedy") || others(did) {
				n.t.Errorf("did %q", did)
			}
			if got := n.running(); !slices.Equal(got, []string{"critical.c1", "modest.c1"}) {
				n.t.Errorf("running are %q", got)
			}
		})
	})
	t.Run("the kubelet takes long to unmount", func(t *testing.T) {
		bubble(t, func(n *node) {
			n.fails = 20 * time.Second
			full(n)
			m := n.started(hardOnly)
			n.run(m, time.Minute)
			if did := n.all(); !slices.Contains(did, "tell greedy") || others(did) {
				n.t.Errorf("did %q", did)
			}
		})
	})
	t.Run("its processes have ended by themselves", func(t *testing.T) {
		bubble(t, func(n *node) {
			full(n)
			n.set(func() {
				for _, c := range n.pod("greedy").containers {
					n.exited(n.pod("greedy"), c)
				}
			})
			m := n.started(hardOnly)
			n.run(m, 10*time.Second)
			if did := n.all(); len(did) == 0 || did[0] != "tell greedy" || others(did) {
				n.t.Errorf("did %q", did)
			}
		})
	})
	t.Run("somebody else grows beside it", func(t *testing.T) {
		bubble(t, func(n *node) {
			n.noAPI = true
			full(n)
			m := n.started(hardOnly)
			n.run(m, 10*time.Second)
			n.expect("kill greedy.c1", "kill greedy.c2")
			n.set(func() { n.pod("modest").containers[0].uses = 340 * mi }) // 30 are left of 70
			n.run(m, time.Second)
			n.expect("kill modest.c1")
		})
	})
}

// TestUnknownPod: an unknown pod that has just started and holds the memory is identified,
// and no other pod is evicted for it.
func TestUnknownPod(t *testing.T) {
	for name, test := range map[string]struct {
		uses, then int
		takes      time.Duration
		want       []string
	}{
		"a pass tells":             {500, 500, time.Second, []string{"kill newcomer.c1", "tell newcomer", "confirm newcomer"}},
		"a pass takes too long":    {500, 500, time.Minute, []string{"kill newcomer.c1"}},
		"it grows until the limit": {500, 540, time.Minute, []string{"kill newcomer.c1"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.set(func() { n.pod("greedy").containers[0].uses, n.pod("greedy").containers[1].uses = mi, mi })
				n.listed = n.list()
				n.passTakes = test.takes
				n.start(sized("newcomer", 0, 0, 0), test.uses)
				m := n.started(hardOnly)
				n.run(m, 500*time.Millisecond)
				n.expect()
				if r := m.Report(); r.Held != HoldUnknown {
					n.t.Errorf("reported %+v", r)
				}
				n.set(func() { n.pod("newcomer").containers[0].uses = uint64(test.then) * mi })
				wait := 10 * time.Second
				if test.then != test.uses {
					wait = time.Second
				}
				n.run(m, wait)
				n.expect(test.want...)
			})
		})
	}
}

// TestTwoLeakers: the second pod does not wait until the first one, which cannot end, is given up.
func TestTwoLeakers(t *testing.T) {
	bubble(t, func(n *node) {
		n.noAPI = true
		n.set(func() { n.pod("greedy").containers[0].immortal = true })
		m := n.started(hardOnly)
		n.run(m, 50*time.Millisecond)
		n.expect("kill greedy.c1", "kill greedy.c2")
		n.set(func() { n.pod("modest").containers[0].uses = 510 * mi }) // 40 are left of 250
		n.run(m, 2*freeingWindow)
		n.expect("kill modest.c1")
	})
}

// TestNothingToStop: it is reported once, and not polled in a circle.
func TestNothingToStop(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { n.pods = nil; n.cache = [3]uint64{} })
		n.files(partition, map[string]string{"memory.current": number(950 * mi)})
		m := n.started(hardOnly)
		looks := 0
		pods := m.Pods
		m.Pods = func() []Pod { looks++; return pods() }
		n.run(m, 10*time.Second)
		n.heard("nobody", "count nobody")
		if looks > 110 {
			n.t.Errorf("%d looks at the pods in 10 s", looks)
		}
	})
}

// TestRaisedByAnOperator: the limit in force counts, and is not changed.
func TestRaisedByAnOperator(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { n.pod("greedy").containers[0].uses = 3000 * mi })
		n.lower = func() error { return nil }
		n.files(partition, map[string]string{"memory.max": number(8000 * mi)})
		m := n.started(hardOnly)
		n.run(m, 10*time.Minute)
		n.expect()
		if said := n.words(); len(said) == 0 || len(said) > 11 || said[0][:15] != "warn memory.max" {
			n.t.Errorf("told %q", said)
		}
		if r := m.Report(); r.Limit != 8000*mi || r.Crossed != "" {
			n.t.Errorf("reported %+v", r)
		}
		n.set(func() { n.pod("greedy").containers[0].uses = 7300 * mi })
		n.run(m, time.Second)
		n.expect("kill greedy.c1", "kill greedy.c2", "tell greedy")
	})
}

// TestLimitBeingApplied: until systemd has applied a lowered limit the limit in force is higher,
// without an operator having raised it.
func TestLimitBeingApplied(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { n.pods = n.pods[1:] }) // 450 MiB
		n.files(partition, map[string]string{"memory.max": number(2000 * mi)})
		m := n.started(hardOnly)
		n.run(m, retryInterval/2)
		n.files(partition, map[string]string{"memory.max": number(1000 * mi)})
		n.run(m, 10*time.Minute)
		if said := n.words(); len(said) != 0 {
			n.t.Errorf("told %q", said)
		}
	})
}

// TestLimitCannotBeLowered: systemd is not reloaded for ever.
func TestLimitCannotBeLowered(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { n.pods = n.pods[1:] }) // 450 MiB
		n.lower = func() error { return nil } // and memory.max stays
		c := hardOnly
		c.Limit, c.Lowering = 600*mi, true
		m := n.started(c)
		n.run(m, time.Hour)
		if did := n.all(); len(did) != maxLowerings {
			n.t.Errorf("did %q", did)
		}
	})
}

// TestAvailableIsWithoutPageCache: this holds far from the threshold, too.
func TestAvailableIsWithoutPageCache(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() {
			n.pods = n.pods[2:] // 150 MiB
			n.cache = [3]uint64{200 * mi, 200 * mi, 0}
		})
		m := n.started(hardOnly)
		for range 30 {
			n.run(m, 110*time.Millisecond)
			if r := m.Report(); r.Available != 850*mi || r.Memory.ActiveFile != 200*mi {
				n.t.Fatalf("reported %+v", r)
			}
		}
		n.set(func() { n.cache = [3]uint64{50 * mi, 50 * mi, 0}; n.pod("critical").containers[0].uses = 250 * mi })
		n.run(m, statInterval+maxPollInterval)
		if r := m.Report(); r.Available != 750*mi {
			n.t.Errorf("reported %+v", r)
		}
	})
}

// TestOldEvictionIsGivenUp: no container is stopped for an eviction that was needed hours ago.
func TestOldEvictionIsGivenUp(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { n.pod("modest").containers[0].uses, n.pod("greedy").containers[0].uses = mi, mi })
		m := n.manager(softOnly)
		e := Eviction{
			UID: "greedy", Name: "greedy", Cgroup: n.pod("greedy").Cgroup, Time: time.Now().Add(-3 * time.Hour), Threshold: Soft, Method: Restart, Told: true,
			Grace: 20 * time.Second,
		}
		for _, c := range n.pod("greedy").containers {
			e.Containers = append(e.Containers, Stopped{ID: c.id, Cgroup: c.cgroup})
		}
		if err := m.Store.write(History{Open: []Eviction{e}}); err != nil {
			n.t.Fatal(err)
		}
		m.load()
		n.run(m, 5*time.Second)
		n.expect()
		if h := n.history(); len(h.Open) != 0 || len(h.Last) != 1 || h.Last[0].Problem == "" {
			n.t.Errorf("written down is %+v", h)
		}
	})
}

// TestJobInTheCooldown: a pod that is never restarted is reported, however many were evicted
// before.
func TestJobInTheCooldown(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { n.pod("greedy").RestartPolicy = v1.RestartPolicyNever })
		m := n.started(hardOnly)
		m.executor.state.Cooldown["kube-system/greedy"] = time.Now().Add(4 * time.Minute)
		n.run(m, 5*time.Second)
		n.expect("kill greedy.c1", "kill greedy.c2", "tell greedy", "confirm greedy")
	})
}

// TestLookFails: a failed poll is counted, logged once a minute, and nothing is reported meanwhile.
func TestLookFails(t *testing.T) {
	bubble(t, func(n *node) {
		m := n.started(hardOnly)
		n.set(func() { n.pod("greedy").containers[0].uses = mi })
		n.run(m, time.Second)
		n.words()
		if m.Report().Time.IsZero() {
			n.t.Fatal("nothing is reported")
		}
		n.files(partition, map[string]string{"memory.current": "twenty characters\n   "})
		n.run(m, 59*time.Second)
		said := n.words()
		failed := slices.Index(said, "count failed look")
		warned := 0
		for _, text := range said {
			if text != "count failed look" {
				warned++
			}
		}
		if failed < 0 || warned != 1 || !m.Report().Time.IsZero() {
			n.t.Errorf("told %q, reported %+v", said, m.Report())
		}
		if err := m.Alive(); err != nil {
			n.t.Errorf("it looks each second: %v", err)
		}
		<-time.After(lookTimeout + time.Second) // the goroutine hangs
		if err := m.Alive(); err == nil {
			n.t.Error("nobody looks, and it is alive")
		}
	})
}
