package manifest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"nodepartition/internal/trialend"
)

func file(path, content string) File { return File{Path: path, Mode: 0o644, SHA256: content} }

func is(content string) Present { return Present{Exists: true, Mode: 0o644, SHA256: content} }

// TestPlan: what is at a path decides. Nothing that this installer has not written is overwritten.
func TestPlan(t *testing.T) {
	t.Parallel()
	const path = "/usr/bin/a"
	for name, test := range map[string]struct {
		wanted, kept []File
		present      Present
		change       string // new, replace, remove, or empty
		ours         int
		foreign      string
	}{
		"nothing there":             {[]File{file(path, "1")}, nil, Present{}, "new", 1, ""},
		"the same there":            {[]File{file(path, "1")}, nil, is("1"), "", 1, ""},
		"ours of before":            {[]File{file(path, "2")}, []File{file(path, "1")}, is("1"), "replace", 1, ""},
		"ours, gone":                {[]File{file(path, "2")}, []File{file(path, "1")}, Present{}, "new", 1, ""},
		"ours, changed":             {[]File{file(path, "2")}, []File{file(path, "1")}, is("3"), "", 0, "was changed after"},
		"ours, with another mode":   {[]File{file(path, "2")}, []File{file(path, "1")}, Present{Exists: true, Mode: 0o600, SHA256: "1"}, "", 0, "was changed after"},
		"another's":                 {[]File{file(path, "1")}, nil, is("3"), "", 0, "was not written by"},
		"a link":                    {[]File{file(path, "1")}, nil, Present{Exists: true, Kind: "a link to /x"}, "", 0, "a link to /x"},
		"a link in place of ours":   {[]File{file(path, "1")}, []File{file(path, "1")}, Present{Exists: true, Kind: "a folder"}, "", 0, "a folder"},
		"not wanted any more":       {nil, []File{file(path, "1")}, is("1"), "remove", 0, ""},
		"not wanted, and changed":   {nil, []File{file(path, "1")}, is("2"), "", 0, ""},
		"not wanted, and gone":      {nil, []File{file(path, "1")}, Present{}, "", 0, ""},
		"a folder that is not made": {[]File{file("/usr/share/fish/vendor_completions.d/a", "1")}, nil, Present{}, "", 0, ""},
		"a folder that is needed":   {[]File{file("/opt/a", "1")}, nil, Present{}, "", 0, "no folder /opt"},
	} {
		changes, ours, foreign := Plan(test.wanted, test.kept, func(string) Present { return test.present },
			func(folder string) bool { return folder == "/usr/bin" })
		got := ""
		if len(changes) == 1 {
			switch {
			case changes[0].Remove:
				got = "remove"
			case changes[0].Was.Exists:
				got = "replace"
			default:
				got = "new"
			}
			if (changes[0].Backup != "") != (got != "new") {
				t.Errorf("%s: backup %q", name, changes[0].Backup)
			}
		}
		if got != test.change || len(ours) != test.ours {
			t.Errorf("%s: %+v, %d ours; want %q, %d", name, changes, len(ours), test.change, test.ours)
		}
		switch {
		case test.foreign == "" && len(foreign) > 0, test.foreign != "" && (len(foreign) != 1 || !strings.Contains(foreign[0].Error(), test.foreign)):
			t.Errorf("%s: %v; want %q", name, foreign, test.foreign)
		}
	}
}

// TestPlanFolderInTheWay: where a folder has to be made, and something else is, nothing is written.
// It is named once. A link to a folder is one.
func TestPlanFolderInTheWay(t *testing.T) {
	t.Parallel()
	wanted := []File{file(Docs+"/a.md", "1"), file(Docs+"/grafana/b.json", "1"), file(Docs+"/grafana/c.json", "1"), file("/usr/bin/m", "1")}
	for name, test := range map[string]struct {
		there, folder string
		want          string // what is foreign
	}{
		"nothing":      {"", "", ""},
		"a file":       {Docs, "", Docs},
		"a file below": {Docs + "/grafana", Docs, Docs + "/grafana"},
		"a folder":     {Docs, Docs, ""},
	} {
		present := func(name string) Present {
			return Present{Exists: name == test.there, Kind: "what the test says"}
		}
		exists := func(name string) bool {
			return name == "/usr/share/doc" || name == "/usr/bin" || name == test.folder
		}
		_, _, foreign := Plan(wanted, nil, present, exists)
		got := ""
		if len(foreign) > 0 {
			got = foreign[0].Path
		}
		if got != test.want || len(foreign) > 1 {
			t.Errorf("%s: %v; want %q", name, foreign, test.want)
		}
	}
}

// TestPlanGeneratorLast: a reload in between finds the generator with all of its files, or none.
func TestPlanGeneratorLast(t *testing.T) {
	t.Parallel()
	wanted := []File{file("/usr/lib/systemd/system-generators/g", "1"), file("/usr/lib/systemd/system/s", "1"), file("/usr/bin/m", "1")}
	changes, _, _ := Plan(wanted, nil, func(string) Present { return Present{} }, func(string) bool { return true })
	if last := changes[len(changes)-1].Path; last != wanted[0].Path {
		t.Errorf("the last is %s", last)
	}
}

