package host

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nodepartition/internal/installer/outcome"
	"nodepartition/internal/installer/sandbox"
	"nodepartition/internal/installer/store"
	"nodepartition/internal/trialend"
)

// TestWayBackKilled: the way back is killed before each step, too, and the next one finishes it.
func TestWayBackKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for at := 1; ; at++ {
			n := newNode(t)
			n.mustRoll("old", "v1", section)
			before, kept := n.tree(), n.inFolder()
			o := n.order("new", "v2", section)
			o.Settings = store.Digest([]byte("PARTITION_MONITOR_ARGS=--debug\n"))
			n.write(filepath.Join(store.Folder, store.Settings), "PARTITION_MONITOR_ARGS=--debug\n")
			for _, stage := range stages[:4] {
				if got := n.do(stage, o); got.Status != outcome.Done {
					t.Fatalf("%s: %+v", stage, got)
				}
			}
			n.now.Since += trialTime
			n.killAt = len(n.steps) + at
			alive := survives(n.mustBack)
			n.killAt = 0
			if !alive {
				n.mustBack()
			}
			if state := n.state(); state.Last == nil && state.Roll == nil || state.Last != nil && len(state.Last.Remains) > 0 {
				t.Errorf("%d: %+v", at, state.Last)
			}
			for _, d := range compare(before, n.tree()) {
				t.Errorf("%d: %s", at, d)
			}
			if now := n.inFolder(); !slices.Equal(now, kept) {
				t.Errorf("%d: the installer's folder has %q; want %q as before the roll", at, now, kept)
			}
			if alive {
				if at < 10 {
					t.Errorf("the way back has only %d steps", at)
				}
				return
			}
		}
	})
}

// TestTimeOver: the pods of the roll are gone. The timer, or a boot, brings the node back, and not
// before its time.
func TestTimeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		before := n.tree()
		o := n.order("r1", "v1", section)
		n.doFirst(3, o)
		n.now.Since += trialTime - 1
		n.mustBack()
		if n.state().Roll == nil {
			t.Fatal("went back before its time")
		}
		n.now.Since++
		n.mustBack()
		if last := n.state().Last; last == nil || last.Reason != string(outcome.Timeout) || len(last.Remains) > 0 {
			t.Errorf("%+v", last)
		}
		for _, d := range compare(before, n.tree()) {
			t.Error(d)
		}
		if got := n.do(sandbox.Verify, o); got.Status != outcome.WentBack || got.Reason != outcome.Timeout {
			t.Errorf("a pod that comes later: %+v", got)
		}
	})
}

// TestChangedMeanwhile: a file that somebody has changed during the roll stays, and is named.
func TestChangedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		o := n.order("r1", "v1", section)
		n.notReady = "gone"
		n.doFirst(3, o)
		n.write(servicePath, "[Service] mine")
		got := n.do(sandbox.Verify, o)
		if got.Status != outcome.Remains || !strings.Contains(got.Text(), servicePath+" was changed while the roll") {
			t.Errorf("%+v", got)
		}
		if n.read(servicePath) != "[Service] mine" {
			t.Error("the file is gone")
		}
	})
}

// TestCannotRemove: a path that cannot be removed is named, and all else of the way back happens:
// systemd forgets the units, and the roll ends. What cannot be put back is tried again, and its
// backup stays until then, while the others are put back.
func TestCannotRemove(t *testing.T) {
	for name, test := range map[string]struct {
		stuck   string // the file at which a step fails
		remains bool
	}{
		"new":    {"/usr/share/man/man8/new.8", true},
		"backup": {servicePath, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				n.mustRoll("old", "v1", section)
				before := n.tree()
				o := n.order("new", "v2", section)
				n.doFirst(3, o)
				free := n.stick(test.stuck)
				n.now.Since += trialTime
				err := n.back(t.Context())
				if n.read(pagePath) != "page v1" || n.read(monitorPath) != "monitor v1" {
					t.Errorf("the other files are not as before: %q, %q", n.read(pagePath), n.read(monitorPath))
				}
				state := n.state()
				if test.remains {
					if err != nil || state.Roll != nil || !strings.Contains(fmt.Sprint(state.Last.Remains), test.stuck+" could not be removed") {
						t.Errorf("%v, %+v", err, state.Last)
					}
					if n.read(filepath.Join(unitFolder, backService)) != "" || !slices.Contains(n.steps, "systemctl daemon-reload") {
						t.Error("the way back has not ended")
					}
					if got := n.do(sandbox.Verify, o); got.Status != outcome.Remains || !strings.Contains(got.Text(), test.stuck) {
						t.Errorf("%+v", got)
					}
					free()
					return
				}
				if err == nil || !strings.Contains(err.Error(), test.stuck) || state.Roll == nil {
					t.Errorf("%v, %+v", err, state)
				}
				free()
				n.mustBack()
				for _, d := range compare(before, n.tree()) {
					t.Error(d)
				}
			})
		})
	}
}

