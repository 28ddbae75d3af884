package host

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"nodepartition/internal/installer/manifest"
	"nodepartition/internal/installer/outcome"
	"nodepartition/internal/installer/sandbox"
	"nodepartition/internal/kubeletconfig"
)

// TestUninstall: the node is as before the first roll. Files that were changed stay, and are named.
func TestUninstall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		before := n.tree()
		n.mustRoll("r1", "v1", section)
		if got := n.do(sandbox.Uninstall, n.order("u1", "v1", section)); got.Status != outcome.Done {
			t.Fatalf("%+v", got)
		}
		for _, d := range compare(before, n.tree()) {
			t.Error(d)
		}
		if got := n.do(sandbox.Uninstall, n.order("u1", "v1", section)); got.Status != outcome.Done || !strings.Contains(got.Text(), "nothing to do") {
			t.Errorf("again: %+v", got)
		}

		n.mustRoll("r2", "v1", section)
		n.write(pagePath, "mine")
		n.write(kubeletconfig.OverridePath, otherSection)
		got := n.do(sandbox.Uninstall, n.order("u2", "v1", section))
		if got.Status != outcome.Done || !strings.Contains(got.Text(), pagePath+" stays") || n.read(pagePath) != "mine" {
			t.Errorf("%+v", got)
		}
		if n.read(kubeletconfig.OverridePath) != otherSection || n.read(systemSlice+"/memory.max") != "" {
			t.Error("an edited section is gone, or its partition is in force")
		}
	})
}

// TestUninstallKilled: an uninstallation that is killed before any step is finished by the next.
func TestUninstallKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for at := 1; ; at++ {
			n := newNode(t)
			before := n.tree()
			n.mustRoll("r1", "v1", section)
			o := n.order("u1", "v1", section)
			n.killAt = len(n.steps) + at
			alive := survives(func() { n.do(sandbox.Uninstall, o) })
			n.killAt = 0
			if got := n.do(sandbox.Uninstall, o); got.Status != outcome.Done {
				t.Errorf("%d: %+v", at, got)
			}
			for _, d := range compare(before, n.tree()) {
				t.Errorf("%d: %s", at, d)
			}
			if alive {
				return
			}
		}
	})
}

// TestUninstallAfterKeep: keep is killed after the rename of the section, which decides that the
// roll is kept. An uninstallation that comes before the way back removes the section, too.
func TestUninstallAfterKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		before := n.tree()
		o := n.order("r1", "v1", section)
		n.doFirst(4, o)
		for at := 1; n.read(kubeletconfig.OverridePath) == ""; at++ {
			n.killAt = len(n.steps) + at
			if survives(func() { n.do(sandbox.Keep, o) }) {
				t.Fatal("was not killed")
			}
		}
		n.killAt = 0
		if got := n.do(sandbox.Uninstall, n.order("u1", "v1", section)); got.Status != outcome.Done || !strings.Contains(got.Text(), "uninstalled") {
			t.Errorf("%+v", got)
		}
		for _, d := range compare(before, n.tree()) {
			t.Error(d)
		}
	})
}

// TestUninstallRemains: an uninstallation does not say that there is nothing to do on a node that
// has not gone back as a whole. When what it names was put in order, it does.
func TestUninstallRemains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		before := n.tree()
		o := n.order("r1", "v1", section)
		n.doFirst(3, o)
		n.write(generatorPath, "patched by hand")
		for _, again := range []bool{false, true} {
			got := n.do(sandbox.Uninstall, n.order("u1", "v1", section))
			if got.Status != outcome.Remains || !strings.Contains(got.Text(), generatorPath) || strings.Contains(got.Text(), "nothing to do") {
				t.Errorf("again: %t: %+v", again, got)
			}
		}
		n.remove(generatorPath)
		n.write(monitorPath, "of a package")
		if got := n.do(sandbox.Uninstall, n.order("u1", "v1", section)); got.Status != outcome.Done {
			t.Errorf("in order, and a package has come since: %+v", got)
		}
		n.remove(monitorPath)
		for _, d := range compare(before, n.tree()) {
			t.Error(d)
		}
	})
}

// TestUninstallRestarts: the runtime is restarted without the drop-in for NRI, also by the call
// that finishes an uninstallation which was killed, or could not restart it. A drop-in that was
// edited stays, and nothing is restarted.
func TestUninstallRestarts(t *testing.T) {
	const restart = "systemctl restart crio.service"
	dropIn := dropIns()[1].path
	begin := func(t *testing.T) (*node, manifest.Order) {
		t.Helper()
		n := newNode(t)
		n.write("/etc/crio/crio.conf.d/other.conf", "")
		o := n.order("r1", "v1", section)
		o.NRI = "crio"
		if got := n.roll(o); got.Status != outcome.Done || n.read(dropIn) == "" {
			t.Fatalf("%+v", got)
		}
		n.steps = nil
		return n, n.order("u1", "v1", section)
	}
	synctest.Test(t, func(t *testing.T) {
		for at := 1; ; at++ {
			n, o := begin(t)
			n.killAt = at
			alive := survives(func() { n.do(sandbox.Uninstall, o) })
			n.killAt = 0
			if got := n.do(sandbox.Uninstall, o); got.Status != outcome.Done || !slices.Contains(n.steps, restart) {
				t.Errorf("killed before step %d: %+v, %v", at, got, n.steps)
			}
			if alive {
				break
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		n, o := begin(t)
		n.fails[restart] = "a job for crio.service failed"
		if got := n.do(sandbox.Uninstall, o); got.Status != outcome.Remains || !strings.Contains(got.Text(), "a job for crio.service failed") {
			t.Errorf("%+v", got)
		}
		clear(n.fails)
		if got := n.do(sandbox.Uninstall, o); got.Status != outcome.Done || !strings.Contains(got.Text(), "crio.service was restarted") {
			t.Errorf("again: %+v", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		n, o := begin(t)
		n.write(dropIn, "mine")
		if got := n.do(sandbox.Uninstall, o); got.Status != outcome.Done || slices.Contains(n.steps, restart) || n.read(dropIn) != "mine" {
			t.Errorf("edited: %+v, %v", got, n.steps)
		}
	})
}
