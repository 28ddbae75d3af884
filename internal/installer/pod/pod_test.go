package pod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/installer/manifest"
	"nodepartition/internal/installer/outcome"
	"nodepartition/internal/installer/sandbox"
	"nodepartition/internal/installer/store"
	"nodepartition/internal/systemd"
	"nodepartition/internal/trialend"
)

// fake is the host: it answers as its systemd and the stages do.
type fake struct {
	t   *testing.T
	p   *Pod
	dir string
	// units lists the units that were started, with the last argument of their programs.
	units []string
	// answer writes the result of a stage, and returns how its process has ended. Without one the
	// stage ends well.
	answer func(stage, roll string) (systemd.Ended, error)
	noBus  bool
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{t: t, dir: t.TempDir()}
	for name, mode := range map[string]os.FileMode{"image/partition-installer": 0o755, "image/payload/usr/bin/partition-monitor": 0o755, "section.yaml": 0o644} {
		path := filepath.Join(f.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(name), mode)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(f.dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	f.p = &Pod{
		Store:   store.Store{Disk: store.Disk{Sync: func(*os.File) error { return nil }}, Folder: filepath.Join(f.dir, "state")},
		Image:   store.Disk{Root: hostfs.FS(filepath.Join(f.dir, "image"))},
		Systemd: f,
		Now:     func() (trialend.Moment, error) { return trialend.Moment{Boot: "b", Since: time.Hour}, nil },
	}
	return f
}

// Version implements Manager.
func (f *fake) Version(context.Context) (string, error) {
	if f.noBus {
		return "", errors.New("connecting to systemd: no such file")
	}
	return "257", nil
}

// RunService implements Manager.
func (f *fake) RunService(_ context.Context, name string, properties []systemd.Property, _ time.Duration) (systemd.Ended, error) {
	f.units = append(f.units, name)
	if !slices.ContainsFunc(properties, func(p systemd.Property) bool { return p.Name == "ProtectSystem" && p.Value == "strict" }) {
		f.t.Errorf("%s runs without a sandbox", name)
	}
	stage, roll, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(name, "partition-install-"), ".service"), "-")
	if f.answer != nil {
		return f.answer(stage, roll)
	}
	f.result(stage, roll, outcome.Outcome{Sentences: []string{"did " + stage}})
	return systemd.Ended{Result: "success"}, nil
}

// result writes the result of a stage as the host does.
func (f *fake) result(stage, roll string, o outcome.Outcome) {
	f.t.Helper()
	if stage == string(sandbox.Same) || stage == string(sandbox.Back) {
		return
	}
	if err := f.p.WriteJSON(store.Result(stage, roll), o); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fake) wish() Wish {
	return Wish{Roll: "r1", Version: "v1", Node: "n", SectionFile: filepath.Join(f.dir, "section.yaml"), Trial: time.Minute}
}

// files lists the files of the installer's folder.
func (f *fake) files() []string {
	f.t.Helper()
	var all []string
	err := filepath.WalkDir(f.p.Folder, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			all = append(all, strings.TrimPrefix(path, f.p.Folder+"/"))
		}
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return all
}

// kept notes that the node has what the wish brings.
func (f *fake) kept(w Wish) {
	f.t.Helper()
	b, err := f.p.bring(w)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.p.SetState(manifest.State{Kept: &manifest.Kept{Wish: b.order.Wish}}); err != nil {
		f.t.Fatal(err)
	}
}

// TestStage: the host gets the program, the payload, the section and the request, and the pod
// returns the answer.
func TestStage(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	args := "--debug"
	w := f.wish()
	w.MonitorArgs = &args
	f.answer = func(stage, roll string) (systemd.Ended, error) {
		var order manifest.Order
		if err := f.p.ReadJSON(store.Request(stage, roll), &order); err != nil || order.Node != "n" || order.Version != "v1" {
			t.Errorf("%+v, %v", order, err)
		}
		f.result(stage, roll, outcome.Outcome{Sentences: []string{"fine"}})
		return systemd.Ended{Result: "success"}, nil
	}
	if o := f.p.Stage(t.Context(), sandbox.Preflight, w); o.Status != outcome.Done || o.Text() != "done: fine" {
		t.Errorf("%+v", o)
	}
	want := []string{"lock", "node-partition.yaml", "partition-installer", "payload/usr/bin/partition-monitor", "settings"}
	if got := f.files(); !slices.Equal(got, want) {
		t.Errorf("%v; want %v", got, want)
	}
	if data, _ := os.ReadFile(filepath.Join(f.p.Folder, "settings")); !strings.HasSuffix(string(data), "\nPARTITION_MONITOR_ARGS=--debug\n") {
		t.Errorf("settings %q", data)
	}
	// A second stage writes only its request.
	before := map[string]time.Time{}
	for _, name := range want[1:] {
		info, err := os.Stat(filepath.Join(f.p.Folder, name))
		if err != nil {
			t.Fatal(err)
		}
		before[name] = info.ModTime()
	}
	f.p.Stage(t.Context(), sandbox.Install, w)
	for name, was := range before {
		if info, err := os.Stat(filepath.Join(f.p.Folder, name)); err != nil || !info.ModTime().Equal(was) {
			t.Errorf("%s was written again: %v", name, err)
		}
	}
}

