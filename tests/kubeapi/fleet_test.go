//go:build node

package kubeapi

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"nodepartition/internal/fleet"
	apicluster "nodepartition/internal/fleet/cluster"
	"nodepartition/internal/fleet/dispatch"
	"nodepartition/internal/nodelabel"
	"nodepartition/tests/lab"
)

// The place of a release, and the Job of its nodes.
const (
	fleetNamespace = "node-partition"
	fleetRelease   = fleetNamespace + "/fleet"
	fleetJob       = `apiVersion: batch/v1
kind: Job
spec:
  template:
    spec:
      restartPolicy: Never
      tolerations: [{operator: Exists}]
      containers: [{name: keep, image: none}]
`
)

var fleetNodes = flag.Int("nodes", 5000, "the number of nodes of TestFleet, at least 200")

var fleetPlace = apicluster.Place{Namespace: fleetNamespace, LockNamespace: namespace, ConfigMap: "node-partition"}

// stub is a cluster whose Jobs are marked as done by the test: it has no controllers and no
// kubelets.
type stub struct {
	*lab.ControlPlane
	t     *testing.T
	takes time.Duration // the time that a Job takes

	mu   sync.Mutex
	ends map[string]string // by node: the reason with which its Job fails
	// poolOf returns the pool of a node. Without it all nodes are of one.
	poolOf func(node string) string
	// order has the nodes in the order in which their Jobs were made, running the number of Jobs by
	// pool, and most its largest value.
	order         []string
	running, most map[string]int
	// mixed has the nodes whose Jobs began while one of another pool ran.
	mixed []string
	said  []string
}

func newStub(t *testing.T) *stub {
	t.Helper()
	s := &stub{
		ControlPlane: lab.ControlPlaneForTest(t), t: t, takes: 200 * time.Millisecond, ends: map[string]string{},
		poolOf: func(string) string { return "" }, running: map[string]int{}, most: map[string]int{},
	}
	ctx := t.Context()
	s.must(s.create(s.Client().CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fleetNamespace}}, metav1.CreateOptions{})))
	s.must(s.create(s.Client().CoreV1().ConfigMaps(fleetNamespace).Create(ctx, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fleetPlace.ConfigMap}}, metav1.CreateOptions{})))
	go s.complete(ctx)
	return s
}

func (s *stub) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// create returns the error of a creation.
func (s *stub) create(_ any, err error) error { return err }

// nodes makes nodes that are ready, with labels.
func (s *stub) nodes(names []string, labels func(int) map[string]string) {
	s.t.Helper()
	group, ctx := errgroup.WithContext(s.t.Context())
	group.SetLimit(16)
	for i, name := range names {
		group.Go(func() error {
			n := &v1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name, v1.LabelOSStable: "linux"}},
				Status:     v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady"}}},
			}
			if labels != nil {
				for key, value := range labels(i) {
					n.Labels[key] = value
				}
			}
			_, err := s.Client().CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
			return err
		})
	}
	s.must(group.Wait())
}

// setReady changes whether a node is ready.
func (s *stub) setReady(name string, status v1.ConditionStatus) {
	s.t.Helper()
	n, err := s.Client().CoreV1().Nodes().Get(s.t.Context(), name, metav1.GetOptions{})
	s.must(err)
	n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: status, Reason: "ByTest", Message: "is off"}}
	_, err = s.Client().CoreV1().Nodes().UpdateStatus(s.t.Context(), n, metav1.UpdateOptions{})
	s.must(err)
}

// complete follows Jobs, and ends each a while after it was made.
func (s *stub) complete(ctx context.Context) {
	var seen sync.Map // by UID
	see := func(j *batchv1.Job) {
		if _, known := seen.LoadOrStore(j.UID, true); known || len(j.Status.Conditions) > 0 {
			return
		}
		takes := s.begin(j.Annotations[fleet.NodeNameAnnotation])
		time.AfterFunc(takes, func() { s.end(ctx, j) })
	}
	for ctx.Err() == nil {
		jobs := s.Client().BatchV1().Jobs(fleetNamespace)
		list, err := jobs.List(ctx, metav1.ListOptions{})
		if err != nil {
			again(ctx)
			continue
		}
		for i := range list.Items {
			see(&list.Items[i])
		}
		w, err := jobs.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		if err != nil {
			again(ctx)
			continue
		}
		for e := range w.ResultChan() {
			if j, ok := e.Object.(*batchv1.Job); ok && e.Type == watch.Added {
				see(j)
			}
		}
	}
}

