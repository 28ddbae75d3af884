package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nodepartition/internal/generator"
	"nodepartition/internal/monitor/node"
	"nodepartition/internal/trialend"
	"nodepartition/pkg/slices/config"
	"nodepartition/pkg/slices/decision"
	"nodepartition/pkg/slices/lowering"
)

// generate runs the generator on the node, as a daemon-reload does.
func (n *fakeNode) generate(want int) (messages string) {
	n.t.Helper()
	now, err := trialend.Now()
	if err != nil {
		n.t.Fatal(err)
	}
	return n.generateAt(now, want)
}

// generateAt is generate at another time.
func (n *fakeNode) generateAt(now trialend.Moment, want int) (messages string) {
	n.t.Helper()
	n.write("/proc/meminfo", "MemTotal: 16777216 kB\n")
	n.write("/sys/devices/system/cpu/present", "0-3\n")
	n.write("/sys/devices/system/cpu/online", "0-3\n")
	dir := filepath.Join(n.root, "/run/systemd/generator")
	if err := os.RemoveAll(dir); err != nil {
		n.t.Fatal(err)
	}
	var text strings.Builder
	if status := generator.Run(n.root, dir, now, generator.NewLog(&text)); status != want {
		n.t.Fatalf("generator: status %d, want %d: %s", status, want, &text)
	}
	return text.String()
}

