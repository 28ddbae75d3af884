package node

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"nodepartition/pkg/slices/decision"
)

func named(namespaces ...string) Members {
	return Members{Members: decision.Members{Namespaces: namespaces}}
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
		if err != nil || !slices.Equal(m.Namespaces, long.Namespaces) && !slices.Equal(m.Namespaces, short.Namespaces) {
			t.Fatalf("%v, %v", m, err)
		}
	}
	writer.Wait()
	// A killed writer leaves a temporary file, which no reader opens.
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), ".members-1"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if m, err := readMembers(path); err != nil || !slices.Equal(m.Namespaces, long.Namespaces) {
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
