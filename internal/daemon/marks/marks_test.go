package marks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"nodepartition/internal/daemon/faults"
	"nodepartition/internal/kubeapi"
	"nodepartition/internal/nodelabel"
	"nodepartition/internal/unitname"
	"nodepartition/tests/fakeapi"
	"nodepartition/tests/locked"
)

var errAny = errors.New("some\nerror")

// TestJudge: the condition by what is known, and the worst of it first.
func TestJudge(t *testing.T) {
	t.Parallel()
	fine := Facts{Passed: true}
	for name, test := range map[string]struct {
		change func(*Facts)
		want   v1.ConditionStatus
		reason string
		text   string
	}{
		"all is well":      {func(*Facts) {}, v1.ConditionTrue, reasonActive, "all pods are in their place"},
		"misplaced":        {func(f *Facts) { f.Misplaced = 2 }, v1.ConditionFalse, reasonMisplaced, "not where they belong: 2"},
		"unready":          {func(f *Facts) { f.Unready, f.Misplaced = errAny, 1 }, v1.ConditionUnknown, reasonUnready, "some"},
		"no pass":          {func(f *Facts) { f.Passed = false }, v1.ConditionUnknown, reasonStarting, "has not ended"},
		"no pass yet, why": {func(f *Facts) { f.Passed, f.Unready = false, errAny }, v1.ConditionUnknown, reasonStarting, "has not ended: some; error"},
		"inactive": {
			func(f *Facts) { f.Inactive, f.Passed = []unitname.PartitionName{"system", "telemetry"}, false },
			v1.ConditionFalse, reasonInactive, "partition system, telemetry",
		},
		"refused": {func(f *Facts) { f.Refused, f.Inactive = errAny, []unitname.PartitionName{"a"} }, v1.ConditionFalse, reasonRefused, "last good one is followed: some"},
		"hangs":   {func(f *Facts) { f.Hangs, f.Refused = errAny, errAny }, v1.ConditionUnknown, reasonHangs, "hangs: some"},
	} {
		f := fine
		test.change(&f)
		got := judge(f)
		if got.Type != kubeapi.Ready || got.Status != test.want || got.Reason != test.reason || !strings.Contains(got.Message, test.text) ||
			strings.Contains(got.Message, "\n") {
			t.Errorf("%s: %+v; want %s, %s", name, got, test.want, test.reason)
		}
	}
	f := fine
	f.Unready = errors.New(strings.Repeat("x", 10*maxText))
	if got := judge(f); len(got.Message) > 2*maxText {
		t.Errorf("a message of %d bytes", len(got.Message))
	}
}

// TestReasonsAreDocumented: the page has a row for each reason.
func TestReasonsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/fleet-node.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range []string{
		reasonActive, reasonHangs, reasonRefused, reasonInactive, reasonStarting, reasonUnready, reasonMisplaced, reasonStopping,
	} {
		if !strings.Contains(string(page), "| `"+reason+"` |") {
			t.Errorf("docs/fleet-node.md has no row for %s", reason)
		}
	}
}

// node is a Node in memory, and the facts about it.
type node struct {
	mu       sync.Mutex
	facts    Facts
	off      bool
	stopping bool
	err      error // of each request
	has      *kubeapi.Marks
	sets     int
	removed  [][]string
	ours     []string
}

func (n *node) set(_ context.Context, m kubeapi.Marks) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sets++
	if n.err == nil {
		n.has = &m
	}
	return n.err
}

func (n *node) remove(_ context.Context, names []string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.removed = append(n.removed, names)
	if n.err == nil {
		n.has = nil
	}
	return n.err
}

func (n *node) own(context.Context) (names []string, condition bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ours, n.has != nil, n.err
}

// on returns what is on the Node, nothing if there is none, and what was removed.
func (n *node) on() (m kubeapi.Marks, removed [][]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.has != nil {
		m = *n.has
	}
	return m, n.removed
}

// change changes the node, and returns what was written before that.
func (n *node) change(f func(*node)) (sets int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f(n)
	sets, n.sets = n.sets, 0
	return sets
}

