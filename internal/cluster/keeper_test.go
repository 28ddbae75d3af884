package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeapi"
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

// aNode is a Node in memory, and the facts about it. It follows the rules of server-side apply.
type aNode struct {
	mu       sync.Mutex
	facts    *Facts // nil without the option
	off      bool
	stopping bool

	err     error            // of each request
	refused map[string]error // of each application by a manager
	lost    bool             // the answers, and not what was applied
	keeps   func(*kubeapi.Node)
	at      func() // called at each request
	sets    int    // applications
	looks   int

	has     kubeapi.Node
	applied map[string]kubeapi.Node // by manager
	changed map[string]bool         // types whose value another program has changed
}

func (n *aNode) remove(_ context.Context, labels, kinds []string) (kubeapi.Node, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range labels {
		delete(n.has.Labels, name)
	}
	for _, kind := range kinds {
		delete(n.has.Cores, kind)
	}
	return n.has, n.err
}

func (n *aNode) look(context.Context) (kubeapi.Node, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.looks++
	return n.has, n.err
}

func (n *aNode) apply(_ context.Context, manager string, want kubeapi.Node, force bool) (kubeapi.Node, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sets++
	if n.at != nil {
		n.at()
	}
	if err := cmp.Or(n.err, n.refused[manager]); err != nil {
		return kubeapi.Node{}, err
	}
	for kind, value := range want.Cores {
		if n.changed[kind] && n.has.Cores[kind] != value && !force {
			return kubeapi.Node{}, fmt.Errorf("API server: %w", apierrors.NewApplyConflict([]metav1.StatusCause{
				{Type: metav1.CauseTypeFieldManagerConflict, Message: "conflict with \"kubelet\""},
			}, "conflict with \"kubelet\""))
		}
	}
	now := kubeapi.Node{Labels: map[string]string{}, Ready: n.has.Ready, Cores: map[string]int64{}}
	maps.Copy(now.Labels, n.has.Labels)
	maps.Copy(now.Cores, n.has.Cores)
	before := n.applied[manager]
	for name := range before.Labels {
		delete(now.Labels, name)
	}
	for kind := range before.Cores {
		if !n.changed[kind] {
			delete(now.Cores, kind)
		}
	}
	if before.Ready != nil {
		now.Ready = nil
	}
	maps.Copy(now.Labels, want.Labels)
	for kind, value := range want.Cores {
		if now.Cores[kind] != value {
			delete(n.changed, kind)
		}
		now.Cores[kind] = value
	}
	if want.Ready != nil {
		now.Ready = want.Ready
	}
	if n.applied == nil {
		n.applied = map[string]kubeapi.Node{}
	}
	n.applied[manager], n.has = want, now
	if n.keeps != nil {
		n.keeps(&n.has)
	}
	if n.lost {
		return kubeapi.Node{}, unreachable()
	}
	return n.has, nil
}

// ready returns the condition on the Node, the zero value without one.
func (n *aNode) ready() v1.NodeCondition {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.has.Ready == nil {
		return v1.NodeCondition{}
	}
	return *n.has.Ready
}

// labels returns the labels on the Node.
func (n *aNode) labels() map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.has.Labels)
}

// change changes the node, and returns what was written before that.
func (n *aNode) change(f func(*aNode)) (sets int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f(n)
	sets, n.sets = n.sets, 0
	return sets
}

// keeper returns a Keeper for n, whose CPUs are those of a folder. Without facts it keeps no
// readiness.
func (n *aNode) keeper(dir, version string, log *testkit.Buffer) *Keeper {
	n.mu.Lock()
	defer n.mu.Unlock()
	o := KeeperOptions{
		Stopping: func(context.Context) bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.stopping
		},
		Version: version, Boot: "b1", JustBooted: true, Root: host.Root(dir), Log: log.Logger(),
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
	k.client = n
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
	if c := e.n.ready(); c.Status != want || c.Reason != reason {
		e.Errorf("%s: %+v; want %s, %s", what, c, want, reason)
	}
	if sets := e.n.change(func(*aNode) {}); sets < least || sets > most {
		e.Errorf("%s: %d writes; want %d to %d", what, sets, least, most)
	}
}

