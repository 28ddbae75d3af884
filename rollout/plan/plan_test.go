package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"node-partition.io/node-partition/internal/installer/record"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/rollout/api/v1alpha1"
)

var (
	now  = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	want = Want{Version: "v2", SectionHash: strings.Repeat("ab", 32)}
)

// world is a cluster on paper.
type world struct {
	Input
}

// pool returns a cluster whose nodes a, b, c ... are ready, and a NodePartition that selects them.
func pool(nodes int, change ...func(*v1alpha1.NodePartition)) *world {
	w := &world{Input{Want: want, Now: now, Partition: &v1alpha1.NodePartition{
		ObjectMeta: metav1.ObjectMeta{Name: "general", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)), Generation: 3},
		Spec: v1alpha1.NodePartitionSpec{Unselected: v1alpha1.Keep, Rollout: v1alpha1.Rollout{
			First: 1, MaxUnavailable: intstr.FromString("5%"), MaxFailures: 1,
			Trial: metav1.Duration{Duration: 10 * time.Minute}, Soak: metav1.Duration{Duration: time.Minute},
		}},
	}}}
	for _, c := range change {
		c(w.Partition)
	}
	w.All = []*v1alpha1.NodePartition{w.Partition}
	for i := range nodes {
		w.Nodes = append(w.Nodes, &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name(i), Labels: map[string]string{}, Annotations: map[string]string{}},
			Status: v1.NodeStatus{Conditions: []v1.NodeCondition{{
				Type: v1.NodeReady, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour)),
			}}},
		})
	}
	return w
}

// name returns a to z, then na, nb ...
func name(i int) string {
	if i < 26 {
		return string(rune('a' + i))
	}
	return fmt.Sprintf("n%04d", i)
}

func (w *world) node(name string) *v1.Node {
	return w.Nodes[slices.IndexFunc(w.Nodes, func(n *v1.Node) bool { return n.Name == name })]
}

// tried writes the record of a try that has ended a time ago.
func (w *world) tried(name, state string, ago time.Duration, tries int, change ...func(*Record)) {
	n := w.node(name)
	r := Record{Partition: "general", Want: want.Key(), At: metav1.NewTime(now.Add(-ago)), Tries: tries, Seconds: 60, Pod: types.UID("old-" + name)}
	r.Changed = state == Kept || state == Failed
	for _, c := range change {
		c(&r)
	}
	n.Annotations[RecordAnnotation] = r.String()
	n.Labels[StateLabel] = state
	if state == Kept {
		n.Labels[partition.VersionLabel], n.Labels[partition.SectionLabel] = "v2", want.SectionHash[:12]
		return
	}
	n.Labels[ReasonLabel] = "check"
}

func (w *world) kept(names ...string) {
	for _, n := range names {
		w.tried(n, Kept, time.Hour, 0)
	}
}

// other adds a NodePartition whose nodes have a label.
func (w *world) other() {
	w.All = append(w.All, &v1alpha1.NodePartition{
		ObjectMeta: metav1.ObjectMeta{Name: "other", CreationTimestamp: metav1.NewTime(now)},
		Spec:       v1alpha1.NodePartitionSpec{NodeSelector: metav1.LabelSelector{MatchLabels: map[string]string{"gpu": "yes"}}},
	})
}

// pod adds the pod of a node that runs.
func (w *world) pod(node string, mode Mode, change ...func(*v1.Pod)) {
	wanted := want.Key()
	if mode == Remove {
		wanted = WantRemoved
	}
	started := metav1.NewTime(now.Add(-40 * time.Second))
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pod-" + node, UID: types.UID("uid-" + node), CreationTimestamp: started,
			Annotations: map[string]string{
				PartitionAnnotation: "general", NodeAnnotation: node, ModeAnnotation: string(mode), WantAnnotation: wanted,
				VersionAnnotation: "v2", HashAnnotation: want.SectionHash,
			},
		},
		Status: v1.PodStatus{Phase: v1.PodRunning, StartTime: &started, ContainerStatuses: []v1.ContainerStatus{{
			Name: ContainerName, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
		}}},
	}
	for _, c := range change {
		c(p)
	}
	w.Pods = append(w.Pods, p)
}

// ofOther has the pod be one of the NodePartition other.
func ofOther() func(*v1.Pod) {
	return func(p *v1.Pod) { p.Annotations[PartitionAnnotation] = "other" }
}

// ends has the container end with a status and a termination message.
func ends(status int32, t record.Termination) func(*v1.Pod) {
	return func(p *v1.Pod) {
		text, _ := json.Marshal(t)
		p.Status.Phase = v1.PodSucceeded
		if status != 0 {
			p.Status.Phase = v1.PodFailed
		}
		p.Status.ContainerStatuses[0].State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			ExitCode: status, Reason: "Error", Message: string(text), FinishedAt: metav1.NewTime(now),
		}}
	}
}

// finished has the clock of the node differ from that of the controller.
func finished(after time.Duration) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(now.Add(after))
	}
}

// pending has the pod wait since a time.
func pending(ago time.Duration, waiting string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.CreationTimestamp = metav1.NewTime(now.Add(-ago))
		p.Status = v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{{
			Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: "Unschedulable", Message: "Too many pods",
		}}}
		if waiting != "" {
			p.Status = v1.PodStatus{Phase: v1.PodPending, ContainerStatuses: []v1.ContainerStatus{{
				Name: ContainerName, State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: waiting, Message: "no such image"}},
			}}}
		}
	}
}

func notReady(n *v1.Node, ago time.Duration) {
	n.Status.Conditions[0].Status = v1.ConditionUnknown
	n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-ago))
}

func rollout(change func(*v1alpha1.Rollout)) func(*v1alpha1.NodePartition) {
	return func(p *v1alpha1.NodePartition) { change(&p.Spec.Rollout) }
}

// claim writes what is to be written before the first pods are made.
func (w *world) claim() {
	w.Partition.Spec.Rollout.First = 0
	for _, s := range Decide(w.Input).Starts {
		w.write(s.Claim)
	}
}

// start makes the pod of the one node that starts, and writes its end.
func (w *world) start(ends func(*v1.Pod)) {
	s := Decide(w.Input).Starts[0]
	w.write(s.Claim)
	w.pod(s.Node, s.Mode, ends, func(p *v1.Pod) { p.Annotations[FirstAnnotation] = strconv.FormatBool(s.First) })
	w.decideAgain()
}

// decideAgain writes what has ended, and removes its pods.
func (w *world) decideAgain() {
	for _, e := range Decide(w.Input).Ends {
		w.write(&e)
		w.Pods = slices.DeleteFunc(w.Pods, func(p *v1.Pod) bool { return e.Pod == p })
	}
}

func (w *world) write(e *End) {
	if e == nil {
		return
	}
	i := slices.Index(w.Nodes, w.node(e.Node.Name))
	w.Nodes[i] = e.written()
	w.Nodes[i].Annotations = map[string]string{RecordAnnotation: e.Record}
}

