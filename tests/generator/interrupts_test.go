package generator

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The files of interrupts, below the root of a node.
const (
	affinityPath  = "proc/irq/default_smp_affinity"
	interruptPath = "run/node-partition/interrupts.json"
	bansPath      = "run/node-partition/irqbalance.env"
)

// interruptNode is a node of four CPUs. What irqbalance was started with suits the next run, so
// that it asks no systemd.
type interruptNode struct {
	*testing.T
	root string
}

func (n interruptNode) write(path, text string) {
	n.Helper()
	path = filepath.Join(n.root, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		n.Fatal(err)
	}
}

// read returns the content of a file without white space around it; empty without one.
func (n interruptNode) read(path string) string {
	n.Helper()
	data, err := os.ReadFile(filepath.Join(n.root, path))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		n.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// keep is a whole run of partition-generator --interrupts.
func (n interruptNode) keep(list string) {
	n.Helper()
	n.suits(list)
	cmd := n.command("--interrupts", list)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		n.Errorf("--interrupts %s: %v\n%s", list, err, out)
	}
}

func (n interruptNode) suits(list string) {
	n.Helper()
	if err := os.RemoveAll(filepath.Join(n.root, bansPath)); err != nil {
		n.Fatal(err)
	}
	if list != "none" {
		n.write(bansPath, "# without: \nIRQBALANCE_BANNED_CPULIST="+list+"\n")
	}
}

func (n interruptNode) command(args ...string) *exec.Cmd {
	cmd := command(n.root)
	cmd.Args = append([]string{program}, args...)
	return cmd
}

// TestInterruptsKilled kills the program before each of its system calls while it keeps interrupts
// off CPUs, off others, or off none. The next run puts back what was there before the first, or
// keeps interrupts off its CPUs.
func TestInterruptsKilled(t *testing.T) {
	t.Parallel()
	masks := map[string]string{"none": "f", "2-3": "3", "3": "7"}
	for _, test := range []struct{ before, killed string }{{"none", "2-3"}, {"2-3", "3"}, {"2-3", "none"}} {
		t.Run(test.before+" to "+test.killed, func(t *testing.T) {
			t.Parallel()
			killed := atEachPoint(func(at point) bool {
				n := interruptNode{t, t.TempDir()}
				n.write("sys/devices/system/cpu/online", "0-3\n")
				n.write(affinityPath, "f\n")
				n.keep(test.before)
				n.suits(test.killed)
				if !runCommandKilled(t, n.command("--interrupts", test.killed), at) {
					return false
				}
				for _, next := range []string{"3", "none"} {
					n.keep(next)
					if got := n.read(affinityPath); got != masks[next] {
						t.Fatalf("%s: a run for %s makes it %s", at, next, got)
					}
				}
				if n.read(interruptPath) != "" {
					t.Fatalf("%s: %s is left", at, interruptPath)
				}
				return true
			})
			t.Logf("killed at %d points", killed)
			if killed < 10 {
				t.Errorf("killed at %d points: too few to show anything", killed)
			}
		})
	}
}

// TestBansKilled kills the program before each of its system calls while it writes what irqbalance
// leaves out. irqbalance, which starts all the same, reads the whole of it or nothing.
func TestBansKilled(t *testing.T) {
	t.Parallel()
	const line = "IRQBALANCE_BANNED_CPULIST=1-3"
	ban := func(n interruptNode) *exec.Cmd {
		cmd := n.command("--irqbalance", "2-3")
		cmd.Env = append(cmd.Env, "IRQBALANCE_BANNED_CPULIST=1")
		return cmd
	}
	whole := 0
	killed := atEachPoint(func(at point) bool {
		n := interruptNode{t, t.TempDir()}
		n.write("sys/devices/system/cpu/online", "0-3\n")
		if !runCommandKilled(t, ban(n), at) {
			return false
		}
		switch text := n.read(bansPath); {
		case strings.HasSuffix(text, line):
			whole++
		case text != "":
			t.Fatalf("%s: irqbalance reads %q", at, text)
		}
		if out, err := ban(n).CombinedOutput(); err != nil || len(out) > 0 || !strings.HasSuffix(n.read(bansPath), line) {
			t.Fatalf("%s: the next run: %v\n%s", at, err, out)
		}
		return true
	})
	t.Logf("killed at %d points", killed)
	if killed < 10 || whole == killed {
		t.Errorf("killed at %d points, %d of them with the whole file: too few to show anything", killed, whole)
	}
}

// TestInterruptsArguments: text that does not list CPUs changes nothing.
func TestInterruptsArguments(t *testing.T) {
	t.Parallel()
	n := interruptNode{t, t.TempDir()}
	n.write("sys/devices/system/cpu/online", "0-3\n")
	n.write(affinityPath, "f\n")
	for _, args := range [][]string{{"--interrupts", "all"}, {"--irqbalance", "0-99999999"}, {"--interrupts"}, {"--interrupts", "3", "3"}} {
		var stderr bytes.Buffer
		cmd := n.command(args...)
		cmd.Stderr = &stderr
		err := cmd.Run()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 2 || stderr.Len() == 0 {
			t.Errorf("%q: %v, %q; want status 2, and why", args, err, stderr.String())
		}
	}
	if n.read(affinityPath) != "f" || n.read(interruptPath) != "" || n.read(bansPath) != "" {
		t.Error("something was written")
	}
}
