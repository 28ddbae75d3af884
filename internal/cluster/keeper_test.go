package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/testkit"
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
			func(f *Facts) { f.Inactive, f.Passed = []partition.Name{"system", "telemetry"}, false },
			v1.ConditionFalse, reasonInactive, "partition system, telemetry",
		},
		"refused": {func(f *Facts) { f.Refused, f.Inactive = errAny, []partition.Name{"a"} }, v1.ConditionFalse, reasonRefused, "some"},
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
	page, err := os.ReadFile("../../docs/fleet-node.md")
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

// aNode is a Node in memory, and the facts about it.
type aNode struct {
	mu       sync.Mutex
	facts    *Facts // nil without the option
	off      bool
	stopping bool
	err      error // of each request
	labels   map[string]string
	has      map[v1.NodeConditionType]v1.NodeCondition
	sets     int
	at       func() // called at each request
	others   bool   // the labels are of another program

	lost    bool   // the answers, and not what was written
	made    string // is the UID of another Node of the name
	cores   values
	ours    map[string]bool // the cores that this program has written last
	refused error           // of each write of cores
	keeps   func(values)    // changes what is written of cores
	writes  []string        // of cores
}

func (n *aNode) patch(_ context.Context, p kubeapi.NodePatch) (kubeapi.Node, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sets++
	if n.at != nil {
		n.at()
	}
	uid := cmp.Or(n.made, "1")
	switch {
	case n.err != nil:
		return kubeapi.Node{}, n.err
	case p.UID != "" && p.UID != uid:
		return kubeapi.Node{}, kubeapi.ErrGone
	case len(p.Cores) > 0 && n.refused != nil:
		return kubeapi.Node{}, n.refused
	}
	n.patchCores(p.Cores)
	if n.has == nil {
		n.has = map[v1.NodeConditionType]v1.NodeCondition{}
	}
	if n.labels == nil {
		n.labels = map[string]string{}
	}
	for name, value := range p.Labels {
		if delete(n.labels, name); value != nil {
			n.labels[name] = *value
		}
	}
	for kind, c := range p.Conditions {
		if delete(n.has, kind); c != nil {
			n.has[kind] = *c
		}
	}
	if n.lost {
		return kubeapi.Node{}, unreachable()
	}
	answer := kubeapi.Node{
		UID: uid, Labels: map[string]string{}, Conditions: maps.Clone(n.has), Cores: maps.Clone(n.cores),
		Ours: slices.Sorted(maps.Keys(n.ours)),
	}
	if !n.others {
		maps.Copy(answer.Labels, n.labels)
	}
	return answer, nil
}

// on returns what is on the Node.
func (n *aNode) on() (labels map[string]string, conditions map[v1.NodeConditionType]v1.NodeCondition) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.labels), maps.Clone(n.has)
}

// change changes the node, and returns what was written before that.
func (n *aNode) change(f func(*aNode)) (sets int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f(n)
	sets, n.sets = n.sets, 0
	return sets
}

// keeper returns a Keeper for n, with its state in a folder. Without facts it keeps no readiness.
func (n *aNode) keeper(dir, version string, log *testkit.Buffer) *Keeper {
	n.mu.Lock()
	defer n.mu.Unlock()
	o := KeeperOptions{
		Stopping: func(context.Context) bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.stopping
		},
		Version: version, Boot: "b1", Node: host.Below(dir), Log: log.Logger(),
		Count: func(bool) {},
	}
	if n.facts != nil {
		o.Facts = func() (Facts, bool) {
			n.mu.Lock()
			defer n.mu.Unlock()
			return *n.facts, !n.off
		}
	}
	k := NewKeeper(o)
	k.patch = n.patch
	return k
}

// stateDir returns the root of a node whose state can be written.
func stateDir(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Dir(host.Below(root).Path(node.WrittenFile)), 0o755); err != nil {
		t.Fatal(err)
	}
	return root
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

// expect checks the number of writes and the value of the condition after a time.
type expect struct {
	*testing.T
	n *aNode
}

func (e expect) after(what string, d time.Duration, sets int, want v1.ConditionStatus, reason string) {
	e.Helper()
	e.between(what, d, sets, sets, want, reason)
}

