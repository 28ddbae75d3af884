package daemon

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"nodepartition/internal/command/status"
	"nodepartition/internal/node"
	"nodepartition/tests/fakenode"
)

// fakeNode is a node below a folder, with a daemon that has no systemd.
type fakeNode struct {
	*fakenode.Node
	t *testing.T
}

func newNode(t *testing.T, configuration string) *fakeNode {
	t.Helper()
	return &fakeNode{fakenode.New(t, configuration), t}
}

// runAt runs the service with an address, and returns its log and its error as one text. It is for
// a service that exits by itself.
func (n *fakeNode) runAt(listen string) (text string, err error) {
	n.t.Helper()
	var log bytes.Buffer
	o := Options{Options: n.Options(), Tick: 30 * time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))}
	o.Listen = listen
	err = Run(n.t.Context(), o)
	return fmt.Sprint(&log, err), err
}

// follow runs the service until it has read its configuration. It then exits, because its address
// has no port.
func (n *fakeNode) follow() (text string) {
	n.t.Helper()
	text, err := n.runAt("localhost")
	if err == nil || !strings.Contains(err.Error(), "missing port") {
		n.t.Fatalf("%q; want an exit for the missing port", text)
	}
	return text
}

// status returns what the command status reads.
func (n *fakeNode) status() status.Status {
	n.t.Helper()
	s, err := status.Read(n.t.Context(), n.Options())
	if err != nil {
		n.t.Fatal(err)
	}
	return s
}

// TestLastGoodConfiguration: the namespaces of the last valid configuration outlive the
// configuration and the service.
func TestLastGoodConfiguration(t *testing.T) {
	t.Parallel()
	n := newNode(t, fakenode.Valid("kube-system, monitoring"))
	n.Partition("67108864")
	n.Serve(&fakenode.Runtime{})
	n.ServePods()

	// status writes no file.
	if s := n.status(); s.Problem != "" || !slices.Equal(s.Partitions[0].Namespaces, []string{"kube-system", "monitoring"}) {
		t.Errorf("%q, %v", s.Problem, s.Partitions[0].Namespaces)
	}
	if kept := n.KeptNamespaces(); kept != nil {
		t.Errorf("status has written %v", kept)
	}
	// run does write it.
	n.follow()
	if kept := n.KeptNamespaces(); !slices.Equal(kept, []string{"kube-system", "monitoring"}) {
		t.Errorf("kept %v", kept)
	}
	// Broken: the last good one is used, and status has the reason.
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Broken)
	if stderr := n.follow(); !strings.Contains(stderr, "missing port") {
		t.Errorf("%q; want that it continues to the port", stderr)
	}
	s := n.status()
	if !slices.Equal(s.Partitions[0].Namespaces, []string{"kube-system", "monitoring"}) || !strings.Contains(s.Problem, "memoryLimit") {
		t.Errorf("%q, %v", s.Problem, s.Partitions[0].Namespaces)
	}
	// Switched off: the last namespaces stay known.
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Configuration(""))
	n.follow()
	if kept := n.KeptNamespaces(); !slices.Equal(kept, []string{"kube-system", "monitoring"}) {
		t.Errorf("kept %v", kept)
	}
	// Valid again.
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Valid("kube-system"))
	n.follow()
	if kept := n.KeptNamespaces(); !slices.Equal(kept, []string{"kube-system"}) {
		t.Errorf("kept %v", kept)
	}
}

// TestConfigurationNotApplied: an edit that no reload of systemd has applied is not followed. The
// units are still the previous ones, and a crash of the service must move no pod.
func TestConfigurationNotApplied(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]string{"other members": fakenode.Valid("monitoring"), "switched off": fakenode.Configuration("")} {
		n := newNode(t, fakenode.Valid("kube-system"))
		n.Partition("67108864")
		n.Serve(&fakenode.Runtime{})
		n.ServePods()
		n.Generate(0)
		n.follow()
		n.Write("/var/lib/kubelet/config.yaml", edit)
		if stderr := n.follow(); !strings.Contains(stderr, "namespaces=[kube-system]") && !strings.Contains(stderr, "missing port") {
			t.Errorf("%s: %q", name, stderr)
		}
		if kept := n.KeptNamespaces(); !slices.Equal(kept, []string{"kube-system"}) {
			t.Errorf("%s: kept %v; want those of before", name, kept)
		}
		if s := n.status(); !slices.Equal(s.Partitions[0].Namespaces, []string{"kube-system"}) || !strings.Contains(s.Problem, "systemctl daemon-reload") {
			t.Errorf("%s: %v, %q; want those of before, and what to do", name, s.Partitions[0].Namespaces, s.Problem)
		}
		n.Generate(0)
		if s := n.status(); s.Problem != "" {
			t.Errorf("%s: %q after the generator has run", name, s.Problem)
		}
		n.follow()
		if kept := n.KeptNamespaces(); name == "other members" && !slices.Equal(kept, []string{"monitoring"}) {
			t.Errorf("%s: kept %v after the generator has run", name, kept)
		}
	}
}

// TestLastGoodConfigurationMissing: without a last good configuration the service exits. The error
// names a file that cannot be parsed.
func TestLastGoodConfigurationMissing(t *testing.T) {
	t.Parallel()
	n := newNode(t, fakenode.Broken)
	n.Partition("67108864")
	n.Serve(&fakenode.Runtime{})
	n.ServePods()
	for content, want := range map[string]string{
		"":                          "no earlier valid configuration of this boot",
		`{"namespaces":["kube-sy`:   node.MembersFile + ": invalid character '\\n' in string literal; remove it",
		"\x00\x00\x00":              node.MembersFile + ": invalid character",
		`{"namespaces":"all"}`:      "cannot unmarshal string",
		"namespaces: [kube-system]": node.MembersFile + ": invalid character",
	} {
		if content != "" {
			n.Write(node.MembersFile, content)
		}
		text, err := n.runAt("")
		text = strings.ReplaceAll(text, `\\`, `\`) // the log quotes
		if err == nil || !strings.Contains(text, want) || !strings.Contains(text, "memoryLimit") {
			t.Errorf("%q: %v, %q; want %q", content, err, text, want)
		}
		if s := n.status(); !strings.Contains(s.Problem, want) || len(s.Partitions[0].Namespaces) > 0 {
			t.Errorf("%q: status has the problem %q, %v; want %q", content, s.Problem, s.Partitions[0].Namespaces, want)
		}
		if err := os.RemoveAll(filepath.Join(n.Root, node.MembersFile)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRunTwice: a second monitor does not start, because two would undo each other's work.
func TestRunTwice(t *testing.T) {
	t.Parallel()
	n := newNode(t, fakenode.Valid("kube-system"))
	n.follow()
	lock, err := os.Open(filepath.Join(n.Root, filepath.Dir(node.MembersFile), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	_, err = n.runAt("")
	for _, part := range []string{"another partition-monitor runs", "systemctl stop partition-monitor.service"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v; want %q", err, part)
		}
	}
}