func ready(t *testing.T, n *aNode) expect { t.Helper(); return expect{t, n} }
func fine() *Facts                        { return &Facts{Passed: true} }
func unreachable() error                  { return fmt.Errorf("%w: refused", kubeapi.ErrUnreachable) }

// TestRun: a value is written at once after a boot, then when it is True, and after a minute when
// it is worse or says something else. There is a heartbeat. A restart changes nothing, and a
// shutdown makes it Unknown.
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, dir, lines := &aNode{facts: &Facts{Section: strings.Repeat("ab", 32)}}, t.TempDir(), &testkit.Buffer{}
		want := ready(t, n)
		stop := run(t, n.keeper(dir, "0.1.0", lines).Run)
		want.after("the first", time.Second/2, 1, v1.ConditionUnknown, reasonStarting)
		n.change(func(n *aNode) { n.facts.Passed = true })
		want.after("a pass", 2*time.Second, 1, v1.ConditionTrue, reasonActive)
		labels := n.labels()
		if labels[partition.VersionLabel] != "0.1.0" || labels[partition.SectionLabel] != "abababababab" ||
			!strings.HasSuffix(n.ready().Message, "; boot b1") {
			t.Errorf("%v, %+v", labels, n.ready())
		}
		since := n.ready().LastTransitionTime
		<-time.After(2 * settle) // what an earlier run may have applied of resources is removed
		n.change(func(*aNode) {})
		want.between("heartbeats", 10*time.Hour, 110, 130, v1.ConditionTrue, reasonActive)
		if got := n.ready(); !got.LastTransitionTime.Equal(&since) || time.Since(got.LastHeartbeatTime.Time) > 2*heartbeat {
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
		want.between("more of them", 70*time.Second, 1, 2, v1.ConditionFalse, reasonMisplaced)
		if got := n.ready(); !strings.Contains(got.Message, "belong: 50;") {
			t.Errorf("%+v; want the number of now", got)
		}
		n.change(func(n *aNode) { n.facts.Misplaced = 0 })
		want.after("placed", 2*time.Second, 1, v1.ConditionTrue, reasonActive)
		n.change(func(n *aNode) { n.facts.Section = "cd" })
		want.after("another section", 2*time.Second, 1, v1.ConditionTrue, reasonActive)
		since = n.ready().LastTransitionTime
		stop()
		want.after("it is stopped", time.Hour, 0, v1.ConditionTrue, reasonActive)

		n.change(func(n *aNode) { n.facts.Passed = false })
		stop = run(t, n.keeper(dir, "0.1.0", lines).Run)
		want.after("a restart", 30*time.Second, 0, v1.ConditionTrue, reasonActive)
		stop()
		n.change(func(n *aNode) { n.facts.Passed = true })
		stop = run(t, n.keeper(dir, "0.2.0", lines).Run)
		want.after("another version", 2*time.Second, 1, v1.ConditionTrue, reasonActive)
		if labels = n.labels(); labels[partition.VersionLabel] != "0.2.0" || labels[partition.SectionLabel] != "cd" ||
			n.ready().LastTransitionTime.Unix() != since.Unix() {
			t.Errorf("%v, %+v; want the present version, and the transition at %s", labels, n.ready(), since)
		}
		n.change(func(n *aNode) { n.stopping = true })
		stop()
		want.after("a shutdown", time.Second, 1, v1.ConditionUnknown, reasonStopping)

		n.change(func(n *aNode) { n.stopping, n.facts.Passed = false, true })
		stop = run(t, n.keeper(dir, "0.2.0", lines).Run)
		want.after("started again", time.Second/2, 1, v1.ConditionTrue, reasonActive)
		stop()
		n.change(func(n *aNode) { n.facts.Passed = false })
		k := n.keeper(dir, "0.2.0", lines)
		k.options.Boot = "b2"
		stop = run(t, k.Run)
		want.after("a boot", time.Second/2, 1, v1.ConditionUnknown, reasonStarting)
		stop()
		if text := lines.String(); text != "" {
			t.Errorf("log %s", text)
		}
	})
}

