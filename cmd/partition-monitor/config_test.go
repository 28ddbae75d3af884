package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"nodepartition/internal/monitor/node"
	"nodepartition/internal/monitor/status"
)

// follow runs the service until it has read its configuration. It then exits, because its address
// has no port.
func (n *fakeNode) follow() (stderr string) {
	n.t.Helper()
	status, _, stderr := n.run("run", "--listen=localhost")
	if status != exitProblem {
		n.t.Fatalf("status %d, %q; want an exit for the missing port", status, stderr)
	}
	return stderr
}

// kept returns the namespaces in members.json, nil without the file.
func (n *fakeNode) kept() []string {
	n.t.Helper()
	data, err := os.ReadFile(filepath.Join(n.root, node.MembersFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var m node.Members
	if err = errors.Join(err, json.Unmarshal(data, &m)); err != nil {
		n.t.Fatal(err)
	}
	return m.Namespaces
}

// status returns the output of the command status.
func (n *fakeNode) status() (s status.Status) {
	n.t.Helper()
	status, stdout, stderr := n.run("status", "--listen=", "--output=json")
	if status != exitOK || stderr != "" {
		n.t.Fatalf("status %d, %q", status, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), &s); err != nil {
		n.t.Fatalf("%v:\n%s", err, stdout)
	}
	return s
}

// TestLastGoodConfiguration: the namespaces of the last valid configuration outlive the
// configuration and the service.
func TestLastGoodConfiguration(t *testing.T) {
	t.Parallel()
	n := newNode(t, valid("kube-system, monitoring"))
	n.partition("67108864")
	n.serve(&fakeRuntime{})
	n.servePods()

	// status writes no file.
	if s := n.status(); s.Problem != "" || !slices.Equal(s.Partition.Namespaces, []string{"kube-system", "monitoring"}) {
		t.Errorf("%q, %v", s.Problem, s.Partition.Namespaces)
	}
	if kept := n.kept(); kept != nil {
		t.Errorf("status has written %v", kept)
	}
	// run does write it.
	n.follow()
	if kept := n.kept(); !slices.Equal(kept, []string{"kube-system", "monitoring"}) {
		t.Errorf("kept %v", kept)
	}
	// Broken: the last good one is used, and status has the reason.
	n.write("/var/lib/kubelet/config.yaml", broken)
	if stderr := n.follow(); !strings.Contains(stderr, "missing port") {
		t.Errorf("%q; want that it continues to the port", stderr)
	}
	s := n.status()
	if !slices.Equal(s.Partition.Namespaces, []string{"kube-system", "monitoring"}) || !strings.Contains(s.Problem, "memoryLimit") {
		t.Errorf("%q, %v", s.Problem, s.Partition.Namespaces)
	}
	// Switched off: the last namespaces stay known.
	n.write("/var/lib/kubelet/config.yaml", kubelet(""))
	n.follow()
	if kept := n.kept(); !slices.Equal(kept, []string{"kube-system", "monitoring"}) {
		t.Errorf("kept %v", kept)
	}
	// Valid again.
	n.write("/var/lib/kubelet/config.yaml", valid("kube-system"))
	n.follow()
	if kept := n.kept(); !slices.Equal(kept, []string{"kube-system"}) {
		t.Errorf("kept %v", kept)
	}
}

// TestConfigurationNotApplied: an edit that no reload of systemd has applied is not followed. The
// units are still the previous ones, and a crash of the service must move no pod.
func TestConfigurationNotApplied(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]string{"other members": valid("monitoring"), "switched off": kubelet("")} {
		n := newNode(t, valid("kube-system"))
		n.partition("67108864")
		n.serve(&fakeRuntime{})
		n.servePods()
		n.generate(0)
		n.follow()
		n.write("/var/lib/kubelet/config.yaml", edit)
		if stderr := n.follow(); !strings.Contains(stderr, "namespaces=[kube-system]") && !strings.Contains(stderr, "missing port") {
			t.Errorf("%s: %q", name, stderr)
		}
		if kept := n.kept(); !slices.Equal(kept, []string{"kube-system"}) {
			t.Errorf("%s: kept %v; want those of before", name, kept)
		}
		if s := n.status(); !slices.Equal(s.Partition.Namespaces, []string{"kube-system"}) || !strings.Contains(s.Problem, "systemctl daemon-reload") {
			t.Errorf("%s: %v, %q; want those of before, and what to do", name, s.Partition.Namespaces, s.Problem)
		}
		n.generate(0)
		if s := n.status(); s.Problem != "" {
			t.Errorf("%s: %q after the generator has run", name, s.Problem)
		}
		n.follow()
		if kept := n.kept(); name == "other members" && !slices.Equal(kept, []string{"monitoring"}) {
			t.Errorf("%s: kept %v after the generator has run", name, kept)
		}
	}
}

// TestRunHangup: at SIGHUP the configuration is read again, even if systemd has not applied it.
func TestRunHangup(t *testing.T) {
	t.Parallel()
	n := newNode(t, valid("kube-system"))
	n.partition("67108864")
	n.generate(0)
	cmd := n.program("run", "--listen=", "--debug")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	watchdog := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer watchdog.Stop()
	followed := false
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		line := lines.Text()
		switch {
		case strings.Contains(line, "no connection"): // it serves, and follows the first configuration
			n.write("/var/lib/kubelet/config.yaml", valid("monitoring"))
			err = cmd.Process.Signal(syscall.SIGHUP)
		case strings.Contains(line, "msg=configuration") && strings.Contains(line, "[monitoring]"):
			followed = true
			err = cmd.Process.Signal(syscall.SIGTERM)
		}
		if err != nil {
			t.Error(err)
		}
	}
	if err := cmd.Wait(); err != nil || !followed {
		t.Errorf("%v; followed: %t", err, followed)
	}
	if kept := n.kept(); !slices.Equal(kept, []string{"monitoring"}) {
		t.Errorf("kept %v", kept)
	}
}

