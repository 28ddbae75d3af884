// Package generator tests the output of partition-generator: the golden cases of testdata (see the
// package golden for their form), hostile input, and a generator that is killed.
//
// "go test ./tests/generator -run Golden -update" rewrites the expectations. Read the difference
// before you commit it.
package generator

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/generator"
	"node-partition.io/node-partition/internal/trialend"
	"node-partition.io/node-partition/tests/generator/golden"
	"node-partition.io/node-partition/tests/testkit"
)

var update = flag.Bool("update", false, "write the expected output instead of comparing with it")

// program is the generator. It is built once for all tests of the package.
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
		if err := testkit.Build("node-partition.io/node-partition/cmd/partition-generator", program); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// result is the outcome of a run.
type result = golden.Result

// inProcess runs the generator without a process of its own.
func inProcess(root, dir string, messages io.Writer) int {
	return generator.Run(root, dir, trialend.Moment{}, generator.NewLog(messages))
}

func load(t *testing.T) []golden.Case {
	t.Helper()
	cases, err := golden.Load(".")
	if err != nil || len(cases) == 0 {
		t.Fatalf("found %d cases, %v", len(cases), err)
	}
	return cases
}

// TestGolden runs every case in this process.
func TestGolden(t *testing.T) {
	if *update {
		got := map[string]result{}
		for _, c := range load(t) {
			got[c.Name] = golden.Run(t, c.NewRoot(t, "."), inProcess)
		}
		if err := golden.Update(".", got); err != nil {
			t.Fatal(err)
		}
	}
	load(t) // there are enough
	golden.CheckAll(t, ".", inProcess)
}

// TestVerify makes systemd read the units of every case. Identical output beside identical other
// units is read once.
func TestVerify(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range load(t) {
		others := maps.Clone(c.Files)
		maps.DeleteFunc(others, func(path, _ string) bool { return !strings.Contains(path, "/systemd/system/") })
		output := fmt.Sprintf("%q %q", c.Want.Units, others) // a map is printed in the order of its keys
		if seen[output] || len(c.Want.Units) == 0 {
			continue
		}
		seen[output] = true
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			root := c.NewRoot(t, ".")
			golden.Run(t, root, inProcess)
			verify(t, root)
		})
	}
}

func named(t *testing.T, name string) golden.Case {
	t.Helper()
	c, err := golden.Read(".", name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newRoot creates the root of a node for one case.
func newRoot(t *testing.T, name string) string {
	t.Helper()
	return named(t, name).NewRoot(t, ".")
}

// command returns the generator below root, as systemd calls it.
func command(root string) *exec.Cmd {
	out := golden.OutputDir(root)
	cmd := exec.Command(program, out, out+".early", out+".late")
	cmd.Env = []string{"PARTITION_ROOT=" + root, "SYSTEMD_SCOPE=system"}
	return cmd
}

// inProgram returns the generator as a process, as systemd runs it.
func inProgram(t *testing.T) golden.Program {
	t.Helper()
	return func(root, _ string, messages io.Writer) int {
		t.Helper()
		cmd := command(root)
		var stdout bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, messages
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if stdout.Len() > 0 {
			t.Errorf("on standard output: %q", stdout.String())
		}
		return cmd.ProcessState.ExitCode()
	}
}

func run(t *testing.T, root string) result {
	t.Helper()
	return golden.Run(t, root, inProgram(t))
}

// verify makes systemd read every unit of the output, and drop-ins through the unit that they are
// for. systemd must print nothing.
func verify(t *testing.T, root string) {
	t.Helper()
	units := map[string]bool{}
	for name := range golden.ReadUnits(t, root) {
		unit, _, isDropin := strings.Cut(name, ".d/")
		if !isDropin {
			unit = name
		}
		if strings.HasSuffix(unit, ".mount") {
			continue // systemd-fstab-generator writes the unit: TestBoot reads both
		}
		if unit == "init.scope" {
			continue // systemd makes it without a unit file: TestSystemCPUs reads the drop-in on a node
		}
		// Drop-ins for all units of a prefix are read with any of those.
		unit = strings.Replace(unit, "-.slice", "-any.slice", 1)
		units[unit] = true
	}
	if len(units) == 0 {
		t.Fatal("there is no unit to read")
	}
	cmd := exec.Command(testkit.NeedProgram(t, "systemd-analyze", "systemd"), append([]string{"verify"}, slices.Sorted(maps.Keys(units))...)...)
	// The empty entry at the end means systemd's own directories, with sysinit.target and the rest.
	cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+golden.OutputDir(root)+":"+filepath.Join(root, "etc/systemd/system")+":"+
		filepath.Join(root, "usr/lib/systemd/system")+":")
	out, err := cmd.CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
