package golden

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Program is the generator. It reads below root, writes into dir, prints messages, and returns its
// exit status.
type Program func(root, dir string, messages io.Writer) int

// Check runs c below dir in a root of its own, and compares the results. A second run, as at a
// daemon-reload without changes, must have the same result. Only what begins to wait is not said
// again. It returns the root.
func (c Case) Check(t *testing.T, dir string, program Program) string {
	t.Helper()
	root := c.NewRoot(t, dir)
	got := Run(t, root, program)
	Compare(t, c.Want, got)
	if len(got.Units) == 0 {
		if _, err := os.Lstat(filepath.Join(root, "run/node-partition")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("nothing was made, but a trace is left: %v", err)
		}
	}
	Flush(t, root)
	got.Messages = withoutWaiting(got.Messages)
	Compare(t, got, Run(t, root, program))
	return root
}

// CheckAll runs all cases below dir.
func CheckAll(t *testing.T, dir string, program Program) {
	t.Helper()
	cases, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Check(t, dir, program)
		})
	}
}

// withoutWaiting returns messages without those about a path unit that begins to wait: they come
// once.
func withoutWaiting(messages string) string {
	return strings.Join(slices.DeleteFunc(strings.SplitAfter(messages, "\n"), func(line string) bool {
		return strings.Contains(line, ".path waits for ")
	}), "")
}

// NewRoot creates the root of the case's node. dir is tests/generator.
func (c Case) NewRoot(t *testing.T, dir string) string {
	t.Helper()
	root := t.TempDir()
	if err := c.WriteNode(root, dir); err != nil {
		t.Fatal(err)
	}
	Flush(t, root)
	return root
}

// WriteNode writes the files of the case's node below root, which is empty. dir is tests/generator.
func (c Case) WriteNode(root, dir string) error {
	if err := os.CopyFS(root, os.DirFS(filepath.Join(dir, "node"))); err != nil {
		return err
	}
	for _, path := range c.Remove {
		if err := os.RemoveAll(filepath.Join(root, path)); err != nil {
			return err
		}
	}
	for name, content := range c.Files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// OutputDir returns the generator's directory.
func OutputDir(root string) string { return filepath.Join(root, "run/systemd/generator") }

// Flush empties the generator's directory, as systemd does before it runs generators.
func Flush(t *testing.T, root string) {
	t.Helper()
	if err := os.RemoveAll(OutputDir(root)); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(OutputDir(root), 0o755); err != nil {
		t.Fatal(err)
	}
}

// Run runs the program below root.
func Run(t *testing.T, root string, program Program) Result {
	t.Helper()
	var messages bytes.Buffer
	status := program(root, OutputDir(root), &messages)
	for _, dir := range []string{".early", ".late"} {
		if _, err := os.Stat(OutputDir(root) + dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("touched the %s directory", dir)
		}
	}
	return Result{status, strings.ReplaceAll(messages.String(), root, "ROOT"), ReadUnits(t, root)}
}

// ReadUnits returns the files that systemd reads, with links followed. systemd ignores a dangling
// link, and a hidden file.
func ReadUnits(t *testing.T, root string) map[string]string {
	t.Helper()
	units := map[string]string{}
	err := filepath.WalkDir(OutputDir(root), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(entry.Name(), ".") {
			return err
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(OutputDir(root), path)
		units[rel] = string(data)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return units
}

// Compare fails the test if got is not want.
func Compare(t *testing.T, want, got Result) {
	t.Helper()
	if want.Status != got.Status {
		t.Errorf("exit status %d, want %d", got.Status, want.Status)
	}
	if want.Messages != got.Messages {
		t.Errorf("it says\n%swant\n%s", got.Messages, want.Messages)
	}
	if w, g := Names(want.Units), Names(got.Units); !slices.Equal(w, g) {
		t.Errorf("units\n%q\nwant\n%q", g, w)
	}
	for name, content := range want.Units {
		if g, ok := got.Units[name]; ok && g != content {
			t.Errorf("%s:\n%s\nwant\n%s", name, g, content)
		}
	}
}

// Names returns the paths of units, sorted.
func Names(units map[string]string) []string { return slices.Sorted(maps.Keys(units)) }
