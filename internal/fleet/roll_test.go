package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"nodepartition/internal/nodelabel"
)

// world is a cluster without an API server: it does what a roll asks for.
type world struct {
	t    *testing.T
	plan Plan
	r    *Roll
	now  time.Time
	// ends says how the Job of a node ends: "" kept, "gone" with its node, or a termination message
	// with the exit code before it, as "1 check: text".
	ends    map[string]string
	nodes   map[string]Node
	jobs    map[string]*Job // by name
	running []string        // names of nodes, in the order in which their Jobs were made
	most    int             // Jobs at once
	reads   int             // of pods
	log     []string
}

func newWorld(t *testing.T, action Action, text string, nodes ...Node) *world {
	t.Helper()
	w := &world{
		t: t, now: time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC), ends: map[string]string{}, nodes: map[string]Node{}, jobs: map[string]*Job{},
		plan: Plan{
			Action: action, Roll: "roll-" + string(action), Version: "v2", Section: "s2", Settings: settings(t, text), Deadline: 20 * time.Minute,
		},
	}
	for _, n := range nodes {
		w.nodes[n.Name] = n
	}
	w.start()
	return w
}

// start begins a roll, as a dispatcher that is started, and returns why it is refused.
func (w *world) start() string {
	w.r = NewRoll(w.plan)
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		n := w.nodes[name]
		w.r.Apply(Change{Node: &n})
	}
	for _, name := range slices.Sorted(maps.Keys(w.jobs)) {
		w.r.Apply(Change{Job: w.jobs[name]})
	}
	return w.r.Begin()
}

// node returns a node that is ready, with labels such as "a=b,c=d".
func node(name, labels string) Node {
	n := Node{Name: name, UID: "uid-" + name, Ready: true, Labels: map[string]string{}}
	for label := range strings.SplitSeq(labels, ",") {
		key, value, _ := strings.Cut(label, "=")
		if key != "" {
			n.Labels[key] = value
		}
	}
	return n
}

// with returns a node with a change.
func with(n Node, change func(*Node)) Node {
	change(&n)
	return n
}

func (w *world) say(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

// settle carries steps out until the roll waits or ends.
func (w *world) settle() Step {
	w.t.Helper()
	for range 10 * (len(w.nodes) + len(w.jobs) + 10) {
		s := w.r.Next(w.now)
		switch s.Kind {
		case Wait, End:
			return s
		case Create:
			w.say("make %s", s.Node.Name)
			j := w.job(s.Node, w.plan.Roll, w.plan.Action)
			w.r.Apply(Change{Job: j})
			w.running = append(w.running, s.Node.Name)
			w.most = max(w.most, len(w.running))
		case Read:
			w.reads++
			w.r.Known(s, w.pod(&s.Job))
		case Label:
			n := w.nodes[s.Node.Name]
			n.Labels = maps.Clone(n.Labels)
			for key, value := range s.Labels {
				if delete(n.Labels, key); value != nil {
					n.Labels[key] = *value
				}
			}
			w.nodes[n.Name] = n
			w.say("label %s %s", n.Name, describe(n))
			w.r.Labelled(s)
			w.r.Apply(Change{Node: &n})
		case Remove:
			w.say("remove %s", s.Job.Name)
			delete(w.jobs, s.Job.Name)
			w.r.Removed(s)
		case Clean:
			w.say("clean")
			maps.DeleteFunc(w.jobs, func(_ string, j *Job) bool { return j.Roll != w.plan.Roll })
			w.r.Cleaned()
		}
	}
	w.t.Fatalf("the roll does not come to rest: %q", w.log[max(0, len(w.log)-5):])
	return Step{}
}

// describe returns the labels of ours of a node.
func describe(n Node) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(n.Labels)) {
		if short, ours := strings.CutPrefix(key, prefix); ours {
			parts = append(parts, short+"="+n.Labels[key])
		}
	}
	return strings.Join(parts, ",")
}

// job makes a Job for a node.
func (w *world) job(n Node, roll string, action Action) *Job {
	name := jobName(roll, &n)
	j := &Job{
		Name: name, UID: fmt.Sprintf("%s-%d", name, len(w.log)), Roll: roll, Action: action, Node: n.Name, NodeUID: n.UID, Version: w.plan.Version, Section: w.plan.Section,
	}
	w.jobs[name] = j
	return j
}

