// Package generator holds the golden trees of partition-generator. Every folder NN-what-it-shows is what differs
// from the node in node/ (".remove" lists what is not there), and beside it in expected/ stands what the generator
// has to make of it, byte for byte:
//
//	expected/status    exit status
//	expected/messages  what it says
//	expected/units/    what systemd sees in the generator's directory
//
// "go test ./tests/generator -update" writes the expectations anew; read the difference before you commit it.
package generator

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	build "nodepartition/tests/program"
)

var update = flag.Bool("update", false, "write the expected output instead of comparing with it")

// program is the generator, built once for all tests of the package.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "partition-generator")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "partition-generator")
		if err := build.Build("nodepartition/cmd/partition-generator", program); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// result is what a run shows.
type result struct {
	status   int
	messages string
	units    map[string]string // path in the generator's directory -> content, links followed
}

func TestGolden(t *testing.T) {
	cases, err := filepath.Glob("[0-9]*-*")
	if err != nil || len(cases) < 30 {
		t.Fatalf("found %d cases, %v; want at least 30", len(cases), err)
	}
	for _, name := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := newRoot(t, name)
			got := run(t, root)
			expected := filepath.Join(name, "expected")
			if *update {
				writeExpected(t, expected, got)
			}
			compare(t, readExpected(t, expected), got)
			if len(got.units) == 0 {
				if _, err := os.Lstat(filepath.Join(root, "run/node-partition")); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("nothing was made, but a trace is left: %v", err)
				}
			}
			verify(t, root)
			// A second run, as at a daemon-reload where nothing has changed, has the same result.
			flush(t, root)
			compare(t, got, run(t, root))
		})
	}
}

// newRoot makes the root of a node for one case.
func newRoot(t *testing.T, name string) string {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("node")); err != nil {
		t.Fatal(err)
	}
	removed, err := os.ReadFile(filepath.Join(name, ".remove"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, path := range strings.Fields(string(removed)) {
		if err := os.RemoveAll(filepath.Join(root, path)); err != nil {
			t.Fatal(err)
		}
	}
	err = filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(name, path)
		switch {
		case rel == "expected":
			return filepath.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(root, rel), 0o755)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(root, rel), data, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(root, "README")); err != nil {
		t.Fatal(err)
	}
	flush(t, root)
	return root
}

func outputDir(root string) string { return filepath.Join(root, "run/systemd/generator") }

// flush empties the generator's directory, as systemd does before it runs generators.
func flush(t *testing.T, root string) {
	t.Helper()
	if err := os.RemoveAll(outputDir(root)); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(outputDir(root), 0o755); err != nil {
		t.Fatal(err)
	}
}

// command is the generator as systemd calls it, below root.
func command(root string) *exec.Cmd {
	out := outputDir(root)
	cmd := exec.Command(program, out, out+".early", out+".late")
	cmd.Env = []string{"PARTITION_ROOT=" + root, "SYSTEMD_SCOPE=system"}
	return cmd
}

func run(t *testing.T, root string) result {
	t.Helper()
	cmd := command(root)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if stdout.Len() > 0 {
		t.Errorf("on standard output: %q", stdout.String())
	}
	for _, dir := range []string{".early", ".late"} {
		if _, err := os.Stat(outputDir(root) + dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("touched the %s directory", dir)
		}
	}
	return result{
		status:   cmd.ProcessState.ExitCode(),
		messages: strings.ReplaceAll(stderr.String(), root, "ROOT"),
		units:    readUnits(t, root),
	}
}

// readUnits returns what systemd sees: files, with links followed. A link into nowhere is nothing to systemd.
func readUnits(t *testing.T, root string) map[string]string {
	t.Helper()
	units := map[string]string{}
	err := filepath.WalkDir(outputDir(root), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(outputDir(root), path)
		units[rel] = string(data)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return units
}

func writeExpected(t *testing.T, dir string, r result) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"status": fmt.Sprintln(r.status), "messages": r.messages}
	for name, content := range r.units {
		files["units/"+name] = content
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func readExpected(t *testing.T, dir string) result {
	t.Helper()
	r := result{units: map[string]string{}}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch rel, _ := filepath.Rel(dir, path); rel {
		case "status":
			_, err = fmt.Sscan(string(data), &r.status)
		case "messages":
			r.messages = string(data)
		default:
			r.units[strings.TrimPrefix(rel, "units/")] = string(data)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func compare(t *testing.T, want, got result) {
	t.Helper()
	if want.status != got.status {
		t.Errorf("exit status %d, want %d", got.status, want.status)
	}
	if want.messages != got.messages {
		t.Errorf("it says\n%swant\n%s", got.messages, want.messages)
	}
	if w, g := names(want.units), names(got.units); !slices.Equal(w, g) {
		t.Errorf("units\n%q\nwant\n%q", g, w)
	}
	for name, content := range want.units {
		if g, ok := got.units[name]; ok && g != content {
			t.Errorf("%s:\n%s\nwant\n%s", name, g, content)
		}
	}
}

func names(units map[string]string) []string { return slices.Sorted(maps.Keys(units)) }

// verify has systemd read every unit of the output, drop-ins through the unit that they are for. It must have
// nothing to say.
func verify(t *testing.T, root string) {
	t.Helper()
	units := map[string]bool{}
	for name := range readUnits(t, root) {
		unit, _, isDropin := strings.Cut(name, ".d/")
		if !isDropin {
			unit = name
		}
		units[unit] = true
	}
	if len(units) == 0 {
		return
	}
	cmd := exec.Command("systemd-analyze", append([]string{"verify"}, slices.Sorted(maps.Keys(units))...)...)
	// The empty entry at the end stands for systemd's own directories, with sysinit.target and the rest.
	cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+outputDir(root)+":"+filepath.Join(root, "etc/systemd/system")+":"+
		filepath.Join(root, "usr/lib/systemd/system")+":")
	out, err := cmd.CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
