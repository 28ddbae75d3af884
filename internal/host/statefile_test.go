package host

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

type content struct {
	Words []string `json:"words"`
}

func TestWriteThenRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.json")
	for _, mode := range []fs.FileMode{0o600, 0o400} { // such as a usual umask leaves alone
		if err := WriteState(path, content{[]string{"a", "b"}}, mode); err != nil {
			t.Fatal(err)
		}
		var got content
		if err := ReadState(path, &got); err != nil || len(got.Words) != 2 || got.Words[1] != "b" {
			t.Errorf("read %v, %v", got, err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != mode {
			t.Errorf("%v, %v; want mode %v", info.Mode(), err, mode)
		}
		if data, err := os.ReadFile(path); err != nil || string(data) != `{"words":["a","b"]}`+"\n" {
			t.Errorf("wrote %q, %v", data, err)
		}
	}
}

// TestReadVersion: a file of another version is refused as such, although a field has another type
// there.
func TestReadVersion(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.json")
	for text, want := range map[string]string{
		`{"version":3,"words":{"a":1}}`:  "another version of the program has written it: it has version 3, and this program reads version 2",
		`{"version":2,"words":["a"]}`:    "",
		`{"words":["a"]}`:                "it has version 0",
		`{"version":"3","words":["a"]}`:  "version",
		`{"version":2,"words":{"a":1}}`:  "words",
		`{"version":3,"words":["a"]`:     "unexpected end",
		`{"version":-1,"words":["a"]}`:   "it has version -1",
		`{"version":1,"words":["a"]}`:    "it has version 1",
		`{"version":2.5,"words":["a"]}`:  "version",
		`{"version":null,"words":["a"]}`: "it has version 0",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var got content
		err := ReadStateVersion(path, 2, &got)
		if want == "" && (err != nil || len(got.Words) != 1) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, %v; want %q", text, got, err, want)
		}
		if errors.Is(err, ErrStateVersion) != strings.Contains(want, "it has version") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := ReadStateVersion(path+".none", 2, new(content)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
}

// TestWriteReplacesWhole: a reader gets the long content or the short one.
func TestWriteReplacesWhole(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.json")
	long, short := strings.Repeat("a", 1<<16), "x"
	write := func(word string) {
		if err := WriteState(path, content{[]string{word}}, 0o600); err != nil {
			t.Error(err)
		}
	}
	write(long)
	var writer sync.WaitGroup
	done := make(chan struct{})
	writer.Go(func() {
		defer close(done)
		for range 250 {
			write(short)
			write(long)
		}
	})
	defer writer.Wait()
	for reading := true; reading; {
		select {
		case <-done:
			reading = false
		default:
		}
		var got content
		if err := ReadState(path, &got); err != nil || len(got.Words) != 1 || got.Words[0] != long && got.Words[0] != short {
			t.Fatalf("read %.80v, %v", got, err)
		}
	}
}

// TestWriteAfterKill: a writer that is killed half-way leaves one temporary file. No reader opens
// that file, and the next Write replaces it.
func TestWriteAfterKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "state.json")
	if err := WriteState(path, content{[]string{"old"}}, 0o600); err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(dir, ".state.json.new")
	if err := os.WriteFile(half, []byte(strings.Repeat("{", 1<<16)), 0o600); err != nil {
		t.Fatal(err)
	}
	if all, err := filepath.Glob(filepath.Join(dir, "*.json")); err != nil || len(all) != 1 || all[0] != path {
		t.Errorf("state files are %q, %v", all, err)
	}
	var got content
	if err := ReadState(path, &got); err != nil || got.Words[0] != "old" {
		t.Errorf("read %v, %v", got, err)
	}
	if err := WriteState(path, content{[]string{"new"}}, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ReadState(path, &got); err != nil || got.Words[0] != "new" {
		t.Errorf("read %v, %v", got, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v; want the file alone", left, err)
	}
}

func TestWriteFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder := filepath.Join(dir, "folder.json")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, v := range map[string]any{
		folder:                                content{},
		filepath.Join(dir, "none", "a.json"):  content{},
		filepath.Join(dir, "not-a-json.json"): math.NaN(),
	} {
		if err := WriteState(path, v, 0o600); err == nil {
			t.Errorf("%s is written", path)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v; want no temporary file", left, err)
	}
}

func TestReadFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var got content
	if err := ReadState(filepath.Join(dir, "none.json"), &got); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of nothing: %v", err)
	}
	var about *fs.PathError
	if err := ReadState(dir, &got); !errors.As(err, &about) || about.Path != dir {
		t.Errorf("of a folder: %v", err)
	}
	for _, text := range []string{"", "{", `{"words":1}`, "\x00\x00", "words: [a]"} {
		path := filepath.Join(dir, "broken.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := ReadState(path, &got); err == nil || errors.As(err, &about) {
			t.Errorf("of %q: %v; want an error about the content", text, err)
		}
	}
}

// TestReadForeign: in an unpacked archive a state file may be anything. What is not a file is not
// waited for, and what has no end is not read.
func TestReadForeign(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo, sparse := filepath.Join(dir, "fifo.json"), filepath.Join(dir, "sparse.json")
	if err := errors.Join(
		syscall.Mkfifo(fifo, 0o600), os.WriteFile(sparse, nil, 0o600), os.Truncate(sparse, 40<<30),
	); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, sparse, "/dev/zero"} {
		var about *fs.PathError
		for _, err := range []error{ReadState(path, new(content)), ReadStateVersion(path, 1, new(content))} {
			if !errors.As(err, &about) || about.Path != path {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}