// pod returns the pod of a Job as it ended.
func (w *world) pod(j *Job) *Pod {
	end := w.ends[j.Node]
	if end == "" || end == "gone" || end == "silent" {
		return nil
	}
	code, message, _ := strings.Cut(end, " ")
	return &Pod{JobUID: j.UID, Container: "verify", ExitCode: int32(code[0] - '0'), Reason: "Error", Message: message + "\nmore"}
}

// finish ends the Job of a node.
func (w *world) finish(name string) {
	w.t.Helper()
	n := w.nodes[name]
	j := w.jobs[jobName(w.plan.Roll, &n)]
	if j == nil {
		w.t.Fatalf("node %s has no Job", name)
	}
	w.running = slices.DeleteFunc(w.running, func(r string) bool { return r == name })
	if w.ends[name] == "gone" {
		delete(w.nodes, name)
		w.r.Apply(Change{Node: &n, Gone: true})
	}
	w.r.Apply(Change{Job: w.over(j, w.ends[name] != "")})
}

// over returns a Job that has ended.
func (w *world) over(j *Job, failed bool) *Job {
	ended := *j
	ended.Complete, ended.Failed = !failed, failed
	if failed {
		ended.Reason, ended.Message = "BackoffLimitExceeded", "Job has reached the specified backoff limit"
	}
	w.jobs[j.Name] = &ended
	return &ended
}

// play lets Jobs end in the order in which they were made, until the roll ends.
func (w *world) play() Result {
	w.t.Helper()
	for range 100 * (len(w.nodes) + 10) {
		s := w.settle()
		switch {
		case s.Kind == End:
			return w.r.Result()
		case len(w.running) > 0:
			w.finish(w.running[0])
		case !s.Until.IsZero():
			w.now = s.Until
		default:
			w.t.Fatalf("the roll waits for nothing: %q", w.log)
		}
	}
	w.t.Fatal("the roll does not end")
	return Result{}
}

// wantLog compares what was done with lines.
func (w *world) wantLog(want ...string) {
	w.t.Helper()
	if !slices.Equal(w.log, want) {
		w.t.Errorf("done:\n%s\nwant:\n%s", strings.Join(w.log, "\n"), strings.Join(want, "\n"))
	}
}

func wantResult(t *testing.T, r Result, code int, lines ...string) {
	t.Helper()
	if r.Code() != code || !slices.Equal(r.Lines(), lines) {
		t.Errorf("code %d:\n%s\nwant %d:\n%s", r.Code(), strings.Join(r.Lines(), "\n"), code, strings.Join(lines, "\n"))
	}
}

// The labels of a node that has kept the present version and section, and what control plane nodes
// have.
const (
	kept    = prefix + "version=v2," + prefix + "section=s2," + prefix + "state=kept"
	control = "node-role.kubernetes.io/control-plane="
)

