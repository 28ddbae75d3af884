package daemon

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/podmove/report"
	"node-partition.io/node-partition/pkg/slices/config"
	"node-partition.io/node-partition/pkg/slices/decision"
	"node-partition.io/node-partition/tests/fakenode"
)

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

// TestEdit: an edit counts from the run of the generator on, which is a reload of systemd. Neither
// a restart nor the first start in a boot follows the files.
func TestEdit(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]string{
		"other members": fakenode.Valid("monitoring"), "switched off": fakenode.Configuration(""), "broken": fakenode.Broken,
	} {
		n := running(t)
		n.Write("/var/lib/kubelet/config.yaml", edit)
		n.follows(name, "kube-system", "")
		n.follow()
		n.follows(name+", after a restart", "kube-system", "")
	}
	n := running(t)
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Valid("monitoring"))
	n.Generate(0)
	n.follows("reloaded", "monitoring", "")
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

// decided is the path of the decision on a node.
const decided = config.StateDir + "/units/" + decision.FileName

// unknown lists decisions that say nothing, and what the messages say of them.
var unknown = map[string]struct{ text, want string }{
	"an upgrade without a reload":   {`{"version":0,"identity":"a"}`, "it has version 0"},
	"a downgrade without a reload":  {`{"version":2,"identity":["a"]}`, "it has version 2"},
	"a decision that was cut off":   {"{", "unexpected end"},
	"a decision of a refused file":  {`{"version":1,"identity":""}`, "the configuration was not valid"},
	"a decision without thresholds": {`{"version":1,"identity":"a","partitions":[{"name":"system"}]}`, "no thresholds"},
	"no decision":                   {"", "there is no decision"},
}

// undecided makes the decision of a node one of unknown.
func (n *fakeNode) undecided(text string) {
	n.t.Helper()
	if text == "" {
		n.RemoveAll(decided)
		return
	}
	n.Write(decided, text)
}

// TestStartUndecided: a service that starts without a decision that it can read does nothing, and
// ends with an error that says what to do. It is not switched off.
func TestStartUndecided(t *testing.T) {
	t.Parallel()
	for name, test := range unknown {
		n := running(t)
		n.undecided(test.text)
		text, err := n.runAt("localhost")
		if err == nil || strings.Contains(text, "missing port") || !strings.Contains(text, test.want) || !strings.Contains(text, "systemctl daemon-reload") {
			t.Errorf("%s: %v, %q; want %q, and what to do", name, err, text, test.want)
		}
		if s := n.status(); len(s.Partitions) != 0 || !strings.Contains(s.Problem, "systemctl daemon-reload") {
			t.Errorf("%s: status has %+v, %q", name, s.Partitions, s.Problem)
		}
	}
}

// TestReloadUndecided: a service that runs keeps the members that it follows. It moves and evicts
// no pod, stops no slice, and is not ready. A decision that it can read again ends that.
func TestReloadUndecided(t *testing.T) {
	t.Parallel()
	for name, test := range unknown {
		m, n, calls, _ := built(t)
		m.reload()
		c := m.followed.now()
		c.Partitions[1].Off = true
		m.follow(c)
		before := m.reconciler.Config()
		if before.Off() || before.Mode != podmove.Auto {
			t.Fatalf("%s: follows %+v", name, before)
		}
		n.undecided(test.text)
		m.reload()
		m.comeAndGo([]partition.Name{"telemetry"})
		if settings, evicts := m.settings(m.followed.now()); !settings[partition.System].Off || !evicts {
			t.Errorf("%s: evicts with %+v, and lowers a limit at once: %t", name, settings[partition.System], !evicts)
		}
		if mode := m.reconciler.Config().Mode; mode != podmove.Never {
			t.Errorf("%s: moves with %q", name, mode)
		}
		m.reconciler.SetConfig(before) // would be seen if it followed at each reconcile, which begins another
		m.reload()
		if got := m.reconciler.Config(); got.Mode != before.Mode || !reflect.DeepEqual(got.Partitions, before.Partitions) || len(calls.calls) != 0 || len(m.partitions.names()) != 2 {
			t.Errorf("%s: follows %+v by %q, and did %q", name, got.Partitions, got.Mode, calls.calls)
		}
		if err := m.ready(); err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "systemctl daemon-reload") {
			t.Errorf("%s: ready: %v; want %q, and what to do", name, err, test.want)
		}
		if line := summary(report.Report{}, nil, nil, meaning(m.followed.now()), nil); strings.Contains(line, "last good") || !strings.Contains(line, "nothing is moved, evicted or removed") {
			t.Errorf("%s: the status line is %q", name, line)
		}
		n.Generate(0)
		m.lookAtRefused()
		select {
		case <-m.reloaded:
		default:
			t.Fatalf("%s: the decision is not read again", name)
		}
		m.reload()
		if settings, _ := m.settings(m.followed.now()); m.followed.problem() != nil || settings[partition.System].Off || m.reconciler.Config().Mode != podmove.Auto {
			t.Errorf("%s: %v, %+v after a reload", name, m.followed.problem(), settings[partition.System])
		}
	}
}

// TestCameBackDuringReload: the last reconcile of a partition that is off waits for a reload that
// is under way, and what it reads after that is not followed by an older decision.
func TestCameBackDuringReload(t *testing.T) {
	t.Parallel()
	m, n, _, _ := built(t)
	m.reloading.Lock()
	back := make(chan bool)
	go func() { back <- m.cameBack(t.Context()) }()
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Configuration(""))
	n.Generate(0)
	m.reloading.Unlock()
	if <-back || !m.reconciler.Config().Off() {
		t.Errorf("follows %+v", m.reconciler.Config())
	}
}

// allOff returns a daemon whose partitions have been switched off, and a context that has ended.
func allOff(t *testing.T) (*monitor, *fakeNode, context.Context) {
	t.Helper()
	m, n, _, _ := built(t)
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Configuration(""))
	n.Generate(0)
	m.reload()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	return m, n, ended
}

// TestCameBackUndecided: a partition that is off and empty stays while it is not known whether it
// is back.
func TestCameBackUndecided(t *testing.T) {
	t.Parallel()
	m, n, ended := allOff(t)
	n.Write(decided, "{")
	if !m.cameBack(ended) {
		t.Error("its slices are stopped")
	}
	n.Generate(0)
	if m.cameBack(ended) {
		t.Error("its slices are not stopped when the decision is known again")
	}
}

// TestAwaitReadyOff: a service whose partitions are all off has nothing to be ready for, and is not
// waited for. One that does not know what to follow is.
func TestAwaitReadyOff(t *testing.T) {
	t.Parallel()
	m, n, ended := allOff(t)
	if m.ready() == nil {
		t.Fatal("a monitor that has made no pass is ready")
	}
	if err := m.AwaitReady(ended); err != nil {
		t.Errorf("all partitions off: %v", err)
	}
	n.Write(decided, "{")
	m.reload()
	if err := m.AwaitReady(ended); err == nil {
		t.Error("ready although it is not known what to follow")
	}
}
