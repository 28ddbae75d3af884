package livemove

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/internal/systemd"
)

// world is a node whose kernel has processes that move between the cgroups of a folder.
type world struct {
	*fake
	Mover
	Request
	t *testing.T
	// at has the PIDs in each cgroup, by its folder.
	at map[string][]uint32
	// forks is the number of times that a process forks another one while it is moved. It is frozen
	// by Freeze.
	forks int
	// fails is the round whose processes cannot be read; 0 for none.
	fails int
	// stays is a process that the kernel does not let go, and that comes after others; 0 for none.
	stays uint32
	round int
	// anchored is the process with which the new scope was started.
	anchored uint32
	// after is called after each round.
	after func()
}

// newWorld returns a container with two processes, and the scope that systemd starts for it.
func newWorld(t *testing.T) *world {
	t.Helper()
	f, m, r, dir := node(t)
	w := &world{fake: f, Mover: m, Request: r, t: t, at: map[string][]uint32{}, after: func() {}}
	w.holds, w.Systemd = w.hold, w
	f.start = func() { w.put(w.newDir(), "memory.oom.group", "0"); w.set(w.newDir()) }
	w.set(dir, 7, 8)
	return w
}

func (w *world) oldDir() string { return w.dir(w.Cgroup) }
func (w *world) newDir() string {
	return w.dir("kubepods.slice/kubepods-system.slice/" + w.NewName)
}

func (w *world) put(dir, name, text string) { write(w.t, filepath.Join(dir, name), text) }

// set puts processes into a cgroup, in place of those that are there.
func (w *world) set(dir string, pids ...uint32) {
	w.at[dir] = pids
	w.put(dir, "cgroup.events", fmt.Sprintf("populated %d", min(len(pids), 1)))
}

// StartScope implements Systemd.
func (w *world) StartScope(ctx context.Context, name string, properties []systemd.Property, pids []uint32) error {
	w.anchored = pids[0]
	return w.fake.StartScope(ctx, name, properties, pids)
}

// Freeze implements Systemd.
func (w *world) Freeze(_ context.Context, name string) error {
	w.forks = 0
	return w.call("Freeze " + name)
}

// Thaw implements Systemd.
func (w *world) Thaw(_ context.Context, name string) error { return w.call("Thaw " + name) }

func (w *world) hold(dir, _ string) (held, error) {
	if w.round++; w.round == w.fails {
		return nil, errors.New("no more descriptors")
	}
	return &heldPIDs{w, dir, w.at[dir]}, nil
}

type heldPIDs struct {
	*world
	from string
	pids []uint32
}

func (h *heldPIDs) count() int { return len(h.pids) }
func (h *heldPIDs) release()   {}
func (h *heldPIDs) moveTo(dir string) error {
	if i := slices.Index(h.pids, h.stays); i >= 0 {
		h.set(dir, h.pids[:i]...)
		h.set(h.from, h.pids[i:]...)
		return fmt.Errorf("moving process %d: invalid argument", h.stays)
	}
	left := slices.DeleteFunc(slices.Clone(h.at[h.from]), func(pid uint32) bool { return slices.Contains(h.pids, pid) })
	if h.forks > 0 {
		h.forks--
		left = append(left, slices.Max(h.pids)+1)
	}
	h.set(dir, append(h.at[dir], h.pids...)...)
	h.set(h.from, left...)
	h.after()
	return nil
}

// records returns the records of moves that are not finished.
func (w *world) records() []string {
	left, _ := filepath.Glob(filepath.Join(w.StateDir, "*"))
	return left
}

// wants compares the places of the processes.
func (w *world) wants(before, after []uint32) {
	w.t.Helper()
	if !slices.Equal(w.at[w.oldDir()], before) || !slices.Equal(w.at[w.newDir()], after) {
		w.t.Errorf("processes %d are in the old scope and %d in the new one; want %d and %d",
			w.at[w.oldDir()], w.at[w.newDir()], before, after)
	}
}

// TestTransfer: all processes of a container are in the new scope, and nothing else is, when the
// move is over. It is not frozen.
func TestTransfer(t *testing.T) {
	w := newWorld(t)
	if err := w.Move(t.Context(), w.Request); err != nil || w.round != 1 {
		t.Errorf("%v, in %d rounds", err, w.round)
	}
	w.wants(nil, []uint32{7, 8})
	// The process that kept the scope alive until then has ended.
	if err := unix.Kill(int(w.anchored), 0); !errors.Is(err, unix.ESRCH) {
		t.Errorf("process %d is in the new scope, too: %v", w.anchored, err)
	}
	if len(w.records()) > 0 || slices.ContainsFunc(w.calls, func(call string) bool { return strings.HasPrefix(call, "Freeze") }) {
		t.Errorf("calls %q, records %q", w.calls, w.records())
	}
}

