package installer

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/internal/installer/record"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/trialend"
)

// killIn kills the installer where a program begins.
func (n *node) killIn(line string, o record.Order) {
	n.t.Helper()
	n.h.Programs = around{n, func(_ context.Context, l string) *ran {
		if strings.HasPrefix(l, line) {
			panic(killed{})
		}
		return nil
	}}
	if survives(func() { n.do(o) }) {
		n.t.Fatalf("%s did not run", line)
	}
	n.h.Programs = n
}

// TestRollbackKilled: the rollback is killed before each step, too, and the next one finishes it.
func TestRollbackKilled(t *testing.T) {
	for name, had := range map[string]bool{"first": false, "another": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for at := 1; ; at++ {
					n := newNode(t)
					if had {
						n.mustApply("v1", section)
					}
					before, kept := n.tree(), n.inFolder()
					n.killIn("partition-monitor keep", n.order("v2", otherSection))
					n.now.Since += trialTime
					alive := !n.killedAt(at, n.mustBack)
					if !alive {
						n.mustBack()
					}
					if state := n.state(); state.Rollout != nil || state.Before != nil {
						t.Errorf("%d: %+v", at, state)
					}
					n.isAsBefore(before, at)
					if now := n.inFolder(); !slices.Equal(now, kept) {
						t.Errorf("%d: the installer's folder has %q; want %q as before", at, now, kept)
					}
					if alive {
						if at < 10 {
							t.Errorf("the way back has only %d steps", at)
						}
						return
					}
				}
			})
		})
	}
}

// TestTimeOver: the installer is gone. The timer brings the node back, and not before its time.
func TestTimeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		before := n.tree()
		n.killIn("partition-monitor status -o json", n.order("v1", section))
		n.now.Since += trialTime - 1
		n.mustBack()
		if n.state().Rollout == nil {
			t.Fatal("went back before its time")
		}
		// A soft-reboot keeps the boot, and its timer is another one. The deadline counts.
		n.now = trialend.Moment{Boot: n.now.Boot, Since: n.now.Since + 1}
		n.mustBack()
		n.isAsBefore(before, "")
	})
}

// TestBackNow: an operator has the node go back at once, and hears what remains.
func TestBackNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		before := n.tree()
		n.killIn("partition-monitor status -o json", n.order("v1", section))
		if err := n.h.Back(t.Context(), true); err != nil {
			t.Error(err)
		}
		n.isAsBefore(before, "")
		n.static = true
		n.killIn("partition-monitor status -o json", n.order("v1", section))
		for range 2 {
			if err := n.h.Back(t.Context(), true); err == nil || !strings.Contains(err.Error(), "kubepods-system.slice is active") {
				t.Errorf("%v", err)
			}
		}
	})
}

// TestMonitorSettles: a monitor that takes its time to stop and to start is waited for, and only
// then is the node said to be as before.
func TestMonitorSettles(t *testing.T) {
	const restart = "systemctl restart --no-block partition-monitor.service"
	for name, test := range map[string]struct {
		before   string // its state before, where it was not active
		stops    time.Duration
		starts   time.Duration
		fails    bool // it does not start
		restarts bool
		status   record.Status
		says     string
		within   time.Duration // the time that the rollback may take
	}{
		"at once":      {"", 0, time.Second, false, true, record.WentBack, "is as before", 15 * time.Second},
		"slow":         {"", 25 * time.Second, 80 * time.Second, false, true, record.WentBack, "is as before", 2 * time.Minute},
		"for ever":     {"", time.Second, time.Hour, false, true, record.Remains, "is activating, and was active", 3 * time.Minute},
		"fails":        {"", time.Second, time.Second, true, true, record.Remains, "is failed, and was active", 30 * time.Second},
		"was starting": {"activating", time.Second, 20 * time.Second, false, true, record.WentBack, "is as before", time.Minute},
		"had failed":   {"failed", 0, 0, false, false, record.WentBack, "is as before", 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				n.mustApply("v1", section)
				const monitor = "partition-monitor.service"
				state := func(is string) { n.active[monitor], n.between = is == "active", is }
				if test.before != "" {
					state(test.before)
				}
				var restarted, began time.Time
				n.h.Programs = around{n, func(_ context.Context, line string) *ran {
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
						return &ran{}
					case strings.HasPrefix(line, "partition-monitor status -o json") && restarted.IsZero():
						if test.before != "" {
							state(test.before) // it is as it was, whatever the change has started
						}
						began = time.Now()
						return &ran{err: errors.New("not ready")}
					}
					return nil
				}}
				got := n.do(n.order("v2", section))
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

// TestRollbackFails: an attempt of the rollback fails. The call says so, the timer tries again, and
// a rollback that fails is no end.
func TestRollbackFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.mustApply("v1", section)
		before := n.tree()
		n.notReady = "gone"
		free := n.failsAfter("partition-monitor status -o json", "systemctl daemon-reload")
		got := n.do(n.order("v2", section))
		if got.Status != record.Remains || !strings.Contains(got.Text(), "the rollback has not ended") || n.state().Rollout == nil {
			t.Errorf("%+v", got)
		}
		free()
		n.mustBack() // its time is over: it has failed
		n.isAsBefore(before, "")
	})
}

