package evict

import (
	"errors"
	"testing"
	"time"
)

func TestChooseContainerStartedSinceList(t *testing.T) {
	bubble(t, func(n *node) {
		n.listed = n.list()
		n.listed[0].Containers = n.listed[0].Containers[:1]
		n.run(n.started(hardOnly), 50*time.Millisecond)
		n.expect("kill greedy.c1", "kill greedy.c2", "evict greedy")
	})
	// Its container had ended when the list was made, and the kubelet restarted it; other pods were
	// evicted in its place (seen on a node).
	bubble(t, func(n *node) {
		n.listed = n.list()
		n.listed[0].Containers = nil
		n.run(n.started(hardOnly), 50*time.Millisecond)
		n.expect("kill greedy.c1", "kill greedy.c2", "evict greedy")
	})
}

func TestChooseScopesFail(t *testing.T) {
	bubble(t, func(n *node) {
		n.scopesErr = errors.New("no scopes")
		n.run(n.started(hardOnly), 4*time.Second)
		n.expect("kill greedy.c1", "kill greedy.c2", "evict greedy", "confirm greedy")
		n.expectEvents("warn no scopes", "signalled", "evicting greedy hard evict", "count hard evict", "evicted greedy evict")
	})
}

// TestChooseEndsMeanwhile: the pod ends by itself after the memory was read. It is not evicted for
// what it used before, and neither is another.
func TestChooseEndsMeanwhile(t *testing.T) {
	bubble(t, func(n *node) {
		n.restarts, n.restarted = time.Second, mi
		n.set(func() { n.pod("modest").Request = 100 * mi }) // over it, and the next
		m := n.started(hardOnly)
		scopes, calls := m.Scopes, 0
		m.Scopes = func(cgroup string) (map[string]string, error) {
			if calls++; calls == 2 { // after the second reading
				n.set(func() {
					for _, c := range n.pod("greedy").containers {
						n.exited(n.pod("greedy"), c)
					}
				})
			}
			return scopes(cgroup)
		}
		n.run(m, time.Minute)
		n.expect()
		if r := m.Report(); calls < 2 || r.Crossed != "" || r.NoCandidate {
			n.t.Errorf("after %d calls reported %+v", calls, r)
		}
	})
}

// TestChooseOutdatedList: evicting a pod whose containers have ended meanwhile frees nothing, and
// the next pod is evicted.
func TestChooseOutdatedList(t *testing.T) {
	bubble(t, func(n *node) {
		n.pod("greedy").Priority = -1
		n.listed = n.list()
		n.set(func() {
			n.pod("greedy").rest = 5 * mi // of its sandbox
			for _, c := range n.pod("greedy").containers {
				n.exited(n.pod("greedy"), c)
			}
			n.pod("modest").containers[0].uses = 800 * mi
		})
		m := n.started(hardOnly)
		n.run(m, 4*time.Second)
		n.expect("kill modest.c1", "evict modest", "confirm modest")
		n.expectEvents("signalled", "evicting modest hard evict", "count hard evict", "evicted modest evict")
	})
}