// TestWaitsForWayBack: a stage of a roll waits while another process has the lock of the folder, as
// the way back does at the deadline. The first stages do not wait.
func TestWaitsForWayBack(t *testing.T) {
	for stage, waits := range map[sandbox.Stage]bool{
		sandbox.Preflight: false, sandbox.Install: false, sandbox.Uninstall: false,
		sandbox.Apply: true, sandbox.Verify: true, sandbox.Keep: true,
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t)
			unlock, err := f.p.Lock(t.Context(), false)
			if err != nil {
				t.Fatal(err)
			}
			defer unlock()
			defer time.AfterFunc(time.Minute, unlock).Stop()
			o := f.p.Stage(t.Context(), stage, f.wish())
			if waits && o.Status != outcome.Done || !waits && o.Status != outcome.Refused {
				t.Errorf("%s: %+v; want that it waits: %t", stage, o, waits)
			}
		})
	}
}

// TestSame: on a node that has what the roll brings, nothing is written.
func TestSame(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	w := f.wish()
	f.p.Stage(t.Context(), sandbox.Preflight, w)
	f.kept(w)
	before := f.files()
	f.p.Step = func(what string) { t.Errorf("writes: %s", what) }
	w.Roll = "r2"
	for _, stage := range []sandbox.Stage{sandbox.Preflight, sandbox.Install, sandbox.Apply, sandbox.Verify, sandbox.Keep} {
		f.units = nil
		if o := f.p.Stage(t.Context(), stage, w); o.Status != outcome.Done || !strings.Contains(o.Text(), "nothing to do") {
			t.Errorf("%s: %+v", stage, o)
		}
		if !slices.Equal(f.units, []string{"partition-install-same-r2.service"}) {
			t.Errorf("%s: %v", stage, f.units)
		}
	}
	if got := f.files(); !slices.Equal(got, before) {
		t.Errorf("%v; want %v", got, before)
	}
	f.p.Step = nil
	f.answer = func(stage, roll string) (systemd.Ended, error) {
		if stage == "same" {
			return systemd.Ended{Result: "exit-code", Status: 3}, nil
		}
		f.result(stage, roll, outcome.Outcome{Sentences: []string{"repaired"}})
		return systemd.Ended{Result: "success"}, nil
	}
	if o := f.p.Stage(t.Context(), sandbox.Install, w); o.Text() != "done: repaired" {
		t.Errorf("a node with a file that was changed: %+v", o)
	}
}

