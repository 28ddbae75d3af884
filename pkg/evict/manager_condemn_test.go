package evict

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// meets has greedy use so much that as many MiB are left, and modest allocates from then on while
// greedy ends. It returns the containers that the kernel has selected.
func meets(n *node, left uint64) []string {
	n.kernel.hostile, n.ends, n.noAPI = true, 300*time.Millisecond, true
	n.set(func() { n.pod("greedy").containers[0].uses += (50 - left) * mi })
	for i := range 20 {
		time.AfterFunc(time.Duration(i)*10*time.Millisecond, func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.allocate(&n.pod("modest").containers[0].uses, mi)
		})
	}
	m := n.started(hardOnly)
	defer n.stop(m)
	n.run(m, 4*time.Second)
	return n.kernel.killed
}

// TestManagerKillAtLimit: while an evicted pod ends at the limit, the kernel kills no other pod.
// The monitor does not report its own kills as kills of the kernel.
func TestManagerKillAtLimit(t *testing.T) {
	bubble(t, func(n *node) {
		if killed := meets(n, 8); len(killed) > 0 {
			n.t.Errorf("the kernel has killed %q", killed)
		}
		did := n.all()
		if len(did) != 2 || !slices.ContainsFunc(did, func(what string) bool { return what == "kill greedy.c1" }) {
			n.t.Errorf("did %q", did)
		}
		for _, event := range n.takeEvents() {
			if strings.Contains(event, "killed at") {
				n.t.Errorf("event %q", event)
			}
		}
	})
}

// TestManagerCondemnedIsLeft: the program ends when it has lowered the limit of a container and
// before it has killed it. The next run kills it, or gives the limit back if nothing is to be
// killed any more.
func TestManagerCondemnedIsLeft(t *testing.T) {
	dry, off := hardOnly, hardOnly
	dry.DryRun, off.Off = true, true
	for name, test := range map[string]struct {
		next Settings
		uses uint64 // MiB of the pod, at the next run
		down time.Duration
		runs bool
	}{
		"memory is low":              {hardOnly, 342, 0, false},
		"memory is back":             {hardOnly, 100, 0, true},
		"memory is back, much later": {hardOnly, 100, time.Hour, true},
		"dry run":                    {dry, 342, 0, true},
		"off":                        {off, 342, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				greedy := n.pod("greedy")
				greedy.containers[0].uses += 42 * mi
				n.files(greedy.containers[1].cgroup, map[string]string{"memory.max": number(250 * mi)})
				n.set(func() { n.noAPI = true })
				n.beforeKill = func(string) {
					n.mu.Lock()
					defer n.mu.Unlock()
					n.crashed = "condemned"
					n.cancel()
					for _, c := range greedy.containers {
						n.files(c.cgroup, map[string]string{"memory.max": number(c.uses / 2)})
					}
				}
				n.untilCrash(n.started(hardOnly), time.Second)
				n.beforeKill = nil
				<-time.After(test.down)
				n.set(func() { greedy.containers[0].uses = test.uses * mi })
				n.boot()
				m := n.started(test.next)
				n.run(m, time.Minute)
				n.stop(m)
				for i, want := range []string{"max", strings.TrimSpace(number(250 * mi))} {
					c := greedy.containers[i]
					text, _ := os.ReadFile(n.path(c.cgroup, "memory.max"))
					got := strings.TrimLeft(strings.TrimSpace(string(text)), "0")
					if want = strings.TrimLeft(want, "0"); c.running != test.runs || c.running && got != want {
						n.t.Errorf("%s runs: %t, with the limit %q; want %t and %q", c.id, c.running, got, test.runs, want)
					}
				}
			})
		})
	}
}

// TestManagerCondemnsNothingUnsaved: where the former limit cannot be saved no limit is lowered.
func TestManagerCondemnsNothingUnsaved(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { n.noAPI = true; n.pod("greedy").containers[0].uses += 42 * mi })
		m := n.manager(hardOnly)
		m.Store = Store(n.path("gone", "evictions.json"))
		m.executor.load(m.present().Cooldown)
		defer n.stop(m)
		n.run(m, time.Second)
		if did := n.all(); len(did) != 2 || len(n.kernel.condemned) > 0 {
			n.t.Errorf("did %q, condemned %q; want two kills", did, n.kernel.condemned)
		}
	})
}

// TestManagerKillsWithCondemned: a kill of the kernel's own is reported beside those for the
// program, also when the runtime removes the condemned cgroup at once.
func TestManagerKillsWithCondemned(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { n.pod("greedy").containers[0].uses += 42 * mi })
		n.noAPI, n.ends = true, time.Millisecond
		m := n.started(hardOnly)
		defer n.stop(m)
		n.run(m, 5*time.Second)
		if events := n.takeEvents(); slices.ContainsFunc(events, func(event string) bool { return strings.Contains(event, "killed at") }) {
			n.t.Errorf("events %q before the kernel's own", events)
		}
		n.set(func() { n.kernel.kills++; n.writeCounts() })
		n.run(m, 5*time.Second)
		if events := n.takeEvents(); !slices.Contains(events, "killed at "+string(AtPod)+" 1") {
			n.t.Errorf("events %q; want the kernel's own kill", events)
		}
	})
}

// TestManagerKillBelowLimit: with room left, the limit of a container stays as it is.
func TestManagerKillBelowLimit(t *testing.T) {
	bubble(t, func(n *node) {
		n.noAPI = true
		m := n.started(hardOnly)
		defer n.stop(m)
		n.run(m, 4*time.Second)
		if len(n.kernel.condemned) > 0 || len(n.all()) != 2 {
			n.t.Errorf("condemned %q, did %q", n.kernel.condemned, n.all())
		}
	})
}

// TestManagerResumeUnread: without a reading nothing shows that the partition is at its limit.
func TestManagerResumeUnread(t *testing.T) {
	bubble(t, func(n *node) {
		greedy := n.pod("greedy")
		open := Eviction{
			PodMeta:    PodMeta{UID: "greedy", Cgroup: greedy.Cgroup},
			Verdict:    Verdict{Time: time.Now(), Threshold: Hard, Method: Restart},
			Reported:   true,
			Containers: []Container{{ID: greedy.containers[0].id, Cgroup: greedy.containers[0].cgroup}},
		}
		if err := Store(n.path("", "evictions.json")).write(History{Open: []Eviction{open}}); err != nil {
			n.t.Fatal(err)
		}
		if err := os.Remove(n.path(systemCgroup, "memory.current")); err != nil {
			n.t.Fatal(err)
		}
		m := n.started(hardOnly)
		defer n.stop(m)
		m.step(n.ctx)
		if did := n.all(); len(did) != 1 || len(n.kernel.condemned) > 0 {
			n.t.Errorf("did %q, condemned %q; want one kill", did, n.kernel.condemned)
		}
	})
}
