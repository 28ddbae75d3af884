package evict

import (
	"context"
	"slices"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/partition"
)

// again ends a program as SIGKILL does, and returns the next run of it after a while.
func (n *node) again(m *Manager, c Settings, down time.Duration) *Manager {
	n.t.Helper()
	n.stop(m)
	<-time.After(down)
	n.boot()
	return n.started(c)
}

// TestManagerShortageRestart: a restart in the middle of a shortage changes nothing. After a
// long time nothing is known of it.
func TestManagerShortageRestart(t *testing.T) {
	soft := []string{"stop greedy.c1 20s", "stop greedy.c2 20s"}
	kill := []string{"kill greedy.c1", "kill greedy.c2", "evict greedy"}
	longSoft := softOnly
	longSoft.SoftGrace = 3 * time.Minute
	minimum := hardOnly
	minimum.MinimumReclaim = 100 * mi
	const down = 100 * time.Millisecond
	for name, test := range map[string]struct {
		config Settings
		before func(n *node, m *Manager)
		down   time.Duration
		// quiet is the time in which the next run does nothing. It then does what want lists within a
		// second.
		quiet time.Duration
		want  []string
	}{
		"soft threshold": {
			config: softOnly, down: down, quiet: softOnly.SoftGrace - 6*time.Second - 2*down, want: soft,
			before: func(n *node, m *Manager) { n.run(m, 6*time.Second) },
		},
		"soft threshold, a minute ago": {
			config: softOnly, down: shortageAge, quiet: softOnly.SoftGrace - 2*down, want: soft,
			before: func(n *node, m *Manager) { n.run(m, 6*time.Second) },
		},
		"long soft period": {
			config: longSoft, down: down, quiet: time.Minute - 2*down, want: soft,
			before: func(n *node, m *Manager) { n.run(m, longSoft.SoftGrace-time.Minute) },
		},
		"minimum reclaim": {
			config: minimum, down: down, want: kill, before: func(n *node, m *Manager) {
				n.set(func() {
					n.pod("greedy").Priority, n.pod("modest").Priority = partition.NodeCritical, partition.NodeCritical
				})
				n.run(m, time.Second)
				n.set(func() { n.pod("modest").containers[0].uses, n.pod("greedy").Priority = 200*mi, 0 })
			},
		},
		"kill by the kernel": {
			config: hardOnly, down: down, quiet: reapTimeout - time.Second - 2*down, want: kill,
			before: func(n *node, m *Manager) {
				n.set(func() { n.pod("greedy").containers[0].uses = mi })
				n.run(m, time.Second)
				n.set(func() {
					n.pod("greedy").containers[0].uses = 345 * mi
					n.kernelCounts(1)
				})
				n.run(m, time.Second)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				m := n.started(test.config)
				test.before(n, m)
				n.expect()
				m = n.again(m, test.config, test.down)
				n.run(m, test.quiet)
				n.expect()
				n.run(m, time.Second)
				did := n.all()
				slices.Sort(did)
				if did = slices.Compact(did); !slices.Equal(did, sorted(test.want)) {
					n.t.Errorf("did %q, want %q; events %q", did, test.want, n.takeEvents())
				}
			})
		})
	}
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

// TestManagerBaseRestart: the memory that was left when a pod was chosen survives a restart, so
// that the next run sees that another pod grows, and that none does.
func TestManagerBaseRestart(t *testing.T) {
	for name, test := range map[string]struct {
		uses uint64
		want []string
	}{
		"none grows":         {300 * mi, nil},
		"another pod grows":  {332 * mi, []string{"kill modest.c1"}},
		"another grows less": {322 * mi, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				// 50 MiB are left. Without an earlier one, an open eviction has the Base of 100 left.
				n.api = func(context.Context, int) error { return ErrFinal }
				n.set(func() { n.pod("greedy").containers[0].immortal, n.pod("greedy").containers[1].immortal = true, true })
				m := n.started(hardOnly)
				n.run(m, time.Second)
				n.expect("kill greedy.c1", "kill greedy.c2")
				m = n.again(m, hardOnly, 0)
				n.set(func() { n.pod("modest").containers[0].uses = test.uses })
				n.run(m, 2*time.Second)
				n.expect(append([]string{"kill greedy.c1", "kill greedy.c2"}, test.want...)...)
			})
		})
	}
}

// TestShortageRestore: no time of the file leads to a wait that a run could not have begun itself.
func TestShortageRestore(t *testing.T) {
	const second = time.Second
	at := noon.Add
	crossed := State{Reclaiming: Soft}
	for name, test := range map[string]struct {
		file shortage
		want State
		kill evidence
	}{
		"as it was written": {
			shortage{At: at(-second), State: State{Reclaiming: Soft, SoftSince: at(-time.Minute), Base: 7}},
			State{Reclaiming: Soft, SoftSince: at(-time.Minute), Base: 7}, evidence{},
		},
		"a kill": {
			shortage{At: noon, evidence: evidence{KilledAt: at(-2 * second), LastAt: at(-second), QuietAt: at(-second), Used: 9}},
			State{}, evidence{KilledAt: at(-2 * second), LastAt: at(-second), QuietAt: at(-second), Used: 9},
		},
		"of a later time":    {shortage{At: at(1), State: crossed}, State{}, evidence{}},
		"old":                {shortage{At: at(-shortageAge), State: crossed}, State{}, evidence{}},
		"none":               {shortage{}, State{}, evidence{}},
		"a crossing to come": {shortage{At: noon, State: State{SoftSince: at(1 << 62)}}, State{SoftSince: noon}, evidence{}},
		"a kill to come":     {shortage{At: noon, evidence: evidence{KilledAt: at(1 << 62), QuietAt: at(1 << 62)}}, State{}, evidence{KilledAt: noon, QuietAt: noon}},
	} {
		t.Run(name, func(t *testing.T) {
			got, e := test.file.restore(noon)
			if want := test.want; got.Reclaiming != want.Reclaiming || !got.SoftSince.Equal(want.SoftSince) ||
				got.Base != want.Base || e != test.kill {
				t.Errorf("%+v with %+v; want %+v with %+v", got, e, want, test.kill)
			}
		})
	}
}