// TestLastGoodConfigurationMissing: without a last good configuration the service exits. The error
// names a file that cannot be parsed.
func TestLastGoodConfigurationMissing(t *testing.T) {
	t.Parallel()
	n := newNode(t, broken)
	n.partition("67108864")
	n.serve(&fakeRuntime{})
	n.servePods()
	for content, want := range map[string]string{
		"":                          "no earlier valid configuration of this boot",
		`{"namespaces":["kube-sy`:   node.MembersFile + ": invalid character '\\n' in string literal; remove it",
		"\x00\x00\x00":              node.MembersFile + ": invalid character",
		`{"namespaces":"all"}`:      "cannot unmarshal string",
		"namespaces: [kube-system]": node.MembersFile + ": invalid character",
	} {
		if content != "" {
			n.write(node.MembersFile, content)
		}
		status, stdout, stderr := n.run("run", "--listen=")
		stderr = strings.ReplaceAll(stderr, `\\`, `\`) // the log quotes
		if status != exitProblem || stdout != "" || !strings.Contains(stderr, want) || !strings.Contains(stderr, "memoryLimit") {
			t.Errorf("%q: status %d, %q, %q; want %q", content, status, stdout, stderr, want)
		}
		if s := n.status(); !strings.Contains(s.Problem, want) || len(s.Partition.Namespaces) > 0 {
			t.Errorf("%q: status has the problem %q, %v; want %q", content, s.Problem, s.Partition.Namespaces, want)
		}
		if err := os.RemoveAll(filepath.Join(n.root, node.MembersFile)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRunTwice: a second monitor does not start, because two would undo each other's work.
func TestRunTwice(t *testing.T) {
	t.Parallel()
	n := newNode(t, valid("kube-system"))
	n.follow()
	lock, err := os.Open(filepath.Join(n.root, filepath.Dir(node.MembersFile), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	n.oneProblem([]string{"another partition-monitor runs", "systemctl stop partition-monitor.service"}, "run", "--listen=")
}
