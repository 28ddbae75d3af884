package cluster

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodepartition/internal/fleet"
	"nodepartition/tests/fakeapi"
)

var place = Place{Namespace: "n", LockNamespace: "l", ConfigMap: "c"}

const (
	nodesPath  = "/api/v1/nodes"
	jobsPath   = "/apis/batch/v1/namespaces/n/jobs"
	podsPath   = "/api/v1/namespaces/n/pods"
	leasesPath = "/apis/coordination.k8s.io/v1/namespaces/l/leases"
)

func newClient(t *testing.T) (*Client, *fakeapi.Fleet) {
	t.Helper()
	api := fakeapi.NewFleet()
	c, err := New(api.Config(), place)
	if err != nil {
		t.Fatal(err)
	}
	return c, api
}

// TestNodeFacts: what counts of a node.
func TestNodeFacts(t *testing.T) {
	t.Parallel()
	ready := func(status v1.ConditionStatus) []v1.NodeCondition {
		return []v1.NodeCondition{{Type: v1.NodeDiskPressure, Status: v1.ConditionTrue}, {Type: v1.NodeReady, Status: status, Reason: "Because", Message: "of\x1bit"}}
	}
	for name, test := range map[string]struct {
		node v1.Node
		want fleet.Node
	}{
		"ready":    {v1.Node{Status: v1.NodeStatus{Conditions: ready(v1.ConditionTrue)}}, fleet.Node{Ready: true}},
		"not":      {v1.Node{Status: v1.NodeStatus{Conditions: ready(v1.ConditionFalse)}}, fleet.Node{NotReady: "Because: of?it"}},
		"unknown":  {v1.Node{Status: v1.NodeStatus{Conditions: ready(v1.ConditionUnknown)}}, fleet.Node{NotReady: "Because: of?it"}},
		"new":      {v1.Node{}, fleet.Node{NotReady: "its kubelet has not reported yet"}},
		"cordoned": {v1.Node{Spec: v1.NodeSpec{Unschedulable: true}, Status: v1.NodeStatus{Conditions: ready(v1.ConditionTrue)}}, fleet.Node{Ready: true, Cordoned: true}},
		"leaving": {
			v1.Node{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: time.Now()}}, Status: v1.NodeStatus{Conditions: ready(v1.ConditionTrue)}},
			fleet.Node{Ready: true, Leaving: true},
		},
	} {
		c, api := newClient(t)
		test.node.Name, test.node.UID, test.node.Labels = "a", "uid", map[string]string{"k": "v"}
		api.Put(nodesPath, &test.node)
		var got *fleet.Node
		if err := c.Nodes().List(t.Context(), func(c fleet.Change) { got = c.Node }); err != nil {
			t.Fatal(err)
		}
		test.want.Name, test.want.UID = "a", "uid"
		if got == nil || got.Labels["k"] != "v" {
			t.Fatalf("%s: %+v", name, got)
		}
		got.Labels = nil
		if got.Name != test.want.Name || got.UID != test.want.UID || got.Ready != test.want.Ready || got.NotReady != test.want.NotReady ||
			got.Cordoned != test.want.Cordoned || got.Leaving != test.want.Leaving {
			t.Errorf("%s: %+v; want %+v", name, *got, test.want)
		}
	}
}

// TestPodFacts: the first container that has failed, or what the pod waits for.
func TestPodFacts(t *testing.T) {
	t.Parallel()
	ended := func(name string, code int32) v1.ContainerStatus {
		return v1.ContainerStatus{Name: name, State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code, Reason: "Error", Message: "check: " + name}}}
	}
	waiting := func(name, reason string) v1.ContainerStatus {
		return v1.ContainerStatus{Name: name, State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason, Message: "text"}}}
	}
	for name, test := range map[string]struct {
		status v1.PodStatus
		want   fleet.Pod
	}{
		"runs": {v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{ended("preflight", 0)}}, fleet.Pod{}},
		"failed": {
			v1.PodStatus{
				InitContainerStatuses: []v1.ContainerStatus{ended("preflight", 0), ended("apply", 4), waiting("verify", "PodInitializing")},
				ContainerStatuses:     []v1.ContainerStatus{waiting("keep", "PodInitializing")},
			},
			fleet.Pod{Container: "apply", ExitCode: 4, Reason: "Error", Message: "check: apply"},
		},
		"the main container": {
			v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{ended("keep", 1)}}, fleet.Pod{Container: "keep", ExitCode: 1, Reason: "Error", Message: "check: keep"},
		},
		"no image": {
			v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{waiting("preflight", "ErrImagePull")}}, fleet.Pod{Waits: "container preflight waits: ErrImagePull: text"},
		},
		"not scheduled": {
			v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes"}}},
			fleet.Pod{Waits: "its pod could not be scheduled: 0/3 nodes"},
		},
		"evicted": {v1.PodStatus{Phase: v1.PodFailed, Reason: "Evicted", Message: "disk"}, fleet.Pod{Waits: "its pod failed: Evicted: disk"}},
	} {
		c, api := newClient(t)
		j := fleet.Job{Name: "j", UID: "uid", Roll: "r", Node: "a"}
		for _, uid := range []string{"another", "uid"} {
			pod := &v1.Pod{Status: test.status, ObjectMeta: metav1.ObjectMeta{
				Name: "of-" + uid, Labels: map[string]string{fleet.RollLabel: "r", fleet.NodeLabel: "a"},
				OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: "j", UID: "uid"}},
			}}
			if uid == "another" {
				pod.OwnerReferences[0].UID, pod.Status = "another", v1.PodStatus{}
			}
			api.Put(podsPath, pod)
		}
		test.want.JobUID = "uid"
		got, err := c.PodOf(t.Context(), &j)
		if err != nil || got == nil || *got != test.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, test.want)
		}
		if got, err := c.PodOf(t.Context(), &fleet.Job{UID: "none", Roll: "r", Node: "a"}); got != nil || err != nil {
			t.Errorf("%s: %+v, %v of a Job without a pod", name, got, err)
		}
	}
}