// TestDiskFull: a state that cannot be written does not keep the files of before from their places,
// by the timer and when a change fails.
func TestDiskFull(t *testing.T) {
	for name, full := range map[string]func(*node) (free func()){
		"the timer": func(n *node) (free func()) {
			n.killIn("partition-monitor status -o json", n.order("v2", otherSection))
			n.now.Since += trialTime
			free = n.stick(n.h.In("state.json"))
			if err := n.back(n.t.Context()); err == nil {
				n.t.Error("no error")
			}
			return free
		},
		"a change fails": func(n *node) (free func()) {
			n.notReady = "gone"
			n.onApplied(func() { free = n.stick(n.h.In("state.json")) })
			got := n.do(n.order("v2", otherSection))
			if got.Status != record.Remains || !strings.Contains(got.Text(), "the rollback has not ended") {
				n.t.Errorf("%+v", got)
			}
			n.now.Since += trialTime
			return free
		},
		"until the new files are gone": func(n *node) (free func()) {
			usr, _ := layouts()
			n.h.Sync = func(f *os.File) error {
				if strings.Contains(f.Name(), "state.json") && free != nil && n.h.Root.Exists(usr.base+"/v2") {
					return unix.ENOSPC
				}
				return nil
			}
			n.notReady = "gone"
			n.onApplied(func() { free = func() {} })
			if got := n.do(n.order("v2", otherSection)); got.Status != record.WentBack {
				n.t.Errorf("%+v", got)
			}
			return free
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				n.mustApply("v1", section)
				before := n.tree()
				free := full(n)
				if in := n.inForce(); n.read(monitorPath) != "monitor v1" || in != section || n.read(systemSlice+"/memory.max") != section {
					t.Errorf("%q, %q", n.read(monitorPath), in)
				}
				free()
				n.mustBack()
				n.isAsBefore(before, "")
			})
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
		n.killIn("partition-monitor keep", n.order("v1", section))
		n.write("/etc/kubernetes/.node-partition.yaml1234567", "system")
		n.now.Since += trialTime
		n.mustBack()
		n.isAsBefore(before, "")
	})
}

// TestKeptByTheRename: keep is killed after the rename of the section. The node is kept, by the
// timer and by the next call.
func TestKeptByTheRename(t *testing.T) {
	for _, ends := range []string{"timer", "call", "remove"} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t)
			before := n.tree()
			n.killAfter("in keep", n.order("v1", section))
			id := n.call()
			switch ends {
			case "timer":
				n.now.Since += trialTime
				n.mustBack()
			case "call":
				if got := n.do(n.order("v1", section)); got.Reason != record.Unchanged {
					t.Errorf("%+v", got)
				}
			case "remove":
				if got := n.takeOff(); got.Status != record.Done || got.Reason == record.Unchanged {
					t.Errorf("%+v", got)
				}
				n.isAsBefore(before, "")
				return
			}
			if kept := n.state().Kept; kept == nil || kept.By != id || n.read(kubeletconfig.OverridePath) != section {
				t.Errorf("%s: %+v", ends, kept)
			}
		})
	}
}

// killAfter kills the installer at a step.
func (n *node) killAfter(step string, o record.Order) {
	n.t.Helper()
	n.killStep = step
	if survives(func() { n.do(o) }) {
		n.t.Fatalf("no step %s", step)
	}
	n.killStep = ""
}