// makes returns the names of the nodes in the order in which their Jobs were made.
func (w *world) makes() string {
	var names []string
	for _, line := range w.log {
		if name, ok := strings.CutPrefix(line, "make "); ok {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

func TestRollOrder(t *testing.T) {
	t.Parallel()
	several := []Node{
		node("b", "zone=1"), node("a", "zone=1"), node("d", "canary="), node("c", "canary="), node("m", control), node("n", control+",zone=1"),
		node("old", "node-role.kubernetes.io/master="), node("win", "kubernetes.io/os=windows"), node("e", "kubernetes.io/os=linux"),
	}
	for name, test := range map[string]struct {
		settings string
		order    string
		most     int
	}{
		"by name":                   {"", "a b c d e", 1},
		"pools":                     {"pools: [canary, zone=1]", "c d a b e", 1},
		"the first that matches":    {"pools: [zone=1, \"zone in (1,2)\"]", "a b c d e", 1},
		"selected":                  {"selector: zone=1", "a b", 1},
		"the control plane":         {"controlPlane: last", "a b c d e m n old", 1},
		"the control plane by one":  {"controlPlane: last\nnodes: 100%\npause: 0s", "a b c d e m n old", 5},
		"the control plane selects": {"controlPlane: last\nselector: zone=1", "a b n", 1},
		"a share":                   {"nodes: 40%\npause: 0s", "a b c d e", 2},
		"a number":                  {"nodes: 3", "a b c d e", 3},
		"more than there are":       {"nodes: 30", "a b c d e", 5},
		"a share of each pool":      {"nodes: 50%\npools: [canary]\npause: 0s", "c d a b e", 1},
	} {
		w := newWorld(t, Install, test.settings, several...)
		result := w.play()
		if got := w.makes(); got != test.order || w.most != test.most || result.Code() != CodeDone || result.Done != len(strings.Fields(test.order)) {
			t.Errorf("%s: %s, %d at once, %+v; want %s, %d", name, got, w.most, result, test.order, test.most)
		}
		for _, n := range strings.Fields(test.order) {
			if got := describe(w.nodes[n]); got != "section=s2,state=kept,version=v2" {
				t.Errorf("%s: %s has %s", name, n, got)
			}
		}
	}
}

// TestRollPools: a pool begins when each node of the pools before has ended and rested.
func TestRollPools(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Install, "nodes: 2\npools: [canary]\npause: 30s", node("a", ""), node("c", "canary="), node("d", "canary="))
	w.settle()
	w.finish("c")
	s := w.settle()
	if got := w.makes(); got != "c d" || !s.Until.Equal(w.now.Add(30*time.Second)) {
		t.Fatalf("%s, until %s", got, s.Until)
	}
	w.now = w.now.Add(30 * time.Second)
	if s := w.settle(); w.makes() != "c d" || !s.Until.IsZero() {
		t.Errorf("%s, until %s: d runs still", w.makes(), s.Until)
	}
	w.finish("d")
	w.settle()
	if w.makes() != "c d" {
		t.Errorf("%s: d rests", w.makes())
	}
	w.now = w.now.Add(30 * time.Second)
	if w.settle(); w.makes() != "c d a" {
		t.Errorf("%s: the canaries have ended", w.makes())
	}
}

// TestRollPause: a place stays free after a node, and no more than the share is taken meanwhile.
func TestRollPause(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Install, "nodes: 2\npause: 1m", node("a", ""), node("b", ""), node("c", ""), node("d", ""))
	w.settle()
	w.finish("a")
	w.settle()
	w.now = w.now.Add(59 * time.Second)
	if w.settle(); w.makes() != "a b" {
		t.Errorf("%s after 59 s", w.makes())
	}
	w.now = w.now.Add(time.Second)
	if w.settle(); w.makes() != "a b c" {
		t.Errorf("%s after a minute", w.makes())
	}
}

func TestRollFailures(t *testing.T) {
	t.Parallel()
	nodes := []Node{node("a", ""), node("b", prefix+"version=v1,"+prefix+"section=s2,"+prefix+"state=kept"), node("c", ""), node("d", ""), node("m", control)}
	for name, test := range map[string]struct {
		settings string
		ends     map[string]string
		makes    string
		code     int
		lines    []string
		labels   map[string]string
	}{
		"the first one": {
			"", map[string]string{"b": "1 check: the slice is not active."}, "a b", CodeFailed, []string{
				"1 node kept the partition, 1 failed, 2 not begun. No further Job was made: 1 node failed, and maxFailures is 0",
				"failed, and is as before: b: check: the slice is not active.",
			}, map[string]string{"b": "reason=check,section=s2,state=failed,version=v1"},
		},
		"within the budget": {
			"maxFailures: 1", map[string]string{"b": "3 cgroup-v1: the node runs cgroup v1."}, "a b c d", CodeFailed, []string{
				"3 nodes kept the partition, 1 failed", "refused, and nothing was written: b: cgroup-v1: the node runs cgroup v1.",
			}, map[string]string{"b": "reason=cgroup-v1,section=s2,state=refused,version=v1"},
		},
		"beyond the budget": {
			"maxFailures: 1", map[string]string{"a": "4 verify: x", "b": "1 verify: y"}, "a b", CodeFailed, []string{
				"0 nodes kept the partition, 2 failed, 2 not begun. No further Job was made: 2 nodes failed, and maxFailures is 1",
				"failed, and is not as before: a: verify: x", "failed, and is as before: b: verify: y",
			}, map[string]string{"a": "reason=verify,state=failed"},
		},
		"those that run are left to end": {
			"nodes: 3", map[string]string{"a": "1 check: x"}, "a b c", CodeFailed, []string{
				"2 nodes kept the partition, 1 failed, 1 not begun. No further Job was made: 1 node failed, and maxFailures is 0",
				"failed, and is as before: a: check: x",
			}, map[string]string{"b": "section=s2,state=kept,version=v2", "d": ""},
		},
		"the control plane": {
			"maxFailures: 5\ncontrolPlane: last", map[string]string{"m": "1 check: x"}, "a b c d m", CodeFailed, []string{
				"4 nodes kept the partition, 1 failed. No further Job was made: node m of the control plane failed, whatever maxFailures is",
				"failed, and is as before: m: check: x",
			}, nil,
		},
		"without a message": {
			"", map[string]string{"a": "silent"}, "a", CodeFailed, []string{
				"0 nodes kept the partition, 1 failed, 3 not begun. No further Job was made: 1 node failed, and maxFailures is 0",
				"failed: a: error: Job JOB has failed: BackoffLimitExceeded: Job has reached the specified backoff limit",
			}, map[string]string{"a": "reason=error,state=failed"},
		},
		"a program that is not ours": {
			"", map[string]string{"a": "1 exec format error"}, "a", CodeFailed, []string{
				"0 nodes kept the partition, 1 failed, 3 not begun. No further Job was made: 1 node failed, and maxFailures is 0",
				"failed: a: error: container verify ended with exit code 1: Error: exec format error",
			}, nil,
		},
		"the node left": {
			"", map[string]string{"a": "gone"}, "a b c d", CodeDone, []string{"3 nodes kept the partition, 1 left the cluster", "left the cluster: a"}, nil,
		},
	} {
		w := newWorld(t, Install, test.settings, nodes...)
		w.ends = test.ends
		result := w.play()
		n := node("a", "")
		for i := range test.lines {
			test.lines[i] = strings.ReplaceAll(test.lines[i], "JOB", jobName(w.plan.Roll, &n))
		}
		t.Run(name, func(t *testing.T) {
			wantResult(t, result, test.code, test.lines...)
			if w.makes() != test.makes {
				t.Errorf("made %s; want %s", w.makes(), test.makes)
			}
			for n, want := range test.labels {
				if got := describe(w.nodes[n]); got != want {
					t.Errorf("%s has %s; want %s", n, got, want)
				}
			}
		})
	}
}

func off(n *Node) { n.Ready, n.NotReady = false, "KubeletNotReady: no network" }

func cordon(n *Node) { n.Cordoned = true }

// TestRollUnfit: a node that cannot have a Job is skipped and named, and has its turn when it can.
func TestRollUnfit(t *testing.T) {
	t.Parallel()
	leaving := with(node("e", ""), func(n *Node) { n.Leaving = true })
	nodes := []Node{node("a", ""), with(node("b", ""), off), with(node("c", ""), cordon), node("d", ""), leaving}
	w := newWorld(t, Install, "", nodes...)
	wantResult(t, w.play(), CodeDone,
		"2 nodes kept the partition, 3 skipped", "skipped: b: not-ready: KubeletNotReady: no network",
		"skipped: c: cordoned: somebody has excluded it from scheduling (kubectl uncordon ends that)", "skipped: e: leaving: the Node is being deleted")

	w = newWorld(t, Install, "", nodes...)
	w.settle()
	b := node("b", "")
	w.nodes["b"] = b
	w.r.Apply(Change{Node: &b})
	d := with(node("d", ""), off)
	w.nodes["d"] = d
	w.r.Apply(Change{Node: &d})
	result := w.play()
	if w.makes() != "a b" || result.Code() != CodeDone || result.Done != 2 || len(result.Skipped) != 3 {
		t.Errorf("made %s, %+v; want that b comes and d does not", w.makes(), result)
	}

	w = newWorld(t, Uninstall, "", nodes...)
	wantResult(t, w.play(), CodeFailed,
		"3 nodes have no file of it any more, 2 not reached", "not reached: b: not-ready: KubeletNotReady: no network",
		"not reached: e: leaving: the Node is being deleted")
}

// TestRollComesBack: a node of an earlier pool that becomes ready does not wait until the present
// pool is idle.
func TestRollComesBack(t *testing.T) {
	t.Parallel()
	nodes := make([]Node, 0, 11)
	nodes = append(nodes, with(node("z", "canary="), off))
	for i := range 10 {
		nodes = append(nodes, node(fmt.Sprintf("n%d", i), ""))
	}
	w := newWorld(t, Install, "nodes: 50%\npools: [canary]\npause: 0s", nodes...)
	w.settle()
	z := node("z", "canary=")
	w.r.Apply(Change{Node: &z})
	w.nodes["z"] = z
	w.finish("n0")
	if w.settle(); w.makes() != "n0 n1 n2 n3 n4 z" {
		t.Errorf("made %s; want z next", w.makes())
	}
	if result := w.play(); result.Done != 11 {
		t.Errorf("%+v", result)
	}
}

// TestRollResume: a dispatcher that begins in the middle does what is left, and nothing twice.
func TestRollResume(t *testing.T) {
	t.Parallel()
	nodes := []Node{node("a", kept), node("b", ""), node("c", ""), node("d", ""), node("e", "")}
	begun := func(text string) *world {
		w := newWorld(t, Install, text, nodes...)
		for _, n := range nodes[:3] {
			w.job(n, w.plan.Roll, Install)
		}
		w.over(w.jobs[jobName(w.plan.Roll, &nodes[0])], false)
		w.over(w.jobs[jobName(w.plan.Roll, &nodes[1])], false)
		w.running = []string{"c"}
		return w
	}
	w := begun("nodes: 2\npause: 0s")
	if refusal := w.start(); refusal != "" {
		t.Fatal(refusal)
	}
	w.settle()
	w.wantLog("label b section=s2,state=kept,version=v2", "make d")
	if result := w.play(); result.Code() != CodeDone || result.Done != 5 || w.makes() != "d e" || w.most != 2 {
		t.Errorf("%+v, made %s, %d at once", result, w.makes(), w.most)
	}
	if got := w.r.Progress(); got != "5 of 5 ended, 0 run, 0 failed of 0 allowed, 0 skipped" {
		t.Error(got)
	}
	// A failure before the restart counts after it.
	w = begun("nodes: 2")
	w.over(w.jobs[jobName(w.plan.Roll, &nodes[1])], true)
	w.ends["b"] = "1 check: x"
	w.start()
	if result := w.play(); result.Code() != CodeFailed || result.Left != 2 || w.makes() != "" || describe(w.nodes["b"]) != "reason=check,state=failed" {
		t.Errorf("%+v, made %q, b has %s", result, w.makes(), describe(w.nodes["b"]))
	}
}

// TestRollBoth: a roll that would change version and section of a node at once is refused before
// its first Job, and such a node is left out later.
func TestRollBoth(t *testing.T) {
	t.Parallel()
	has := func(name, version, section string) Node {
		return node(name, prefix+"version="+version+","+prefix+"section="+section+","+prefix+"state=kept")
	}
	for name, test := range map[string]struct {
		node    Node
		refused bool
	}{
		"both":               {has("b", "v1", "s1"), true},
		"the version":        {has("b", "v1", "s2"), false},
		"the section":        {has("b", "v2", "s1"), false},
		"neither":            {has("b", "v2", "s2"), false},
		"it has none":        {node("b", ""), false},
		"it has a version":   {node("b", prefix+"version=v1"), false},
		"it cannot be taken": {with(has("b", "v1", "s1"), off), false},
		"not selected":       {has("b", "v1", "s1"), false},
	} {
		text := ""
		if name == "not selected" {
			text = "selector: other"
		}
		w := newWorld(t, Install, text, node("a", "other="), test.node)
		refusal := w.start()
		if (refusal != "") != test.refused || test.refused && !strings.Contains(refusal, "would both change, to v2 and s2, on b: ") {
			t.Errorf("%s: refused with %q", name, refusal)
		}
	}
	w := newWorld(t, Uninstall, "", has("b", "v1", "s1"))
	if refusal := w.start(); refusal != "" {
		t.Errorf("a removal: %s", refusal)
	}
	// A node that comes back while the roll goes on.
	w = newWorld(t, Install, "", node("a", ""), with(has("b", "v1", "s1"), off))
	w.settle()
	b := has("b", "v1", "s1")
	w.r.Apply(Change{Node: &b})
	wantResult(t, w.play(), CodeDone, "1 node kept the partition, 1 skipped",
		"skipped: b: both: it has version v1 and section s1, and this roll would change both at once")
}

// TestRollVersion: a version with a character that a label may not have is on the Node as the
// monitor there writes it, and counts as the same version.
func TestRollVersion(t *testing.T) {
	t.Parallel()
	for version, label := range map[string]string{"0.1.0+dirty": "0.1.0_dirty", "0.1.0~rc1": "0.1.0_rc1"} {
		w := newWorld(t, Install, "", node("a", ""), node("b", prefix+"version="+label+","+prefix+"section=s1"))
		w.plan.Version = version
		if refusal := w.start(); refusal != "" {
			t.Errorf("%s: refused with %q", version, refusal)
		}
		wantResult(t, w.play(), CodeDone, "2 nodes kept the partition")
		for name, n := range w.nodes {
			if got := n.Labels[nodelabel.Version]; got != label || len(validation.IsValidLabelValue(got)) > 0 {
				t.Errorf("%s: %s has the label %q; want %q", version, name, got, label)
			}
		}
	}
}

func TestRollNone(t *testing.T) {
	t.Parallel()
	for action, want := range map[Action]bool{Install: true, Add: false, Uninstall: false} {
		w := newWorld(t, action, "selector: none=here", node("a", ""))
		if refusal := w.start(); (refusal != "") != want {
			t.Errorf("%s: refused with %q", action, refusal)
		}
		if !want {
			if result := w.play(); result.Code() != CodeDone || len(w.log) > 0 {
				t.Errorf("%s: %+v, %q", action, result, w.log)
			}
		}
	}
}

// TestRollAdd: only nodes that no roll has seen are given a Job. What failed there is not tried
// again, and does not fail the next run.
func TestRollAdd(t *testing.T) {
	t.Parallel()
	nodes := []Node{
		node("a", kept), node("b", prefix+"state=failed,"+prefix+"reason=check"), node("c", prefix+"version=v1"), node("d", ""), node("e", ""), node("m", control),
	}
	w := newWorld(t, Add, "maxFailures: 1", nodes...)
	w.ends["d"] = "1 check: x"
	result := w.play()
	if w.makes() != "d e" || result.Code() != CodeFailed || len(result.Failures) != 1 {
		t.Errorf("made %s, %+v", w.makes(), result)
	}
	again := len(w.log)
	w.start()
	if result := w.play(); result.Code() != CodeDone || result.Done+len(result.Failures)+len(result.Skipped) != 0 || len(w.log) != again {
		t.Errorf("the next run: %+v, %q", result, w.log[again:])
	}
	// The dispatcher was killed before it wrote the labels.
	w.nodes["d"] = node("d", "")
	w.start()
	if result := w.play(); result.Code() != CodeFailed || describe(w.nodes["d"]) != "reason=check,state=failed" {
		t.Errorf("after a kill: %+v, %s", result, describe(w.nodes["d"]))
	}
}

// TestRollUninstall: each node that may have something is visited, whatever the selection is now,
// and what failed in an earlier attempt is tried again.
func TestRollUninstall(t *testing.T) {
	t.Parallel()
	nodes := []Node{
		node("a", kept+",pool=x"), node("b", ""), node("c", "pool=x"), node("m", control+","+kept), node("n", control), node("o", ""), with(node("p", kept), cordon),
		node("q", "kubernetes.io/os=windows,"+kept),
	}
	w := newWorld(t, Uninstall, "selector: pool=x", nodes...)
	w.job(nodes[1], "roll-before", Install)
	w.over(w.jobs[jobName("roll-before", &nodes[1])], false)
	w.job(nodes[2], w.plan.Roll, Uninstall)
	w.over(w.jobs[jobName(w.plan.Roll, &nodes[2])], true)
	w.start()
	result := w.play()
	if w.makes() != "a b c p m" || result.Code() != CodeDone || result.Done != 5 || !slices.Contains(w.log, "remove "+jobName(w.plan.Roll, &nodes[2])) {
		t.Errorf("%+v, %q", result, w.log)
	}
	for _, name := range []string{"a", "b", "c", "m", "p"} {
		if got := describe(w.nodes[name]); got != "" {
			t.Errorf("%s has %s", name, got)
		}
	}
	wantResult(t, result, CodeDone, "5 nodes have no file of it any more")
	// A failure stops it, as it stops a roll.
	w = newWorld(t, Uninstall, "", node("a", kept), node("b", kept))
	w.ends["a"] = "4 error: kept by a program"
	wantResult(t, w.play(), CodeFailed,
		"0 nodes have no file of it any more, 1 failed, 1 not begun. No further Job was made: 1 node failed, and maxFailures is 0",
		"failed, and is not as before: a: error: kept by a program")
	if got := describe(w.nodes["a"]); got != "reason=error,section=s2,state=failed,version=v2" {
		t.Errorf("a has %s", got)
	}
}

// TestRollOthers: a Job of another roll that runs has its node, takes a place, and is followed to
// its end. Then the Jobs of other rolls are removed.
func TestRollOthers(t *testing.T) {
	t.Parallel()
	a, b := node("a", ""), node("b", "")
	w := newWorld(t, Install, "nodes: 2\npause: 0s", a, b, node("c", ""))
	old := w.job(a, "roll-before", Install)
	old.Version = "v1"
	w.over(w.job(b, "roll-older", Install), false)
	w.start()
	if s := w.settle(); s.Kind != Wait || w.makes() != "b" {
		t.Fatalf("%+v, made %s; want that a has its Job and takes a place", s, w.makes())
	}
	ended := *old
	ended.Complete = true
	w.r.Apply(Change{Job: &ended})
	w.jobs[ended.Name] = &ended
	if result := w.play(); result.Done != 3 || result.Code() != CodeDone {
		t.Errorf("%+v", result)
	}
	const now = " section=s2,state=kept,version=v2"
	w.wantLog("make b", "label a section=s2,state=kept,version=v1", "clean", "make a", "label b"+now, "make c", "label a"+now, "label c"+now)
	// Not by add: the Jobs say why nodes failed in the roll.
	w = newWorld(t, Add, "", a, b)
	w.over(w.job(b, "roll-older", Install), true)
	w.start()
	w.play()
	if slices.Contains(w.log, "clean") {
		t.Errorf("%q", w.log)
	}
}

// TestRollReplaced: another node of the same name has its turn after the Job of the former one.
func TestRollReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Install, "nodes: 2\npause: 0s", node("a", ""), node("b", ""))
	w.settle()
	before := w.nodes["a"]
	after := w.rejoins()
	if s := w.settle(); s.Kind != Wait || w.makes() != "a b" {
		t.Fatalf("%+v, made %s", s, w.makes())
	}
	w.r.Apply(Change{Job: w.over(w.jobs[jobName(w.plan.Roll, &before)], false)})
	w.running = []string{"b"}
	if result := w.play(); result.Done != 2 || w.makes() != "a b a" || describe(w.nodes["a"]) != "section=s2,state=kept,version=v2" {
		t.Errorf("%+v, %q", result, w.log)
	}
	// Gone first, and back after its Job has ended.
	w = newWorld(t, Install, "", node("a", ""))
	w.settle()
	w.ends["a"] = "gone"
	w.finish("a")
	w.settle()
	delete(w.ends, "a")
	w.nodes["a"] = after
	w.r.Apply(Change{Node: &after})
	if result := w.play(); result.Done != 1 || len(result.Gone) != 1 || w.makes() != "a a" {
		t.Errorf("%+v, %q", result, w.log)
	}
}