// TestTransferForks: a container that forks whenever it is moved is frozen in the end, and thawed.
// One that forks a few times is not.
func TestTransferForks(t *testing.T) {
	for forks, froze := range map[int]bool{softRounds - 1: false, softRounds + 20: true} {
		w := newWorld(t)
		w.forks = forks
		err := w.Move(t.Context(), w.Request)
		if err != nil || len(w.at[w.oldDir()]) > 0 || len(w.at[w.newDir()]) < 2+min(forks, softRounds) {
			t.Errorf("%d forks: %v; %d are left, %d are moved", forks, err, w.at[w.oldDir()], w.at[w.newDir()])
		}
		freeze, thaw := slices.Index(w.calls, "Freeze "+scope), slices.Index(w.calls, "Thaw "+scope)
		if (freeze >= 0) != froze || thaw < freeze || froze && thaw < 0 {
			t.Errorf("%d forks: calls %q", forks, w.calls)
		}
	}
}

// TestTransferInPart: a move that fails after its first round says that it is half-done, and its
// record stays. The next one finishes it.
func TestTransferInPart(t *testing.T) {
	w := newWorld(t)
	w.forks, w.fails = 1, 2
	err := w.Move(t.Context(), w.Request)
	if !errors.Is(err, errIncomplete) || len(w.records()) != 1 {
		t.Fatalf("%v, records %q; want that it is half-done", err, w.records())
	}
	w.wants([]uint32{9}, []uint32{7, 8})
	w.startErr = systemd.ErrUnitExists
	w.there = propertiesOf(
		systemd.Property{Name: "ControlGroup", Value: "/kubepods.slice/kubepods-system.slice/" + w.NewName}, systemd.Property{Name: "Result", Value: "success"},
	)
	if err := w.Move(t.Context(), w.Request); err != nil || len(w.records()) > 0 {
		t.Errorf("the next move: %v, records %q", err, w.records())
	}
	w.wants(nil, []uint32{7, 8, 9})
}

// TestTransferNameTaken: a scope of the new name that is elsewhere, or has ended, or is about to,
// is not taken for ours.
func TestTransferNameTaken(t *testing.T) {
	for name, test := range map[string]struct {
		cgroup, result string
		populated      bool
		want           string // of the error; empty for a move
	}{
		"elsewhere":     {"/other.slice/x.scope", "success", true, "is there already, in /other.slice/x.scope"},
		"going away":    {"/kubepods.slice/kubepods-system.slice/partition-" + scope, "success", false, "is going away"},
		"failed":        {"/kubepods.slice/kubepods-system.slice/partition-" + scope, "oom-kill", false, ""},
		"ended already": {"", "success", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.startErr = systemd.ErrUnitExists
			w.there = propertiesOf(
				systemd.Property{Name: "ControlGroup", Value: test.cgroup}, systemd.Property{Name: "Result", Value: test.result},
			)
			w.put(w.newDir(), "cgroup.events", map[bool]string{true: "populated 1", false: "populated 0"}[test.populated])
			err := w.Move(t.Context(), w.Request)
			if test.want == "" {
				if err != nil || !slices.Contains(w.calls, "ResetFailed") {
					t.Errorf("%v, calls %q", err, w.calls)
				}
				w.wants(nil, []uint32{7, 8})
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || len(w.records()) > 0 {
				t.Errorf("%v, records %q; want %q", err, w.records(), test.want)
			}
			w.wants([]uint32{7, 8}, nil)
		})
	}
}

// TestTransferBack: a container that makes private cgroups while it is moved is moved back.
func TestTransferBack(t *testing.T) {
	w := newWorld(t)
	w.forks = 1
	w.after = func() {
		w.put(w.oldDir(), "init/cgroup.procs", "")
	}
	err := w.Move(t.Context(), w.Request)
	if !errors.Is(err, ErrOwnCgroups) || len(w.records()) > 0 {
		t.Errorf("%v, records %q", err, w.records())
	}
	w.wants([]uint32{9, 7, 8}, nil)
}

// TestTransferFirstRoundFails: a container of which one process cannot be moved is in the old
// scope, and not in both.
func TestTransferFirstRoundFails(t *testing.T) {
	w := newWorld(t)
	w.stays = 8
	err := w.Move(t.Context(), w.Request)
	if !errors.Is(err, errFirstRound) || errors.Is(err, errIncomplete) || !strings.Contains(err.Error(), "moving process 8") {
		t.Errorf("error %v, want it moved back", err)
	}
	if len(w.records()) > 0 {
		t.Errorf("records stay: %q", w.records())
	}
	w.wants([]uint32{8, 7}, nil)
}

// TestTransferControllers: a controller that systemd does not manage is enabled in each cgroup
// above the new scope, from the top on.
func TestTransferControllers(t *testing.T) {
	w := newWorld(t)
	above := []string{".", "kubepods.slice", "kubepods.slice/kubepods-system.slice"}
	for _, cgroup := range append(above, "kubepods.slice/kubepods-system.slice/"+w.NewName) {
		w.put(w.dir(cgroup), "cgroup.subtree_control", "")
	}
	w.put(w.oldDir(), "hugetlb.2MB.max", "4194304")
	if err := w.Move(t.Context(), w.Request); err != nil {
		t.Fatal(err)
	}
	for _, cgroup := range append(above, "kubepods.slice/kubepods-system.slice/"+w.NewName) {
		text, err := os.ReadFile(filepath.Join(w.dir(cgroup), "cgroup.subtree_control"))
		if want := slices.Contains(above, cgroup); err != nil || strings.Contains(string(text), "+hugetlb\n") != want {
			t.Errorf("%s has %q, %v; want hugetlb enabled: %t", cgroup, text, err, want)
		}
	}
}