// TestRefused: a refusal leaves nothing in the folder, and without a bus nothing is written at all.
func TestRefused(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.noBus = true
	if o := f.p.Stage(t.Context(), sandbox.Preflight, f.wish()); o.Status != outcome.Refused || o.Reason != outcome.NoBus {
		t.Errorf("%+v", o)
	}
	if got := f.files(); len(got) > 0 {
		t.Errorf("without a bus: %v", got)
	}
	f.noBus = false
	f.answer = func(stage, roll string) (systemd.Ended, error) {
		// An install that is refused has begun to copy what it would replace: the disk is full.
		backup := f.p.In(filepath.Join(store.Backups, "0"))
		if err := errors.Join(f.p.Mkdir(filepath.Dir(backup), 0o700), f.p.WriteBytes(backup, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		f.result(stage, roll, outcome.Outcome{Status: outcome.Refused, Reason: outcome.CgroupV1, Sentences: []string{"no cgroup v2"}})
		return systemd.Ended{Result: "exit-code", Status: 3}, nil
	}
	if o := f.p.Stage(t.Context(), sandbox.Preflight, f.wish()); o.Status != outcome.Refused || o.Text() != "cgroup-v1: no cgroup v2" {
		t.Errorf("%+v", o)
	}
	if got := f.files(); !slices.Equal(got, []string{"lock"}) {
		t.Errorf("after a refusal: %v", got)
	}
}

// TestNotRoot: a pod that systemd would not obey says so at once, and asks and writes nothing.
func TestNotRoot(t *testing.T) {
	t.Parallel()
	for stage, want := range map[sandbox.Stage]outcome.Status{
		sandbox.Preflight: outcome.Refused, sandbox.Install: outcome.Refused, sandbox.Apply: outcome.Remains,
		sandbox.Verify: outcome.Remains, sandbox.Keep: outcome.Remains, sandbox.Uninstall: outcome.Refused,
	} {
		f := newFake(t)
		f.p.UID = 65532
		o := f.p.Stage(t.Context(), stage, f.wish())
		if o.Status != want || o.Reason != outcome.NoBus || !strings.Contains(o.Text(), "runs as UID 65532") || !strings.Contains(o.Text(), "runAsUser: 0") {
			t.Errorf("%s: %+v", stage, o)
		}
		if got := f.files(); len(got) > 0 || len(f.units) > 0 {
			t.Errorf("%s: %v, %v", stage, got, f.units)
		}
	}
}

// TestOtherRoll: a roll that is under way keeps others out, and its files. One whose time is over
// goes back first.
func TestOtherRoll(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	roll := &manifest.Roll{Wish: manifest.Wish{Roll: "r0"}, Stage: manifest.Applied, Deadline: trialend.Moment{Boot: "b", Since: 2 * time.Hour}}
	set := func() {
		t.Helper()
		if err := f.p.SetState(manifest.State{Roll: roll}); err != nil {
			t.Fatal(err)
		}
	}
	set()
	before := f.files()
	for _, stage := range []sandbox.Stage{sandbox.Preflight, sandbox.Install} {
		if o := f.p.Stage(t.Context(), stage, f.wish()); o.Status != outcome.Refused || !strings.Contains(o.Text(), "roll r0 has not ended") {
			t.Errorf("%s: %+v", stage, o)
		}
	}
	if got := f.files(); !slices.Equal(got, before) || len(f.units) > 0 {
		t.Errorf("%v, %v", got, f.units)
	}
	roll.Stage = manifest.Uninstalling
	set()
	if o := f.p.Stage(t.Context(), sandbox.Preflight, f.wish()); o.Status != outcome.Refused || !strings.Contains(o.Text(), "uninstallation has not ended on this node: run it again") {
		t.Errorf("an uninstallation is never kept, and does not go back: %+v", o)
	}
	roll.Stage, roll.Deadline.Since = manifest.Applied, time.Minute
	set()
	f.answer = func(stage, roll string) (systemd.Ended, error) {
		if stage == "back" {
			if err := f.p.SetState(manifest.State{}); err != nil {
				t.Error(err)
			}
		}
		f.result(stage, roll, outcome.Outcome{})
		return systemd.Ended{Result: "success"}, nil
	}
	if o := f.p.Stage(t.Context(), sandbox.Preflight, f.wish()); o.Status != outcome.Done {
		t.Errorf("%+v", o)
	}
	if want := []string{"partition-install-back-r1.service", "partition-install-preflight-r1.service"}; !slices.Equal(f.units, want) {
		t.Errorf("%v; want %v", f.units, want)
	}
}

// TestDied: a stage that says nothing, and a pod that loses the bus. The outcome never says that
// the node is as before without knowing it.
func TestDied(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ended    systemd.Ended
		err      error
		confined bool
		wrote    bool // the roll is under way
		last     *manifest.Ended
		stage    sandbox.Stage
		status   outcome.Status
		reason   outcome.Reason
	}{
		"SELinux":            {systemd.Ended{Result: "exit-code", Status: 203}, nil, true, false, nil, sandbox.Preflight, outcome.Refused, outcome.SELinux},
		"noexec":             {systemd.Ended{Result: "exit-code", Status: 203}, nil, false, false, nil, sandbox.Preflight, outcome.Refused, outcome.Failed},
		"killed, goes back":  {systemd.Ended{Result: "signal", Status: 9}, nil, false, true, &manifest.Ended{Roll: "r1"}, sandbox.Apply, outcome.WentBack, outcome.Failed},
		"killed, remains":    {systemd.Ended{Result: "signal", Status: 9}, nil, false, true, &manifest.Ended{Roll: "r1", Remains: []string{"x"}}, sandbox.Apply, outcome.Remains, outcome.Failed},
		"timeout":            {systemd.Ended{Result: "timeout"}, nil, false, true, &manifest.Ended{Roll: "r1"}, sandbox.Verify, outcome.WentBack, outcome.Timeout},
		"the bus is lost":    {systemd.Ended{}, errors.New("no connection"), false, true, nil, sandbox.Install, outcome.Remains, outcome.Failed},
		"not even preflight": {systemd.Ended{}, errors.New("no connection"), false, false, nil, sandbox.Preflight, outcome.Refused, outcome.NoBus},
	} {
		f := newFake(t)
		f.p.Confined = test.confined
		f.answer = func(stage, _ string) (systemd.Ended, error) {
			state := manifest.State{Last: test.last}
			if stage != "back" && test.wrote {
				state = manifest.State{Roll: &manifest.Roll{Wish: manifest.Wish{Roll: "r1"}, Stage: manifest.Preparing}}
			}
			if err := f.p.SetState(state); err != nil {
				t.Error(err)
			}
			if stage == "back" {
				return systemd.Ended{Result: "success"}, nil
			}
			return test.ended, test.err
		}
		o := f.p.Stage(t.Context(), test.stage, f.wish())
		if o.Status != test.status || o.Reason != test.reason {
			t.Errorf("%s: %+v; want %d, %s", name, o, test.status, test.reason)
		}
		if o.Status == outcome.Remains && strings.Contains(o.Text(), "is as before:") {
			t.Errorf("%s: %s", name, o.Text())
		}
	}
}

// TestDiedAtTheEnd: the state says what has become of a stage that says nothing. No way back is
// started for a roll that is kept, or for an uninstallation, which has none.
func TestDiedAtTheEnd(t *testing.T) {
	t.Parallel()
	ours, other := &manifest.Kept{Wish: manifest.Wish{Roll: "r1"}}, &manifest.Kept{Wish: manifest.Wish{Roll: "r0"}}
	for name, test := range map[string]struct {
		stage  sandbox.Stage
		state  manifest.State
		status outcome.Status
		says   string
	}{
		"keep, of a roll that is kept": {sandbox.Keep, manifest.State{Kept: ours}, outcome.Done, "the roll is kept"},
		"uninstall, before it began":   {sandbox.Uninstall, manifest.State{Kept: other}, outcome.Remains, "said nothing"},
		"uninstall": {
			sandbox.Uninstall,
			manifest.State{Kept: other, Roll: &manifest.Roll{Wish: manifest.Wish{Roll: "r1"}, Stage: manifest.Uninstalling}},
			outcome.Remains, "the uninstallation has not ended: run it again",
		},
	} {
		f := newFake(t)
		f.answer = func(string, string) (systemd.Ended, error) {
			return systemd.Ended{Result: "signal", Status: 9}, f.p.SetState(test.state)
		}
		// A pod that was killed has left its answer unread.
		f.result(string(test.stage), "r1", outcome.Outcome{Sentences: []string{"of an earlier pod"}})
		o := f.p.Stage(t.Context(), test.stage, f.wish())
		if o.Status != test.status || !strings.Contains(o.Text(), test.says) {
			t.Errorf("%s: %+v; want %d, %q", name, o, test.status, test.says)
		}
		if len(f.units) != 1 {
			t.Errorf("%s: %v were started", name, f.units)
		}
	}
}

// TestCleared: a stage that has failed removes what its pod has brought, unless a roll that is
// under way, or another pod, uses it. The program stays on a node that has kept a roll.
func TestCleared(t *testing.T) {
	t.Parallel()
	all := []string{"lock", "node-partition.yaml", "partition-installer", "payload/usr/bin/partition-monitor", "state.json"}
	r := manifest.Wish{Roll: "r1"}
	for name, test := range map[string]struct {
		state  manifest.State
		status outcome.Status
		locked bool
		want   []string
	}{
		"refused":            {manifest.State{}, outcome.Refused, false, []string{"lock", "state.json"}},
		"refused, has one":   {manifest.State{Kept: &manifest.Kept{}}, outcome.Refused, false, []string{"lock", "partition-installer", "state.json"}},
		"went back":          {manifest.State{}, outcome.WentBack, false, []string{"lock", "partition-installer", "state.json"}},
		"has not gone back":  {manifest.State{Roll: &manifest.Roll{Wish: r}}, outcome.Remains, false, all},
		"another pod copies": {manifest.State{}, outcome.WentBack, true, all},
	} {
		f := newFake(t)
		f.answer = func(stage, roll string) (systemd.Ended, error) {
			f.result(stage, roll, outcome.Outcome{Status: test.status, Sentences: []string{"failed"}})
			if test.locked {
				unlock, err := f.p.Lock(t.Context(), false)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(unlock)
			}
			return systemd.Ended{Result: "exit-code"}, f.p.SetState(test.state)
		}
		if o := f.p.Stage(t.Context(), sandbox.Install, f.wish()); o.Status != test.status {
			t.Errorf("%s: %+v", name, o)
		}
		if got := f.files(); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q; want %q", name, got, test.want)
		}
	}
}

