package host

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nodepartition/internal/installer/manifest"
	"nodepartition/internal/installer/outcome"
	"nodepartition/internal/installer/sandbox"
	"nodepartition/internal/installer/store"
	"nodepartition/internal/kubeletconfig"
)

// TestUnwell: what partition-monitor status says of a node decides whether a roll is kept.
func TestUnwell(t *testing.T) {
	const active = `"partitions":[{"name":"system","slice":"kubepods-system.slice"}]`
	for name, test := range map[string]struct{ status, want string }{
		"well":                {`{` + active + `,"service":"ready","pods":[{"namespace":"a","name":"b","reason":"static"}]}`, ""},
		"no partition":        {`{"partitions":[],"problem":"no section","service":"ready"}`, "no partition is active: no section"},
		"the service":         {`{` + active + `,"service":"starts"}`, "the service is not ready: starts"},
		"a pod that waits":    {`{` + active + `,"service":"ready","pods":[{"namespace":"a","name":"b","reason":"pending"}]}`, "pod a/b waits to be moved (pending)"},
		"a pod that is moved": {`{` + active + `,"service":"ready","pods":[{"namespace":"a","name":"b","reason":"moving"}]}`, "pod a/b waits to be moved (moving)"},
		"no answer":           {`partition-monitor: killed`, "partition-monitor status"},
	} {
		n := newNode(t)
		n.h.Programs = around{n, func(_ context.Context, line string) (*Ran, error) {
			if line != "partition-monitor status -o json" {
				t.Errorf("%s: runs %q", name, line)
			}
			return &Ran{Stdout: test.status}, nil
		}}
		err := n.h.unwell(t.Context(), nil, manifest.Order{}, &manifest.Roll{})
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want %q", name, err, test.want)
		}
	}
}

// TestStageOrder: a stage does nothing before the one that it needs, for another roll, or after one
// that has failed.
func TestStageOrder(t *testing.T) {
	for name, test := range map[string]struct {
		stage  sandbox.Stage
		needs  manifest.Stage
		has    manifest.Stage
		roll   string
		failed string
		want   string
	}{
		"apply before install":  {sandbox.Apply, manifest.Installed, manifest.Preparing, "r1", "", `at the stage "preparing", and this one comes after "installed"`},
		"verify before apply":   {sandbox.Verify, manifest.Applied, manifest.Installed, "r1", "", `at the stage "installed", and this one comes after "applied"`},
		"keep before verify":    {sandbox.Keep, manifest.Verified, manifest.Applied, "r1", "", `at the stage "applied", and this one comes after "verified"`},
		"another roll":          {sandbox.Apply, manifest.Installed, manifest.Installed, "r2", "", "roll r1 is not under way"},
		"after one that failed": {sandbox.Keep, manifest.Verified, manifest.Verified, "r1", "the node was not well", "the node was not well"},
		"as it should":          {sandbox.Keep, manifest.Verified, manifest.Keeping, "r1", "", ""},
	} {
		n := newNode(t)
		r := &manifest.Roll{Wish: manifest.Wish{Roll: test.roll}, Stage: test.has, Failed: test.failed, Reason: string(outcome.Verify)}
		if err := n.h.SetState(manifest.State{Roll: r}); err != nil {
			t.Fatal(err)
		}
		steps := len(n.steps)
		o := manifest.Order{Wish: manifest.Wish{Roll: "r1"}}
		_, _, err := n.h.under(o, test.needs)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want %q", name, err, test.want)
		}
		if test.want == "" {
			continue
		}
		if test.failed != "" && outcome.ReasonOf(err) != outcome.Verify {
			t.Errorf("%s: the reason is %s; want the reason of the stage that failed", name, outcome.ReasonOf(err))
		}
		if _, err := n.h.stage(t.Context(), test.stage, o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %s: %v; want %q", name, test.stage, err, test.want)
		}
		if len(n.steps) > steps {
			t.Errorf("%s: something was done: %v", name, n.steps[steps:])
		}
	}
}