// keeper returns a Keeper for n, with its state in a folder.
func (n *node) keeper(dir, version string, log *locked.Buffer) *Keeper {
	k := New(Options{
		Facts: func() (Facts, bool) {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.facts, !n.off
		},
		Stopping: func(context.Context) bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.stopping
		},
		Version: version, Boot: "b1", StateFile: filepath.Join(dir, "nodestatus.json"), Log: log.Logger(), Count: func(bool) {},
	})
	k.nodes = n
	return k
}

// run runs f in the background, and returns what ends it.
func run(t *testing.T, f func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = f(ctx) // it ends with its context
	}()
	return func() {
		cancel()
		<-ended
	}
}

// expect checks the number of writes and the value after a time.
type expect struct {
	*testing.T
	n *node
}

func (e expect) after(what string, d time.Duration, sets int, want v1.ConditionStatus, reason string) {
	e.Helper()
	<-time.After(d)
	synctest.Wait()
	e.n.mu.Lock()
	defer e.n.mu.Unlock()
	if e.n.sets != sets {
		e.Errorf("%s: %d writes; want %d", what, e.n.sets, sets)
	}
	e.n.sets = 0
	switch {
	case want == "" && e.n.has != nil:
		e.Errorf("%s: %+v; want nothing on the Node", what, *e.n.has)
	case want != "" && (e.n.has == nil || e.n.has.Condition.Status != want || e.n.has.Condition.Reason != reason):
		e.Errorf("%s: %+v; want %s, %s", what, e.n.has, want, reason)
	}
}

// TestRun: a value is written at once after a boot, then when it is True, and after a minute when
// it is worse. There is a heartbeat. A restart changes nothing, and a shutdown makes it Unknown.
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, dir, lines := &node{facts: Facts{Section: strings.Repeat("ab", 32)}}, t.TempDir(), &locked.Buffer{}
		want := expect{t, n}
		stop := run(t, n.keeper(dir, "0.1.0", lines).Run)
		want.after("the first", time.Second/2, 1, v1.ConditionUnknown, reasonStarting)
		n.change(func(n *node) { n.facts.Passed = true })
		want.after("a pass", 2*time.Second, 1, v1.ConditionTrue, reasonActive)
		m, _ := n.on()
		if m.Version != "0.1.0" || m.Section != "abababababab" || !strings.HasSuffix(m.Condition.Message, "; boot b1") {
			t.Errorf("%+v", m)
		}
		since := m.Condition.LastTransitionTime
		want.after("heartbeats", time.Hour, 12, v1.ConditionTrue, reasonActive)
		m, _ = n.on()
		if got := m.Condition; !got.LastTransitionTime.Equal(&since) || time.Since(got.LastHeartbeatTime.Time) > heartbeat {
			t.Errorf("%+v; want the transition at %s and a heartbeat", got, since)
		}
		n.change(func(n *node) { n.facts.Misplaced = 1 })
		want.after("a pod is moved", 50*time.Second, 0, v1.ConditionTrue, reasonActive)
		n.change(func(n *node) { n.facts.Misplaced = 0 })
		<-time.After(2 * time.Second)
		n.change(func(n *node) { n.facts.Misplaced = 1 })
		want.after("another one", 50*time.Second, 0, v1.ConditionTrue, reasonActive)
		want.after("and it stays", 15*time.Second, 1, v1.ConditionFalse, reasonMisplaced)
		n.change(func(n *node) { n.facts.Misplaced = 0 })
		want.after("placed", 2*time.Second, 1, v1.ConditionTrue, reasonActive)
		n.change(func(n *node) { n.facts.Section = "cd" })
		want.after("another section", 2*time.Second, 1, v1.ConditionTrue, reasonActive)
		m, _ = n.on()
		since = m.Condition.LastTransitionTime
		stop()
		want.after("it is stopped", time.Hour, 0, v1.ConditionTrue, reasonActive)

		n.change(func(n *node) { n.facts.Passed = false })
		stop = run(t, n.keeper(dir, "0.2.0", lines).Run)
		want.after("a restart", 30*time.Second, 0, v1.ConditionTrue, reasonActive)
		n.change(func(n *node) { n.facts.Passed = true })
		want.after("its first pass", 2*time.Second, 1, v1.ConditionTrue, reasonActive)
		if m, _ = n.on(); m.Version != "0.2.0" || m.Section != "cd" || !m.Condition.LastTransitionTime.Equal(&since) {
			t.Errorf("%+v; want the present version, and the transition at %s", m, since)
		}
		n.change(func(n *node) { n.stopping = true })
		stop()
		want.after("a shutdown", time.Second, 1, v1.ConditionUnknown, reasonStopping)

		n.change(func(n *node) { n.stopping, n.facts.Passed = false, false })
		stop = run(t, n.keeper(t.TempDir(), "0.2.0", lines).Run)
		want.after("a boot", time.Second/2, 1, v1.ConditionUnknown, reasonStarting)
		stop()
		if text := lines.String(); text != "" {
			t.Errorf("log %s", text)
		}
	})
}

