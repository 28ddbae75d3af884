package evict

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/testkit"
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

// TestMeasuredFiles: a second reading of the pods opens no file, and no file stays open when no
// threshold is crossed any more.
func TestMeasuredFiles(t *testing.T) {
	n := newNode(t, newDisk(t))
	defer n.cancel()
	const pods = 50
	for i := range pods {
		n.start(sized(fmt.Sprint("p", i), 0, 0, 0), 19)
	}
	listed := n.list()
	m := n.started(hardOnly)
	m.Pods = func() []Pod { return listed }
	if err := m.watch.read(&Situation{Now: time.Now(), Config: hardOnly}, true); err != nil {
		t.Fatal(err)
	}
	defer m.watch.close()
	m.measured()
	if reads := readsOf(t, func() { m.measured() }); reads != 3*pods {
		t.Errorf("%d reads for %d pods; want three for each", reads, pods)
	}
	if allocs := testing.AllocsPerRun(5, func() { m.measured() }); allocs > 2*pods {
		t.Errorf("%.0f allocations for %d pods: are their files opened again?", allocs, pods)
	}
	open := func() int {
		return len(slices.DeleteFunc(testkit.OpenBelow(t, n.root+"/"+systemCgroup), func(path string) bool { return !bytes.Contains([]byte(path), []byte("pod")) }))
	}
	n.open = map[string]*os.File{}
	before := open()
	m.decide(&Situation{Now: time.Now(), Config: Settings{Off: true}})
	if after := open(); before-after < 3*pods {
		t.Errorf("%d files of pods are open, and %d when nothing is guarded", before, after)
	}
}

// readsOf returns the number of reads of the thread while f runs.
func readsOf(t *testing.T, f func()) int {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	count := func() int {
		text, err := os.ReadFile("/proc/thread-self/io")
		_, after, ok := bytes.Cut(text, []byte("syscr: "))
		number, _, _ := bytes.Cut(after, []byte("\n"))
		n, parseErr := strconv.Atoi(string(number))
		if err != nil || !ok || parseErr != nil {
			t.Fatalf("%q: %v", text, err)
		}
		return n
	}
	none := count()
	none = count() - none // of count itself
	before := count()
	f()
	return count() - before - none
}

// TestLookReads: a look reads memory.current and memory.max.
func TestLookReads(t *testing.T) {
	n := newNode(t, newDisk(t))
	defer n.cancel()
	m := n.started(hardOnly)
	defer m.watch.close()
	m.step(n.ctx)
	at := m.watch.statAt
	reads := readsOf(t, func() {
		for i := range 3 {
			if _, calm := m.watch.look(at.Add(time.Duration(i+1) * 200 * time.Millisecond)); !calm {
				t.Error("not calm")
			}
		}
	})
	if reads != 6 {
		t.Errorf("%d reads in three looks, want two in each", reads)
	}
	n.files(n.slice, map[string]string{"memory.max": number(900 * mi)})
	if _, calm := m.watch.look(at.Add(statInterval)); calm {
		t.Error("another limit is not seen")
	}
}

// TestChooseMany: pods whose containers have all ended since the list are left out together. What
// that takes grows with their number.
func TestChooseMany(t *testing.T) {
	takes := func(pods int) uint64 {
		n := newNode(t, newDisk(t))
		defer n.cancel()
		for i := range pods {
			n.start(sized(fmt.Sprint("p", i), int32(i%7), 0, i%11), 1+i%13)
		}
		listed := n.list()
		m := n.started(hardOnly)
		defer m.letGo()
		m.Pods = func() []Pod { return listed }
		m.Scopes = func(string) (map[string]string, error) { return map[string]string{}, nil }
		s := snapshotOf(5, m.measured()...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		m.choose(&s)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	if few, many := takes(50), takes(200); many > 8*few {
		t.Errorf("%d bytes for 50 pods, %d for 200: more than in proportion", few, many)
	}
}