// TestShortTrial: a section is not tried when the node goes back before its service can be ready.
func TestShortTrial(t *testing.T) {
	for left, want := range map[time.Duration]outcome.Status{shortest - 1: outcome.WentBack, shortest: outcome.Done} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t)
			o := n.order("r1", "v1", section)
			n.do(sandbox.Install, o)
			n.now.Since += trialTime - left
			steps := len(n.steps)
			got := n.do(sandbox.Apply, o)
			if got.Status != want {
				t.Errorf("%s left: %+v; want %d", left, got, want)
			}
			if want == outcome.Done {
				return
			}
			if got.Reason != outcome.Timeout || !strings.Contains(got.Text(), "use a longer --trial") {
				t.Errorf("%s left: %+v", left, got)
			}
			if done := strings.Join(n.steps[steps:], "\n"); strings.Contains(done, "partition-monitor try /") {
				t.Errorf("%s left, and the section was tried: %s", left, done)
			}
		})
	}
}

// TestOtherRequest: a request that is for another roll than its name says is not obeyed.
func TestOtherRequest(t *testing.T) {
	n := newNode(t)
	o := n.order("r2", "v1", section)
	if err := n.h.WriteJSON(store.Request(string(sandbox.Install), "r1"), o); err != nil {
		t.Fatal(err)
	}
	steps := len(n.steps)
	got := n.h.Do(t.Context(), sandbox.Install, "r1")
	if got.Status != outcome.Refused || !strings.Contains(got.Text(), "the request is for roll r2, and the stage for roll r1") {
		t.Errorf("%+v", got)
	}
	if len(n.steps) > steps || n.state().Roll != nil {
		t.Errorf("something was done: %v", n.steps[steps:])
	}
}

// TestInstallOnce: an install whose roll has its files does nothing, whatever happened since.
func TestInstallOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		o := n.order("r1", "v1", section)
		n.do(sandbox.Install, o)
		n.remove(servicePath)
		steps := len(n.steps)
		if got := n.do(sandbox.Install, o); got.Status != outcome.Done || !strings.Contains(got.Text(), "are in place") {
			t.Errorf("%+v", got)
		}
		if len(n.steps) > steps {
			t.Errorf("something was done: %v", n.steps[steps:])
		}
	})
}

// TestNotWritable: a folder that a stage cannot write is named before anything is written, also
// the one for the units of the way back.
func TestNotWritable(t *testing.T) {
	n := newNode(t)
	o := n.order("r1", "v1", section)
	n.remove(unitFolder)
	got := n.do(sandbox.Install, o)
	if got.Status != outcome.Refused || !strings.Contains(got.Text(), unitFolder+" cannot be written") {
		t.Errorf("%+v", got)
	}
	if len(n.steps) > 0 || n.state().Roll != nil {
		t.Errorf("something was done: %v", n.steps)
	}
}

// TestBackDuringUninstall: the way back leaves an uninstallation alone, which has no way back.
func TestBackDuringUninstall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.mustRoll("r1", "v1", section)
		o := n.order("u1", "v1", section)
		for at := 1; n.state().Roll == nil; at++ {
			n.killAt = len(n.steps) + at
			if survives(func() { n.do(sandbox.Uninstall, o) }) {
				t.Fatal("was not killed")
			}
		}
		n.killAt = 0
		before, steps := n.tree(), len(n.steps)
		for _, now := range []bool{false, true} {
			if err := n.h.Back(t.Context(), now); err != nil {
				t.Errorf("now: %t: %v", now, err)
			}
		}
		if state := n.state(); state.Roll == nil || state.Roll.Stage != manifest.Uninstalling || state.Kept == nil {
			t.Errorf("the uninstallation is forgotten: %+v", state)
		}
		if d := compare(before, n.tree()); len(d) > 0 || len(n.steps) > steps {
			t.Errorf("something was done: %v, %v", d, n.steps[steps:])
		}
	})
}

// TestUninstallOwned: files that a package has taken over since are not removed under it.
func TestUninstallOwned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.mustRoll("r1", "v1", section)
		n.write(dpkgList, "/.")
		before := n.tree()
		got := n.do(sandbox.Uninstall, n.order("u1", "v1", section))
		if got.Status != outcome.Remains || got.Reason != outcome.ForeignFile || !strings.Contains(got.Text(), "somebody else's now") {
			t.Errorf("%+v", got)
		}
		for _, d := range compare(before, n.tree()) {
			t.Error(d)
		}
		if n.read(kubeletconfig.OverridePath) != section || n.read(filepath.Join(store.Folder, store.State)) == "" {
			t.Error("the section or the state is gone")
		}
	})
}