func (e expect) between(what string, d time.Duration, least, most int, want v1.ConditionStatus, reason string) {
	e.Helper()
	<-time.After(d)
	synctest.Wait()
	e.n.mu.Lock()
	defer e.n.mu.Unlock()
	if e.n.sets < least || e.n.sets > most {
		e.Errorf("%s: %d writes; want %d to %d", what, e.n.sets, least, most)
	}
	e.n.sets = 0
	if c := e.n.has[kubeapi.Ready]; c.Status != want || c.Reason != reason {
		e.Errorf("%s: %+v; want %s, %s", what, c, want, reason)
	}
}

func ready(t *testing.T, n *aNode) expect       { t.Helper(); return expect{t, n} }
func fine() *Facts                              { return &Facts{Passed: true} }
func unreachable() error                        { return fmt.Errorf("%w: refused", kubeapi.ErrUnreachable) }
func (n *aNode) left() (labels, conditions int) { l, c := n.on(); return len(l), len(c) }

// TestRun: a value is written at once after a boot, then when it is True, and after a minute when
// it is worse or says something else. There is a heartbeat. A restart changes nothing, and a
// shutdown makes it Unknown.
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, dir, lines := &aNode{facts: &Facts{Section: strings.Repeat("ab", 32)}}, stateDir(t), &testkit.Buffer{}
		want := ready(t, n)
		stop := run(t, n.keeper(dir, "0.1.0", lines).Run)
		want.after("the first", time.Second/2, 1, v1.ConditionUnknown, reasonStarting)
		n.change(func(n *aNode) { n.facts.Passed = true })
		want.after("a pass", 2*time.Second, 1, v1.ConditionTrue, reasonActive)
		labels, conditions := n.on()
		if labels[partition.VersionLabel] != "0.1.0" || labels[partition.SectionLabel] != "abababababab" || len(conditions) != 1 ||
			!strings.HasSuffix(conditions[kubeapi.Ready].Message, "; boot b1") {
			t.Errorf("%v, %+v", labels, conditions)
		}
		since := conditions[kubeapi.Ready].LastTransitionTime
		want.between("heartbeats", 10*time.Hour, 110, 130, v1.ConditionTrue, reasonActive)
		_, conditions = n.on()
		if got := conditions[kubeapi.Ready]; !got.LastTransitionTime.Equal(&since) || time.Since(got.LastHeartbeatTime.Time) > 2*heartbeat {
			t.Errorf("%+v; want the transition at %s and a heartbeat", got, since)
		}
		n.change(func(n *aNode) { n.facts.Misplaced = 1 })
		want.between("a pod is moved", 50*time.Second, 0, 1, v1.ConditionTrue, reasonActive)
		n.change(func(n *aNode) { n.facts.Misplaced = 0 })
		<-time.After(2 * time.Second)
		n.change(func(n *aNode) { n.facts.Misplaced = 1 })
		want.between("another one", 50*time.Second, 0, 1, v1.ConditionTrue, reasonActive)
		want.between("and it stays", 15*time.Second, 1, 2, v1.ConditionFalse, reasonMisplaced)
		n.change(func(n *aNode) { n.facts.Misplaced = 50 })
		want.after("more of them", 70*time.Second, 1, v1.ConditionFalse, reasonMisplaced)
		if _, conditions = n.on(); !strings.Contains(conditions[kubeapi.Ready].Message, "belong: 50;") {
			t.Errorf("%+v; want the number of now", conditions)
		}
		n.change(func(n *aNode) { n.facts.Misplaced = 0 })
		want.after("placed", 2*time.Second, 1, v1.ConditionTrue, reasonActive)
		n.change(func(n *aNode) { n.facts.Section = "cd" })
		want.after("another section", 2*time.Second, 1, v1.ConditionTrue, reasonActive)
		_, conditions = n.on()
		since = conditions[kubeapi.Ready].LastTransitionTime
		stop()
		want.after("it is stopped", time.Hour, 0, v1.ConditionTrue, reasonActive)

		n.change(func(n *aNode) { n.facts.Passed = false })
		stop = run(t, n.keeper(dir, "0.1.0", lines).Run)
		want.after("a restart", 30*time.Second, 0, v1.ConditionTrue, reasonActive)
		stop()
		n.change(func(n *aNode) { n.facts.Passed = true })
		stop = run(t, n.keeper(dir, "0.2.0", lines).Run)
		want.after("another version", 2*time.Second, 1, v1.ConditionTrue, reasonActive)
		if labels, conditions = n.on(); labels[partition.VersionLabel] != "0.2.0" || labels[partition.SectionLabel] != "cd" ||
			conditions[kubeapi.Ready].LastTransitionTime.Unix() != since.Unix() {
			t.Errorf("%v, %+v; want the present version, and the transition at %s", labels, conditions, since)
		}
		n.change(func(n *aNode) { n.stopping = true })
		stop()
		want.after("a shutdown", time.Second, 1, v1.ConditionUnknown, reasonStopping)

		n.change(func(n *aNode) { n.stopping, n.facts.Passed = false, false })
		stop = run(t, n.keeper(stateDir(t), "0.2.0", lines).Run)
		want.after("a boot", time.Second/2, 1, v1.ConditionUnknown, reasonStarting)
		stop()
		if text := lines.String(); text != "" {
			t.Errorf("log %s", text)
		}
	})
}