// TestRestartThatFails: a restart after which pods are not managed is seen after a minute.
func TestRestartThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, dir, lines := &node{facts: Facts{Passed: true}}, t.TempDir(), &locked.Buffer{}
		want := expect{t, n}
		stop := run(t, n.keeper(dir, "0.1.0", lines).Run)
		want.after("the first", time.Second, 1, v1.ConditionTrue, reasonActive)
		stop()
		n.change(func(n *node) { n.facts.Passed = false })
		defer run(t, n.keeper(dir, "0.1.0", lines).Run)()
		want.after("not yet", 59*time.Second, 0, v1.ConditionTrue, reasonActive)
		want.after("a minute later", 3*time.Second, 1, v1.ConditionUnknown, reasonStarting)
	})
}

// TestOff: nothing is on the Node while no partition is switched on. It is removed also if a
// former boot has written it. After Remove nothing is written.
func TestOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, dir, lines := &node{facts: Facts{Passed: true}, off: true, has: &kubeapi.Marks{}}, t.TempDir(), &locked.Buffer{}
		want := expect{t, n}
		k := n.keeper(dir, "0.1.0", lines)
		stop := run(t, k.Run)
		want.after("of a former boot", time.Minute, 0, "", "")
		if _, removed := n.on(); len(removed) != 1 || !slices.Equal(removed[0], kubeapi.Labels()) {
			t.Errorf("removed %q; want all, once", removed)
		}
		n.change(func(n *node) { n.off = false })
		want.after("switched on", 2*time.Second, 1, v1.ConditionTrue, reasonActive)
		n.change(func(n *node) { n.off, n.err = true, fmt.Errorf("%w: refused", kubeapi.ErrUnreachable) })
		want.after("the API server is away", time.Minute, 0, v1.ConditionTrue, reasonActive)
		if _, removed := n.on(); len(removed) > 20 {
			t.Errorf("%d removals were tried in a minute", len(removed)-1)
		}
		n.change(func(n *node) { n.err = nil })
		want.after("it is back", 20*time.Second, 0, "", "")
		if text := lines.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "could not be removed, trying again") {
			t.Errorf("log %s; want one line", text)
		}
		n.change(func(n *node) { n.off = false })
		want.after("again", 2*time.Second, 1, v1.ConditionTrue, reasonActive)
		k.Remove(t.Context())
		want.after("the end", time.Hour, 0, "", "")
		_, before := n.on()
		k.Remove(t.Context())
		if _, after := n.on(); len(after) != len(before) {
			t.Error("removed twice")
		}
		n.change(func(n *node) { n.stopping = true })
		stop()
		want.after("a shutdown after the end", time.Second, 0, "", "")
	})
}

