package slices

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/slices/config"
	"node-partition.io/node-partition/pkg/slices/decision"
	"node-partition.io/node-partition/tests/testkit"
)

// onNode returns the output of systemd's generator on a test's own node.
func onNode(t *testing.T) (root string, o Output) {
	t.Helper()
	root = t.TempDir()
	dir := filepath.Join(root, generatorDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return root, NewOutput(root, dir)
}

func planOf(units map[string]string) *Plan {
	plan := &Plan{Config: &config.Config{}}
	for _, path := range slices.Sorted(maps.Keys(units)) {
		plan.Units = append(plan.Units, UnitFile{path, units[path]})
	}
	return plan
}

func write(t *testing.T, o Output, units map[string]string) {
	t.Helper()
	if err := o.Write(planOf(units)); err != nil {
		t.Fatal(err)
	}
}

// put writes a file as another program would.
func put(t *testing.T, path, content string) {
	t.Helper()
	testkit.WriteFile(t, path, content)
}

// seen returns the files as systemd reads them: it follows links, and leaves out dangling ones.
func seen(t *testing.T, o Output) map[string]string {
	t.Helper()
	names, err := fileNames(o.dir)
	if err != nil {
		t.Fatal(err)
	}
	units := map[string]string{}
	for _, name := range names {
		if data, err := os.ReadFile(filepath.Join(o.dir, name)); err == nil {
			units[name] = string(data)
		}
	}
	return units
}

func flush(t *testing.T, o Output) {
	t.Helper()
	if err := os.RemoveAll(o.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		t.Fatal(err)
	}
}

func wantSeen(t *testing.T, o Output, want map[string]string) {
	t.Helper()
	if got := seen(t, o); !maps.Equal(got, want) {
		t.Errorf("systemd sees %q, want %q", got, want)
	}
}

// wantState compares the files beside the generator's directory with want.
func wantState(t *testing.T, root string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(root, config.StateDir))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	got := make([]string, 0, len(entries))
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("in %s: %q, want %q", config.StateDir, got, want)
	}
}

func wantErr(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want %q", err, want)
	}
}

var (
	oldUnits = map[string]string{"a.slice": "old", "b.service.d/50.conf": "old"}
	newUnits = map[string]string{"a.slice": "new", "c.slice": "new"}
)

// TestNewOutput: only the directory that systemd reads has a state.
func TestNewOutput(t *testing.T) {
	for _, test := range []struct{ root, dir, state string }{
		{"", "/run/systemd/generator", "/run/node-partition"},
		{"/", "/run/systemd/generator/", "/run/node-partition"},
		{"/node", "/node/run/systemd/generator", "/node/run/node-partition"},
		{"/node", "/run/systemd/generator", ""},
		{"", "/tmp/manual", ""},
	} {
		if o := NewOutput(test.root, test.dir); o.state != test.state {
			t.Errorf("NewOutput(%q, %q): state %q, want %q", test.root, test.dir, o.state, test.state)
		}
	}
}

// TestOutputWriteOtherDirectory: a run by hand writes plain files, and changes nothing else.
func TestOutputWriteOtherDirectory(t *testing.T) {
	root, live := onNode(t)
	write(t, live, oldUnits)
	manual := NewOutput(root, filepath.Join(root, "manual"))
	write(t, manual, newUnits)
	wantSeen(t, manual, newUnits)
	wantSeen(t, live, oldUnits)
	if info, err := os.Lstat(filepath.Join(manual.dir, "a.slice")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("%v, %v; want a file", info, err)
	}
	if names, err := manual.Restore(true); err != nil || names != nil {
		t.Errorf("restored %q, %v; want nothing", names, err)
	}
	if kept, err := manual.kept(keptUnits([]partition.Name{partition.System})); err != nil || len(kept) > 0 {
		t.Errorf("kept %q, %v; want nothing", kept, err)
	}
}

// TestOutputRestore: Restore brings back the last valid output, as often as it is called, under
// whichever name a killed run has left it.
func TestOutputRestore(t *testing.T) {
	for _, killed := range []bool{false, true} {
		root, o := onNode(t)
		if names, err := o.Restore(true); err != nil || len(names) > 0 {
			t.Errorf("restored %q, %v; there was nothing", names, err)
		}
		write(t, o, oldUnits)
		if killed {
			state := filepath.Join(root, config.StateDir)
			if err := os.Rename(filepath.Join(state, unitsDir), filepath.Join(state, oldDir)); err != nil {
				t.Fatal(err)
			}
		}
		for _, apply := range []bool{false, true, false} {
			flag := filepath.Join(root, config.StateDir, unitsDir, applyFlag)
			_, err := os.Lstat(flag)
			raised := err == nil
			flush(t, o)
			names, err := o.Restore(apply)
			if want := slices.Sorted(maps.Keys(oldUnits)); err != nil || !slices.Equal(names, want) {
				t.Errorf("restored %q, %v; want %q", names, err, want)
			}
			wantSeen(t, o, oldUnits)
			wantState(t, root, unitsDir)
			if _, err := os.Lstat(flag); (err == nil) != (apply || raised) {
				t.Errorf("flag: %v, want it: %t", err, apply || raised)
			}
		}
	}
}

