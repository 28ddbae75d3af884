package node

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"nodepartition/internal/thresholds"
	"nodepartition/pkg/slices/decision"
)

func named(namespaces ...string) Members {
	return Members{Partitions: []decision.Partition{{Name: "system", Namespaces: namespaces}}}
}

// TestWriteMembersReplaces: a reader gets the old file or the new one, at any time, and whenever
// the writer ends.
func TestWriteMembersReplaces(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "monitor", "members.json") // the folder is made
	long := named([]string{strings.Repeat("a", 60), strings.Repeat("b", 60), strings.Repeat("c", 60)}...)
	short := named([]string{"x"}...)
	if err := WriteMembers(path, long); err != nil {
		t.Fatal(err)
	}
	var writer sync.WaitGroup
	done := make(chan struct{})
	writer.Go(func() {
		defer close(done)
		for i := range 500 {
			m := long
			if i%2 == 0 {
				m = short
			}
			if err := WriteMembers(path, m); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for reading := true; reading; {
		select {
		case <-done:
			reading = false
		default:
		}
		m, err := readMembers(path)
		if err != nil || !slices.Equal(m.Partitions[0].Namespaces, long.Partitions[0].Namespaces) && !slices.Equal(m.Partitions[0].Namespaces, short.Partitions[0].Namespaces) {
			t.Fatalf("%v, %v", m, err)
		}
	}
	writer.Wait()
	// A killed writer leaves a temporary file, which no reader opens.
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), ".members-1"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if m, err := readMembers(path); err != nil || !slices.Equal(m.Partitions[0].Namespaces, long.Partitions[0].Namespaces) {
		t.Errorf("%v, %v", m, err)
	}
}

func TestWriteMembersFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, folder := filepath.Join(dir, "file"), filepath.Join(dir, "folder", "members.json")
	if err := errors.Join(os.WriteFile(file, []byte("kept"), 0o600), os.MkdirAll(filepath.Join(folder, "x"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(file, "members.json"), folder} {
		err := WriteMembers(path, named([]string{"kube-system"}...))
		if err == nil || !strings.HasPrefix(err.Error(), "state of the monitor: ") || !strings.Contains(err.Error(), filepath.Dir(path)) {
			t.Errorf("%s: %v; want what it was for and the path", path, err)
		}
	}
	left, err := os.ReadDir(filepath.Dir(folder))
	if err != nil || len(left) != 1 {
		t.Errorf("%v, %v; want no temporary file left", left, err)
	}
	if _, err := readMembers(folder); err == nil {
		t.Error("a folder was read")
	}
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "monitor", "members.json")
	if err := ReadOnly(path, named([]string{"kube-system"}...)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v; want nothing there", err)
	}
}

// TestMembersFollows: what an operator has asked for by SIGHUP counts over the decision that was in
// force then.
func TestMembersFollows(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		identity, over, decided string
		want                    bool
	}{
		"a SIGHUP":                       {"edited", "decided", "decided", true},
		"another decision since":         {"edited", "former", "decided", false},
		"what was decided":               {"decided", "decided", "decided", false},
		"no decision then":               {"edited", "", "decided", false},
		"a configuration that is broken": {"edited", "", "", false},
	} {
		m := Members{Identity: test.identity, Over: test.over}
		if got := m.follows(&decision.Decision{Identity: test.decided}); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestReadMembersEarlier: what an earlier version has stored is followed by this one, and what
// cannot be followed is refused with the name of the file.
func TestReadMembersEarlier(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "members.json")
	all := decision.Partition{
		Name: "system", Namespaces: []string{"kube-system"}, Floor: decision.Floor{Min: 1, Low: 2},
		Eviction: &thresholds.Thresholds{Limit: 3, Hard: 4, MaxPodGrace: -1},
	}
	const eviction = `"eviction":{"limit":3,"hard":4,"soft":0,"softGrace":0,"maxPodGrace":-1,"minimumReclaim":0},"floor":{"min":1,"low":2}`
	for name, test := range map[string]struct {
		text string
		want Members
		err  string
	}{
		"before there were identities": {
			`{"namespaces":["kube-system"],` + eviction + `}`, Members{Version: 1, Partitions: []decision.Partition{all}}, "",
		},
		"before there were several partitions": {
			`{"namespaces":["kube-system"],` + eviction + `,"identity":"a","over":"b"}`,
			Members{Version: 1, Partitions: []decision.Partition{all}, Identity: "a", Over: "b"}, "",
		},
		"before there were thresholds": {
			`{"namespaces":["a"]}`, Members{Version: 1, Partitions: []decision.Partition{{Name: "system", Namespaces: []string{"a"}}}}, "",
		},
		"two partitions": {
			`{"version":1,"partitions":[{"name":"system","namespaces":["a"]},{"name":"my-batch","namespaces":["b"]}],"identity":"c"}`,
			Members{Version: 1, Identity: "c", Partitions: []decision.Partition{
				{Name: "system", Namespaces: []string{"a"}}, {Name: "my-batch", Namespaces: []string{"b"}},
			}}, "",
		},
		"a later version": {`{"version":2,"partitions":{"a":1}}`, Members{}, path + ": a later version has written it: it has version 2"},
		"no partition":    {`{"version":1}`, Members{}, path + ": names no namespace; remove it"},
		"a former name that no unit can have": {
			`{"version":1,"partitions":[{"name":"system","namespaces":["a"]}],"former":[{"name":"../a"}]}`, Members{}, path + `: partition "../a"`,
		},
		"a name that no unit can have": {`{"version":1,"partitions":[{"name":"burstable","namespaces":["a"]}]}`, Members{}, path + `: partition "burstable"`},
	} {
		if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readMembers(path)
		if test.err == "" && (err != nil || !reflect.DeepEqual(got, test.want)) ||
			test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%s: %+v, %v; want %+v, %q", name, got, err, test.want, test.err)
		}
	}
}