// TestOff: nothing is on the Node while no partition is switched on. It is removed also if a
// former boot has applied it. After Remove nothing is written.
func TestOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		former := kubeapi.Node{Labels: map[string]string{partition.VersionLabel: "0.0.1"}, Ready: &v1.NodeCondition{Status: v1.ConditionTrue}}
		n, lines := &aNode{facts: fine(), off: true, has: former}, &testkit.Buffer{}
		n.applied = map[string]kubeapi.Node{kubeapi.StatusManager: former}
		want := ready(t, n)
		k := n.keeper(t.TempDir(), "0.1.0", lines)
		stop := run(t, k.Run)
		want.after("of a former boot", 2*settle, 2, "", "") // and the resources
		if labels := n.labels(); len(labels) > 0 {
			t.Errorf("%v are left", labels)
		}
		n.change(func(n *aNode) { n.off = false })
		want.after("switched on", 2*time.Second, 1, v1.ConditionTrue, reasonActive)
		n.change(func(n *aNode) { n.off, n.err = true, unreachable() })
		want.between("the API server is away", time.Minute, 4, 20, v1.ConditionTrue, reasonActive)
		n.change(func(n *aNode) { n.err = nil })
		want.between("it is back", 2*time.Minute, 1, 2, "", "")
		if text := lines.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, statusFailed) {
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
// A Node that its kubelet has not registered yet has none.
func TestAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, lines := &aNode{facts: fine(), err: fmt.Errorf("%w: no node", kubeapi.ErrGone)}, &testkit.Buffer{}
		k := n.keeper(t.TempDir(), "0.1.0", lines)
		defer run(t, k.Run)()
		<-time.After(time.Minute)
		synctest.Wait()
		looks := 0
		if n.change(func(n *aNode) { looks = n.looks }); looks < 5 || looks > 30 || lines.String() != "" || !k.Tried() {
			t.Errorf("%d requests, tried %t, log %s", looks, k.Tried(), lines)
		}
		<-time.After(2 * time.Minute)
		if text := lines.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, statusFailed) {
			t.Errorf("log %s; want one line", text)
		}
		n.change(func(n *aNode) { n.err = nil })
		ready(t, n).between("it registers", 20*time.Second, 1, 2, v1.ConditionTrue, reasonActive)
	})
}

// TestAnswerLost: what was applied without an answer is removed when it is not wanted any more, and
// by the removal at the end.
func TestAnswerLost(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*aNode, *Keeper){
		"switched off": func(n *aNode, _ *Keeper) { n.change(func(n *aNode) { n.off = true }) },
		"the end":      func(_ *aNode, k *Keeper) { k.Remove(context.Background()) },
	} {
		synctest.Test(t, func(t *testing.T) {
			n, lines := &aNode{facts: fine(), off: true}, &testkit.Buffer{}
			k := n.keeper(t.TempDir(), "0.1.0", lines)
			defer run(t, k.Run)()
			<-time.After(time.Minute)
			n.change(func(n *aNode) { n.off, n.lost = false, true })
			<-time.After(time.Minute)
			if n.ready().Status == "" {
				t.Fatalf("%s: nothing was applied", name)
			}
			n.change(func(n *aNode) { n.lost = false })
			end(n, k)
			<-time.After(2 * time.Minute)
			synctest.Wait()
			if labels := n.labels(); len(labels) > 0 || n.ready().Status != "" {
				t.Errorf("%s: %v and %+v are left", name, labels, n.ready())
			}
		})
	}
}

