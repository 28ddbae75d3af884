package daemon

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nodepartition/internal/node"
	"nodepartition/pkg/slices/config"
	"nodepartition/pkg/slices/decision"
	"nodepartition/tests/fakenode"
)

// age moves the times of everything that the programs have written.
func (n *fakeNode) age(by time.Duration) {
	n.t.Helper()
	then := time.Now().Add(by)
	err := filepath.WalkDir(filepath.Join(n.Root, config.StateDir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		return os.Chtimes(path, then, then)
	})
	if err != nil {
		n.t.Fatal(err)
	}
}

// follows fails the test unless status shows the namespace, and a problem that contains problem.
func (n *fakeNode) follows(when, namespace, problem string) {
	n.t.Helper()
	s := n.status()
	if len(s.Partitions) != 1 || !slices.Equal(s.Partitions[0].Namespaces, []string{namespace}) ||
		problem == "" && s.Problem != "" || !strings.Contains(s.Problem, problem) {
		n.t.Errorf("%s: follows %+v with the problem %q; want %s, %q", when, s.Partitions, s.Problem, namespace, problem)
	}
}

// running returns a node whose monitor follows kube-system, as the generator has decided.
func running(t *testing.T) *fakeNode {
	t.Helper()
	n := newNode(t, fakenode.Valid("kube-system"))
	n.Partition("67108864")
	n.Serve(&fakenode.Runtime{})
	n.ServePods()
	n.Generate(0)
	n.follow()
	return n
}

// TestClockSteps: a reload is followed, and an edit without one is not, whatever the clock has done
// in between.
func TestClockSteps(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]time.Duration{"set back by 8 hours": 8 * time.Hour, "set forward by a day": -24 * time.Hour} {
		n := running(t)
		n.age(step)
		n.Write("/var/lib/kubelet/config.yaml", fakenode.Valid("monitoring"))
		n.follows(name+", edited", "kube-system", node.NotApplied)
		n.follow()
		n.follows(name+", edited, after a restart", "kube-system", node.NotApplied)
		n.age(step)
		n.Generate(0)
		n.follows(name+", reloaded", "monitoring", "")
		n.follow()
		n.age(step)
		n.Write("/var/lib/kubelet/config.yaml", fakenode.Broken)
		n.Generate(1)
		n.age(-step)
		n.follow()
		n.follows(name+", broken", "monitoring", "memoryLimit")
	}
}

// TestReloadWhileReading: the generator runs for a second reload after the monitor has read the
// files for the first one, and before it has written what it follows.
func TestReloadWhileReading(t *testing.T) {
	t.Parallel()
	n := running(t)
	former, err := os.ReadFile(filepath.Join(n.Root, node.MembersFile))
	if err != nil {
		t.Fatal(err)
	}
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Valid("monitoring"))
	n.Generate(0)
	n.Write(node.MembersFile, string(former)) // later than the units
	n.follows("the second reload", "monitoring", "")
	n.follow()
	if kept := n.KeptNamespaces(); !slices.Equal(kept, []string{"monitoring"}) {
		t.Errorf("kept %v", kept)
	}
}

// TestFirstStart: what the generator has decided counts for the first start in a boot, too, when
// the file was changed or broken since.
func TestFirstStart(t *testing.T) {
	t.Parallel()
	for edit, problem := range map[string]string{fakenode.Valid("monitoring"): node.NotApplied, fakenode.Broken: "memoryLimit", fakenode.Configuration(""): node.NotApplied} {
		n := newNode(t, fakenode.Valid("kube-system"))
		n.Partition("67108864")
		n.Serve(&fakenode.Runtime{})
		n.ServePods()
		n.Generate(0)
		n.Write("/var/lib/kubelet/config.yaml", edit)
		n.follow()
		n.follows(edit, "kube-system", problem)
	}
}

// TestSwitchedOffAndBroken: a section that was removed stays removed while a later file is broken.
func TestSwitchedOffAndBroken(t *testing.T) {
	t.Parallel()
	n := running(t)
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Configuration(""))
	n.Generate(0)
	n.follow()
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Broken)
	n.Generate(1)
	if s := n.status(); s.Partitions[0].Eviction == nil || s.Partitions[0].Eviction.Mode != "off" || !strings.Contains(s.Problem, "memoryLimit") {
		t.Errorf("%+v, %q; want no eviction, and the reason", s.Partitions[0].Eviction, s.Problem)
	}
}

// TestUpgrade: units of an earlier generator have no decision, and an earlier monitor has stored no
// identity. An edit waits for a reload, which writes both.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	n := running(t)
	if err := os.Remove(filepath.Join(n.Root, config.StateDir, "units", decision.FileName)); err != nil {
		t.Fatal(err)
	}
	n.Write(node.MembersFile, `{"namespaces":["kube-system"]}`)
	n.follows("no edit", "kube-system", "")
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Valid("monitoring"))
	n.follow()
	n.follows("an edit", "kube-system", node.NotApplied)
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Broken)
	n.follow()
	n.follows("a broken file", "kube-system", "memoryLimit")
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Valid("monitoring"))
	n.Generate(0)
	n.follows("after a reload", "monitoring", "")
}

// TestDecisionBroken: a decision that cannot be read is a problem, and what was followed before
// counts.
func TestDecisionBroken(t *testing.T) {
	t.Parallel()
	n := running(t)
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Valid("monitoring"))
	n.Write(config.StateDir+"/units/"+decision.FileName, "{")
	n.follows("a decision cut off", "kube-system", decision.FileName+": the JSON ends in the middle; systemctl daemon-reload writes it again")
}

// TestHangupOutlivesRestart: what an operator has asked for by SIGHUP is followed after a restart,
// until the generator decides.
func TestHangupOutlivesRestart(t *testing.T) {
	t.Parallel()
	n := running(t)
	former, err := decision.Read(n.Root)
	if err != nil {
		t.Fatal(err)
	}
	n.Write(node.MembersFile, `{"namespaces":["monitoring"],"identity":"of the file","over":"`+former.Identity+`"}`)
	n.follow()
	n.follows("restarted", "monitoring", node.NotApplied)
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Valid("default"))
	n.Generate(0)
	n.follow()
	n.follows("reloaded", "default", "")
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Valid("kube-system"))
	n.Generate(0)
	n.follow()
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Valid("monitoring"))
	n.follows("edited, with the first decision in force again", "kube-system", node.NotApplied)
}
