package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/installer/manifest"
	"nodepartition/internal/statefile"
)

type killed struct{}

// TestWriteKilled: a file is the old one or the new one, whenever its writer is killed, and what is
// left over is removed by Tidy.
func TestWriteKilled(t *testing.T) {
	t.Parallel()
	for at := 1; ; at++ {
		root := t.TempDir()
		path := filepath.Join(root, "file")
		if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		steps := 0
		d := Disk{Root: hostfs.FS(root), Step: func(string) {
			if steps++; steps == at {
				panic(killed{})
			}
		}}
		alive := func() (alive bool) {
			defer func() {
				if r := recover(); r != nil {
					if _, ok := r.(killed); !ok {
						panic(r)
					}
				}
			}()
			if err := d.WriteBytes("/file", []byte("new"), 0o755); err != nil {
				t.Fatal(err)
			}
			return true
		}()
		data, err := os.ReadFile(path)
		if err != nil || string(data) != "old" && string(data) != "new" || alive != (string(data) == "new") {
			t.Errorf("%d: %q, %v", at, data, err)
		}
		d.Step = nil
		if err := d.Tidy("/file"); err != nil {
			t.Error(err)
		}
		if entries, _ := os.ReadDir(root); len(entries) != 1 {
			t.Errorf("%d: %v", at, entries)
		}
		if alive {
			break
		}
	}
}

// TestSynced: a file is on disk, whole and with its mode, before the rename to its name, and the
// names in its folder are before the next step.
func TestSynced(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	var happened []string
	d := Disk{
		Root: hostfs.FS(root),
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
		"write " + temporary("/file"), `sync "new" -rwxr-xr-x`, "rename to /file", "sync /", "link /link", "sync /", "remove /file", "sync /",
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
	d := Disk{Root: hostfs.FS(root)}
	if err := d.WriteBytes("/file", []byte("new"), 0o644); err == nil {
		t.Error("written through a link")
	}
	if data, _ := os.ReadFile(victim); string(data) != "x" {
		t.Errorf("the file behind the link has %q", data)
	}
}

// TestPresent: what is there, without following a link.
func TestPresent(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	d := Disk{Root: hostfs.FS(root)}
	if err := errors.Join(d.WriteBytes("/file", []byte("x"), 0o640), d.Mkdir("/a/b", 0o755), d.Link("file", "/link"), d.Link("file", "/link")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]manifest.Present{
		"/file": {Exists: true, Mode: 0o640, SHA256: Digest([]byte("x"))}, "/a": {Exists: true, Kind: "a folder"},
		"/link": {Exists: true, Kind: "a link to file"}, "/none": {}, "/file/below": {},
	} {
		if got, err := d.Present(name); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
	}
	if info, err := os.Stat(filepath.Join(root, "a/b")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := d.RemoveEmpty("/a"); err != nil || d.IsFolder("/a") {
		t.Errorf("an empty folder is left: %v", err)
	}
	for _, name := range []string{"/none", "/file", "/file/below"} {
		if err := d.RemoveEmpty(name); err != nil {
			t.Errorf("RemoveEmpty of %s, a file: %v", name, err)
		}
	}
	if is, err := d.Present("/file"); err != nil || !is.Exists {
		t.Errorf("the file is gone: %v", err)
	}
}

// TestTree: the files of an image, and nothing but files.
func TestTree(t *testing.T) {
	t.Parallel()
	d := Disk{Root: hostfs.FS(t.TempDir())}
	if err := errors.Join(d.Mkdir("/payload/usr/bin", 0o755), d.WriteBytes("/payload/usr/bin/m", []byte("m"), 0o755)); err != nil {
		t.Fatal(err)
	}
	files, err := d.Tree("/payload")
	want := []manifest.File{{Path: "/usr/bin/m", Mode: 0o755, SHA256: Digest([]byte("m"))}}
	if err != nil || !slices.Equal(files, want) {
		t.Errorf("%+v, %v", files, err)
	}
	if DigestOf(files) == DigestOf([]manifest.File{{Path: "/usr/bin/m", Mode: 0o644, SHA256: files[0].SHA256}}) {
		t.Error("the mode does not count")
	}
	if err := d.Link("m", "/payload/usr/bin/n"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Tree("/payload"); err == nil || !strings.Contains(err.Error(), "want a regular file") {
		t.Errorf("a link: %v", err)
	}
}

// TestState: an empty folder has an empty state, and one of another version is refused.
func TestState(t *testing.T) {
	t.Parallel()
	s := Store{Disk: Disk{Root: hostfs.FS(t.TempDir())}, Folder: "/"}
	state, err := s.State()
	if err != nil || state.Kept != nil || state.Roll != nil {
		t.Errorf("%+v, %v", state, err)
	}
	if err := s.SetState(manifest.State{Kept: &manifest.Kept{Wish: manifest.Wish{Roll: "r"}}}); err != nil {
		t.Fatal(err)
	}
	if state, err = s.State(); err != nil || state.Kept.Roll != "r" || state.Format != manifest.Format {
		t.Errorf("%+v, %v", state, err)
	}
	if err := s.WriteBytes(s.In(State), []byte(`{"version":99}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.State(); !errors.Is(err, statefile.ErrVersion) {
		t.Errorf("%v", err)
	}
}

// TestLock: one process at a time, and a lock may be given back twice.
func TestLock(t *testing.T) {
	t.Parallel()
	s := Store{Disk: Disk{Root: hostfs.FS(t.TempDir())}, Folder: "/"}
	unlock, err := s.Lock(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Lock(t.Context(), false); !errors.Is(err, errLocked) {
		t.Errorf("%v", err)
	}
	unlock()
	unlock()
	again, err := s.Lock(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

// TestLockRemoved: a process opens the file of the lock, and another one empties the folder before
// it takes it. A file without a name locks nothing.
func TestLockRemoved(t *testing.T) {
	t.Parallel()
	s := Store{Disk: Disk{Root: hostfs.FS(t.TempDir())}, Folder: "/"}
	unlock, err := s.Lock(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	path, err := s.Root.Path(s.In(lock))
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := s.Empty(); err != nil {
		t.Fatal(err)
	}
	unlock()
	if err := hold(file, path); !errors.Is(err, errLocked) {
		t.Errorf("the folder was emptied: %v", err)
	}
	again, err := s.Lock(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer again()
	if err := hold(file, path); !errors.Is(err, errLocked) {
		t.Errorf("another one has the lock: %v", err)
	}
}

// TestRemoveMessages: what dead pods have left.
func TestRemoveMessages(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	s := Store{Disk: Disk{Root: hostfs.FS(root)}, Folder: "/"}
	if err := errors.Join(s.WriteJSON(Request("apply", "r"), 1), s.WriteJSON(Result("apply", "r"), 1), s.WriteJSON(State, 1)); err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveMessages(); err != nil {
		t.Error(err)
	}
	if entries, _ := os.ReadDir(root); len(entries) != 1 {
		t.Errorf("%v", entries)
	}
}
