//go:build node

package lab

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// childNode names the node that TestChild starts, in a process of its own.
const childNode = "LAB_TEST_CHILD_NODE"

// TestChild is not a test: TestNothingStaysBehind runs it in another process.
func TestChild(t *testing.T) {
	name := os.Getenv(childNode)
	if name == "" {
		return
	}
	if _, err := Start(t.Context(), Options{Name: name}); err != nil {
		t.Fatal(err)
	}
	select {} // until the parent ends us
}

// TestNothingStaysBehind: a machine ends with the process that started it, however that ends.
func TestNothingStaysBehind(t *testing.T) {
	if err := Prepare(t.Context(), Wanted{Flavours: []string{""}}, func(line string) { t.Log(line) }); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "lab")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program, "./cmd/lab").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, test := range map[string]struct {
		command func(node string) *exec.Cmd
		signal  syscall.Signal
	}{
		"a test that is killed": {func(node string) *exec.Cmd {
			cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
			cmd.Env = append(os.Environ(), childNode+"="+node)
			return cmd
		}, syscall.SIGKILL},
		"Ctrl-C in a test": {func(node string) *exec.Cmd {
			cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
			cmd.Env = append(os.Environ(), childNode+"="+node)
			return cmd
		}, syscall.SIGINT},
		"Ctrl-C in lab up": {func(node string) *exec.Cmd { return exec.Command(program, "up", "--name", node) }, syscall.SIGINT},
	} {
		t.Run(name, func(t *testing.T) {
			id, err := machineID()
			if err != nil {
				t.Fatal(err)
			}
			node := "leftover-" + id[:6]
			cmd := test.command(node)
			var output bytes.Buffer
			cmd.Stdout, cmd.Stderr = &output, &output
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			machine, err := runningMachine(t.Context(), node)
			signalErr := cmd.Process.Signal(test.signal)
			waitErr := cmd.Wait()
			if err := errors.Join(err, signalErr); err != nil {
				t.Fatalf("%v: %s", err, output.String())
			}
			if waitErr == nil {
				t.Errorf("it ended with success: %s", output.String())
			}
			err = waitFor(t.Context(), "the machine's end", pollInterval, func(context.Context) (bool, string, error) {
				return !machine.alive(), "it runs", nil
			})
			if err != nil {
				t.Error(err)
			}
			// The next start removes the files that are left.
			cache, err := defaultCache()
			if err != nil {
				t.Fatal(err)
			}
			if err := cache.removeDead(t.Context()); err != nil {
				t.Error(err)
			}
			if nodes, err := List(t.Context()); err != nil || slices.ContainsFunc(nodes, func(s Status) bool { return s.Name == node }) {
				t.Errorf("%v, %v: want no %s", nodes, err, node)
			}
		})
	}
}

// runningMachine waits until another process has started the machine of a node, and returns it.
func runningMachine(ctx context.Context, node string) (process, error) {
	var found process
	cache, err := defaultCache()
	if err != nil {
		return found, err
	}
	err = waitFor(ctx, "the machine of "+node, pollInterval, func(context.Context) (bool, string, error) {
		states, err := cache.states()
		var seen []string
		for _, s := range states {
			if s.Name == node && s.Process.alive() {
				found = s.Process
				return true, "", nil
			}
			seen = append(seen, s.Name)
		}
		return false, strings.Join(seen, " "), err
	})
	return found, err
}