// TestOff: nothing is on the Node while no partition is switched on. It is removed also if a
// former boot has written it. After Remove nothing is written.
func TestOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, dir, lines := &aNode{facts: fine(), off: true}, stateDir(t), &testkit.Buffer{}
		n.labels = map[string]string{partition.VersionLabel: "0.0.1", partition.SectionLabel: "ab"}
		n.has = map[v1.NodeConditionType]v1.NodeCondition{kubeapi.Ready: {Status: v1.ConditionTrue}}
		want := ready(t, n)
		k := n.keeper(dir, "0.1.0", lines)
		stop := run(t, k.Run)
		want.after("of a former boot", time.Minute, 2, "", "")
		if labels, _ := n.left(); labels > 0 {
			t.Errorf("%d labels are left", labels)
		}
		n.change(func(n *aNode) { n.off = false })
		want.after("switched on", 2*time.Second, 1, v1.ConditionTrue, reasonActive)
		n.change(func(n *aNode) { n.off, n.err = true, unreachable() })
		want.between("the API server is away", time.Minute, 4, 20, v1.ConditionTrue, reasonActive)
		n.change(func(n *aNode) { n.err = nil })
		want.between("it is back", 2*time.Minute, 1, 2, "", "")
		if text := lines.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "could not be removed, trying again") {
			t.Errorf("log %s; want one line", text)
		}
		n.change(func(n *aNode) { n.off = false })
		want.after("again", 2*time.Second, 1, v1.ConditionTrue, reasonActive)
		k.Remove(t.Context())
		want.after("the end", time.Hour, 1, "", "")
		k.Remove(t.Context())
		n.change(func(n *aNode) { n.stopping = true })
		stop()
		want.after("a shutdown after the end", time.Second, 0, "", "")
	})
}

// TestAway: while a Node does not exist the pauses are short and differ, and the log has one line.
// A Node that its kubelet has not registered yet has none. What may have been written is known to
// the next start.
func TestAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, dir, lines := &aNode{facts: fine(), err: fmt.Errorf("%w: no node", kubeapi.ErrGone)}, stateDir(t), &testkit.Buffer{}
		k := n.keeper(dir, "0.1.0", lines)
		stop := run(t, k.Run)
		<-time.After(time.Minute)
		synctest.Wait()
		if sets := n.change(func(*aNode) {}); sets < 5 || sets > 30 || lines.String() != "" || !k.Tried() {
			t.Errorf("%d writes, tried %t, log %s", sets, k.Tried(), lines)
		}
		<-time.After(2 * time.Minute)
		if text := lines.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "could not be written, trying again") {
			t.Errorf("log %s; want one line", text)
		}
		stop()
		if k = n.keeper(dir, "0.1.0", lines); k.written.IsEmpty() || k.written.Conditions[kubeapi.Ready].Status != "" {
			t.Errorf("%+v; want that something may be there", k.written)
		}
	})
}

// TestAnswerLost: what was written without an answer is removed when it is not asked for any more.
func TestAnswerLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, dir, lines := &aNode{facts: fine(), lost: true}, stateDir(t), &testkit.Buffer{}
		stop := run(t, n.keeper(dir, "0.1.0", lines).Run)
		<-time.After(time.Minute)
		stop()
		if labels, conditions := n.left(); labels != 1 || conditions != 1 {
			t.Fatalf("%d labels and %d conditions were written; want one each", labels, conditions)
		}
		n.change(func(n *aNode) { n.facts, n.lost = nil, false })
		defer run(t, n.keeper(dir, "0.1.0", lines).Run)()
		<-time.After(2 * settle) // it waits as after a boot
		if labels, conditions := n.left(); labels != 0 || conditions != 0 {
			t.Errorf("%d labels and %d conditions are left", labels, conditions)
		}
	})
}