// TestWayBackRestartsOnce: systemd starts the way back every half a minute until it succeeds, and
// the runtime is not restarted each time. A full disk keeps it from the first restart.
func TestWayBackRestartsOnce(t *testing.T) {
	const restart = "systemctl restart crio.service"
	for name, test := range map[string]struct {
		prevent  func(*node) (free func())
		restarts int // as long as the way back cannot end
	}{
		"the disk is full":                 {func(n *node) func() { return n.stick(filepath.Join(store.Folder, store.State)) }, 0},
		"what comes after it fails":        {func(n *node) func() { return n.failsAfter(restart, "systemctl show") }, 1},
		"its unit files cannot be removed": {func(n *node) func() { return n.stick(filepath.Join(unitFolder, backService)) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				n.write("/etc/crio/crio.conf.d/other.conf", "")
				before := n.tree()
				o := n.order("r1", "v1", section)
				o.NRI = "crio"
				n.doFirst(3, o)
				n.now.Since += trialTime
				free := test.prevent(n)
				steps := len(n.steps)
				restarts := func() int {
					return len(slices.DeleteFunc(slices.Clone(n.steps[steps:]), func(s string) bool { return s != restart }))
				}
				for range 5 {
					if err := n.back(t.Context()); err == nil {
						t.Fatal("the way back has ended")
					}
				}
				if restarts() != test.restarts {
					t.Errorf("%d restarts of the runtime in five attempts; want %d", restarts(), test.restarts)
				}
				free()
				n.mustBack()
				if restarts() != 1 {
					t.Errorf("%d restarts of the runtime; want 1", restarts())
				}
				for _, d := range compare(before, n.tree()) {
					t.Error(d)
				}
			})
		})
	}
}

// TestMonitorSettles: a monitor that takes its time to stop and to start is waited for, and only
// then is the node said to be as before.
func TestMonitorSettles(t *testing.T) {
	const restart = "systemctl restart --no-block partition-monitor.service"
	for name, test := range map[string]struct {
		before   string // its state before the roll, where it was not active
		stops    time.Duration
		starts   time.Duration
		fails    bool // it does not start
		restarts bool
		status   outcome.Status
		says     string
		within   time.Duration // the time that the way back may take
	}{
		"at once":      {"", 0, time.Second, false, true, outcome.WentBack, "is as before", 15 * time.Second},
		"slow":         {"", 25 * time.Second, 80 * time.Second, false, true, outcome.WentBack, "is as before", 2 * time.Minute},
		"for ever":     {"", time.Second, time.Hour, false, true, outcome.Remains, "is activating, and was active", 3 * time.Minute},
		"fails":        {"", time.Second, time.Second, true, true, outcome.Remains, "is failed, and was active", 30 * time.Second},
		"was starting": {"activating", time.Second, 20 * time.Second, false, true, outcome.WentBack, "is as before", time.Minute},
		"had failed":   {"failed", 0, 0, false, false, outcome.WentBack, "is as before", 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				n.mustRoll("old", "v1", section)
				const monitor = "partition-monitor.service"
				state := func(is string) { n.active[monitor], n.between = is == "active", is }
				if test.before != "" {
					state(test.before)
				}
				var restarted time.Time
				n.h.Programs = around{n, func(_ context.Context, line string) (*Ran, error) {
					if !restarted.IsZero() {
						switch since := time.Since(restarted); {
						case since < test.stops:
							state("deactivating")
						case since < test.stops+test.starts:
							state("activating")
						case test.fails:
							state("failed")
						default:
							state("active")
						}
					}
					switch {
					case line == "systemctl reset-failed "+monitor && n.between == "failed":
						state("")
					case line == restart:
						restarted = time.Now()
						return &Ran{}, nil
					case strings.HasPrefix(line, "partition-monitor status --wait"):
						return &Ran{Stderr: "not ready", Status: 1}, nil
					}
					return nil, nil
				}}
				o := n.order("new", "v2", section)
				n.doFirst(3, o)
				if test.before != "" {
					state(test.before) // it is as it was, whatever the roll has started
				}
				began := time.Now()
				got := n.do(sandbox.Verify, o)
				if got.Status != test.status || !strings.Contains(got.Text(), test.says) || restarted.IsZero() == test.restarts {
					t.Errorf("restarted: %v: %+v; want %d, %q", restarted, got, test.status, test.says)
				}
				if took := time.Since(began); took > test.within {
					t.Errorf("took %s; want %s or less", took, test.within)
				}
			})
		})
	}
}

