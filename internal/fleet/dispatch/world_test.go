package dispatch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"nodepartition/internal/fleet"
	"nodepartition/internal/fleet/cluster"
	"nodepartition/internal/nodelabel"
	"nodepartition/tests/fakeapi"
)

// Collections of the API server.
const (
	namespace   = "node-partition"
	nodesPath   = "/api/v1/nodes"
	jobsPath    = "/apis/batch/v1/namespaces/node-partition/jobs"
	podsPath    = "/api/v1/namespaces/node-partition/pods"
	leasesPath  = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
	configPath  = "/api/v1/namespaces/node-partition/configmaps"
	postJob     = "POST " + jobsPath
	patchNode   = "PATCH " + nodesPath + "/"
	configMap   = "node-partition"
	jobTakes    = 2 * time.Minute
	jobDeadline = 20 * time.Minute
)

const template = `apiVersion: batch/v1
kind: Job
spec:
  activeDeadlineSeconds: 1200
  template:
    spec:
      restartPolicy: Never
      containers: [{name: keep, image: installer}]
`

// world is a cluster whose Jobs end by themselves.
type world struct {
	t   *testing.T
	api *fakeapi.Fleet

	mu   sync.Mutex
	ends map[string]string // by node: "" kept, "hangs", "dead", or the exit code and the termination message
	said []string
	// most is the largest number of Jobs that ran at once.
	running, most int
	made          map[string]int // Jobs by node
	order         []string       // nodes in the order in which their Jobs were made
}

// newWorld makes a cluster of n nodes, worker-00 and so on.
func newWorld(t *testing.T, n int) *world {
	t.Helper()
	w := &world{t: t, api: fakeapi.NewFleet(), ends: map[string]string{}, made: map[string]int{}}
	w.api.Changed = w.changed
	w.api.Put(configPath, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: configMap, Namespace: namespace}})
	for i := range n {
		w.node(workerName(i), true)
	}
	return w
}

func workerName(i int) string { return fmt.Sprintf("worker-%02d", i) }

// node makes a node, or changes whether it is ready.
func (w *world) node(name string, ready bool) {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	w.api.Get(nodesPath, name, n)
	condition := v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionFalse, Reason: "KubeletNotReady", Message: "no network"}
	if ready {
		condition.Status, condition.Reason, condition.Message = v1.ConditionTrue, "KubeletReady", ""
	}
	n.Status.Conditions = []v1.NodeCondition{condition}
	w.api.Put(nodesPath, n)
}

// changed is the controller of Jobs, the scheduler and all kubelets.
func (w *world) changed(kind watch.EventType, object map[string]any) {
	metadata, _ := object["metadata"].(map[string]any)
	if object["kind"] != "Job" || kind != watch.Added {
		return
	}
	name, _ := metadata["name"].(string)
	annotations, _ := metadata["annotations"].(map[string]any)
	node, _ := annotations[fleet.NodeNameAnnotation].(string)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.made[node]++
	w.order = append(w.order, node)
	w.running++
	w.most = max(w.most, w.running)
	end := w.ends[node]
	if end == "hangs" {
		w.pod(name, v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}})
		time.AfterFunc(jobDeadline, func() {
			w.finish(name, batchv1.JobCondition{Type: batchv1.JobFailed, Reason: "DeadlineExceeded", Message: "was active too long"})
		})
		return
	}
	if end == "dead" { // the node loses its power
		time.AfterFunc(time.Minute, func() { w.node(node, false) })
		time.AfterFunc(jobDeadline, func() {
			w.finish(name, batchv1.JobCondition{Type: batchv1.JobFailureTarget, Reason: "DeadlineExceeded", Message: "was active too long"})
		})
		return
	}
	time.AfterFunc(jobTakes, func() {
		if end == "" {
			w.finish(name, batchv1.JobCondition{Type: batchv1.JobComplete})
			return
		}
		w.pod(name, v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: int32(end[0] - '0'), Reason: "Error", Message: end[2:]}})
		w.finish(name, batchv1.JobCondition{Type: batchv1.JobFailed, Reason: "BackoffLimitExceeded", Message: "no retry"})
	})
}

// pod makes the pod of a Job, or changes it.
func (w *world) pod(job string, state v1.ContainerState) {
	var j batchv1.Job
	if !w.api.Get(jobsPath, job, &j) {
		return
	}
	w.api.Put(podsPath, &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: job + "-x", Labels: j.Labels, OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: job, UID: j.UID}},
		},
		Status: v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{{Name: "preflight", State: state}}},
	})
}

// finish ends a Job, if it exists.
func (w *world) finish(job string, condition batchv1.JobCondition) {
	w.mu.Lock()
	w.running--
	w.mu.Unlock()
	var j batchv1.Job
	if !w.api.Get(jobsPath, job, &j) {
		return
	}
	condition.Status = v1.ConditionTrue
	j.TypeMeta = metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}
	j.Status.Conditions = []batchv1.JobCondition{condition}
	w.api.Put(jobsPath, &j)
}

// say keeps what the dispatchers say.
func (w *world) say(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, line)
}

func (w *world) saidHas(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.said, func(line string) bool { return strings.Contains(line, text) })
}