// TestRemoveGone: nothing is to be removed from a Node that is gone.
func TestRemoveGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, lines := &node{off: true, err: fmt.Errorf("%w: no node", kubeapi.ErrGone)}, &locked.Buffer{}
		defer run(t, n.keeper(t.TempDir(), "0.1.0", lines).Run)()
		<-time.After(10 * time.Minute)
		synctest.Wait()
		if _, removed := n.on(); len(removed) != 1 || lines.String() != "" {
			t.Errorf("%d removals, log %s; want one", len(removed), lines)
		}
	})
}

// TestRemoveFails: what could not be removed is in the log, and the next start tries again.
func TestRemoveFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, dir, lines := &node{facts: Facts{Passed: true}}, t.TempDir(), &locked.Buffer{}
		want := expect{t, n}
		k := n.keeper(dir, "0.1.0", lines)
		stop := run(t, k.Run)
		want.after("the first", time.Second, 1, v1.ConditionTrue, reasonActive)
		n.change(func(n *node) { n.off, n.err = true, fmt.Errorf("%w: refused", kubeapi.ErrUnreachable) })
		k.Remove(t.Context())
		stop()
		if text := lines.String(); !strings.Contains(text, "remove them with kubectl") || !strings.Contains(text, "node-partition.io/version") {
			t.Errorf("log %s", text)
		}
		n.change(func(n *node) { n.err = nil })
		defer run(t, n.keeper(dir, "0.1.0", lines).Run)()
		want.after("the next start", time.Second, 0, "", "")
	})
}

// TestAway: while the API server is away the pauses are short and differ, and the log has one line.
// A Node that its kubelet has not registered yet has none. What may have been written is known to
// the next start.
func TestAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, dir, lines := &node{facts: Facts{Passed: true}, err: fmt.Errorf("%w: no node", kubeapi.ErrGone)}, t.TempDir(), &locked.Buffer{}
		k := n.keeper(dir, "0.1.0", lines)
		stop := run(t, k.Run)
		<-time.After(time.Minute)
		synctest.Wait()
		if sets := n.change(func(*node) {}); sets < 5 || sets > 30 || lines.String() != "" || !k.Tried() {
			t.Errorf("%d writes, tried %t, log %s", sets, k.Tried(), lines)
		}
		<-time.After(2 * time.Minute)
		if text := lines.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "could not be written, trying again") {
			t.Errorf("log %s; want one line", text)
		}
		stop()
		if k = n.keeper(dir, "0.1.0", lines); k.state.Version == 0 || !k.state.There || k.state.Status != "" {
			t.Errorf("%+v; want that something may be there", k.state)
		}
	})
}

// TestClear: without the flag, what this program has written is removed, and what others have
// written stays.
func TestClear(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		has     bool
		ours    []string
		err     error
		before  string // the state file; none after a boot
		removed [][]string
		log     string
	}{
		"nothing":                {},
		"the condition alone":    {has: true, removed: [][]string{nil}, log: "are not asked for any more"},
		"one label":              {ours: []string{nodelabel.Section}, removed: [][]string{{nodelabel.Section}}, log: "are not asked for any more"},
		"in the same boot":       {has: true, before: `{"version":1,"there":true}`, removed: [][]string{nil}, log: "are not asked for any more"},
		"no Node":                {err: kubeapi.ErrGone, before: `{"version":1,"there":true}`},
		"no right, never had it": {err: kubeapi.ErrForbidden},
		"no right any more":      {err: kubeapi.ErrForbidden, before: `{"version":1,"there":true}`, log: "remove them with kubectl"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n, dir, lines := &node{ours: test.ours, err: test.err}, t.TempDir(), &locked.Buffer{}
				if test.has {
					n.has = &kubeapi.Marks{}
				}
				file := filepath.Join(dir, "nodestatus.json")
				if test.before != "" {
					if err := os.WriteFile(file, []byte(test.before), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				begin := time.Now()
				if err := n.keeper(dir, "0.1.0", lines).Clear(t.Context()); err != nil {
					t.Fatal(err)
				}
				if at := time.Since(begin); test.before != "" && at != 0 || test.before == "" && (at < settle/2 || at > 2*settle) {
					t.Errorf("after %s; want that it waits after a boot alone", at)
				}
				if !slices.EqualFunc(n.removed, test.removed, slices.Equal) {
					t.Errorf("removed %q; want %q", n.removed, test.removed)
				}
				if text := lines.String(); test.log == "" && text != "" || !strings.Contains(text, test.log) {
					t.Errorf("log %s; want %q", text, test.log)
				}
				if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%v; want that the state file is gone", err)
				}
			})
		})
	}
}