// TestJobFacts: a Job has ended when a condition says so. One that is to fail has failed, although
// its pod may terminate for long.
func TestJobFacts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		conditions       []batchv1.JobCondition
		complete, failed bool
	}{
		"runs":            {nil, false, false},
		"complete":        {[]batchv1.JobCondition{{Type: batchv1.JobSuccessCriteriaMet, Status: v1.ConditionTrue}, {Type: batchv1.JobComplete, Status: v1.ConditionTrue}}, true, false},
		"failed":          {[]batchv1.JobCondition{{Type: batchv1.JobFailed, Status: v1.ConditionTrue, Reason: "r", Message: "m"}}, false, true},
		"about to fail":   {[]batchv1.JobCondition{{Type: batchv1.JobFailureTarget, Status: v1.ConditionTrue, Reason: "r", Message: "m"}}, false, true},
		"will not fail":   {[]batchv1.JobCondition{{Type: batchv1.JobFailureTarget, Status: v1.ConditionFalse}}, false, false},
		"was suspended":   {[]batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: v1.ConditionFalse}}, false, false},
		"complete is not": {[]batchv1.JobCondition{{Type: batchv1.JobComplete, Status: v1.ConditionFalse}}, false, false},
	} {
		c, api := newClient(t)
		api.Put(jobsPath, &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{
				Name: "j", Labels: map[string]string{fleet.RollLabel: "r"}, Annotations: map[string]string{fleet.NodeNameAnnotation: "a"},
				OwnerReferences: []metav1.OwnerReference{{Kind: "ConfigMap", UID: "owner"}, {Kind: "Other", UID: "other"}},
			},
			Status: batchv1.JobStatus{Conditions: test.conditions},
		})
		got, err := c.Job(t.Context(), "j")
		if err != nil || got == nil || got.Complete != test.complete || got.Failed != test.failed || got.Node != "a" || got.Roll != "r" || got.Owner != "owner" || got.Leaving ||
			test.failed && (got.Reason != "r" || got.Message != "m") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestFollow: a watch goes on from the list, survives the end of a connection, and begins again
// with a list when its version is forgotten.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, api := newClient(t)
		put := func(name string) {
			api.Put(nodesPath, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		var seen []string
		see := func(c fleet.Change) {
			text := c.Node.Name
			if c.Gone {
				text = "-" + text
			}
			seen = append(seen, text)
		}
		want := func(err error, kind error, names ...string) {
			t.Helper()
			if !errors.Is(err, kind) || !slices.Equal(seen, names) {
				t.Errorf("%v, %q; want %v, %q", err, seen, kind, names)
			}
			seen = nil
		}
		for _, name := range []string{"a", "b", "c"} {
			put(name)
		}
		f := c.Nodes()
		want(f.List(t.Context(), see), nil, "a", "b", "c")
		put("d")
		api.Drop(nodesPath, "a")
		time.AfterFunc(time.Minute, func() { api.Leave(false) })
		want(f.Watch(t.Context(), see), ErrAway, "d", "-a")
		want(f.Watch(t.Context(), see), ErrAway)
		api.Return()
		put("e")
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		_ = f.Watch(ctx, see)
		want(nil, nil, "e")
		api.Drop(nodesPath, "b")
		api.Forget()
		want(f.Watch(t.Context(), see), nil, "c", "d", "e", "-b")
		if got := c.Requests(); got["list nodes"] != 2 || got["watch nodes"] != 4 {
			t.Errorf("requests %v", got)
		}
	})
}

// TestWatchHangs: a watch that does not begin ends as any request does.
func TestWatchHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, api := newClient(t)
		f := c.Jobs()
		if err := f.List(t.Context(), func(fleet.Change) {}); err != nil {
			t.Fatal(err)
		}
		api.Leave(true)
		start := time.Now()
		err := f.Watch(t.Context(), func(fleet.Change) {})
		if took := time.Since(start); !errors.Is(err, ErrAway) || took != RequestTimeout {
			t.Errorf("%v after %s", err, took)
		}
	})
}

