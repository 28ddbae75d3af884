package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"nodepartition/internal/monitor/node"
	"nodepartition/pkg/slices/lowering"
)

const mebi = 1 << 20

// section returns a configuration with a partition of 400Mi and more fields.
func section(fields string) string {
	return kubelet("systemPartition:\n  memoryLimit: 400Mi\n  namespaces: [kube-system]\n" + fields)
}

func TestEvictionFlags(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"run", "status", "check"} {
		for flag, want := range map[string]string{
			"--eviction=maybe":                        "--eviction=maybe: want on, off or dry-run",
			"--eviction=":                             "--eviction=: want on, off or dry-run",
			"--eviction=ON":                           "--eviction=ON: want on, off or dry-run",
			"--eviction-protect=daemonsets":           `--eviction-protect="daemonsets": want none, kubelet, or a list of static, node-critical, cluster-critical`,
			"--eviction-protect=":                     `--eviction-protect="": want none`,
			"--eviction-protect=static,":              `--eviction-protect="static,": want none`,
			"--eviction-protect=static,none":          `--eviction-protect="static,none": none stands alone`,
			"--eviction-protect=static,node_critical": "want none, kubelet, or a list of static, node-critical, cluster-critical",
			"--eviction-cooldown=-1s":                 "--eviction-cooldown=-1s: want 0 or more",
			"--eviction-cooldown=5":                   `"5"`, // a unit is missing
			"--eviction-cooldown=often":               `"often"`,
			"--kubeconfig=":                           "--kubeconfig: want a path, auto or none",
		} {
			status, stdout, stderr := command(t, name, flag)
			if status != exitUsage || stdout != "" || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 ||
				!strings.HasSuffix(stderr, "; see partition-monitor --help\n") {
				t.Errorf("%s %s: status %d, %q, %q; want 2 and one line with %q", name, flag, status, stdout, stderr, want)
			}
		}
	}
}

// last returns the thresholds in members.json.
func (n *fakeNode) last() *node.Thresholds {
	n.t.Helper()
	var m node.Members
	data, err := os.ReadFile(filepath.Join(n.root, node.MembersFile))
	if err = errors.Join(err, json.Unmarshal(data, &m)); err != nil {
		n.t.Fatal(err)
	}
	return (*node.Thresholds)(m.Eviction)
}

// TestThresholds: the service writes the thresholds of a valid configuration to members.json, for
// when it becomes invalid.
func TestThresholds(t *testing.T) {
	t.Parallel()
	n := newNode(t, "")
	for _, test := range []struct {
		fields string
		want   node.Thresholds
	}{
		{"", node.Thresholds{Hard: 32 * mebi, MaxPodGrace: -1}},
		{"  evictionHard: {memory.available: 10%}\n", node.Thresholds{Hard: 40 * mebi, MaxPodGrace: -1}},
		{"  evictionHard: {memory.available: 48Mi}\n", node.Thresholds{Hard: 48 * mebi, MaxPodGrace: -1}},
		{"  evictionHard: {memory.available: 0%}\n", node.Thresholds{MaxPodGrace: -1}},
		{
			// No evictionMaxPodGracePeriod: the grace period of the pod.
			"  evictionSoft: {memory.available: 25%}\n  evictionSoftGracePeriod: {memory.available: 1m30s}\n",
			node.Thresholds{Hard: 32 * mebi, Soft: 100 * mebi, SoftGrace: 90 * time.Second, MaxPodGrace: -1},
		},
		{
			"  evictionSoft: {memory.available: 25%}\n  evictionSoftGracePeriod: {memory.available: 1m30s}\n  evictionMaxPodGracePeriod: 20\n" +
				"  evictionMinimumReclaim: {memory.available: 5Mi}\n",
			node.Thresholds{Hard: 32 * mebi, Soft: 100 * mebi, SoftGrace: 90 * time.Second, MaxPodGrace: 20 * time.Second, MinimumReclaim: 5 * mebi},
		},
	} {
		n.write("/var/lib/kubelet/config.yaml", section(test.fields))
		n.follow()
		test.want.Limit = 400 * mebi
		if got := n.last(); got == nil || *got != test.want {
			t.Errorf("%q: %+v; want %+v", test.fields, got, test.want)
		}
	}
}