// line is the connection of one dispatcher to the API server. It can be cut, and it checks that
// who writes has the lock.
type line struct {
	w      *world
	holder string
	mu     sync.Mutex
	cut    bool
	// noLease cuts requests about the Lease alone, and wrote is when the last one began that wrote it.
	noLease bool
	wrote   time.Time
}

func (l *line) setNoLease(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noLease = cut
}

func (l *line) setCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
}

// errCut is the error of a connection that is cut.
var errCut = errors.New("no route to host")

// RoundTrip implements http.RoundTripper.
func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	ofLease := strings.HasPrefix(r.URL.Path, leasesPath)
	l.mu.Lock()
	cut := l.cut || l.noLease && ofLease
	if ofLease && !cut && r.Method != http.MethodGet {
		l.wrote = time.Now()
	}
	silent := time.Since(l.wrote)
	l.mu.Unlock()
	if cut {
		return nil, errCut
	}
	if r.Method != http.MethodGet && !ofLease {
		if silent > fleet.LeaseFor-cluster.RequestTimeout {
			l.w.t.Errorf("%s sends %s %s, and has not written the Lease for %s", l.holder, r.Method, r.URL.Path, silent)
		}
		var lease coordinationv1.Lease
		if !l.w.api.Get(leasesPath, cluster.LeaseName, &lease) || *lease.Spec.HolderIdentity != l.holder {
			l.w.t.Errorf("%s sends %s %s, and the lock is held by %v", l.holder, r.Method, r.URL.Path, lease.Spec.HolderIdentity)
		}
	}
	return l.w.api.RoundTrip(r)
}

// dispatcher returns a dispatcher of the release, and its connection.
func (w *world) dispatcher(holder string, action fleet.Action, revision int, text string) (Options, *line) {
	w.t.Helper()
	const release = "node-partition/ours"
	s, err := fleet.ParseSettings("roll.yaml", []byte("version: v2\n"+text))
	if err != nil {
		w.t.Fatal(err)
	}
	job, err := fleet.ParseTemplate("job.yaml", []byte(template), "", action, s)
	if err != nil {
		w.t.Fatal(err)
	}
	l := &line{w: w, holder: holder}
	client, err := cluster.New(&rest.Config{Host: "http://fleet.example", Transport: l}, cluster.Place{
		Namespace: namespace, LockNamespace: "kube-system", ConfigMap: configMap,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	id := func(a fleet.Action) string { return fleet.RollID("v2", "s2", a, release, revision) }
	claim := fleet.Claim{Release: release, Revision: revision, Action: action, Roll: id(action)}
	if action == fleet.Add {
		claim.Roll = id(fleet.Install)
	}
	return Options{
		Client: client, Claim: claim, Template: job, Holder: holder, Say: w.say,
		Plan: fleet.Plan{Action: action, Roll: id(action), Version: "v2", Section: "s2", Settings: s, Deadline: job.Deadline()},
	}, l
}

// roll runs a dispatcher to its end.
func (w *world) roll(action fleet.Action, revision int, text string) Report {
	w.t.Helper()
	o, _ := w.dispatcher(fmt.Sprintf("%s-%d", action, revision), action, revision, text)
	return Run(w.t.Context(), o)
}

// begin starts a dispatcher, and returns its report when it is there.
func (w *world) begin(ctx context.Context, o Options) <-chan Report {
	done := make(chan Report, 1)
	go func() { done <- Run(ctx, o) }()
	return done
}

// want compares a report.
func (w *world) want(r Report, code int, lines ...string) {
	w.t.Helper()
	if r.Code != code || !slices.Equal(r.Lines, lines) {
		w.t.Errorf("code %d:\n%s\nwant %d:\n%s\nsaid:\n%s", r.Code, strings.Join(r.Lines, "\n"), code, strings.Join(lines, "\n"), strings.Join(w.said, "\n"))
	}
}

// labels returns the labels of ours of a node.
func (w *world) labels(name string) string {
	w.t.Helper()
	var n v1.Node
	if !w.api.Get(nodesPath, name, &n) {
		return "gone"
	}
	var all []string
	for _, label := range []string{nodelabel.Version, nodelabel.Section, fleet.StateLabel, fleet.ReasonLabel} {
		if value, has := n.Labels[label]; has {
			all = append(all, value)
		}
	}
	return strings.Join(all, " ")
}

// wantKept checks that each node has kept the partition, by one Job.
func (w *world) wantKept(nodes int) {
	w.t.Helper()
	for i := range nodes {
		name := workerName(i)
		if got := w.labels(name); got != "v2 s2 kept" || w.made[name] != 1 {
			w.t.Errorf("%s has %q after %d Jobs; want v2 s2 kept after one", name, got, w.made[name])
		}
	}
}

// lease returns the lock.
func (w *world) lease() *coordinationv1.Lease {
	w.t.Helper()
	var lease coordinationv1.Lease
	if !w.api.Get(leasesPath, cluster.LeaseName, &lease) {
		return nil
	}
	return &lease
}

// otherLease makes a Lease of another release or process.
func (w *world) otherLease(holder, release string, annotations map[string]string) {
	seconds := int32(60)
	all := map[string]string{"node-partition.io/release": release, "node-partition.io/revision": "1", fleet.ActionLabel: "install"}
	for key, value := range annotations {
		all[key] = value
	}
	w.api.Put(leasesPath, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: cluster.LeaseName, Annotations: all, UID: types.UID("lease")},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds},
	})
}