// begin counts a Job that begins, and returns the time that it takes.
func (s *stub) begin(node string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	pool := s.poolOf(node)
	for other, n := range s.running {
		if other != pool && n > 0 {
			s.mixed = append(s.mixed, node)
		}
	}
	s.order = append(s.order, node)
	s.running[pool]++
	s.most[pool] = max(s.most[pool], s.running[pool])
	return s.takes
}

// again waits before another attempt: the API server is away where a test wants it.
func again(ctx context.Context) {
	select {
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
	}
}

// end marks a Job as done, as its controller does, and makes the pod of one that fails.
func (s *stub) end(ctx context.Context, j *batchv1.Job) {
	node := j.Annotations[fleet.NodeNameAnnotation]
	s.mu.Lock()
	s.running[s.poolOf(node)]--
	reason := s.ends[node]
	s.mu.Unlock()
	kinds := []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete}
	if reason != "" {
		kinds = []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed}
		s.fail(ctx, j, reason)
	}
	for ctx.Err() == nil {
		now, err := s.Client().BatchV1().Jobs(fleetNamespace).Get(ctx, j.Name, metav1.GetOptions{})
		// Another Job of that name has its own end. An update may have come although its answer was lost.
		if apierrors.IsNotFound(err) || err == nil && (now.UID != j.UID || len(now.Status.Conditions) > 0) {
			return
		}
		if err != nil {
			again(ctx)
			continue
		}
		then := metav1.Now()
		now.Status.StartTime, now.Status.Conditions = &then, nil
		if reason == "" {
			now.Status.CompletionTime, now.Status.Succeeded = &then, 1
		}
		for _, kind := range kinds {
			now.Status.Conditions = append(now.Status.Conditions, batchv1.JobCondition{
				Type: kind, Status: v1.ConditionTrue, Reason: "ByTest", Message: "by the test", LastProbeTime: then, LastTransitionTime: then,
			})
		}
		_, err = s.Client().BatchV1().Jobs(fleetNamespace).UpdateStatus(ctx, now, metav1.UpdateOptions{})
		if err == nil {
			return
		}
		if apierrors.IsInvalid(err) {
			s.t.Errorf("Job of %s: %v", node, err)
			return
		}
		again(ctx)
	}
}

// fail makes the pod of a Job that fails.
func (s *stub) fail(ctx context.Context, j *batchv1.Job, reason string) {
	pods := s.Client().CoreV1().Pods(fleetNamespace)
	pod, err := pods.Create(ctx, &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: j.Name + "-x", Labels: j.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: j.Name, UID: j.UID}},
		},
		Spec: j.Spec.Template.Spec,
	}, metav1.CreateOptions{})
	if err == nil {
		pod.Status.Phase = v1.PodFailed
		pod.Status.ContainerStatuses = []v1.ContainerStatus{{
			Name: "keep", Image: "none", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: reason + ": by the test."}},
		}}
		_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	}
	if err != nil && ctx.Err() == nil {
		s.t.Errorf("pod of %s: %v", j.Name, err)
	}
}

// since returns the nodes whose Jobs were made after a number of them.
func (s *stub) since(n int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.order[n:])
}

func (s *stub) say(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, line)
}

// dispatcher returns a dispatcher that connects with a configuration.
func (s *stub) dispatcher(config *rest.Config, holder string, action fleet.Action, release string, revision int, text string) dispatch.Options {
	s.t.Helper()
	settings, err := fleet.ParseSettings("roll.yaml", []byte("version: v2\n"+text))
	s.must(err)
	template, err := fleet.ParseTemplate("job.yaml", []byte(fleetJob), "", action, settings)
	s.must(err)
	client, err := apicluster.New(config, fleetPlace)
	s.must(err)
	id := func(a fleet.Action) string { return fleet.RollID("v2", "0123456789ab", a, release, revision) }
	claim := fleet.Claim{Release: release, Revision: revision, Action: action, Roll: id(action)}
	if action == fleet.Add {
		claim.Roll = id(fleet.Install)
	}
	return dispatch.Options{
		Client: client, Claim: claim, Template: template, Holder: holder, Say: s.say,
		Plan: fleet.Plan{Action: action, Roll: id(action), Version: "v2", Section: "0123456789ab", Settings: settings, Deadline: template.Deadline()},
	}
}