// TestForbidden: what the API server refuses is tried again in minutes, and then in hours.
func TestForbidden(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, lines := &aNode{facts: fine(), err: fmt.Errorf("%w: a policy", kubeapi.ErrForbidden)}, &testkit.Buffer{}
		defer run(t, n.keeper(stateDir(t), "0.1.0", lines).Run)()
		want := ready(t, n)
		want.between("the first hour", time.Hour, 3, 7, "", "")
		want.between("a day", 24*time.Hour, 16, 48, "", "")
		n.change(func(n *aNode) { n.err = nil })
		want.between("it is granted", 90*time.Minute, 1, 30, v1.ConditionTrue, reasonActive)
	})
}

// TestClear: without its option, what this program has written is removed, and what others have
// written stays.
func TestClear(t *testing.T) {
	t.Parallel()
	version := map[string]string{partition.VersionLabel: "0.1.0"}
	ready := func() map[v1.NodeConditionType]v1.NodeCondition {
		return map[v1.NodeConditionType]v1.NodeCondition{kubeapi.Ready: {Status: v1.ConditionTrue}}
	}
	const before = `{"version":3,"node":"1","conditions":{"SystemPartitionReady":{"status":"True"}}}`
	another := strings.Replace(before, `"version":3`, `"version":2`, 1)
	for name, test := range map[string]struct {
		labels     map[string]string
		has        map[v1.NodeConditionType]v1.NodeCondition
		others     bool
		err        error
		before     string // the state file; none after a boot
		labelsLeft int
		sets       int
		log        string
	}{
		"nothing":           {},
		"all":               {labels: version, has: ready(), sets: 1, log: "no option asks for them any more"},
		"a label of others": {labels: version, others: true, labelsLeft: 1},
		"in the same boot":  {has: ready(), before: before, sets: 1, log: "no option asks for them any more"},
		"of another version": {
			labels: version, has: ready(), before: another, sets: 1, log: "no option asks for them any more",
		},
		"of another version, a label of others": {
			labels: version, others: true, before: another, labelsLeft: 1, log: "is not known before the API server answers",
		},
		"no Node":                {err: kubeapi.ErrGone, before: before},
		"no right, never had it": {err: kubeapi.ErrForbidden},
		"no right any more":      {err: kubeapi.ErrForbidden, before: before, log: "remove them with kubectl"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n, dir, lines := &aNode{labels: test.labels, has: test.has, others: test.others, err: test.err}, stateDir(t), &testkit.Buffer{}
				n.labels = maps.Clone(test.labels)
				file := host.Below(dir).Path(node.WrittenFile)
				if test.before != "" {
					if err := os.WriteFile(file, []byte(test.before), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				stop := run(t, n.keeper(dir, "0.1.0", lines).Run)
				if test.before != before { // it is not known that there is anything to remove
					<-time.After(settle/2 - time.Second)
					synctest.Wait()
					if n.change(func(*aNode) {}) > 0 {
						t.Error("it does not wait after a boot")
					}
					<-time.After(2 * settle)
				}
				<-time.After(5 * time.Second)
				synctest.Wait()
				if sets := n.change(func(*aNode) {}); sets != 1+test.sets { // one to see what there is
					t.Errorf("%d writes; want %d", sets, test.sets)
				}
				if labels, conditions := n.left(); test.err == nil && (labels != test.labelsLeft || conditions > 0) {
					t.Errorf("%d labels and %d conditions are left; want %d, 0", labels, conditions, test.labelsLeft)
				}
				if text := lines.String(); test.log == "" && text != "" || !strings.Contains(text, test.log) {
					t.Errorf("log %s; want %q", text, test.log)
				}
				stop()
				if w, err := node.ReadWritten(host.Below(dir)); err != nil || !w.IsEmpty() {
					t.Errorf("%+v, %v; want that nothing is to be taken back without an option", w, err)
				}
			})
		})
	}
}
