package installer

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"node-partition.io/node-partition/internal/installer/record"
	"node-partition.io/node-partition/internal/kubeletconfig"
)

// TestRemove: the node is as before the first change, and nothing of ours is left in the
// installer's folder. A second removal changes nothing.
func TestRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		before := n.tree()
		n.mustApply("v1", section)
		if got := n.takeOff(); got.Status != record.Done || got.Reason != "" {
			t.Fatalf("%+v", got)
		}
		n.isAsBefore(before, "")
		if left := n.inFolder(); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
		n.steps = nil
		if got := n.takeOff(); got.Status != record.Done || got.Reason != record.Unchanged {
			t.Errorf("again: %+v", got)
		}
		if steps := changedBy(n.steps); len(steps) > 0 || len(n.inFolder()) > 0 {
			t.Errorf("again: %v, %v", steps, n.inFolder())
		}
	})
}

// TestRemoveEdited: what somebody has changed since stays, and is named.
func TestRemoveEdited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.mustApply("v1", section)
		n.write(servicePath, "mine")
		n.write(kubeletconfig.OverridePath, otherSection)
		got := n.takeOff()
		if got.Status != record.Done || !strings.Contains(got.Text(), kubeletconfig.OverridePath+" stays") || !strings.Contains(got.Text(), servicePath+" stays") || n.read(servicePath) != "mine" {
			t.Errorf("%+v", got)
		}
		if n.read(kubeletconfig.OverridePath) != otherSection || n.read(systemSlice+"/memory.max") != "" {
			t.Error("an edited section is gone, or its partition is in force")
		}
	})
}

// TestRemoveFound: a section that the node had before, or that an operator has written, stays, also
// after a later version. One that the installer has written in its place goes.
func TestRemoveFound(t *testing.T) {
	for later, stays := range map[string]bool{section: true, otherSection: false} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t)
			n.write(kubeletconfig.OverridePath, section)
			n.mustApply("v1", section)
			n.mustApply("v2", later)
			got := n.takeOff()
			if got.Status != record.Done || n.read(kubeletconfig.OverridePath) == later != stays || n.read(systemSlice+"/memory.max") != "" {
				t.Errorf("%+v, the section is %q", got, n.read(kubeletconfig.OverridePath))
			}
		})
	}
}

// TestRemoveKilled: a removal that is killed before any step is finished by the next, or by an
// apply before it begins.
func TestRemoveKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for at := 1; ; at++ {
			n := newNode(t)
			before := n.tree()
			n.mustApply("v1", section)
			alive := !n.killedAt(at, func() { n.takeOff() })
			if at%2 == 0 && !alive {
				if got := n.do(n.order("v1", section)); got.Status != record.Done || n.read(kubeletconfig.OverridePath) != section || n.read(monitorPath) != "monitor v1" {
					t.Errorf("%d: an apply: %+v", at, got)
				}
			}
			if got := n.takeOff(); got.Status != record.Done {
				t.Errorf("%d: %+v", at, got)
			}
			n.isAsBefore(before, at)
			if left := n.inFolder(); len(left) > 0 {
				t.Errorf("%d: left: %q", at, left)
			}
			if alive {
				return
			}
		}
	})
}

// TestRemoveUnderWay: a removal ends a change that was killed, and takes off what was there before
// it.
func TestRemoveUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		before := n.tree()
		n.mustApply("v1", section)
		n.killIn("partition-monitor status -o json", n.order("v2", otherSection))
		if got := n.takeOff(); got.Status != record.Done || got.Reason != "" {
			t.Errorf("%+v", got)
		}
		n.isAsBefore(before, "")
	})
}

// TestRemoveStaticPods: pods that stay in the slice are named.
func TestRemoveStaticPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.mustApply("v1", section)
		n.static = true
		n.startSlices()
		if got := n.takeOff(); got.Status != record.Done || !strings.Contains(got.Text(), "until they start again: 1") {
			t.Errorf("%+v", got)
		}
		if !slices.Contains(n.steps, "systemctl set-property --runtime kubepods-system.slice Markers=") {
			t.Errorf("its limit stays: %v", n.steps)
		}
	})
}

// TestRemoveRemains: what is not as before a change that went back is said by each removal, and by
// no other once it is as before. A file is an error. A pod that stays in a slice is none: it does
// so after other removals, too.
func TestRemoveRemains(t *testing.T) {
	for name, test := range map[string]struct {
		spoil, mend func(*node)
		status      record.Status
		says        string
	}{
		"a link": {
			func(n *node) { n.write(servicePath, "mine") }, func(n *node) { n.remove(servicePath) },
			record.Remains, servicePath + " is there, and was not",
		},
		"a slice":           {func(n *node) { n.static = true }, func(n *node) { n.remove(systemSlice) }, record.Done, "kubepods-system.slice is active"},
		"a slice, and boot": {func(n *node) { n.static = true }, (*node).reboot, record.Done, "kubepods-system.slice is active"},
		"a link that a package takes": {
			func(n *node) { n.write(servicePath, "mine") }, func(n *node) { n.write(dpkgList, "/.") },
			record.Remains, servicePath + " is there, and was not",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				n.notReady = "gone"
				n.onApplied(func() { test.spoil(n); n.startSlices() })
				if got := n.do(n.order("v1", section)); got.Status != record.Remains {
					t.Fatalf("%+v", got)
				}
				if name == "a slice" { // which another change that goes back does not forget
					if got := n.do(n.order("v2", section)); got.Status != record.Remains || !strings.Contains(got.Text(), test.says) {
						t.Errorf("another change: %+v", got)
					}
				}
				for range 2 {
					if got := n.takeOff(); got.Status != test.status || !strings.Contains(got.Text(), test.says) {
						t.Errorf("%+v; want %d, %q", got, test.status, test.says)
					}
				}
				test.mend(n)
				if got := n.takeOff(); got.Status != record.Done || strings.Contains(got.Text(), "not as before") || len(n.inFolder()) > 0 {
					t.Errorf("mended: %+v, %q", got, n.inFolder())
				}
			})
		})
	}
}

// TestRemoveOwned: programs that a package has taken over since are not removed under it.
func TestRemoveOwned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.mustApply("v1", section)
		n.write(dpkgList, "/.")
		before := n.tree()
		got := n.takeOff()
		if got.Status != record.Refused || got.Reason != record.ForeignFile || !strings.Contains(got.Text(), "the package node-partition is installed") {
			t.Errorf("%+v", got)
		}
		n.isAsBefore(before, "")
		if n.state().Kept == nil {
			t.Error("the state is gone")
		}
	})
}