// TestUninstallEmpties: nothing is left in the folder.
func TestUninstallEmpties(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.p.Stage(t.Context(), sandbox.Preflight, f.wish())
	f.kept(f.wish())
	f.answer = func(stage, roll string) (systemd.Ended, error) {
		f.result(stage, roll, outcome.Outcome{})
		return systemd.Ended{Result: "success"}, f.p.SetState(manifest.State{})
	}
	// The Job of an uninstallation brings no section.
	w := f.wish()
	w.SectionFile = ""
	if o := f.p.Stage(t.Context(), sandbox.Uninstall, w); o.Status != outcome.Done {
		t.Errorf("%+v", o)
	}
	if got := f.files(); len(got) > 0 {
		t.Errorf("%v", got)
	}
}

// TestUninstallLeavesOthers: while the pod of an uninstallation waits for CPU time after its stage,
// a roll begins, and is kept. Its state, backups and payload stay.
func TestUninstallLeavesOthers(t *testing.T) {
	t.Parallel()
	other := manifest.Wish{Roll: "r2"}
	for name, test := range map[string]struct {
		state  manifest.State
		locked bool
	}{
		"under way":      {state: manifest.State{Roll: &manifest.Roll{Wish: other, Stage: manifest.Installed}}},
		"kept":           {state: manifest.State{Kept: &manifest.Kept{Wish: other}}},
		"copies its own": {locked: true},
	} {
		f := newFake(t)
		f.answer = func(stage, roll string) (systemd.Ended, error) {
			f.result(stage, roll, outcome.Outcome{Sentences: []string{"uninstalled"}})
			if err := errors.Join(f.p.SetState(test.state), f.p.WriteBytes(f.p.In(store.Settings), nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			if test.locked {
				unlock, err := f.p.Lock(t.Context(), false)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(unlock)
			}
			return systemd.Ended{Result: "success"}, nil
		}
		if o := f.p.Stage(t.Context(), sandbox.Uninstall, f.wish()); o.Status != outcome.Done {
			t.Errorf("%s: %+v", name, o)
		}
		if got := f.files(); !slices.Contains(got, store.State) || !slices.Contains(got, store.Settings) {
			t.Errorf("%s: the roll under way is forgotten: %v", name, got)
		}
	}
}

func TestWishCheck(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	good := Wish{Roll: "0a1b2c3d4e", Version: "v1", Node: "n", SectionFile: "/s", Trial: time.Minute}
	for name, test := range map[string]struct {
		change func(*Wish)
		want   string
	}{
		"good":          {func(*Wish) {}, ""},
		"with options":  {func(w *Wish) { w.MonitorArgs = text("--listen=[::]:9948 --move=live") }, ""},
		"a roll":        {func(w *Wish) { w.Roll = "../x" }, "--roll"},
		"no roll":       {func(w *Wish) { w.Roll = "" }, "--roll"},
		"no node":       {func(w *Wish) { w.Node = "" }, "--node"},
		"no version":    {func(w *Wish) { w.Version = "" }, "--version"},
		"no section":    {func(w *Wish) { w.SectionFile = "" }, "--section"},
		"a short trial": {func(w *Wish) { w.Trial = time.Second }, "--trial"},
		"two lines":     {func(w *Wish) { w.MonitorArgs = text("a\nLD_PRELOAD=x") }, "--monitor-args"},
		"a variable":    {func(w *Wish) { w.MonitorArgs = text("$HOME") }, "--monitor-args"},
	} {
		w := good
		test.change(&w)
		err := w.Check(sandbox.Install)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want %q", name, err, test.want)
		}
	}
	good.SectionFile = ""
	if err := good.Check(sandbox.Uninstall); err != nil {
		t.Errorf("an uninstallation without a section: %v", err)
	}
}

// TestPlaces: a stage may write the folders of the files of the roll and of those that are there.
func TestPlaces(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	w := f.wish()
	w.NRI, w.MonitorArgs = "crio", new(string)
	b, err := f.p.bring(w)
	if err != nil {
		t.Fatal(err)
	}
	state := manifest.State{Kept: &manifest.Kept{Files: []manifest.File{{Path: "/usr/lib/old/x"}}}}
	got := f.p.places(state, b)
	if want := "[/usr/bin /usr/lib/old /etc/default /etc/crio/crio.conf.d]"; fmt.Sprint(got.Files) != want || got.Folder != store.Folder {
		t.Errorf("%+v; want %s", got, want)
	}
	if data, err := json.Marshal(b.order); err != nil || !strings.Contains(string(data), `"nri":"crio"`) {
		t.Errorf("%s, %v", data, err)
	}
}