// TestErrors: each answer has its kind, and says which request had it.
func TestErrors(t *testing.T) {
	t.Parallel()
	for status, test := range map[int]struct {
		kind error
		text string
	}{
		http.StatusForbidden:           {errForbidden, "needs the right to patch nodes"},
		http.StatusNotFound:            {ErrGone, "patch nodes a"},
		http.StatusConflict:            {ErrGone, "patch nodes a"}, // another UID
		http.StatusTooManyRequests:     {ErrAway, "patch nodes a"},
		http.StatusServiceUnavailable:  {ErrAway, "patch nodes a"},
		http.StatusInternalServerError: {ErrAway, "patch nodes a"},
		http.StatusUnauthorized:        {ErrAway, "patch nodes a"},
		http.StatusUnprocessableEntity: {nil, "patch nodes a"},
	} {
		c, api := newClient(t)
		api.Refuse = func(string, *http.Request) int { return status }
		err := c.LabelNode(t.Context(), "a", "uid", nil)
		if err == nil || test.kind != nil && !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.text) || !strings.Contains(err.Error(), "API server http://fleet.example: ") {
			t.Errorf("%d: %v; want %v, %s", status, err, test.kind, test.text)
		}
		for _, other := range []error{errForbidden, ErrGone, ErrAway} {
			if !errors.Is(test.kind, other) && errors.Is(err, other) {
				t.Errorf("%d: %v is %v, too", status, err, other)
			}
		}
	}
}

// TestLabelNode: the patch has labels and the UID, and nothing else is changed.
func TestLabelNode(t *testing.T) {
	t.Parallel()
	c, api := newClient(t)
	before := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "uid", Labels: map[string]string{"k": "v", "gone": "soon"}, Finalizers: []string{"f"}, Annotations: map[string]string{"x": "y"}},
		Spec:       v1.NodeSpec{Unschedulable: true},
	}
	api.Put(nodesPath, before)
	value := "new"
	if err := c.LabelNode(t.Context(), "a", "uid", map[string]*string{"gone": nil, "made": &value}); err != nil {
		t.Fatal(err)
	}
	after := &v1.Node{}
	api.Get(nodesPath, "a", after)
	if after.Labels["k"] != "v" || after.Labels["made"] != "new" || len(after.Labels) != 2 || !slices.Equal(after.Finalizers, before.Finalizers) ||
		after.Annotations["x"] != "y" || !after.Spec.Unschedulable {
		t.Errorf("%+v", after)
	}
	for _, call := range []struct{ name, uid string }{{"a", "another"}, {"b", "uid"}} {
		if err := c.LabelNode(t.Context(), call.name, call.uid, map[string]*string{"made": nil}); !errors.Is(err, ErrGone) {
			t.Errorf("%+v: %v", call, err)
		}
	}
}

// TestLock: the Lease is written only as it was read.
func TestLock(t *testing.T) {
	t.Parallel()
	c, api := newClient(t)
	ctx := t.Context()
	none, err := c.Lock(ctx)
	if none != nil || err != nil {
		t.Fatalf("%+v, %v", none, err)
	}
	made, err := c.WriteLock(ctx, &fleet.Lock{Holder: "me", Duration: time.Minute, Annotations: map[string]string{"a": "b"}, Transitions: 3})
	if err != nil {
		t.Fatal(err)
	}
	read, err := c.Lock(ctx)
	if err != nil || read.Holder != "me" || read.Duration != time.Minute || read.Annotations["a"] != "b" || read.Transitions != 3 || read.Version != made.Version || read.UID == "" {
		t.Errorf("%+v, %v", read, err)
	}
	if _, err := c.WriteLock(ctx, &fleet.Lock{Holder: "you"}); !errors.Is(err, ErrChanged) {
		t.Errorf("made twice: %v", err)
	}
	if _, err := c.WriteLock(ctx, made); err != nil {
		t.Error(err)
	}
	if _, err := c.WriteLock(ctx, read); !errors.Is(err, ErrChanged) {
		t.Errorf("written over a change: %v", err)
	}
	if err := c.RemoveLock(ctx, read); !errors.Is(err, ErrChanged) {
		t.Errorf("removed after a change: %v", err)
	}
	if read, err = c.Lock(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.RemoveLock(ctx, read); err != nil || len(api.Names(leasesPath)) > 0 {
		t.Errorf("%v, %v", err, api.Names(leasesPath))
	}
}

// TestRemoveJobs: one Job, and the Jobs of other rolls, and none that no roll has made.
func TestRemoveJobs(t *testing.T) {
	t.Parallel()
	c, api := newClient(t)
	for name, roll := range map[string]string{"a": "r1", "b": "r1", "c": "r2", "d": ""} {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if roll != "" {
			j.Labels = map[string]string{fleet.RollLabel: roll}
		}
		api.Put(jobsPath, j)
	}
	if err := c.RemoveJob(t.Context(), "b"); err != nil || !slices.Equal(api.Names(jobsPath), []string{"a", "c", "d"}) {
		t.Errorf("%v, %v", err, api.Names(jobsPath))
	}
	if err := c.RemoveRolls(t.Context(), []string{"r1", "r0"}); err != nil || !slices.Equal(api.Names(jobsPath), []string{"c", "d"}) {
		t.Errorf("%v, %v", err, api.Names(jobsPath))
	}
}