// first has the pod be that of a node that nothing had changed before.
func first(p *v1.Pod) { p.Annotations[FirstAnnotation] = "true" }

func deleted(p *v1alpha1.NodePartition) { p.DeletionTimestamp = &metav1.Time{Time: now} }

// said returns a decision in words: what starts, ends and is deleted, the counts, and each
// condition.
func said(d Decision) map[string]string {
	m := map[string]string{}
	all := make([]string, 0, len(d.Starts))
	ends := make([]string, 0, len(d.Ends))
	deletes := make([]string, 0, len(d.Deletes))
	var starts []string
	for i, s := range d.Starts {
		if i < d.Free {
			starts = append(starts, string(s.Mode)+" "+s.Node)
		}
		all = append(all, s.Node)
	}
	for _, e := range d.Ends {
		text := e.Node.Name
		for _, label := range []string{StateLabel, ReasonLabel, partition.VersionLabel, partition.SectionLabel} {
			if v, ok := e.Labels[label]; ok && v != nil {
				text += " " + *v
			}
		}
		if e.Record == "" {
			text += " cleared"
		}
		if e.Pod != nil {
			text += " and its pod"
		}
		ends = append(ends, text)
	}
	for _, p := range d.Deletes {
		deletes = append(deletes, p.Name)
	}
	n := d.Status.Nodes
	m["starts"], m["candidates"] = strings.Join(starts, ", "), strings.Join(all, " ")
	m["ends"], m["deletes"] = strings.Join(ends, ", "), strings.Join(deletes, " ")
	m["nodes"] = fmt.Sprintf("%d/%d/%d/%d/%d/%d", n.Selected, n.Current, n.Updating, n.Failed, n.Skipped, n.Refused)
	m["again"] = d.Again.String()
	m["finished"] = fmt.Sprint(d.Finished)
	for _, c := range d.Status.Conditions {
		m[c.Type] = string(c.Status) + " " + c.Reason + ": " + c.Message
	}
	return m
}

// TestHand: a node that another NodePartition selects, too, is that one's when the first is
// deleted, also if the other one does not try it soon. What runs there ends first.
func TestHand(t *testing.T) {
	t.Parallel()
	w := pool(2, deleted)
	w.kept("a", "b")
	w.other()
	w.pod("b", Apply)
	for _, n := range w.Nodes {
		n.Labels["gpu"] = "yes"
	}
	d := Decide(w.Input)
	if len(d.Ends) != 1 || d.Ends[0].Node.Name != "a" || !strings.Contains(d.Ends[0].Record, `"partition":"other"`) || d.Finished {
		t.Errorf("%+v", d)
	}
}