func TestFolders(t *testing.T) {
	t.Parallel()
	got := Folders([]File{file(Docs+"/a.md", ""), file(Docs+"/grafana/b.json", ""), file("/usr/bin/m", ""), file("/usr/bin/n", "")})
	if want := []string{"/usr/bin", "/usr/share/doc"}; !slices.Equal(got, want) {
		t.Errorf("%v; want %v", got, want)
	}
	if _, needed := Folder(Docs + "/a.md"); needed {
		t.Error("documentation is needed")
	}
}

// TestDifferences: each thing that is not as before has a sentence. After a boot files alone count.
func TestDifferences(t *testing.T) {
	t.Parallel()
	before := Snapshot{
		Files:   map[string]Present{"/a": is("1"), "/b": {}, "/c": is("1"), "/d": is("1")},
		Units:   map[string]string{"m.service": "active", "n.service": "inactive"},
		Cgroups: map[string]string{"/x/memory.max": "1", "/y/memory.max": "1"},
	}
	now := Snapshot{
		Files:   map[string]Present{"/a": is("2"), "/b": is("1"), "/c": {}, "/d": {Exists: true, Mode: 0o600, SHA256: "1"}},
		Units:   map[string]string{"m.service": "failed", "s.slice": "active"},
		Cgroups: map[string]string{"/x/memory.max": "2", "/z/memory.max": "1"},
	}
	files := []string{"/a has another content than before", "/b is there, and was not", "/c is not there any more", "/d has the mode 0600, and had 0644"}
	if got := Differences(before, now, true); !slices.Equal(got, files) {
		t.Errorf("files: %q", got)
	}
	all := slices.Concat(files, []string{
		"m.service is failed, and was active", "s.slice is active, and was inactive",
		`/x/memory.max is "2", and was "1"`, `/y/memory.max is not there any more, and had "1"`, `/z/memory.max is there with "1", and was not`,
	})
	if got := Differences(before, now, false); !slices.Equal(got, all) {
		t.Errorf("%q", got)
	}
	if got := Differences(before, before, false); len(got) > 0 {
		t.Errorf("nothing has changed: %q", got)
	}
}

// TestUnitsAsBefore: a failed service is as one that is stopped, and one that was starting may have
// started since. One that was active has to be active, and not on its way.
func TestUnitsAsBefore(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		was, is string
		same    bool
	}{
		{"active", "active", true}, {"failed", "", true}, {"", "failed", true}, {"failed", "failed", true},
		{"activating", "active", true}, {"activating", "activating", true}, {"reloading", "active", true},
		{"deactivating", "", true}, {"deactivating", "failed", true},
		{"active", "activating", false}, {"active", "failed", false}, {"active", "", false},
		{"", "active", false}, {"failed", "active", false}, {"activating", "failed", false}, {"", "activating", false},
	} {
		units := func(state string) Snapshot {
			s := Snapshot{Units: map[string]string{}}
			if state != "" {
				s.Units["m.service"] = state
			}
			return s
		}
		if got := Differences(units(test.was), units(test.is), false); (len(got) == 0) != test.same {
			t.Errorf("%q, then %q: %q", test.was, test.is, got)
		}
	}
}

func TestRoll(t *testing.T) {
	t.Parallel()
	r := Roll{Stage: Applied, Deadline: trialend.Moment{Boot: "b", Since: time.Minute}}
	for name, test := range map[string]struct {
		now    trialend.Moment
		failed string
		want   bool
	}{
		"before":       {trialend.Moment{Boot: "b", Since: time.Minute - 1}, "", false},
		"at its time":  {trialend.Moment{Boot: "b", Since: time.Minute}, "", true},
		"another boot": {trialend.Moment{Boot: "c", Since: 1}, "", true},
		"failed":       {trialend.Moment{Boot: "b", Since: 1}, "no", true},
	} {
		r.Failed = test.failed
		if got := r.Due(test.now); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	for _, stage := range order {
		if got, want := stage.Reached(Applied), stage != Preparing && stage != Installed; got != want {
			t.Errorf("%s: %t", stage, got)
		}
	}
	if Uninstalling.Reached(Preparing) {
		t.Error("an uninstallation is not a stage of a roll")
	}
}

func TestBoth(t *testing.T) {
	t.Parallel()
	s := State{Kept: &Kept{Wish: Wish{Roll: "r", Version: "1", Section: "a"}}}
	for name, test := range map[string]struct {
		wish    Wish
		refused bool
	}{
		"the same":  {Wish{Version: "1", Section: "a"}, false},
		"version":   {Wish{Version: "2", Section: "a"}, false},
		"section":   {Wish{Version: "1", Section: "b"}, false},
		"both":      {Wish{Version: "2", Section: "b"}, true},
		"a setting": {Wish{Version: "1", Section: "a", Settings: "x"}, false},
	} {
		if err := s.Both(test.wish); (err != nil) != test.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (&State{}).Both(Wish{Version: "2", Section: "b"}); err != nil {
		t.Errorf("the first installation: %v", err)
	}
}
