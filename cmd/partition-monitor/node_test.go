package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/tests/fakenode"
	"node-partition.io/node-partition/tests/testkit"
)

// nodeRoot is an environment variable. With it this test program runs as partition-monitor on the
// node in that folder.
const nodeRoot = "PARTITION_MONITOR_NODE"

// nodeShell is an environment variable. With both, the program runs a shell there, with the script
// in its second argument.
const nodeShell = "PARTITION_MONITOR_SHELL"

// onNode lists the paths of a node that are in the folder, and that are mounted over the program's
// own.
var onNode = []string{"/etc", "/run", "/var", "/sys/fs/cgroup", "/proc/cmdline", "/proc/swaps"}

func TestMain(m *testing.M) {
	cli.HelpPrinter = printHelp
	root, ok := os.LookupEnv(nodeRoot)
	if !ok {
		os.Exit(m.Run())
	}
	for _, place := range onNode {
		if _, err := os.Stat(filepath.Join(root, place)); errors.Is(err, fs.ErrNotExist) {
			continue // this machine's
		}
		if err := unix.Mount(filepath.Join(root, place), place, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			fmt.Fprintf(os.Stderr, "mounting %s: %v\n", place, err)
			os.Exit(99)
		}
	}
	if os.Getenv(nodeShell) != "" {
		err := syscall.Exec("/bin/sh", []string{"sh", "-c", os.Args[2]}, os.Environ())
		fmt.Fprintln(os.Stderr, err)
		os.Exit(99)
	}
	os.Exit(run(context.Background(), host.This(), os.Args, os.Stdout, os.Stderr))
}

// fakeNode is a folder that the program sees as its node. The program runs in a mount namespace.
type fakeNode struct {
	*fakenode.Node
	t *testing.T
}

// newNode returns a node with a kubelet's configuration and no services.
func newNode(t *testing.T, configuration string) *fakeNode {
	t.Helper()
	return &fakeNode{fakenode.New(t, configuration), t}
}

// guarded returns a node with pods in a partition of 96Mi.
func guarded(t *testing.T) *fakeNode {
	t.Helper()
	return &fakeNode{fakenode.Guarded(t), t}
}

// whole returns a node on which all checks are OK.
func whole(t *testing.T) *fakeNode {
	t.Helper()
	return &fakeNode{fakenode.Whole(t), t}
}

// program returns a command that runs partition-monitor on the node.
func (n *fakeNode) program(args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = []string{nodeRoot + "=" + n.Root, "PATH=" + filepath.Join(n.Root, "bin")}
	cmd.SysProcAttr = testkit.NeedNamespaces(n.t)
	return cmd
}

// run runs partition-monitor until it exits.
func (n *fakeNode) run(args ...string) (status int, stdout, stderr string) {
	n.t.Helper()
	cmd := n.program(args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	switch err := cmd.Run(); {
	case errors.As(err, &exit):
		status = exit.ExitCode()
	case err != nil:
		n.t.Fatal(err)
	}
	return status, out.String(), errs.String()
}

// here runs partition-monitor in this process: the node is below its folder.
func (n *fakeNode) here(args ...string) (status int, stdout, stderr string) {
	n.t.Helper()
	return commandOn(n.t, n.Host(), args...)
}

// oneProblem runs the program, and expects exit status 1 and an error of one line.
func (n *fakeNode) oneProblem(parts []string, args ...string) {
	n.t.Helper()
	status, stdout, stderr := n.run(args...)
	if status != exitProblem || stdout != "" || strings.Count(stderr, "\n") != 1 {
		n.t.Errorf("%q: status %d, %q, %q; want 1 and one line", args, status, stdout, stderr)
	}
	for _, part := range append(parts, "partition-monitor: ") {
		if !strings.Contains(stderr, part) {
			n.t.Errorf("%q: %q does not say %q", args, stderr, part)
		}
	}
}