// TestRollDeleted: a Job that somebody deletes has failed. Late events of the watch are ignored.
func TestRollDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Install, "", node("a", ""), node("b", ""))
	w.settle()
	a := w.nodes["a"]
	j := w.jobs[jobName(w.plan.Roll, &a)]
	w.ends["a"] = "silent"
	w.r.Apply(Change{Job: j, Gone: true})
	w.running = nil
	w.r.Apply(Change{Job: j})
	result := w.play()
	wantResult(t, result, CodeFailed,
		"0 nodes kept the partition, 1 failed, 1 not begun. No further Job was made: 1 node failed, and maxFailures is 0",
		"failed: a: error: Job "+j.Name+" has failed: Deleted: somebody has deleted it before it had ended")
	// A Job that has ended may go.
	w = newWorld(t, Install, "", node("a", ""))
	w.settle()
	w.finish("a")
	w.settle()
	w.r.Apply(Change{Job: w.jobs[j.Name], Gone: true})
	if result := w.play(); result.Code() != CodeDone || result.Done != 1 {
		t.Errorf("%+v", result)
	}
}

// TestRollYield: a roll that gives way ends with what runs, and add does so without an error.
func TestRollYield(t *testing.T) {
	t.Parallel()
	for action, code := range map[Action]int{Install: CodeFailed, Add: CodeDone, Uninstall: CodeFailed} {
		w := newWorld(t, action, "", node("a", ""), node("b", ""))
		w.settle()
		w.r.Yield("gives way to another")
		result := w.play()
		if w.makes() != "a" || result.Left != 1 || result.Code() != code || !strings.Contains(result.Lines()[0], "1 not begun. No further Job was made: gives way to another") {
			t.Errorf("%s: made %s, %+v", action, w.makes(), result)
		}
	}
}