// TestClearAway: an API server that is away is asked again until it answers.
func TestClearAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, lines := &node{has: &kubeapi.Marks{}, err: fmt.Errorf("%w: refused", kubeapi.ErrUnreachable)}, &locked.Buffer{}
		ended := make(chan error, 1)
		go func() { ended <- n.keeper(t.TempDir(), "0.1.0", lines).Clear(t.Context()) }()
		<-time.After(time.Hour)
		n.change(func(n *node) { n.err = nil })
		if err := <-ended; err != nil || n.has != nil || strings.Count(lines.String(), "trying again") < 1 {
			t.Errorf("%v, %+v, log %s", err, n.has, lines)
		}
	})
}

// apiFunc implements faults.API.
type apiFunc func(ctx context.Context, ask func(context.Context, *kubeapi.Client, string) error) error

func (f apiFunc) Try(ctx context.Context, ask func(context.Context, *kubeapi.Client, string) error) error {
	return f(ctx, ask)
}

// TestInCluster: labels and condition on an API server beside labels of others, a user without the
// right, the removal, and the flag that is switched off.
func TestInCluster(t *testing.T) {
	t.Parallel()
	cluster := fakeapi.New(t, httptest.NewServer)
	client, err := kubeapi.New(cluster.NewKubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	var api faults.API = apiFunc(func(ctx context.Context, ask func(context.Context, *kubeapi.Client, string) error) error {
		return ask(ctx, client, fakeapi.Node)
	})
	lines, wrote := &locked.Buffer{}, make(chan bool, 100)
	n, dir := &node{facts: Facts{Passed: true, Section: strings.Repeat("0123", 16)}}, t.TempDir()
	started := func() (*Keeper, func()) {
		k := n.keeper(dir, "0.1.0+dirty", lines)
		k.nodes, k.options.Count = ownNode{api}, func(written bool) { wrote <- written }
		return k, run(t, k.Run)
	}
	cluster.SetLabel("kubernetes.io/hostname", "node-1", "kubelet")
	cluster.Answer(fakeapi.PatchNode, http.StatusForbidden)
	_, stop := started()
	if <-wrote {
		t.Error("written without the right")
	}
	if text := lines.String(); !strings.Contains(text, "patch of nodes/status") {
		t.Errorf("log %s; want what to grant", text)
	}
	stop()
	cluster.Answer(fakeapi.PatchNode, 0)
	k, stop := started()
	if !<-wrote {
		t.Fatalf("not written: %s", lines)
	}
	stop()
	labels := cluster.Labels()
	if labels[nodelabel.Version] != "0.1.0_dirty" || labels[nodelabel.Section] != "012301230123" || len(labels) != 3 {
		t.Errorf("labels %v", labels)
	}
	if got := cluster.Condition(kubeapi.Ready); got == nil || got.Status != v1.ConditionTrue || got.LastTransitionTime.IsZero() || got.LastHeartbeatTime.IsZero() {
		t.Errorf("%+v; want True", got)
	}
	cluster.SetLabel(nodelabel.Version, "0.2.0", "partition-fleet")
	if err := k.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	if labels = cluster.Labels(); labels[nodelabel.Version] != "0.2.0" || len(labels) != 2 || cluster.Condition(kubeapi.Ready) != nil {
		t.Errorf("labels %v without the flag; want those of others", labels)
	}
	k, stop = started()
	if !<-wrote {
		t.Fatalf("not written: %s", lines)
	}
	k.Remove(t.Context())
	stop()
	if labels = cluster.Labels(); len(labels) != 1 || cluster.Condition(kubeapi.Ready) != nil {
		t.Errorf("labels %v at the end; want the kubelet's alone", labels)
	}
}