// TestOutputConflict: if another generator has made a file of the same name, none of our links
// stays, and the valid output does.
func TestOutputConflict(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"a file":       func(path string) error { return os.WriteFile(path, []byte("foreign"), 0o644) },
		"a link":       func(path string) error { return os.Symlink("/dev/null", path) },
		"a loose link": func(path string) error { return os.Symlink("nowhere", path) },
	} {
		t.Run(name, func(t *testing.T) {
			_, o := onNode(t)
			write(t, o, oldUnits)
			flush(t, o)
			foreign := filepath.Join(o.dir, "c.slice")
			if err := make(foreign); err != nil {
				t.Fatal(err)
			}
			wantErr(t, o.Write(planOf(newUnits)), "c.slice: made by something else already")
			names, err := fileNames(o.dir)
			if err != nil || !slices.Equal(names, []string{"c.slice"}) {
				t.Errorf("left are %q, %v; want the foreign one", names, err)
			}
			flush(t, o)
			if _, err := o.Restore(false); err != nil {
				t.Fatal(err)
			}
			wantSeen(t, o, oldUnits)
		})
	}
}

// TestOutputWritePlain: where no link can be made, the units are files in the generator's
// directory, with the flag of ApplyPath beside them. A run in another directory has written files
// already.
func TestOutputWritePlain(t *testing.T) {
	_, o := onNode(t)
	plan := planOf(map[string]string{"a.slice": "[Unit]\n", ApplyPath: "PathExists=" + validFlag + "\n"})
	plan.Apply, plan.Decision.Identity = true, "of the section"
	if err := o.WritePlain(plan); err != nil {
		t.Fatal(err)
	}
	wantSeen(t, o, map[string]string{
		"a.slice": "[Unit]\n", ApplyPath: "PathExists=" + generatorDir + "/" + applyFlag + "\n", applyFlag: "",
		decision.FileName: `{"version":1,"identity":"of the section"}` + "\n",
	})

	other := NewOutput(t.TempDir(), t.TempDir())
	if err := other.WritePlain(plan); err != nil {
		t.Fatal(err)
	}
	wantSeen(t, other, map[string]string{})
}

// TestOutputWritePlainConflict: another generator's file stays as it is.
func TestOutputWritePlainConflict(t *testing.T) {
	_, o := onNode(t)
	put(t, filepath.Join(o.dir, "b.slice"), "foreign")
	err := o.WritePlain(planOf(map[string]string{"a.slice": "[Unit]\n", "b.slice": "[Unit]\n"}))
	wantErr(t, err, "b.slice: made by something else already")
	if !errors.Is(err, ErrConflict) {
		t.Errorf("%v is no conflict", err)
	}
	wantSeen(t, o, map[string]string{"b.slice": "foreign"})
}

// TestPlainOrder: units that start others come last. A slice with the same setting does not start
// before what it wants has limits, and keeps its place.
func TestPlainOrder(t *testing.T) {
	const wants = "[Unit]\nWants=b.slice\n"
	units := []UnitFile{{"slices.target.d/x.conf", wants}, {"a.slice", wants}, {"b.slice", "[Unit]\n"}, {"y.service", wants}}
	got := make([]string, 0, len(units))
	for _, u := range plainOrder(units) {
		got = append(got, u.Path)
	}
	if want := []string{"a.slice", "b.slice", "slices.target.d/x.conf", "y.service"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestOutputWriteFails: each step that fails names what it could not do, and leaves no half of a
// set.
func TestOutputWriteFails(t *testing.T) {
	for name, test := range map[string]struct {
		make func(t *testing.T, root string, o Output)
		want string
	}{
		"a file in place of the state": {func(t *testing.T, root string, _ Output) {
			t.Helper()
			put(t, filepath.Join(root, config.StateDir), "")
		}, "not a directory"},
		"a file in place of a folder for drop-ins": {func(t *testing.T, _ string, o Output) {
			t.Helper()
			put(t, filepath.Join(o.dir, "b.service.d"), "")
		}, "writing to the generator directory: "},
		"no generator directory": {func(t *testing.T, _ string, o Output) {
			t.Helper()
			if err := os.RemoveAll(o.dir); err != nil {
				t.Fatal(err)
			}
		}, "writing to the generator directory: "},
	} {
		t.Run(name, func(t *testing.T) {
			root, o := onNode(t)
			test.make(t, root, o)
			wantErr(t, o.Write(planOf(oldUnits)), test.want)
			names, err := fileNames(o.dir)
			if err != nil && !os.IsNotExist(err) || slices.Contains(names, "a.slice") {
				t.Errorf("left are %q, %v; want none of ours", names, err)
			}
		})
	}
	t.Run("units that go away", func(t *testing.T) {
		_, o := onNode(t)
		write(t, o, oldUnits)
		flush(t, o)
		wantErr(t, o.commit("nowhere", []string{"a.slice"}), "making the units valid: ")
		if names, err := fileNames(o.dir); err != nil || len(names) > 0 {
			t.Errorf("left are %q, %v; want no link", names, err)
		}
	})
	t.Run("a unit below a file", func(t *testing.T) {
		manual := Output{dir: t.TempDir()}
		wantErr(t, manual.Write(planOf(map[string]string{"a": "", "a/b": ""})), "writing units: ")
	})
}

// TestOutputUnreadableLast: an unreadable last output is an error, and does not count as a
// missing one.
func TestOutputUnreadableLast(t *testing.T) {
	root, o := onNode(t)
	put(t, filepath.Join(root, config.StateDir), "") // ENOTDIR, which is not ErrNotExist
	_, err := o.Restore(true)
	wantErr(t, err, "last output: ")
	wantErr(t, o.commit(newDir, nil), "last output: ")
}
