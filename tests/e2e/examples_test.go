//go:build node

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"node-partition.io/node-partition/tests/lab"
	"node-partition.io/node-partition/tests/testkit"
)

// TestExamples: an operator types the commands of docs/examples, on a node and where kubectl is,
// and sees what the pages show. After each example the node is as before. TestDay has the first.
func TestExamples(t *testing.T) {
	onEach(t, kinds([]string{"trixie"}, "trixie"), func(t *testing.T, flavour string) {
		o := newOperator(t, flavour)
		for _, page := range []string{"pinned-pod", "low-latency"} {
			if !t.Run(page, func(t *testing.T) { o.follow(t, "examples/"+page+".md") }) {
				return
			}
		}
	})
}

// operator has a node with the programs, and a machine with an administrator's kubeconfig, which is
// a folder.
type operator struct {
	*lab.Node
	dir string
}

func newOperator(t *testing.T, flavour string) *operator {
	t.Helper()
	o := &operator{dir: t.TempDir()}
	kubectlIn(t, o.dir)
	if err := os.Symlink(toInstall[1].Source, filepath.Join(o.dir, "bin/partition-monitor")); err != nil {
		t.Fatal(err)
	}
	control := lab.ControlPlaneForTest(t)
	admin, err := control.KubeconfigOf("admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	admin = bytes.ReplaceAll(admin, []byte(lab.HostAddress), []byte("127.0.0.1"))
	if err := os.WriteFile(filepath.Join(o.dir, "admin.conf"), admin, 0o600); err != nil {
		t.Fatal(err)
	}
	settings := lab.File{Path: monitorDefaults, Source: "../../units/node-partition.default"}
	o.Node = lab.ForTest(t, lab.Options{Flavour: flavour, CPUs: 4, ControlPlane: control, Files: append(programs(), settings)})
	run(t, o.Node, "systemctl start slices.target")
	if err := o.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return o
}

// follow types the commands of a page in their order.
func (o *operator) follow(t *testing.T, page string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	before := run(t, o.Node, values(ofSlices))
	for _, title := range testkit.Headings(string(text)) {
		steps, err := testkit.Steps(string(text), title)
		if err != nil {
			t.Fatalf("docs/%s: %v", page, err)
		}
		for _, s := range steps {
			for _, by := range [][2]string{{"NODE", o.Hostname}, {"IMAGE", "lab.local/busybox:1"}} {
				s.Command, s.Shows = strings.ReplaceAll(s.Command, by[0], by[1]), strings.ReplaceAll(s.Shows, by[0], by[1])
			}
			o.enter(t, s)
		}
	}
	becomes(t, o.Node, values(ofSlices), before)
	want(t, o.Node, "systemctl --failed --plain --no-legend", "")
}

// enter types a command, and looks until it shows what the page shows: the node is at work, and so
// is the API server.
func (o *operator) enter(t *testing.T, s testkit.Step) {
	t.Helper()
	if s.Command == "systemctl reboot" {
		if err := o.Reboot(t.Context()); err != nil {
			t.Fatal(err)
		}
		return
	}
	out, err := o.types(t.Context(), s.Command)
	t.Logf("# %s\n%s", s.Command, out)
	if s.Shows == "" && err != nil {
		t.Fatalf("%s: %v", s.Command, err)
	}
	if err == nil && s.Printed(out) {
		return
	}
	eventually(t, o.Node, s.Command, func(ctx context.Context) (bool, string, error) {
		out, err := o.types(ctx, s.Command)
		return err == nil && s.Printed(out), fmt.Sprintf("%s\nand not\n%s", out, s.Shows), err
	})
}

// types runs a command: one of kubectl where the kubeconfig is, which has a copy of the section,
// and others on the node.
func (o *operator) types(ctx context.Context, command string) (string, error) {
	if !strings.Contains(command, "kubectl ") {
		return o.Run(ctx, atPrompt(command))
	}
	section, err := o.Run(ctx, "cat "+packagesFolder+"/node-partition.yaml")
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(o.dir, "node-partition.yaml"), []byte(section), 0o600); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "sh", "-ec", "PATH=$PWD/bin:$PATH\n"+command)
	cmd.Dir, cmd.Env = o.dir, append(os.Environ(), "HOME="+o.dir, "KUBECONFIG=admin.conf")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