// TestDecide has a cluster a row. A value that ends in "..." is a prefix.
func TestDecide(t *testing.T) {
	t.Parallel()
	share := func(v intstr.IntOrString) func(*v1alpha1.NodePartition) {
		return rollout(func(r *v1alpha1.Rollout) { r.MaxUnavailable, r.First = v, 0 })
	}
	for _, c := range []struct {
		name string
		of   *world
		then func(*world) // changes it, if it is not nil
		want map[string]string
	}{
		{"the first node goes alone", pool(100), nil, map[string]string{
			"starts": "apply a", "nodes": "100/0/0/0/0/0", v1alpha1.Progressing: "True Rolling: 0 of 100 nodes are current; about 63m left",
			v1alpha1.Available: "False NotCurrent...", v1alpha1.Accepted: "True Valid: ", v1alpha1.Degraded: "False AsExpected: ",
		}},
		{"its soak is over before the rest begins", pool(100), func(w *world) {
			w.tried("a", Kept, 59*time.Second, 0)
		}, map[string]string{"starts": "", "nodes": "100/1/1/0/0/0", "again": "1s",
			v1alpha1.Progressing: "True Rolling: 1 of 100 nodes are current; now 1 in its soak (a); about 40m left"}},
		{"a dead kubelet is found up to a minute later", pool(100), func(w *world) {
			w.tried("a", Kept, 90*time.Second, 0)
		}, map[string]string{"starts": "", "nodes": "100/1/1/0/0/0", "again": "30s",
			v1alpha1.Progressing: "True Rolling: 1 of 100 nodes are current; now 1 in its soak (a); about 40m left"}},
		{"the rest does not begin while it is away", pool(100), func(w *world) {
			w.kept("a")
			notReady(w.node("a"), time.Minute)
		}, map[string]string{"starts": "", "nodes": "100/1/0/0/0/0", "again": "0s",
			v1alpha1.Progressing: "False Waiting: 1 of 100 nodes are current; now 1 not ready (a)",
			v1alpha1.Degraded:    "True FirstNotReady: the other nodes wait for the first ones to be ready: mend, cordon or delete a"}},
		{"one that has come back is looked at for a minute", pool(100), func(w *world) {
			w.kept("a")
			w.node("a").Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-10 * time.Second))
		}, map[string]string{"starts": "", "again": "50s"}},
		{"a clock that is wrong is not waited for", pool(100), func(w *world) {
			w.kept("a")
			w.node("a").Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(time.Hour))
		}, map[string]string{"starts": "apply b, apply c, apply d, apply e, apply f"}},
		{"one that is cordoned then has passed nothing", pool(100), func(w *world) {
			w.kept("a")
			notReady(w.node("a"), time.Minute)
			w.node("a").Spec.Unschedulable = true
		}, map[string]string{"starts": "apply b"}},
		{"a minute later is for the first", pool(100), func(w *world) {
			w.kept("a")
			w.tried("b", Kept, 90*time.Second, 0)
		}, map[string]string{"starts": "apply c, apply d, apply e, apply f, apply g"}},
		{"then a share", pool(100), func(w *world) {
			w.kept("a")
		}, map[string]string{"starts": "apply b, apply c, apply d, apply e, apply f", "nodes": "100/1/0/0/0/0",
			v1alpha1.Progressing: "True Rolling: 1 of 100 nodes are current; about 40m left"}},
		{"a share is rounded down", pool(39, share(intstr.FromString("5%"))), nil, map[string]string{"starts": "apply a"}},
		{"and is one at least", pool(3, share(intstr.FromString("1%"))), nil, map[string]string{"starts": "apply a"}},
		{"a node that is not ready is unavailable, too", pool(3, share(intstr.FromInt32(1))), func(w *world) {
			notReady(w.node("a"), time.Hour)
		}, map[string]string{"starts": "", "nodes": "3/0/0/0/1/0",
			v1alpha1.Progressing: "False Waiting: 0 of 3 nodes are current; skipped: 1 not ready (a); now 1 not ready (a)"}},
		{"also one that is current", pool(9, share(intstr.FromInt32(3))), func(w *world) {
			w.kept("a")
			notReady(w.node("a"), 30*time.Minute)
		}, map[string]string{"starts": "apply b, apply c", "nodes": "9/1/0/0/0/0"}},
		{"one that leaves is none", pool(9, share(intstr.FromInt32(3))), func(w *world) {
			notReady(w.node("a"), time.Hour)
			w.node("a").Spec.Unschedulable = true
		}, map[string]string{"starts": "apply b, apply c, apply d"}},
		{"one that is lost while it changes does not go on", pool(9), func(w *world) {
			w.pod("a", Apply)
			notReady(w.node("a"), 10*time.Minute)
		}, map[string]string{"starts": "", "nodes": "9/0/1/1/0/0", v1alpha1.Degraded: "True NodesFailed: failed: 1 lost (a)",
			v1alpha1.Progressing: "False Waiting: 0 of 9 nodes are current; now 1 changing (a)"}},
		{"one that changes is counted once", pool(9, share(intstr.FromInt32(3))), func(w *world) {
			w.pod("a", Apply)
			notReady(w.node("a"), time.Minute)
		}, map[string]string{"starts": "apply b, apply c"}},
		{"a few of many do not keep the first node from going", pool(100), func(w *world) {
			notReady(w.node("a"), time.Hour)
			notReady(w.node("b"), time.Hour)
		}, map[string]string{"starts": "apply c"}},
		{"a number", pool(9, share(intstr.FromInt32(2))), nil, map[string]string{"starts": "apply a, apply b"}},
		{"the place of a node that changes is taken", pool(9, share(intstr.FromInt32(2))), func(w *world) {
			w.pod("c", Apply)
		}, map[string]string{"starts": "apply a", "candidates": "a b d e f g h i", "nodes": "9/0/1/0/0/0"}},
		{"no soak where nothing was done", pool(9, share(intstr.FromInt32(1))), func(w *world) {
			w.tried("a", Kept, time.Second, 0, func(r *Record) { r.Unchanged = true })
		}, map[string]string{"starts": "apply b", "nodes": "9/1/0/0/0/0"}},
		{"all are current", pool(2), func(w *world) {
			w.kept("a", "b")
		}, map[string]string{"candidates": "", "again": "0s", v1alpha1.Progressing: "False Complete: 2 of 2 nodes are current",
			v1alpha1.Available: "True Current: 2 of 2 nodes are current"}},
		{"no node", pool(0), nil, map[string]string{v1alpha1.Available: "True Current: 0 of 0 nodes are current"}},
		{"another section", pool(2), func(w *world) {
			w.kept("a", "b")
			w.Want.SectionHash = strings.Repeat("cd", 32)
		}, map[string]string{"starts": "apply a", "nodes": "2/0/0/0/0/0"}},
		{"other options of the monitor", pool(2), func(w *world) {
			w.kept("a", "b")
			w.Want.MonitorArgs = []string{"--memory-burst"}
		}, map[string]string{"starts": "apply a"}},
		{"a node joins", pool(3), func(w *world) {
			w.kept("a", "b")
		}, map[string]string{"starts": "apply c", "nodes": "3/2/0/0/0/0"}},
		{"a label that drifts is mended after a while", pool(2), func(w *world) {
			w.kept("a", "b")
			w.tried("b", Kept, 9*time.Minute, 0)
			w.node("b").Labels[partition.SectionLabel] = "other"
		}, map[string]string{"candidates": "", "again": "1m0s", v1alpha1.Available: "False NotCurrent..."}},

		{"a node is kept", pool(9, share(intstr.FromInt32(1))), func(w *world) {
			w.pod("a", Apply, ends(0, record.Termination{}))
		}, map[string]string{"ends": "a kept v2 abababababab and its pod", "starts": "", "nodes": "9/1/1/0/0/0"}},
		{"the clock of a node does not count", pool(9, share(intstr.FromInt32(2))), func(w *world) {
			w.pod("a", Apply, ends(0, record.Termination{}), finished(24*time.Hour))
			w.pod("b", Apply, ends(1, record.Termination{Reason: "verify"}), finished(-24*time.Hour))
		}, map[string]string{"ends": "a kept v2 abababababab and its pod, b failed verify", "candidates": "c d e f g h i",
			"again": "1m0s", "nodes": "9/1/1/1/0/0"}},
		{"one on which nothing was done", pool(9, share(intstr.FromInt32(1))), func(w *world) {
			w.pod("a", Apply, ends(0, record.Termination{Reason: record.Unchanged}))
		}, map[string]string{"ends": "a kept v2 abababababab and its pod", "starts": "apply b", "nodes": "9/1/0/0/0/0"}},
		{"one on which the try before did it", pool(9, share(intstr.FromInt32(1))), func(w *world) {
			w.tried("a", Skipped, 2*time.Minute, 1)
			w.pod("a", Apply, ends(0, record.Termination{Reason: record.Unchanged}))
		}, map[string]string{"ends": "a kept v2 abababababab and its pod", "starts": "", "nodes": "9/1/1/0/0/0"}},
		{"a node fails, and its log stays", pool(9), func(w *world) {
			w.pod("a", Apply, ends(1, record.Termination{Reason: "verify", Message: "no"}))
		}, map[string]string{"ends": "a failed verify", "starts": "apply b", "nodes": "9/0/0/1/0/0", v1alpha1.Degraded: "True NodesFailed: failed: 1 verify (a)"}},
		{"a failure is recorded once", pool(9), func(w *world) {
			w.pod("a", Apply, ends(1, record.Termination{Reason: "verify"}))
			w.tried("a", Failed, time.Second, 1, func(r *Record) { r.Pod = "uid-a" })
		}, map[string]string{"ends": "", "deletes": "", "starts": "apply b", "nodes": "9/0/0/1/0/0"}},
		{"one more failure than maxFailures stops", pool(9), func(w *world) {
			w.tried("a", Failed, time.Second, 1)
			w.pod("b", Apply, ends(1, record.Termination{Reason: "verify"}))
		}, map[string]string{"ends": "b failed verify", "starts": "", "candidates": "", "nodes": "9/0/0/2/0/0",
			v1alpha1.Progressing: "False Stopped: 2 nodes failed, and maxFailures is 1: 1 check (a); 1 verify (b)...",
			v1alpha1.Degraded:    "True Stopped: failed: 1 check (a); 1 verify (b)"}},
		{"what runs when it stops ends", pool(9, share(intstr.FromInt32(5))), func(w *world) {
			w.tried("a", Failed, time.Second, 1)
			w.tried("b", Failed, time.Second, 1)
			w.pod("c", Apply)
		}, map[string]string{"starts": "", "nodes": "9/0/1/2/0/0", v1alpha1.Progressing: "True Rolling..."}},
		{"a failed node alone is tried again when it has stopped", pool(9), func(w *world) {
			w.tried("a", Failed, 11*time.Minute, 1)
			w.tried("b", Failed, time.Minute, 1)
		}, map[string]string{"starts": "apply a", "candidates": "a", "nodes": "9/0/0/2/0/0"}},
		{"and counts as failed while it is", pool(9, share(intstr.FromInt32(5))), func(w *world) {
			w.tried("a", Failed, 11*time.Minute, 1)
			w.tried("b", Failed, time.Minute, 1)
			w.pod("a", Apply)
		}, map[string]string{"starts": "", "nodes": "9/0/1/2/0/0"}},
		{"its back-off grows", pool(9), func(w *world) {
			w.tried("a", Failed, 19*time.Minute, 2)
			w.tried("b", Failed, 7*time.Hour, 90)
		}, map[string]string{"candidates": "b", "again": "1m0s"}},
		{"a retry that cannot start does not end a stop", pool(9), func(w *world) {
			w.tried("a", Failed, 21*time.Minute, 2)
			w.tried("b", Failed, time.Minute, 1)
			w.pod("a", Apply, pending(6*time.Minute, ""))
		}, map[string]string{"ends": "a and its pod", "starts": "", "candidates": "", "nodes": "9/0/0/2/0/0", "again": "9m0s",
			v1alpha1.Progressing: "False Stopped: 2 nodes failed, and maxFailures is 1: 2 check (a, b)..."}},
		{"the back-off of a node grows", pool(1), func(w *world) {
			w.tried("a", Failed, 11*time.Minute, 1)
			w.pod("a", Apply, ends(3, record.Termination{Reason: "foreign-file"}))
		}, map[string]string{"again": "20m0s"}},
		{"nor does one that is refused, and who may start is asked again", pool(9), func(w *world) {
			w.tried("a", Failed, 11*time.Minute, 1)
			w.tried("b", Failed, 7*time.Hour, 90, func(r *Record) { r.Pod = "uid-b" })
			w.pod("a", Apply, ends(3, record.Termination{Reason: "foreign-file"}))
			w.pod("b", Apply, ends(1, record.Termination{Reason: "verify"}))
		}, map[string]string{"ends": "a and its pod", "deletes": "pod-b", "nodes": "9/0/0/2/0/0", "again": "1m0s"}},
		{"one of another section is judged anew", pool(9), func(w *world) {
			w.tried("a", Failed, time.Minute, 1, func(r *Record) { r.Want = "other" })
			w.pod("a", Apply, ends(3, record.Termination{Reason: "foreign-file"}))
		}, map[string]string{"ends": "a refused foreign-file and its pod", "nodes": "9/0/0/0/0/1"}},
		{"the pod of the last try goes before the next", pool(1), func(w *world) {
			w.tried("a", Failed, 11*time.Minute, 1, func(r *Record) { r.Pod = "uid-a" })
			w.pod("a", Apply, ends(1, record.Termination{Reason: "verify"}))
		}, map[string]string{"candidates": "a", "deletes": "pod-a"}},
		{"no other node is begun while the pod of the last try goes", pool(2, share(intstr.FromInt32(1))), func(w *world) {
			w.tried("a", Failed, time.Second, 1, func(r *Record) { r.Pod = "uid-a" })
			delete(w.node("a").Labels, StateLabel) // by an operator, who asks for another try
			w.pod("a", Apply, ends(1, record.Termination{Reason: "verify"}))
		}, map[string]string{"starts": "apply a", "deletes": "pod-a"}},
		{"a failure of another section does not count", pool(9), func(w *world) {
			w.tried("a", Failed, time.Second, 1)
			w.tried("b", Failed, time.Second, 1)
			w.Want.SectionHash = strings.Repeat("cd", 32)
		}, map[string]string{"starts": "apply a", "nodes": "9/0/0/0/0/0"}},
		{"a failure whose label was removed does not count", pool(9), func(w *world) {
			w.tried("a", Failed, time.Second, 1)
			w.tried("b", Failed, time.Second, 1)
			delete(w.node("a").Labels, StateLabel)
		}, map[string]string{"starts": "apply a", "nodes": "9/0/0/1/0/0"}},
		{"a refusal is none, and seen", pool(9), func(w *world) {
			w.tried("b", Refused, time.Second, 1)
			w.tried("c", Refused, time.Second, 1)
			w.pod("a", Apply, ends(3, record.Termination{Reason: "foreign-file"}))
		}, map[string]string{"ends": "a refused foreign-file and its pod", "starts": "apply d", "nodes": "9/0/0/0/0/3",
			v1alpha1.Degraded: "True NodesRefused: refused: 2 check (b, c); 1 foreign-file (a)"}},
		{"a pod that was evicted is none", pool(1), func(w *world) {
			w.pod("a", Apply, ends(143, record.Termination{}), func(p *v1.Pod) {
				p.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue}}
			})
		}, map[string]string{"ends": "a skipped interrupted and its pod", "nodes": "1/0/0/0/1/0"}},
		{"a deadline", pool(1), func(w *world) {
			w.pod("a", Apply, ends(137, record.Termination{}), func(p *v1.Pod) { p.Status.Reason = "DeadlineExceeded" })
		}, map[string]string{"ends": "a failed timeout"}},

		{"a full node is none", pool(2), func(w *world) {
			w.pod("a", Apply, pending(6*time.Minute, ""))
		}, map[string]string{"ends": "a skipped unschedulable and its pod", "starts": "apply b", "nodes": "2/0/0/0/1/0",
			v1alpha1.Progressing: "True Rolling: 0 of 2 nodes are current; skipped: 1 unschedulable (a); about 3m left"}},
		{"an image that is not there is none", pool(2), func(w *world) {
			w.pod("a", Apply, pending(6*time.Minute, "ImagePullBackOff"))
		}, map[string]string{"ends": "a skipped image and its pod"}},
		{"a pod has five minutes to start", pool(2), func(w *world) {
			w.pod("a", Apply, pending(4*time.Minute, ""))
		}, map[string]string{"ends": "", "starts": "", "again": "1m0s", "nodes": "2/0/1/0/0/0"}},
		{"a pod that the kubelet did not admit is none", pool(1), func(w *world) {
			w.pod("a", Apply, func(p *v1.Pod) { p.Status = v1.PodStatus{Phase: v1.PodFailed, Reason: "OutOfcpu"} })
		}, map[string]string{"ends": "a skipped OutOfcpu and its pod", "nodes": "1/0/0/0/1/0"}},
		{"a node that was skipped is tried soon", pool(1), func(w *world) {
			w.tried("a", Skipped, 61*time.Second, 1)
		}, map[string]string{"starts": "apply a"}},

		{"a spot node that is cordoned in its try is none", pool(2, share(intstr.FromInt32(1))), func(w *world) {
			w.node("a").Spec.Unschedulable = true
			w.pod("a", Apply, ends(143, record.Termination{Reason: "error"}))
		}, map[string]string{"ends": "", "deletes": "pod-a", "starts": "apply b", "nodes": "2/0/0/0/1/0"}},
		{"nor is one that is marked by its cloud", pool(2), func(w *world) {
			w.node("a").Spec.Taints = []v1.Taint{{Key: "karpenter.sh/disrupted", Effect: v1.TaintEffectNoSchedule}}
			w.pod("a", Apply, ends(1, record.Termination{}))
		}, map[string]string{"ends": "", "deletes": "pod-a"}},
		{"but one that has failed before it is cordoned has failed", pool(2, share(intstr.FromInt32(1))), func(w *world) {
			w.node("a").Spec.Unschedulable = true
			w.pod("a", Apply, ends(1, record.Termination{Reason: "verify"}), func(p *v1.Pod) {
				p.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue}}
			})
		}, map[string]string{"ends": "a failed verify", "deletes": "", "nodes": "2/0/0/1/0/0"}},
		{"not one whose installer was interrupted", pool(3), func(w *world) {
			w.node("a").Spec.Unschedulable = true
			w.pod("a", Apply, ends(4, record.Termination{Reason: "error"}), func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} })
			w.node("b").Spec.Unschedulable = true
			w.pod("b", Apply, ends(4, record.Termination{Reason: "error"}), func(p *v1.Pod) {
				p.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue}}
			})
			w.node("c").Spec.Unschedulable = true
			w.pod("c", Apply, ends(1, record.Termination{Reason: record.Timeout}))
		}, map[string]string{"ends": "", "deletes": "pod-b pod-c", "nodes": "3/0/0/0/3/0"}},
		{"nor one that is gone", pool(1), func(w *world) {
			w.pod("z", Apply)
		}, map[string]string{"ends": "", "deletes": "pod-z", "starts": "apply a"}},
		{"a node that goes away in its try counts", pool(9, share(intstr.FromInt32(5)), rollout(func(r *v1alpha1.Rollout) { r.MaxFailures = 0 })), func(w *world) {
			w.pod("a", Apply)
			notReady(w.node("a"), 6*time.Minute)
		}, map[string]string{"starts": "", "nodes": "9/0/1/1/0/0", v1alpha1.Degraded: "True Stopped: failed: 1 lost (a)"}},
		{"not in its first minutes", pool(9, share(intstr.FromInt32(2))), func(w *world) {
			w.pod("a", Apply)
			notReady(w.node("a"), 4*time.Minute)
		}, map[string]string{"starts": "apply b", "nodes": "9/0/1/0/0/0", "again": "1m0s"}},

		{"other nodes are skipped and named", pool(9, share(intstr.FromInt32(9))), func(w *world) {
			notReady(w.node("a"), time.Hour)
			w.node("b").Spec.Unschedulable = true
			w.node("c").Labels[v1.LabelOSStable] = "windows"
			w.node("d").Labels[v1.LabelArchStable] = "s390x"
			w.node("e").Labels["eks.amazonaws.com/compute-type"] = "fargate"
			w.node("f").Labels["type"] = "virtual-kubelet"
			w.node("g").Spec.Taints = []v1.Taint{{Key: "dedicated", Value: "gpu", Effect: v1.TaintEffectNoSchedule}}
			w.node("h").Spec.Taints = []v1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Effect: v1.TaintEffectNoSchedule}}
		}, map[string]string{"starts": "apply i", "nodes": "9/0/0/0/8/0",
			v1alpha1.Progressing: "True Rolling: 0 of 9 nodes are current; skipped: 2 has no host that a pod reaches (e, f); 1 cordoned (b); 1 is about..."}},
		{"a tolerated taint", pool(1, func(p *v1alpha1.NodePartition) {
			p.Spec.Tolerations = []v1.Toleration{{Key: "dedicated", Operator: v1.TolerationOpExists}}
		}), func(w *world) {
			w.node("a").Spec.Taints = []v1.Taint{
				{Key: "dedicated", Value: "gpu", Effect: v1.TaintEffectNoExecute}, {Key: v1.TaintNodeMemoryPressure, Effect: v1.TaintEffectNoSchedule},
				{Key: "soft", Effect: v1.TaintEffectPreferNoSchedule},
			}
		}, map[string]string{"starts": "apply a"}},
		{"what is skipped does not keep it from being available", pool(2), func(w *world) {
			w.kept("a")
			notReady(w.node("b"), time.Hour)
		}, map[string]string{v1alpha1.Available: "True Current: 1 of 2 nodes are current; skipped: 1 not ready (b)", v1alpha1.Progressing: "False Complete..."}},
		{"but a pod that did not start does", pool(3), func(w *world) {
			w.kept("a")
			w.tried("b", Skipped, 30*time.Second, 1)
			w.node("b").Labels[ReasonLabel] = "image"
			w.tried("c", Skipped, 30*time.Second, 1)
			w.node("c").Spec.Unschedulable = true
		}, map[string]string{"nodes": "3/1/0/0/2/0", v1alpha1.Available: "False NotCurrent: 1 of 3 nodes are current; skipped: 1 cordoned (c); 1 image (b)",
			v1alpha1.Progressing: "False Waiting..."}},
		{"a current node that is cordoned is current", pool(1), func(w *world) {
			w.kept("a")
			w.node("a").Spec.Unschedulable = true
		}, map[string]string{"nodes": "1/1/0/0/0/0"}},

		{"paused", pool(9, rollout(func(r *v1alpha1.Rollout) { r.Paused = true })), func(w *world) {
			w.pod("a", Apply, ends(0, record.Termination{}))
		}, map[string]string{"starts": "", "ends": "a kept v2 abababababab and its pod", v1alpha1.Progressing: "False Paused: 1 of 9 nodes are current; now 1 in its soak (a)"}},
		{"a section that is refused", pool(9), func(w *world) {
			w.Invalid = errors.New("systemPartition.memoryLimit: no")
			w.pod("a", Apply, ends(0, record.Termination{}))
		}, map[string]string{"starts": "", "ends": "a kept v2 abababababab and its pod",
			v1alpha1.Accepted: "False Invalid: systemPartition.memoryLimit: no", v1alpha1.Progressing: "False NotAccepted: ", v1alpha1.Available: "False NotAccepted..."}},
		{"a selector that cannot be read", pool(3, func(p *v1alpha1.NodePartition) {
			p.Spec.NodeSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "in", Values: []string{"x"}}}
			p.Spec.Unselected = v1alpha1.Remove
		}), func(w *world) {
			w.kept("a")
			w.tried("b", Refused, time.Hour, 1)
		}, map[string]string{"starts": "", "candidates": "", "ends": "", v1alpha1.Available: "False NotAccepted...",
			v1alpha1.Accepted: `False Invalid: nodeSelector: "in" is not a valid label selector operator`}},
		{"but its deletion takes the partition off its nodes", pool(1, deleted, func(p *v1alpha1.NodePartition) {
			p.Spec.NodeSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "in"}}
		}), func(w *world) {
			w.kept("a")
		}, map[string]string{"starts": "remove a"}},
		{"a section with a warning", pool(9), func(w *world) {
			w.Warnings = []string{"systemPartition.memorylimit: unknown field"}
		}, map[string]string{"starts": "apply a", v1alpha1.Accepted: "True Valid: systemPartition.memorylimit: unknown field"}},
		{"the younger of two that select a node", pool(2), func(w *world) {
			w.All = append(w.All, &v1alpha1.NodePartition{ObjectMeta: metav1.ObjectMeta{Name: "older", CreationTimestamp: metav1.NewTime(now.Add(-2 * time.Hour))},
				Spec: v1alpha1.NodePartitionSpec{NodeSelector: metav1.LabelSelector{MatchLabels: map[string]string{"gpu": "yes"}}}})
			w.node("b").Labels["gpu"] = "yes"
		}, map[string]string{"starts": "", v1alpha1.Accepted: "False Overlap: node b is selected by older, too, which is older..."}},
		{"a NodePartition that is being deleted refuses no younger one", pool(2), func(w *world) {
			w.All = append(w.All, &v1alpha1.NodePartition{ObjectMeta: metav1.ObjectMeta{
				Name: "older", CreationTimestamp: metav1.NewTime(now.Add(-2 * time.Hour)), DeletionTimestamp: &metav1.Time{Time: now},
			}})
		}, map[string]string{"starts": "apply a", v1alpha1.Accepted: "True Valid: "}},
		{"a share is of the selected nodes, and not of those that are kept", pool(40, func(p *v1alpha1.NodePartition) {
			p.Spec.NodeSelector.MatchLabels = map[string]string{"pool": "x"}
		}), func(w *world) {
			w.kept("a")
			for i, n := range w.Nodes[1:] {
				w.tried(n.Name, Kept, time.Hour, 0, func(r *Record) { r.Want = "before" })
				if i < 19 {
					n.Labels["pool"] = "x"
				}
			}
			w.node("a").Labels["pool"] = "x"
		}, map[string]string{"starts": "apply b"}},
		{"the older of two", pool(2), func(w *world) {
			w.All = append(w.All, &v1alpha1.NodePartition{ObjectMeta: metav1.ObjectMeta{Name: "younger", CreationTimestamp: metav1.NewTime(now)}})
		}, map[string]string{"starts": "apply a", v1alpha1.Accepted: "True Valid: "}},
		{"a pod of another NodePartition keeps its node", pool(1), func(w *world) {
			w.other()
			w.pod("a", Remove, ofOther())
		}, map[string]string{"candidates": "", "deletes": "", "ends": "", "again": "1s"}},

		{"also one that has failed, until that is recorded", pool(1), func(w *world) {
			w.other()
			w.pod("a", Apply, ofOther(), ends(1, record.Termination{Reason: "verify"}))
		}, map[string]string{"candidates": "", "deletes": "", "ends": "", "again": "1s"}},
		{"then it goes", pool(1), func(w *world) {
			w.other()
			w.tried("a", Failed, time.Second, 1, func(r *Record) { r.Partition, r.Pod = "other", "uid-a" })
			w.pod("a", Apply, ofOther(), ends(1, record.Termination{Reason: "verify"}))
		}, map[string]string{"candidates": "", "deletes": "pod-a", "ends": "", "again": "1s"}},
		{"but its log stays while the other one has the node", pool(1), func(w *world) {
			w.other()
			w.node("a").Labels["gpu"] = "yes"
			w.tried("a", Failed, time.Second, 1, func(r *Record) { r.Partition, r.Pod = "other", "uid-a" })
			w.pod("a", Apply, ofOther(), ends(1, record.Termination{Reason: "verify"}))
		}, map[string]string{"candidates": "", "deletes": "", "ends": "", "again": "1s"}},
		{"a pod of a NodePartition that is gone is deleted", pool(1), func(w *world) {
			w.pod("a", Apply, ofOther())
		}, map[string]string{"candidates": "", "deletes": "pod-a", "ends": "", "again": "1s"}},

		{"a survey asks many at once", pool(60, rollout(func(r *v1alpha1.Rollout) { r.SurveyOnly = true })), nil, map[string]string{
			"starts": "survey a, survey b...", v1alpha1.Progressing: "True Surveying: no node has refused"}},
		{"what it finds", pool(3, rollout(func(r *v1alpha1.Rollout) { r.SurveyOnly = true })), func(w *world) {
			w.pod("a", Survey, ends(3, record.Termination{Reason: "foreign-file"}))
			w.pod("b", Survey, ends(3, record.Termination{Reason: "foreign-file"}))
			w.pod("c", Survey, ends(0, record.Termination{}))
		}, map[string]string{"starts": "", "nodes": "3/0/0/0/0/2", v1alpha1.Progressing: "False Surveyed: refused: 2 foreign-file (a, b)",
			"ends": "a refused foreign-file and its pod, b refused foreign-file and its pod, c and its pod"}},

		{"a removal has a share and no soak", pool(40, deleted), func(w *world) {
			for i := range 40 {
				w.kept(name(i))
			}
			w.pod("a", Remove, ends(0, record.Termination{}))
		}, map[string]string{"starts": "remove b, remove c", "ends": "a cleared and its pod", "finished": "false", v1alpha1.Progressing: "True Removing: 39 nodes have the partition"}},
		{"an end of a removal is written once", pool(1, deleted), func(w *world) {
			w.pod("a", Remove, ends(0, record.Termination{}))
		}, map[string]string{"ends": "", "deletes": "pod-a", "finished": "false"}},
		{"a removal is not paused, and a taint does not stop it", pool(1, deleted, rollout(func(r *v1alpha1.Rollout) { r.Paused = true })), func(w *world) {
			w.kept("a")
			w.node("a").Spec.Taints = []v1.Taint{{Key: "new", Effect: v1.TaintEffectNoExecute}}
			w.node("a").Spec.Unschedulable = true
		}, map[string]string{"starts": "remove a"}},
		{"a node that is off keeps the object", pool(1, deleted), func(w *world) {
			w.kept("a")
			notReady(w.node("a"), time.Hour)
		}, map[string]string{"starts": "", "finished": "false",
			v1alpha1.Progressing: "False Waiting: the partition is on nodes that cannot be reached now: 1 not ready (a)"}},
		{"a removal that fails is tried again", pool(1, deleted), func(w *world) {
			w.kept("a")
			w.pod("a", Remove, ends(4, record.Termination{Reason: "error", Message: "busy"}))
		}, map[string]string{"ends": "a failed error", "starts": "", "finished": "false", "again": "10m0s", v1alpha1.Degraded: "True NodesFailed: failed: 1 error (a)"}},
		{"and also one of a cordoned node", pool(1, deleted), func(w *world) {
			w.kept("a")
			w.node("a").Spec.Unschedulable = true
			w.pod("a", Remove, ends(4, record.Termination{Reason: "error", Message: "busy"}))
		}, map[string]string{"ends": "a failed error", "deletes": "", "starts": "", "again": "10m0s", v1alpha1.Degraded: "True NodesFailed: failed: 1 error (a)"}},
		{"a node that never had it is only forgotten", pool(2, deleted), func(w *world) {
			w.tried("a", Refused, time.Hour, 1)
		}, map[string]string{"starts": "", "ends": "a cleared", "finished": "true"}},
		{"after the end of its try", pool(3, deleted), func(w *world) {
			w.pod("a", Survey, ends(0, record.Termination{}))
			w.pod("b", Survey, ends(3, record.Termination{Reason: "foreign-file"}))
			w.pod("c", Apply, pending(6*time.Minute, ""))
		}, map[string]string{"starts": "", "again": "1s", "finished": "false",
			"ends": "a and its pod, b refused foreign-file and its pod, c skipped unschedulable and its pod"}},
		{"a node that failed is cleaned", pool(1, deleted), func(w *world) {
			w.tried("a", Failed, time.Hour, 1)
		}, map[string]string{"starts": "remove a"}},
		{"also if its first removal cannot start", pool(1, deleted), func(w *world) {
			w.tried("a", Failed, time.Hour, 1)
			w.pod("a", Remove, pending(6*time.Minute, "ImagePullBackOff"))
		}, map[string]string{"ends": "a and its pod", "finished": "false", "again": "10m0s"}},
		{"a node whose first try nobody saw end is cleaned", pool(2), func(w *world) {
			w.claim()
			w.pod("b", Apply, ends(3, record.Termination{}), first)
			deleted(w.Partition)
			w.Partition.Spec.Rollout.MaxUnavailable = intstr.FromInt32(2)
		}, map[string]string{"starts": "remove a", "ends": "b refused error and its pod", "finished": "false"}},
		{"also if its pod is taken away after the container began", pool(1), func(w *world) {
			w.claim()
			w.pod("a", Apply, first, func(p *v1.Pod) { p.Status.Phase, p.Status.Reason = v1.PodFailed, "NodeLost" })
			w.decideAgain()
			deleted(w.Partition)
		}, map[string]string{"starts": "remove a", "finished": "false"}},
		{"but not if it never began", pool(1), func(w *world) {
			w.claim()
			w.pod("a", Apply, first, pending(6*time.Minute, ""))
			w.decideAgain()
			deleted(w.Partition)
		}, map[string]string{"starts": "", "ends": "a cleared", "finished": "true"}},
		{"nor if a survey was all", pool(1, rollout(func(r *v1alpha1.Rollout) { r.SurveyOnly = true })), func(w *world) {
			w.claim()
			w.pod("a", Survey, ends(0, record.Termination{}))
			w.decideAgain()
			deleted(w.Partition)
		}, map[string]string{"starts": "", "ends": "a cleared", "finished": "true"}},
		{"what a NodePartition that is gone has left is taken off by one that selects the node", pool(2, deleted), func(w *world) {
			w.tried("a", Kept, time.Hour, 0, func(r *Record) { r.Partition = "gone" })
			w.tried("b", Kept, time.Hour, 0, func(r *Record) { r.Partition = "other" })
			w.other()
		}, map[string]string{"starts": "remove a", "candidates": "a", "finished": "false"}},
		{"and is not changed where it is what is wanted", pool(1), func(w *world) {
			w.tried("a", Kept, time.Hour, 0, func(r *Record) { r.Partition = "gone" })
		}, map[string]string{"candidates": "", "nodes": "1/1/0/0/0/0"}},
		{"a node that moves, and refuses, is cleaned of what the NodePartition before has left", pool(1), func(w *world) {
			w.other()
			w.tried("a", Kept, time.Hour, 0, func(r *Record) { r.Partition = "other" })
			w.start(ends(3, record.Termination{Reason: "check"}))
			deleted(w.Partition)
		}, map[string]string{"starts": "remove a", "finished": "false"}},
		{"also if nobody saw its try end", pool(1), func(w *world) {
			w.other()
			w.tried("a", Kept, time.Hour, 0, func(r *Record) { r.Partition = "other" })
			w.claim()
			deleted(w.Partition)
		}, map[string]string{"starts": "remove a", "finished": "false"}},
		{"but not if it was only asked", pool(1, rollout(func(r *v1alpha1.Rollout) { r.SurveyOnly = true })), func(w *world) {
			w.other()
			w.tried("a", Kept, time.Hour, 0, func(r *Record) { r.Partition = "other" })
			w.start(ends(0, record.Termination{}))
			deleted(w.Partition)
		}, map[string]string{"starts": ""}},
		{"but not one that the other one has not changed", pool(1), func(w *world) {
			w.other()
			w.tried("a", Refused, time.Hour, 1, func(r *Record) { r.Partition = "other" })
			w.start(ends(3, record.Termination{Reason: "check"}))
			deleted(w.Partition)
		}, map[string]string{"starts": "", "ends": "a cleared"}},
		{"a removal stops as a roll does", pool(9, deleted, share(intstr.FromInt32(5))), func(w *world) {
			for i := range 9 {
				w.kept(name(i))
			}
			w.tried("a", Failed, time.Minute, 1, func(r *Record) { r.Want = WantRemoved })
			w.tried("b", Failed, 11*time.Minute, 1, func(r *Record) { r.Want = WantRemoved })
		}, map[string]string{"starts": "remove b", "candidates": "b", "finished": "false", "nodes": "9/0/0/2/0/0",
			v1alpha1.Progressing: "False Stopped: 2 nodes failed, and maxFailures is 1: 2 check (a, b); mend them and remove their label " + StateLabel + ", or raise maxFailures",
			v1alpha1.Degraded:    "True Stopped: failed: 2 check (a, b)"}},
		{"and goes on when an operator removes the label", pool(3, deleted, share(intstr.FromInt32(5))), func(w *world) {
			w.kept("a", "b", "c")
			w.tried("a", Failed, time.Minute, 1, func(r *Record) { r.Want = WantRemoved })
			delete(w.node("a").Labels, StateLabel)
		}, map[string]string{"starts": "remove a, remove b, remove c"}},
		{"a machine that was made again is no longer current", pool(2), func(w *world) {
			w.kept("a", "b")
			w.node("a").Status.NodeInfo.MachineID = "another"
		}, map[string]string{"starts": "apply a", "nodes": "2/1/0/0/0/0"}},
		{"and does not have the failure of the one before", pool(2), func(w *world) {
			w.tried("a", Failed, time.Minute, 1, func(r *Record) { r.Pod = "uid-a" })
			w.pod("a", Apply, ends(1, record.Termination{Reason: "check"}))
			w.node("a").Status.NodeInfo.MachineID = "another"
		}, map[string]string{"ends": "", "deletes": "pod-a", "starts": "apply a", "nodes": "2/0/0/0/0/0"}},
		{"a container that starts while its pod is taken away is seen", pool(1), func(w *world) {
			w.claim()
			w.pod("a", Apply, first, pending(6*time.Minute, "ContainerCreating"))
			w.decideAgain()
			w.pod("a", Apply, first, ends(0, record.Termination{}), func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} })
		}, map[string]string{"ends": "a kept v2 abababababab"}},
		{"and may have started on a node that is not Ready", pool(1), func(w *world) {
			w.claim()
			w.pod("a", Apply, first, pending(6*time.Minute, "ContainerCreating"))
			notReady(w.node("a"), time.Minute)
			w.decideAgain()
			deleted(w.Partition)
		}, map[string]string{"ends": "", "finished": "false"}},
		{"what runs ends before the object goes", pool(1, deleted), func(w *world) {
			w.pod("a", Apply)
		}, map[string]string{"finished": "false", "starts": ""}},
		{"and it is taken off a node whose first try has just ended", pool(2, deleted), func(w *world) {
			w.pod("a", Apply, ends(0, record.Termination{}))
			w.pod("b", Apply, ends(1, record.Termination{Reason: "verify"}))
		}, map[string]string{"ends": "a kept v2 abababababab and its pod, b failed verify", "finished": "false", "again": "1s"}},
		{"a node that is no longer selected keeps it", pool(2, func(p *v1alpha1.NodePartition) { p.Spec.NodeSelector.MatchLabels = map[string]string{"pool": "x"} }), func(w *world) {
			w.kept("a", "b")
			w.node("b").Labels["pool"] = "x"
		}, map[string]string{"starts": "", "nodes": "1/1/0/0/0/0"}},
		{"or loses it", pool(2, func(p *v1alpha1.NodePartition) {
			p.Spec.NodeSelector.MatchLabels, p.Spec.Unselected = map[string]string{"pool": "x"}, v1alpha1.Remove
		}), func(w *world) {
			w.kept("a", "b")
			w.node("b").Labels["pool"] = "x"
		}, map[string]string{"starts": "remove a", "nodes": "2/1/0/0/0/0"}},
		{"a removal that has failed is tried again after a stop", pool(5, func(p *v1alpha1.NodePartition) {
			p.Spec.NodeSelector.MatchLabels, p.Spec.Unselected = map[string]string{"pool": "x"}, v1alpha1.Remove
		}), func(w *world) {
			w.tried("a", Failed, 11*time.Minute, 1, func(r *Record) { r.Want = WantRemoved })
			w.tried("b", Refused, 11*time.Minute, 1, func(r *Record) { r.Want, r.Changed = WantRemoved, true })
			w.kept("c")
			w.node("d").Labels["pool"] = "x"
		}, map[string]string{"starts": "remove a", "candidates": "a b", v1alpha1.Degraded: "True Stopped: failed: 2 check (a, b)"}},
		{"but not in a survey", pool(2, func(p *v1alpha1.NodePartition) {
			p.Spec.NodeSelector.MatchLabels, p.Spec.Unselected = map[string]string{"pool": "x"}, v1alpha1.Remove
			p.Spec.Rollout.SurveyOnly = true
		}), func(w *world) {
			w.kept("a")
			w.node("b").Labels["pool"] = "x"
		}, map[string]string{"starts": "survey b", "candidates": "b", "ends": "", "nodes": "1/0/0/0/0/0"}},
		{"unless another one selects it", pool(1, func(p *v1alpha1.NodePartition) {
			p.Spec.NodeSelector.MatchLabels, p.Spec.Unselected = map[string]string{"pool": "x"}, v1alpha1.Remove
		}), func(w *world) {
			w.kept("a")
			w.All = append(w.All, &v1alpha1.NodePartition{ObjectMeta: metav1.ObjectMeta{Name: "other", CreationTimestamp: metav1.NewTime(now)}})
		}, map[string]string{"starts": "", "nodes": "0/0/0/0/0/0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.then != nil {
				c.then(c.of)
			}
			got := said(Decide(c.of.Input))
			for key, want := range c.want {
				prefix, cut := strings.CutSuffix(want, "...")
				if got[key] != want && (!cut || !strings.HasPrefix(got[key], prefix)) {
					t.Errorf("%s: %q\nwant %q", key, got[key], want)
				}
			}
		})
	}
}