// age moves the times of everything that the programs have written.
func (n *fakeNode) age(by time.Duration) {
	n.t.Helper()
	then := time.Now().Add(by)
	err := filepath.WalkDir(filepath.Join(n.root, config.StateDir), func(path string, entry fs.DirEntry, err error) error {
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
	if s.Partition == nil || !slices.Equal(s.Partition.Namespaces, []string{namespace}) ||
		problem == "" && s.Problem != "" || !strings.Contains(s.Problem, problem) {
		n.t.Errorf("%s: follows %+v with the problem %q; want %s, %q", when, s.Partition, s.Problem, namespace, problem)
	}
}

// running returns a node whose monitor follows kube-system, as the generator has decided.
func running(t *testing.T) *fakeNode {
	t.Helper()
	n := newNode(t, valid("kube-system"))
	n.partition("67108864")
	n.serve(&fakeRuntime{})
	n.servePods()
	n.generate(0)
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
		n.write("/var/lib/kubelet/config.yaml", valid("monitoring"))
		n.follows(name+", edited", "kube-system", node.NotApplied)
		n.follow()
		n.follows(name+", edited, after a restart", "kube-system", node.NotApplied)
		n.age(step)
		n.generate(0)
		n.follows(name+", reloaded", "monitoring", "")
		n.follow()
		n.age(step)
		n.write("/var/lib/kubelet/config.yaml", broken)
		n.generate(1)
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
	former, err := os.ReadFile(filepath.Join(n.root, node.MembersFile))
	if err != nil {
		t.Fatal(err)
	}
	n.write("/var/lib/kubelet/config.yaml", valid("monitoring"))
	n.generate(0)
	n.write(node.MembersFile, string(former)) // later than the units
	n.follows("the second reload", "monitoring", "")
	n.follow()
	if kept := n.kept(); !slices.Equal(kept, []string{"monitoring"}) {
		t.Errorf("kept %v", kept)
	}
}

// TestFirstStart: what the generator has decided counts for the first start in a boot, too, when
// the file was changed or broken since.
func TestFirstStart(t *testing.T) {
	t.Parallel()
	for edit, problem := range map[string]string{valid("monitoring"): node.NotApplied, broken: "memoryLimit", kubelet(""): node.NotApplied} {
		n := newNode(t, valid("kube-system"))
		n.partition("67108864")
		n.serve(&fakeRuntime{})
		n.servePods()
		n.generate(0)
		n.write("/var/lib/kubelet/config.yaml", edit)
		n.follow()
		n.follows(edit, "kube-system", problem)
	}
}

// TestSwitchedOffAndBroken: a section that was removed stays removed while a later file is broken.
func TestSwitchedOffAndBroken(t *testing.T) {
	t.Parallel()
	n := running(t)
	n.write("/var/lib/kubelet/config.yaml", kubelet(""))
	n.generate(0)
	n.follow()
	n.write("/var/lib/kubelet/config.yaml", broken)
	n.generate(1)
	if s := n.status(); s.Eviction == nil || s.Eviction.Mode != "off" || !strings.Contains(s.Problem, "memoryLimit") {
		t.Errorf("%+v, %q; want no eviction, and the reason", s.Eviction, s.Problem)
	}
}

// TestUpgrade: units of an earlier generator have no decision, and an earlier monitor has stored no
// identity. An edit waits for a reload, which writes both.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	n := running(t)
	if err := os.Remove(filepath.Join(n.root, config.StateDir, "units", decision.FileName)); err != nil {
		t.Fatal(err)
	}
	n.write(node.MembersFile, `{"namespaces":["kube-system"]}`)
	n.follows("no edit", "kube-system", "")
	n.write("/var/lib/kubelet/config.yaml", valid("monitoring"))
	n.follow()
	n.follows("an edit", "kube-system", node.NotApplied)
	n.write("/var/lib/kubelet/config.yaml", broken)
	n.follow()
	n.follows("a broken file", "kube-system", "memoryLimit")
	n.write("/var/lib/kubelet/config.yaml", valid("monitoring"))
	n.generate(0)
	n.follows("after a reload", "monitoring", "")
}

// TestDecisionBroken: a decision that cannot be read is a problem, and what was followed before
// counts.
func TestDecisionBroken(t *testing.T) {
	t.Parallel()
	n := running(t)
	n.write("/var/lib/kubelet/config.yaml", valid("monitoring"))
	n.write(config.StateDir+"/units/"+decision.FileName, "{")
	n.follows("a decision cut off", "kube-system", decision.FileName+": unexpected end of JSON input; systemctl daemon-reload writes it again")
}

// TestHangupOutlivesRestart: what an operator has asked for by SIGHUP is followed after a restart,
// until the generator decides.
func TestHangupOutlivesRestart(t *testing.T) {
	t.Parallel()
	n := running(t)
	former, err := decision.Read(n.root)
	if err != nil {
		t.Fatal(err)
	}
	n.write(node.MembersFile, `{"namespaces":["monitoring"],"identity":"of the file","over":"`+former.Identity+`"}`)
	n.follow()
	n.follows("restarted", "monitoring", node.NotApplied)
	n.write("/var/lib/kubelet/config.yaml", valid("default"))
	n.generate(0)
	n.follow()
	n.follows("reloaded", "default", "")
	n.write("/var/lib/kubelet/config.yaml", valid("kube-system"))
	n.generate(0)
	n.follow()
	n.write("/var/lib/kubelet/config.yaml", valid("monitoring"))
	n.follows("edited, with the first decision in force again", "kube-system", node.NotApplied)
}

// TestDeferralRemains: a deferred limit stays deferred until the generator writes it, whatever the
// usage is when the monitor looks.
func TestDeferralRemains(t *testing.T) {
	t.Parallel()
	n := whole(t)
	n.partition("134217728")
	n.write(systemCgroup+"/memory.current", "104857600")
	n.write("/sys/fs/cgroup/system.slice/partition-monitor.service/cgroup.events", "populated 1\nfrozen 0")
	n.write(lowering.EvictsFile, "")
	if said := n.generate(0); !strings.Contains(said, "keeping the present limit of 134217728 bytes") {
		t.Fatalf("%q", said)
	}
	const waits = "warning slice: kubepods-system.slice: memory.max is 134217728; the configured 67108864 takes effect when partition-monitor has evicted down to it"
	n.check(t, exitOK, []string{waits}, "--listen=")
	n.write(systemCgroup+"/memory.current", "50331648")
	n.check(t, exitOK, []string{waits}, "--listen=")
	n.write("/var/lib/kubelet/config.yaml", broken)
	n.generate(1)
	if d, err := decision.Read(n.root); err != nil || d.Deferral == nil || d.Deferral.Limit != 67108864 || d.Deferral.InForce != 134217728 {
		t.Errorf("%+v, %v; want the deferral after a broken configuration", d, err)
	}
	n.write("/var/lib/kubelet/config.yaml", valid("kube-system"))
	n.generate(0)
	n.check(t, exitProblem, []string{
		"error   slice: kubepods-system.slice: memory.max is 134217728; the configuration asks for 67108864",
	}, "--listen=")
}
