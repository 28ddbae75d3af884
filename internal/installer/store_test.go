package installer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/installer/record"
)

// TestSynced: a file is on disk, whole and with its mode, before the rename to its name, and the
// names in its folder are before the next step.
func TestSynced(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	var happened []string
	d := Disk{
		Root: host.Root(root),
		Step: func(what string) { happened = append(happened, what) },
		Sync: func(file *os.File) error {
			info, err := file.Stat()
			if err != nil {
				return err
			}
			what := "sync " + strings.TrimPrefix(file.Name(), root) + "/"
			if !info.IsDir() {
				data, err := os.ReadFile(file.Name())
				what = fmt.Sprintf("sync %q %s", data, info.Mode())
				if err != nil {
					return err
				}
			}
			happened = append(happened, what)
			return nil
		},
	}
	err := errors.Join(d.WriteBytes("/file", []byte("new"), 0o755), d.Link("file", "/link"), d.Remove("/file"))
	want := []string{
		"write " + temporary("/file"), `sync "new" -rwxr-xr-x`, "rename to /file", "sync /", "link " + temporary("/link"), "rename to /link", "sync /", "remove /file", "sync /",
	}
	if err != nil || !slices.Equal(happened, want) {
		t.Errorf("%v, %q; want %q", err, happened, want)
	}
	failed := errors.New("no disk")
	d.Sync = func(*os.File) error { return failed }
	if err := d.WriteBytes("/other", []byte("new"), 0o644); !errors.Is(err, failed) {
		t.Errorf("%v; want %v", err, failed)
	}
	if _, err := os.Lstat(filepath.Join(root, "other")); err == nil {
		t.Error("a file that is not on disk has its name")
	}
}

// TestWriteFollowsNoLink: a link at the temporary name does not lead the write elsewhere.
func TestWriteFollowsNoLink(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	victim := filepath.Join(root, "victim")
	if err := errors.Join(os.WriteFile(victim, []byte("x"), 0o600), os.Symlink(victim, temporary(filepath.Join(root, "file")))); err != nil {
		t.Fatal(err)
	}
	d := Disk{Root: host.Root(root)}
	if err := d.WriteBytes("/file", []byte("new"), 0o644); err == nil {
		t.Error("written through a link")
	}
	if data, _ := os.ReadFile(victim); string(data) != "x" {
		t.Errorf("the file behind the link has %q", data)
	}
}

// TestState: an empty folder has an empty state, and one of another version is refused.
func TestState(t *testing.T) {
	t.Parallel()
	s := Store{Disk: Disk{Root: host.Root(t.TempDir())}, Folder: "/"}
	known, err := s.State()
	if err != nil || known.Kept != nil || known.Rollout != nil {
		t.Errorf("%+v, %v", known, err)
	}
	if err := s.SetState(record.State{Kept: &record.Kept{By: "r"}}); err != nil {
		t.Fatal(err)
	}
	if known, err = s.State(); err != nil || known.Kept.By != "r" || known.Format != record.Format {
		t.Errorf("%+v, %v", known, err)
	}
	if err := s.WriteBytes(s.In(stateFile), []byte(`{"version":99}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.State(); !errors.Is(err, host.ErrStateVersion) {
		t.Errorf("%v", err)
	}
}

// TestLock: one process at a time. One that waits gives up with its context.
func TestLock(t *testing.T) {
	t.Parallel()
	s := Store{Disk: Disk{Root: host.Root(t.TempDir())}, Folder: "/"}
	unlock, err := s.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Lock(over); !errors.Is(err, errLocked) {
		t.Errorf("%v", err)
	}
	unlock()
	again, err := s.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again()
}

// TestClean: what is left of a change goes, and with nothing to remember all goes, but for the
// messages and the program of calls that wait for an answer.
func TestClean(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	s := Store{Disk: Disk{Root: host.Root(root)}, Folder: "/"}
	files := func() []string {
		names, err := s.Root.Names("/", maxEntries)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(names)
		return names
	}
	for _, name := range []string{Program, Monitor, Section, stateFile} {
		if err := s.WriteBytes(s.In(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	waits, err := s.Ask("waits", record.Order{})
	if err != nil {
		t.Fatal(err)
	}
	defer waits.Close()
	dead, err := s.Ask("dead", record.Order{})
	if err != nil || dead.Close() != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		known record.State
		want  []string
	}{
		{record.State{Kept: &record.Kept{}}, []string{message("waits"), Program, stateFile}},
		{record.State{Before: &record.Snapshot{}}, []string{message("waits"), Program, stateFile}},
		{record.State{}, []string{message("waits"), Program}},
	} {
		if err := s.Clean(test.known); err != nil || !slices.Equal(files(), test.want) {
			t.Errorf("%+v: %v, %q; want %q", test.known, err, files(), test.want)
		}
	}
	if err := errors.Join(waits.Close(), s.Clean(record.State{})); err != nil || len(files()) > 0 {
		t.Errorf("%v, %q", err, files())
	}
}