// TestTermination: a container that was killed leaves the last lines of its log, or nothing. One
// that has ended well needs no message.
func TestTermination(t *testing.T) {
	for name, test := range map[string]struct {
		status        int32
		reason, text  string
		state, wanted string
	}{
		"killed, with a log":  {137, "OOMKilled", "the node does it", Failed, "the container ended with OOMKilled: the node does it"},
		"killed, without one": {137, "OOMKilled", "", Failed, "the container ended with OOMKilled"},
		"done":                {0, "Completed", "", Kept, ""},
		"an outcome":          {1, "Error", `{"reason":"verify","message":"not ready"}`, Failed, "not ready"},
	} {
		o := ofTermination(v1.ContainerStateTerminated{ExitCode: test.status, Reason: test.reason, Message: test.text}, Apply)
		if o.state != test.state || o.message != test.wanted {
			t.Errorf("%s: %s, %q; want %s, %q", name, o.state, o.message, test.state, test.wanted)
		}
	}
}

// TestMessagesAreBounded: a message with more than 32,768 characters has the API server refuse the
// status. The first reasons are named, and what is left of the text is UTF-8.
func TestMessagesAreBounded(t *testing.T) {
	t.Parallel()
	tainted, invalid := pool(400), pool(1)
	for i, n := range tainted.Nodes {
		key := fmt.Sprintf("%s/%03d", strings.Repeat("k", 200), i)
		n.Spec.Taints = []v1.Taint{{Key: key, Effect: v1.TaintEffectNoSchedule}}
	}
	invalid.Invalid = errors.New("a" + strings.Repeat("ä", 20000))
	for _, w := range []*world{tainted, invalid} {
		for _, c := range Decide(w.Input).Status.Conditions {
			if len(c.Message) > maxCondition+len("...") || !utf8.ValidString(c.Message) {
				t.Errorf("%s: %d bytes: %s", c.Type, len(c.Message), c.Message)
			}
		}
	}
	got := said(Decide(tainted.Input))[v1alpha1.Available]
	if !strings.HasSuffix(got, "(j); 390 of 390 other reasons") {
		t.Error(got)
	}
}

// TestMessageOfLabel: the label of a node that has failed stays until a try has run. So does the
// message of that failure.
func TestMessageOfLabel(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]func(w *world){
		"a pod that does not start": func(w *world) { w.pod("a", Apply, pending(6*time.Minute, "ImagePullBackOff")) },
		"a refusal":                 func(w *world) { w.pod("a", Apply, ends(3, record.Termination{Reason: "check", Message: "no runtime"})) },
		"a survey":                  func(w *world) { w.pod("a", Survey, ends(0, record.Termination{Message: "this node can have it"})) },
	} {
		w := pool(1)
		w.tried("a", Failed, time.Hour, 1)
		r := recordOf(w.node("a"))
		r.Message = "dns was not Ready"
		w.node("a").Annotations[RecordAnnotation] = r.String()
		later(w)
		d := Decide(w.Input)
		if len(d.Ends) != 1 || !strings.Contains(d.Ends[0].Record, `"message":"dns was not Ready"`) {
			t.Errorf("%s: %+v", name, d.Ends)
		}
	}
}