// TestRollMany: five thousand nodes take a number of steps by their number, and no event costs more
// than the logarithm of it.
func TestRollMany(t *testing.T) {
	t.Parallel()
	const many = 5000
	nodes := make([]Node, many)
	for i := range nodes {
		nodes[i] = node(fmt.Sprintf("node-%04d", i), "zone="+string(rune('a'+i%3)))
	}
	compared := 0
	counted := func(a, b *member) bool {
		compared++
		return byPool(a, b)
	}
	w := newWorld(t, Install, "nodes: 10%\npools: [zone=a, zone=b]\npause: 0s", nodes...)
	w.r.queue.before = counted
	result := w.play()
	// Some four changes of each node take twice the logarithm each.
	if most := 4 * 2 * 13 * many; compared > most {
		t.Errorf("%d comparisons of nodes; want %d at most", compared, most)
	}
	if result.Done != many || w.most != 166 || len(w.log) != 2*many {
		t.Errorf("%d done, %d at once, %d steps", result.Done, w.most, len(w.log))
	}
	zone := -1
	for _, line := range w.log {
		name, ok := strings.CutPrefix(line, "make ")
		if !ok {
			continue
		}
		if now := int(w.nodes[name].Labels["zone"][0]); now < zone {
			t.Fatalf("%s comes after the next pool has begun", name)
		} else {
			zone = now
		}
	}
}

func BenchmarkRoll(b *testing.B) {
	for _, many := range []int{500, 5000, 50000} {
		b.Run(fmt.Sprint(many), func(b *testing.B) {
			p := Plan{Action: Install, Roll: "r", Version: "v2", Section: "s2", Settings: Settings{Nodes: Share{percent: 10}}}
			for b.Loop() {
				r := NewRoll(p)
				for i := range many {
					n := node(fmt.Sprintf("node-%06d", i), "")
					r.Apply(Change{Node: &n})
				}
				for {
					s := r.Next(time.Time{})
					if s.Kind == End {
						break
					}
					switch s.Kind {
					case Create:
						j := Job{Name: jobName("r", &s.Node), UID: s.Node.Name, Roll: "r", Action: Install, Node: s.Node.Name, NodeUID: s.Node.UID, Version: "v2", Section: "s2"}
						r.Apply(Change{Job: &j})
						ended := j
						ended.Complete = true
						r.Apply(Change{Job: &ended})
					case Label:
						r.Labelled(s)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(many), "ns/node")
		})
	}
}
