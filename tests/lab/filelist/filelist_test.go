package filelist

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	read := func(text string) ([]Entry, error) {
		if err := os.WriteFile(filepath.Join(dir, "list"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return Read(dir, "list", map[string]string{"BIN": "/build", "PREFIX": "/usr"})
	}
	for _, page := range []string{"one.md", "two.md", "three.txt"} {
		if err := os.WriteFile(filepath.Join(dir, page), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := read("# a comment\n\n0755 ${BIN}/a ${PREFIX}/bin/a\n0600\tconf/b  /etc/b\n0644 *.md ${PREFIX}/doc/\n")
	want := []Entry{
		{0o755, "/build/a", "/usr/bin/a"}, {0o600, filepath.Join(dir, "conf/b"), "/etc/b"},
		{0o644, filepath.Join(dir, "one.md"), "/usr/doc/one.md"}, {0o644, filepath.Join(dir, "two.md"), "/usr/doc/two.md"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	for text, want := range map[string]string{
		"0644 a\n":              "line 1: \"0644 a\": want a mode, a source and a destination",
		"#\n0888 a /a\n":        "line 2: mode",
		"0644 a ${NOBODY}/a\n":  "the variable NOBODY is not known",
		"0644 *.html /doc/\n":   "line 1: no file matches",
		"0644 a etc/a\n":        "the destination etc/a is not an absolute path",
		"0644 a /a with-more\n": "want a mode",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := Read(dir, "nothing", nil); err == nil {
		t.Error("no file, and no error")
	}
}