// labelled returns the number of nodes whose label has a value.
func (s *stub) labelled(label, value string) int {
	s.t.Helper()
	list, err := s.Client().CoreV1().Nodes().List(s.t.Context(), metav1.ListOptions{LabelSelector: label + "=" + value})
	s.must(err)
	return len(list.Items)
}

// wantReport checks the exit code and the first line of a report.
func wantReport(t *testing.T, r dispatch.Report, code int, text string) {
	t.Helper()
	if r.Code != code || len(r.Lines) == 0 || !strings.Contains(r.Lines[0], text) {
		t.Fatalf("%+v; want code %d, %q", r, code, text)
	}
}

// cut is a connection that can be cut.
type cut struct {
	http.RoundTripper
	now *atomic.Bool
}

// RoundTrip implements http.RoundTripper.
func (c cut) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.now.Load() {
		return nil, errors.New("cut by the test")
	}
	return c.RoundTripper.RoundTrip(r)
}

// cutter returns a configuration whose connections can be cut.
func (s *stub) cutter() (*rest.Config, *atomic.Bool) {
	now := &atomic.Bool{}
	config := s.Config()
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return cut{rt, now} })
	return config, now
}

// The pools of TestFleet, in their order.
const (
	canary       = "canary"
	worker       = "worker"
	controlPlane = "control plane"
)

