package record

import (
	"slices"
	"testing"
)

func is(content string) Present { return Present{Exists: true, Mode: 0o644, SHA256: content} }

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
	rest := []string{
		"m.service is failed, and was active", "s.slice is active, and was inactive",
		`/x/memory.max is "2", and was "1"`, `/y/memory.max is "", and was "1"`, `/z/memory.max is "1", and was ""`,
	}
	for boot, want := range map[string][]string{"": rest, "two": nil} {
		now.Boot = boot
		if gotFiles, gotRest := Differences(before, now); !slices.Equal(gotFiles, files) || !slices.Equal(gotRest, want) {
			t.Errorf("%q: %q, %q", boot, gotFiles, gotRest)
		}
	}
	if files, rest := Differences(before, before); len(files)+len(rest) > 0 {
		t.Errorf("nothing has changed: %q, %q", files, rest)
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
		if _, got := Differences(units(test.was), units(test.is)); (len(got) == 0) != test.same {
			t.Errorf("%q, then %q: %q", test.was, test.is, got)
		}
	}
}