// TestKeptAndUntidy: a stage that fails after the roll was kept does not say that the node is as
// before.
func TestKeptAndUntidy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		o := n.order("r1", "v1", section)
		n.doFirst(4, o)
		n.fails["systemd-run"] = "systemd is busy"
		got := n.do(sandbox.Keep, o)
		if got.Status != outcome.Done || !strings.Contains(got.Text(), "is kept") || !strings.Contains(got.Text(), "systemd is busy") {
			t.Errorf("%+v", got)
		}
		clear(n.fails)
		if got := n.do(sandbox.Keep, o); got.Status != outcome.Done || n.read(filepath.Join(store.Folder, store.Payload, monitorPath)) != "" {
			t.Errorf("again: %+v", got)
		}
	})
}

// TestSoftReboot: a soft-reboot keeps the boot, and its timer is another one. The deadline counts.
func TestSoftReboot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		o := n.order("r1", "v1", section)
		n.doFirst(3, o)
		n.now = trialend.Moment{Boot: n.now.Boot, Since: n.now.Since + 1}
		n.mustBack()
		if n.state().Roll == nil {
			t.Error("the service at the start of the system went back before its time")
		}
	})
}

// TestWayBackHalfDone: an attempt of the way back fails after it has put files back. A stage that
// has waited for the lock does not go on with the roll, not even keep, which needs no trial if the
// roll changes the version alone.
func TestWayBackHalfDone(t *testing.T) {
	for _, now := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t)
			n.mustRoll("old", "v1", section)
			before := n.tree()
			o := n.order("new", "v2", section)
			n.doFirst(4, o)
			if !now {
				n.now.Since += trialTime
			}
			n.fails["systemctl daemon-reload"] = "too busy"
			if err := n.h.Back(t.Context(), now); err == nil || n.read(monitorPath) != "monitor v1" {
				t.Fatalf("now: %t: the attempt did not fail halfway: %v", now, err)
			}
			clear(n.fails)
			got := n.do(sandbox.Keep, o)
			if got.Status != outcome.WentBack || got.Reason != outcome.Timeout {
				t.Errorf("now: %t: %+v", now, got)
			}
			if kept := n.state().Kept; kept == nil || kept.Roll != "old" {
				t.Errorf("now: %t: kept: %+v", now, kept)
			}
			for _, d := range compare(before, n.tree()) {
				t.Errorf("now: %t: %s", now, d)
			}
		})
	}
}

// TestHalfSection: what a keep that was killed has written of the section is removed. Hidden files
// of others, such as an editor's, have similar names and stay.
func TestHalfSection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.write("/etc/kubernetes/.node-partition.yaml.swp", "an editor's")
		before := n.tree()
		n.doFirst(4, n.order("r1", "v1", section))
		n.write("/etc/kubernetes/.node-partition.yaml1234567", "system")
		n.now.Since += trialTime
		n.mustBack()
		for _, d := range compare(before, n.tree()) {
			t.Error(d)
		}
	})
}