// TestFleet: a roll over 5,000 nodes against a real API server: it stops at a failure, and its next
// revision is killed in the middle and continued. Pools and the control plane have their order, and
// no more than the share of a pool has a Job at once. A line of the log has the time and the
// requests. With -args -nodes it has fewer nodes.
func TestFleet(t *testing.T) {
	many := *fleetNodes
	s := newStub(t)
	names, pools, sizes := make([]string, many), map[string]string{}, map[string]int{}
	for i := range names {
		pool := worker
		switch {
		case i%(many/20) == 7:
			pool = canary
		case i%(many/3) == 11 && i < many-10:
			pool = controlPlane
		}
		names[i] = fmt.Sprintf("node-%04d", i)
		pools[names[i]] = pool
		sizes[pool]++
	}
	s.poolOf = func(node string) string { return pools[node] }
	limits := map[string]int{canary: sizes[canary] / 10, worker: sizes[worker] / 10, controlPlane: 1}
	began := time.Now()
	s.nodes(names, func(i int) map[string]string {
		switch pools[names[i]] {
		case canary:
			return map[string]string{"pool": "canary"}
		case controlPlane:
			return map[string]string{"node-role.kubernetes.io/control-plane": ""}
		}
		return nil
	})
	t.Logf("%d nodes made in %s", many, time.Since(began))
	const text = "nodes: 10%\npools: [pool=canary]\ncontrolPlane: last\npause: 1s\n"
	before := many / 5
	s.ends[names[before]] = "check"

	o := s.dispatcher(s.Config(), "stops", fleet.Install, fleetRelease, 1, text)
	wantReport(t, dispatch.Run(t.Context(), o), fleet.CodeFailed, "1 failed, ")
	made := len(s.since(0))
	if got := s.labelled(fleet.StateLabel, "failed"); got != 1 || s.labelled(fleet.ReasonLabel, "check") != 1 ||
		made > before+sizes[canary]+limits[worker]*5/4 || made < before {
		t.Errorf("%d nodes failed, and %d Jobs were made; want one failure, and no Job after it", got, made)
	}
	if got := s.labelled(fleet.StateLabel, "kept"); got != made-1 {
		t.Errorf("%d nodes kept it, of %d Jobs: those that ran are left to end", got, made)
	}

	s.mu.Lock()
	clear(s.ends)
	s.mu.Unlock()
	began = time.Now()
	config, dead := s.cutter()
	first := s.dispatcher(config, "killed", fleet.Install, fleetRelease, 2, text)
	ctx, kill := context.WithCancel(t.Context())
	reports := make(chan dispatch.Report, 1)
	go func() { reports <- dispatch.Run(ctx, first) }()
	for len(s.since(made)) < many/2 {
		await(t, 100*time.Millisecond)
	}
	dead.Store(true)
	kill()
	wantReport(t, <-reports, fleet.CodeInterrupted, "interrupted")
	second := s.dispatcher(s.Config(), "continues", fleet.Install, fleetRelease, 2, text)
	wantReport(t, dispatch.Run(t.Context(), second), fleet.CodeDone, fmt.Sprintf("%d nodes kept the partition", many))
	took := time.Since(began)

	order := s.since(made)
	if len(order) != many || len(slices.Compact(slices.Sorted(slices.Values(order)))) != many {
		t.Errorf("%d Jobs were made for %d nodes", len(order), many)
	}
	for i, name := range order {
		turn := worker
		switch {
		case i < sizes[canary]:
			turn = canary
		case i >= many-sizes[controlPlane]:
			turn = controlPlane
		}
		if pools[name] != turn {
			t.Fatalf("Job %d is of %s, %s; want canaries first and the control plane last", i, name, pools[name])
		}
	}
	s.mu.Lock()
	for pool, limit := range limits {
		if s.most[pool] > limit {
			t.Errorf("%d nodes of the pool %s had a Job at once; want %d at most", s.most[pool], pool, limit)
		}
	}
	if len(s.mixed) > 0 {
		t.Errorf("%d Jobs began while one of another pool ran: %q", len(s.mixed), s.mixed[0])
	}
	s.mu.Unlock()
	if got := s.labelled(nodelabel.Version, "v2"); got != many {
		t.Errorf("%d nodes have the version", got)
	}
	all, requests := 0, map[string]int{}
	for _, client := range []*apicluster.Client{first.Client, second.Client} {
		for what, n := range client.Requests() {
			requests[what] += n
			all += n
		}
	}
	t.Logf("requests: %v", requests)
	t.Logf("a roll over %d nodes, of which %d had its labels, killed once, with Jobs of %s and a pause of 1s: "+
		"%.1f s for 1,000 nodes, %.2f requests for a node; "+
		"at once %d canaries of %d allowed, %d workers of %d, %d of the control plane of %d",
		many, made-1, s.takes, took.Seconds()*1000/float64(many), float64(all)/float64(many),
		s.most[canary], limits[canary], s.most[worker], limits[worker], s.most[controlPlane], limits[controlPlane])
	if all > many*5/2 {
		t.Errorf("%d requests", all)
	}
}

// await waits for a while, unless the test ends.
func await(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal("the test has no time left")
	}
}

// account returns the configuration of a ServiceAccount with rights, when the API server knows
// them.
func (s *stub) account(name string, rights []apicluster.Right) *rest.Config {
	s.t.Helper()
	ctx := s.t.Context()
	accounts := s.Client().CoreV1().ServiceAccounts(fleetNamespace)
	s.must(s.create(accounts.Create(ctx, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})))
	rules := map[apicluster.Scope][]rbacv1.PolicyRule{}
	for _, r := range rights {
		rule := rbacv1.PolicyRule{APIGroups: []string{r.Group}, Resources: []string{r.Resource}, Verbs: []string{r.Verb}}
		if r.Name != "" {
			rule.ResourceNames = []string{r.Name}
		}
		rules[r.Scope] = append(rules[r.Scope], rule)
	}
	meta := metav1.ObjectMeta{Name: name}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: fleetNamespace, Name: name}}
	rbac := s.Client().RbacV1()
	s.must(s.create(rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules[apicluster.OfCluster]}, metav1.CreateOptions{})))
	s.must(s.create(rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
	}, metav1.CreateOptions{})))
	for scope, in := range map[apicluster.Scope]string{apicluster.OfRelease: fleetPlace.Namespace, apicluster.OfLock: fleetPlace.LockNamespace} {
		s.must(s.create(rbac.Roles(in).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules[scope]}, metav1.CreateOptions{})))
		s.must(s.create(rbac.RoleBindings(in).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		}, metav1.CreateOptions{})))
	}
	for _, r := range rights {
		for !s.allowed(name, r) {
			await(s.t, 50*time.Millisecond)
		}
	}
	token, err := accounts.CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	s.must(err)
	config := rest.AnonymousClientConfig(s.Config())
	config.BearerToken = token.Status.Token
	return config
}