// TestForbidden: what the API server refuses is tried again in minutes, and then in hours.
func TestForbidden(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, lines := &aNode{facts: fine()}, &testkit.Buffer{}
		n.refused = map[string]error{kubeapi.StatusManager: fmt.Errorf("%w: a policy", kubeapi.ErrForbidden)}
		defer run(t, n.keeper(t.TempDir(), "0.1.0", lines).Run)()
		want := ready(t, n)
		want.between("the first hour", time.Hour, 3, 8, "", "")
		want.between("a day", 24*time.Hour, 16, 48, "", "")
		n.change(func(n *aNode) { n.refused = nil })
		want.between("it is granted", 90*time.Minute, 1, 30, v1.ConditionTrue, reasonActive)
	})
}

// TestClearLater: a node that joins its cluster later loses what an earlier run has applied then.
// Until then there is an attempt in a minute, which is no request.
func TestClearLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		has := kubeapi.Node{Cores: map[string]int64{"a": 4000}}
		n, lines := &aNode{has: has, applied: map[string]kubeapi.Node{kubeapi.CoresManager: has}, err: kubeapi.ErrNoClient}, &testkit.Buffer{}
		k := n.keeper(t.TempDir(), "0.1.0", lines)
		k.options.JustBooted = false
		defer run(t, k.Run)()
		ready(t, n).after("no cluster, at once", time.Second/2, 2, "", "")
		ready(t, n).between("no cluster", time.Hour, 110, 130, "", "")
		n.change(func(n *aNode) { n.err = nil })
		ready(t, n).between("it has joined", 2*time.Minute, 2, 2, "", "")
		if !n.has.IsEmpty() || lines.String() != "" {
			t.Errorf("the Node has %+v, log %s", n.has, lines)
		}
	})
}

// TestClear: without an option, what an earlier run has applied is removed once, and not at once: a
// cluster may boot. What others have written stays.
func TestClear(t *testing.T) {
	t.Parallel()
	earlier := kubeapi.Node{Labels: map[string]string{partition.VersionLabel: "0.1.0"}, Ready: &v1.NodeCondition{Status: v1.ConditionTrue}}
	cores := kubeapi.Node{Cores: map[string]int64{"a": 4000}}
	all := kubeapi.Node{Labels: earlier.Labels, Ready: earlier.Ready, Cores: cores.Cores}
	for name, test := range map[string]struct {
		has     kubeapi.Node
		applied map[string]kubeapi.Node
		err     error
		isLeft  bool
		log     string
	}{
		"nothing":   {},
		"all":       {has: all, applied: map[string]kubeapi.Node{kubeapi.StatusManager: earlier, kubeapi.CoresManager: cores}},
		"of others": {has: all, isLeft: true},
		"no Node":   {err: kubeapi.ErrGone},
		"no right":  {err: kubeapi.ErrForbidden, log: "what an earlier run may have written"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n, lines := &aNode{has: test.has, applied: maps.Clone(test.applied), err: test.err}, &testkit.Buffer{}
				defer run(t, n.keeper(t.TempDir(), "0.1.0", lines).Run)()
				<-time.After(settle/2 - time.Second)
				synctest.Wait()
				if n.change(func(*aNode) {}) > 0 {
					t.Error("it does not wait after a boot")
				}
				<-time.After(2 * settle)
				<-time.After(24 * time.Hour)
				if sets := n.change(func(*aNode) {}); sets != 2 {
					t.Errorf("%d requests; want one for each manager", sets)
				}
				if !n.has.IsEmpty() != test.isLeft {
					t.Errorf("the Node has %+v", n.has)
				}
				if text := lines.String(); test.log == "" && text != "" || !strings.Contains(text, test.log) {
					t.Errorf("log %s; want %q", text, test.log)
				}
			})
		})
	}
}
