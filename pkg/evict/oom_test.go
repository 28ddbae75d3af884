package evict

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/cgroups"
)

// kernelKills counts the kills that it is told of, and ignores warnings.
type kernelKills struct {
	Events
	n uint64
}

func (k *kernelKills) KernelKilled(_ KilledAt, processes uint64) { k.n += processes }
func (k *kernelKills) Warn(error)                                {}

// TestWatchCountsOnce: a process that the kernel has killed for the program between the reading of
// the kernel's count and that of the own one does not make a kill count twice.
func TestWatchCountsOnce(t *testing.T) {
	dir, told := t.TempDir(), &kernelKills{}
	condemned := uint64(0)
	w := watch{
		Options:   &Options{Cgroups: cgroups.FS(dir), Events: told, slice: "."},
		condemned: func() uint64 { return condemned },
	}
	write(t, dir, map[string]string{"memory.current": "0", "memory.max": "max", "memory.stat": ""})
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	defer w.close()
	count := func(killed, mine int) {
		t.Helper()
		write(t, dir, map[string]string{"memory.events": oomEvents(0, killed), "memory.events.local": oomEvents(0, 0)})
		condemned = uint64(mine)
		w.count()
	}
	count(0, 0)
	count(1, 0)
	count(1, 1) // the kernel has counted 2 by now
	count(2, 1)
	if told.n != 1 {
		t.Errorf("%d kills were told; want one, which was the kernel's own", told.n)
	}
}

// write writes files of a cgroup.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWarningsBounded: texts with names of pods that come and go do not fill the memory.
func TestWarningsBounded(t *testing.T) {
	w := warnings{Options: &Options{Events: &kernelKills{}}, at: map[string]time.Time{}}
	for i := range 3 * maxWarnings {
		w.warn(fmt.Errorf("pod %d", i))
	}
	if len(w.at) > maxWarnings {
		t.Errorf("%d texts are kept", len(w.at))
	}
}

// TestWatchMadeAgain: a partition that is made again begins without the evidence of the one before.
func TestWatchMadeAgain(t *testing.T) {
	bubble(t, func(n *node) {
		m := n.started(hardOnly)
		defer n.stop(m)
		m.watch.earlier = evidence{KilledAt: time.Now(), QuietAt: time.Now(), Used: mi}
		m.step(n.ctx)
		m.watch.close()
		if err := m.watch.open(); err != nil || m.watch.evidence != (evidence{}) {
			n.t.Errorf("%v, begins with %+v", err, m.watch.evidence)
		}
	})
}

// TestExecutorUnread: memory of an ended pod that cannot be read is not back.
func TestExecutorUnread(t *testing.T) {
	bubble(t, func(n *node) {
		m, greedy := n.started(hardOnly), n.pod("greedy")
		defer n.stop(m)
		path := n.path(greedy.Cgroup, "memory.stat")
		if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o755)); err != nil {
			n.t.Fatal(err)
		}
		e := newExecution(Eviction{PodMeta: greedy.PodMeta, Amounts: Amounts{UsedBytes: 7}})
		if left := m.executor.memoryLeft(e); left != 7 {
			n.t.Errorf("%d bytes are left of 7", left)
		}
	})
}

// TestWatchReadAgain: a poll that has read memory.stat reads it again, also far from the threshold.
func TestWatchReadAgain(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { n.pods = n.pods[2:]; n.cache[0] = mi })
		m := n.started(hardOnly)
		defer n.stop(m)
		s := Situation{Now: time.Now(), Config: hardOnly}
		for _, again := range []bool{true, true, false} {
			if !again {
				s.Now = s.Now.Add(statInterval / 2)
			}
			if err := m.watch.read(&s, false); err != nil || (s.Memory.InactiveFile > 0) != again {
				n.t.Errorf("read %+v, %v; memory.stat, too: %t", s.Memory, err, again)
			}
		}
	})
}

// TestKillBeforeACrossing: a kill by the kernel whose memory came back at once does not hold up the
// eviction of a pod that crosses the threshold later.
func TestKillBeforeACrossing(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { // 400 of 1000 MiB are left
			n.pod("greedy").containers[0].uses, n.pod("greedy").containers[1].uses = 100*mi, 50*mi
		})
		m := n.started(hardOnly)
		n.flush()
		m.step(n.ctx)
		n.set(func() { n.kernel.ooms, n.kernel.kills = 1, 1; n.writeCounts() })
		n.run(m, statInterval/2)
		n.run(m, killFollows)
		n.set(func() { n.pod("greedy").containers[0].uses += 310 * mi }) // 90 are left
		n.run(m, statInterval/2)
		n.mu.Lock()
		defer n.mu.Unlock()
		if !slices.Contains(n.did, "kill greedy.c1") {
			t.Errorf("did %q in the poll after the crossing", n.did)
		}
	})
}