// allowed reports whether a ServiceAccount has a right.
func (s *stub) allowed(name string, r apicluster.Right) bool {
	s.t.Helper()
	in := map[apicluster.Scope]string{apicluster.OfCluster: "", apicluster.OfRelease: fleetPlace.Namespace, apicluster.OfLock: fleetPlace.LockNamespace}
	review, err := s.Client().AuthorizationV1().SubjectAccessReviews().Create(s.t.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + fleetNamespace + ":" + name,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: in[r.Scope], Verb: r.Verb, Group: r.Group, Resource: r.Resource, Name: r.Name,
			},
		},
	}, metav1.CreateOptions{})
	s.must(err)
	return review.Status.Allowed
}

// clear removes what the rolls before have left.
func (s *stub) clear() {
	s.t.Helper()
	ctx := s.t.Context()
	background := metav1.DeletePropagationBackground
	s.must(s.Client().BatchV1().Jobs(fleetNamespace).DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{}))
	s.must(s.Client().CoreV1().Pods(fleetNamespace).DeleteCollection(ctx, *metav1.NewDeleteOptions(0), metav1.ListOptions{}))
	err := s.Client().CoordinationV1().Leases(namespace).Delete(ctx, apicluster.LeaseName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		s.t.Fatal(err)
	}
}

// life has a release do all that it may do, with each of its rights: it rolls, rolls again, fails,
// adds nodes, and is removed. It returns the first report that is not as it should be.
func (s *stub) life(config *rest.Config) *dispatch.Report {
	s.t.Helper()
	s.clear()
	const text = "nodes: 100%\nmaxFailures: 1\npause: 0s\n"
	run := func(action fleet.Action, revision, code int) *dispatch.Report {
		report := dispatch.Run(s.t.Context(), s.dispatcher(config, fmt.Sprint(action, revision, time.Now().UnixNano()), action, fleetRelease, revision, text))
		if report.Code != code {
			return &report
		}
		return nil
	}
	for _, part := range []struct {
		action         fleet.Action
		revision, code int
		fails          string
	}{
		{fleet.Install, 1, fleet.CodeDone, ""}, {fleet.Install, 2, fleet.CodeFailed, "one"}, {fleet.Add, 2, fleet.CodeDone, ""}, {fleet.Uninstall, 2, fleet.CodeDone, ""},
	} {
		s.mu.Lock()
		s.ends = map[string]string{part.fails: "check"}
		s.mu.Unlock()
		if report := run(part.action, part.revision, part.code); report != nil {
			return report
		}
	}
	return nil
}

// TestFleetRights: the rights of the table are enough for the life of a release, and without any
// one of them its dispatcher ends and names the one that it lacks.
func TestFleetRights(t *testing.T) {
	s := newStub(t)
	s.nodes([]string{"one", "two"}, nil)
	rights := apicluster.Rights(fleetPlace)
	if report := s.life(s.account("all", rights)); report != nil {
		t.Fatalf("with all rights: %+v", report)
	}
	for i, missing := range rights {
		t.Run(fmt.Sprintf("without %s %s", missing.Verb, missing.Resource), func(t *testing.T) {
			account := fmt.Sprintf("without-%d", i)
			config := s.account(account, slices.Delete(slices.Clone(rights), i, i+1))
			if s.allowed(account, missing) {
				t.Fatal("another right contains this one: it is not needed")
			}
			report := s.life(config)
			if report == nil {
				t.Fatal("nothing has failed: the right is not needed")
			}
			if want := "needs the right to " + missing.Verb + " " + missing.Resource; !strings.Contains(strings.Join(report.Lines, "\n"), want) {
				t.Errorf("%+v; want %q", report, want)
			}
		})
	}
}