// TestLastGoodThresholds: the thresholds survive an invalid configuration, and a restart of the
// service.
func TestLastGoodThresholds(t *testing.T) {
	t.Parallel()
	n := newNode(t, section("  evictionHard: {memory.available: 10%}\n"))
	n.partition("419430400")
	n.serve(&fakeRuntime{})
	n.servePods()
	hard := func(what string, want uint64, mode string) {
		t.Helper()
		if e := n.status().Eviction; e == nil || e.HardBytes != want || e.Mode != mode {
			t.Errorf("%s: %+v; want %s, below %d", what, e, mode, want)
		}
	}
	hard("valid", 40*mebi, "on")
	n.follow()
	n.write("/var/lib/kubelet/config.yaml", broken)
	hard("broken", 40*mebi, "on")
	n.follow()
	hard("broken, after a restart", 40*mebi, "on")

	// A file of an earlier version has no thresholds: the default for the limit in force is used.
	n.write(node.MembersFile, `{"namespaces":["kube-system"]}`)
	hard("an older file", 32*mebi, "on")
	n.partition("1048576000")
	hard("an older file, another limit", 50*mebi, "on")
	n.partition("max")
	hard("an older file, no limit", 0, "off")

	// Without a section no memory is guarded, whatever the earlier thresholds.
	n.partition("419430400")
	n.write("/var/lib/kubelet/config.yaml", kubelet(""))
	hard("no section", 0, "off")
	n.write("/var/lib/kubelet/config.yaml", section(""))
	n.write("/proc/cmdline", "quiet node_partition=0")
	hard("switched off", 0, "off")
	n.write("/proc/cmdline", "quiet")
	hard("valid again", 32*mebi, "on")
}

// serveOnce starts the service, waits until it connects to NRI, which is after it has read its
// configuration, and stops it.
func (n *fakeNode) serveOnce(args ...string) (stderr string) {
	n.t.Helper()
	socket := filepath.Join(n.root, "/run/nri/nri.sock")
	if err := os.RemoveAll(socket); err != nil {
		n.t.Fatal(err)
	}
	listener, ok := n.listen("/run/nri/nri.sock").(*net.UnixListener)
	if !ok {
		n.t.Fatal("no socket")
	}
	if err := listener.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		n.t.Fatal(err)
	}
	cmd := n.program(append([]string{"run", "--listen="}, args...)...)
	var text bytes.Buffer
	cmd.Stderr = &text
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	conn, err := listener.Accept()
	if err == nil {
		_ = conn.Close() // only the connection counts
	}
	if err := errors.Join(err, cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
		n.t.Fatalf("%v: %s", err, &text)
	}
	return text.String()
}

// TestEvictsFile: the file exists while the service evicts. The generator leaves a lowered limit to
// the service only then.
func TestEvictsFile(t *testing.T) {
	t.Parallel()
	n := newNode(t, valid("kube-system"))
	marker := filepath.Join(n.root, lowering.EvictsFile)
	for _, step := range []struct {
		configuration string
		flag          string
		want          bool
	}{
		{valid("kube-system"), "--eviction=off", false}, // did not exist
		{valid("kube-system"), "--eviction=on", true},
		{valid("kube-system"), "--eviction=on", true}, // exists already
		{valid("kube-system"), "--eviction=dry-run", false},
		{valid("kube-system"), "--eviction=on", true},
		{valid("kube-system"), "--eviction=off", false},
		{broken, "--eviction=on", true}, // the last good one
		{kubelet(""), "--eviction=on", false},
	} {
		n.write("/var/lib/kubelet/config.yaml", step.configuration)
		stderr := n.serveOnce(step.flag)
		if _, err := os.Stat(marker); (err == nil) != step.want {
			t.Errorf("%q, %s: %v; want it there: %t\n%s", step.configuration, step.flag, err, step.want, stderr)
		}
	}
}

// TestEvictsFileFails: the log has the error if the file cannot be written or removed.
func TestEvictsFileFails(t *testing.T) {
	t.Parallel()
	n := newNode(t, valid("kube-system"))
	n.write(lowering.EvictsFile+"/in-the-way", "")
	for _, flag := range []string{"--eviction=on", "--eviction=off"} {
		if stderr := n.serveOnce(flag); !strings.Contains(stderr, "recording for the generator whether pods are evicted failed") || !strings.Contains(stderr, lowering.EvictsFile) {
			t.Errorf("%s: %s", flag, stderr)
		}
	}
}
