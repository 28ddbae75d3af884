package evict

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// full makes the first pod in eviction order hold most of its usage in files.
func full(n *node) {
	n.set(func() {
		greedy := n.pod("greedy")
		greedy.rest = 480 * mi
		greedy.containers[0].uses, greedy.containers[1].uses = 10*mi, 10*mi
	})
}

// TestManagerUnreclaimable: no other pod is evicted for memory that outlives the processes.
func TestManagerUnreclaimable(t *testing.T) {
	others := func(did []string) bool {
		return slices.ContainsFunc(did, func(what string) bool { return what == "kill modest.c1" || what == "kill critical.c1" })
	}
	t.Run("the pod stays, no other is evicted", func(t *testing.T) {
		bubble(t, func(n *node) {
			n.noAPI, n.restarts, n.restarted = true, 10*time.Second, mi
			full(n)
			m := n.started(hardOnly)
			n.run(m, 10*time.Minute)
			if did := n.all(); !slices.Equal(did, []string{"kill greedy.c1", "kill greedy.c2"}) {
				n.t.Errorf("did %q", did)
			}
			if r := m.Report(); !r.NoCandidate {
				n.t.Errorf("reported %+v", r)
			}
			if events := n.takeEvents(); !slices.Contains(events, "count failed reclaim") || !slices.Contains(events, "no candidate greedy(memory-stays) critical(node-critical) modest(within-request)") {
				n.t.Errorf("events %q", events)
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
	t.Run("evicted for good in the cooldown", func(t *testing.T) {
		bubble(t, func(n *node) {
			n.restarts, n.restarted = 10*time.Second, mi
			full(n)
			m := n.started(hardOnly)
			m.executor.state.Cooldown["kube-system/greedy"] = time.Now().Add(4 * time.Minute)
			n.run(m, 30*time.Second)
			if did := n.all(); !slices.Contains(did, "evict greedy") || others(did) {
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
			if did := n.all(); !slices.Contains(did, "evict greedy") || others(did) {
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
			if did := n.all(); len(did) == 0 || did[0] != "evict greedy" || others(did) {
				n.t.Errorf("did %q", did)
			}
		})
	})
}

// TestManagerProtectedPageCache: page cache below memory.min of its pod is not available, and that
// below memory.low is. An evicted pod gives its own back when its cgroup is removed, and no other
// pod is evicted meanwhile.
func TestManagerProtectedPageCache(t *testing.T) {
	evicted := []string{"kill greedy.c1", "kill greedy.c2", "evict greedy", "confirm greedy"}
	for name, test := range map[string]struct {
		change func(*node)
		want   []string
	}{
		"memory.min": {func(n *node) { n.pod("modest").min = 600 * mi }, evicted},
		"memory.low": {func(n *node) { n.pod("modest").low = 600 * mi }, nil},
		"of the pod that is evicted": {func(n *node) {
			n.fails = 20 * time.Second
			greedy, modest := n.pod("greedy"), n.pod("modest")
			greedy.min, greedy.cache[1] = 700*mi, 400*mi
			modest.containers[0].uses, modest.cache[1] = 360*mi, 0
		}, evicted},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.set(func() {
					greedy, modest := n.pod("greedy"), n.pod("modest")
					modest.Request = 700 * mi
					greedy.containers[0].uses, greedy.containers[1].uses, modest.cache[1] = 100*mi, 100*mi, 300*mi
					test.change(n)
				})
				m := n.started(hardOnly)
				n.run(m, time.Minute)
				n.expect(test.want...)
			})
		})
	}
}

// TestManagerProcessesStay: the memory of a pod that does not end is no reason to evict the next
// one, and the pod itself is left alone. The next one is evicted when it grows.
func TestManagerProcessesStay(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { n.pod("greedy").containers[0].immortal = true; n.pod("greedy").containers[0].uses = 350 * mi })
		n.api = func(context.Context, int) error { return ErrFinal }    // so that the pod stays
		n.set(func() { n.pod("modest").containers[0].uses = 430 * mi }) // 70 are left without the other
		m := n.started(hardOnly)
		n.run(m, endTimeout)
		n.expect("kill greedy.c1", "kill greedy.c2")
		n.takeEvents()
		n.run(m, time.Second)
		n.expect()
		events := n.takeEvents()
		if !slices.Contains(events, "count failed timeout") || !slices.Contains(events, "evicted greedy restart") {
			n.t.Errorf("events %q", events)
		}
		if e := n.evicted[0]; e.UID != "greedy" || !strings.Contains(e.Problem, "have not ended 10s after") {
			n.t.Errorf("ended as %+v", e)
		}
		n.run(m, reclaimTimeout)
		n.expect()
		if r := m.Report(); !r.NoCandidate {
			n.t.Errorf("reported %+v", r)
		}
		// 34 are left.
		n.set(func() { n.cache = [3]uint64{}; n.pod("modest").containers[0].uses = 466 * mi })
		n.run(m, time.Second)
		n.expect("kill modest.c1")
	})
}

// TestExecutorForgetUnreclaimable: memory that a pod once did not give back does not protect memory
// that it takes later.
func TestExecutorForgetUnreclaimable(t *testing.T) {
	back := func(n *node, m *Manager) {
		n.t.Helper()
		n.set(func() { n.pod("greedy").containers[0].immortal = true })
		n.run(m, 20*time.Second)
		n.expect("kill greedy.c1", "kill greedy.c2")
		if len(m.executor.state.Unreclaimable) != 1 {
			n.t.Fatalf("remembered is %v", m.executor.state.Unreclaimable)
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
	for name, restart := range map[string]bool{"in this run": false, "in the next run": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.noAPI, n.restarts, n.restarted = true, time.Second, mi
				m := n.started(hardOnly)
				if back(n, m); restart {
					m = n.again(m, hardOnly, 0)
				}
				leaks(n, m)
			})
		})
	}
}

// TestExecutorForgetUnreclaimablePodsUnknown: State.Unreclaimable is kept until the pods are known.
func TestExecutorForgetUnreclaimablePodsUnknown(t *testing.T) {
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

// TestManagerEmptyPodWithoutCgroups: a pod that only the kubelet has listed has containers without
// cgroups. After they have ended there is nothing to wait for.
func TestManagerEmptyPodWithoutCgroups(t *testing.T) {
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
		if did := n.all(); !slices.Equal(did, []string{"evict greedy", "confirm greedy"}) {
			n.t.Errorf("did %q, events %q", did, n.takeEvents())
		}
	})
}

// TestManagerLimitLoweredWhileReclaiming: the limit is lowered while memory is awaited. Less is
// left because of that, and no other pod is evicted for it.
func TestManagerLimitLoweredWhileReclaiming(t *testing.T) {
	for name, restart := range map[string]bool{"in the same run": false, "in the next run": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.ends = 2 * time.Second
				n.set(func() { n.pod("modest").Request = 0 })
				n.lower = func() error { return nil }
				m := n.started(hardOnly)
				n.run(m, time.Second)
				n.expect("kill greedy.c1", "kill greedy.c2")
				lowered := hardOnly
				lowered.Limit, lowered.Lowering = 960*mi, true
				if m.SetConfig(lowered); restart {
					m = n.again(m, lowered, 0)
				}
				n.run(m, time.Minute)
				if did := n.all(); slices.Contains(did, "kill modest.c1") {
					n.t.Errorf("did %q", did)
				}
			})
		})
	}
}