// TestFleetLock: of two dispatchers one acts, an API server that is away for longer than the lock
// lasts ends neither, and another release is refused.
func TestFleetLock(t *testing.T) {
	s := newStub(t)
	s.takes = 5 * time.Second
	names := []string{"a", "b", "c", "d", "e", "f"}
	s.nodes(names, nil)
	reports := make(chan dispatch.Report, 2)
	for _, holder := range []string{"first", "second"} {
		o := s.dispatcher(s.Config(), holder, fleet.Install, fleetRelease, 1, "pause: 1s\n")
		go func() { reports <- dispatch.Run(t.Context(), o) }()
	}
	for len(s.since(0)) < 2 {
		await(t, 100*time.Millisecond)
	}
	other := s.dispatcher(s.Config(), "other", fleet.Install, "elsewhere/other", 1, "")
	wantReport(t, dispatch.Run(t.Context(), other), fleet.CodeRefused, "belong to the release "+fleetRelease)
	s.must(s.Interrupt())
	await(t, 75*time.Second)
	select {
	case report := <-reports:
		t.Errorf("a dispatcher has ended while the API server was away: %+v", report)
	default:
	}
	s.must(s.Restore(t.Context()))
	for range 2 {
		wantReport(t, <-reports, fleet.CodeDone, "6 nodes kept the partition")
	}
	if order := s.since(0); !slices.Equal(order, names) || s.most[""] != 1 {
		t.Errorf("Jobs for %v, %v at once", order, s.most)
	}
	wantReport(t, dispatch.Run(t.Context(), other), fleet.CodeRefused, "belong to the release "+fleetRelease)
}

// TestFleetRemove: a removal names the node that it cannot reach and ends with 1. When it can, no
// label and no Lease is left, and the Jobs go with the ConfigMap.
func TestFleetRemove(t *testing.T) {
	s := newStub(t)
	s.must(s.StartControllers(t.Context(), "garbage-collector-controller"))
	s.nodes([]string{"a", "b", "c"}, nil)
	run := func(action fleet.Action) dispatch.Report {
		return dispatch.Run(t.Context(), s.dispatcher(s.Config(), fmt.Sprint(action, time.Now().UnixNano()), action, fleetRelease, 1, "nodes: 3\npause: 0s\n"))
	}
	wantReport(t, run(fleet.Install), fleet.CodeDone, "3 nodes kept the partition")
	s.setReady("b", v1.ConditionUnknown)
	report := run(fleet.Uninstall)
	wantReport(t, report, fleet.CodeFailed, "2 nodes have no file of it any more, 1 not reached")
	if len(report.Lines) != 2 || report.Lines[1] != "not reached: b: not-ready: ByTest: is off" {
		t.Errorf("%q", report.Lines)
	}
	if got := s.labelled(fleet.StateLabel, "kept"); got != 1 {
		t.Errorf("%d nodes have a label; want b alone", got)
	}
	s.setReady("b", v1.ConditionTrue)
	wantReport(t, run(fleet.Uninstall), fleet.CodeDone, "3 nodes have no file of it any more")
	for _, label := range []string{nodelabel.Version, nodelabel.Section, fleet.StateLabel, fleet.ReasonLabel} {
		list, err := s.Client().CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: label})
		s.must(err)
		if len(list.Items) > 0 {
			t.Errorf("%d nodes have the label %s", len(list.Items), label)
		}
	}
	if _, err := s.Client().CoordinationV1().Leases(namespace).Get(t.Context(), apicluster.LeaseName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Lease: %v; want none", err)
	}
	s.must(s.Client().CoreV1().ConfigMaps(fleetNamespace).Delete(t.Context(), fleetPlace.ConfigMap, metav1.DeleteOptions{}))
	for left := 1; left > 0; await(t, 100*time.Millisecond) {
		list, err := s.Client().BatchV1().Jobs(fleetNamespace).List(t.Context(), metav1.ListOptions{})
		s.must(err)
		left = len(list.Items)
	}
}
