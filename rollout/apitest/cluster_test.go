//go:build node

package apitest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"node-partition.io/node-partition/internal/installer/record"
	"node-partition.io/node-partition/rollout/api/v1alpha1"
	"node-partition.io/node-partition/rollout/controller"
	"node-partition.io/node-partition/rollout/nodepod"
	"node-partition.io/node-partition/rollout/plan"
	"node-partition.io/node-partition/tests/lab"
)

const (
	namespace = "node-partition"
	account   = "system:serviceaccount:node-partition:node-partition-rollout"
	image     = "registry.example/node-partition:v0.0.0"
)

var settings = nodepod.Settings{
	Namespace: namespace, Image: image, Version: "v0.0.0", PullPolicy: v1.PullIfNotPresent,
	PriorityClass: "system-node-critical", AppArmor: v1.AppArmorProfileTypeUnconfined,
}

func TestMain(m *testing.M) {
	ctrl.SetLogger(zap.New())
	os.Exit(m.Run())
}

// cluster is an API server with install.yaml, and kubelets that end pods.
type cluster struct {
	*lab.ControlPlane
	t     *testing.T
	kube  kubernetes.Interface
	admin client.Client
	// patience bounds each wait.
	patience time.Duration

	mu sync.Mutex
	// takes is the time that a pod runs.
	takes time.Duration
	// exits has the exit status and the message of pods, by node; 0 for the others.
	exits map[string]exit
	// order has the modes and nodes of pods in the order in which they were made.
	order []string
	// running is the number of pods, and most its largest value.
	running, most int
	used          map[string]int // requests of controllers, by verb and resource
}

type exit struct {
	status  int32
	message record.Termination
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	return clusterOf(t, lab.ControlPlaneForTest(t))
}

func clusterOf(t *testing.T, p *lab.ControlPlane) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	c := &cluster{
		ControlPlane: p, t: t, kube: p.Client(), patience: 2 * time.Minute, takes: 50 * time.Millisecond, exits: map[string]exit{}, used: map[string]int{},
	}
	c.must(v1.AddToScheme(scheme))
	c.must(v1alpha1.AddToScheme(scheme))
	var err error
	c.admin, err = client.New(p.Config(), client.Options{Scheme: scheme})
	c.must(err)
	c.install(settings.Version)
	go c.kubelets(t.Context())
	return c
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// each calls f with each object of install.yaml of a version.
func (c *cluster) each(version string, f func(context.Context, *unstructured.Unstructured) error) {
	c.t.Helper()
	text, err := os.ReadFile("../install.yaml")
	c.must(err)
	text = bytes.ReplaceAll(text, []byte(settings.Version), []byte(version))
	c.must(lab.EachObject(text, func(o *unstructured.Unstructured) error { return f(c.t.Context(), o) }))
}

// install applies install.yaml of a version, and waits until the API server serves NodePartitions.
func (c *cluster) install(version string) {
	c.t.Helper()
	c.each(version, func(ctx context.Context, o *unstructured.Unstructured) error {
		return c.admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("kubectl"), client.ForceOwnership)
	})
	c.eventually("NodePartitions are served", func(ctx context.Context) (bool, string) {
		err := c.admin.List(ctx, &v1alpha1.NodePartitionList{})
		return err == nil, fmt.Sprint(err)
	})
}

// uninstall deletes what install has applied. The namespace stays: no controller of the cluster
// would end it.
func (c *cluster) uninstall(kept ...string) {
	c.t.Helper()
	c.each(settings.Version, func(ctx context.Context, o *unstructured.Unstructured) error {
		if slices.Contains(append(kept, "Namespace"), o.GetKind()) {
			return nil
		}
		return c.admin.Delete(ctx, o)
	})
}

// eventually waits until a condition holds.
func (c *cluster) eventually(what string, holds func(context.Context) (bool, string)) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), c.patience)
	defer cancel()
	for last := ""; ; again(ctx) {
		ok, saw := holds(ctx)
		switch {
		case ok:
			return
		case ctx.Err() != nil:
			c.t.Fatalf("%s: not in %s: %s", what, c.patience, last)
		}
		last = saw
	}
}

// nodes makes Nodes that are ready.
func (c *cluster) nodes(names ...string) {
	c.t.Helper()
	group, ctx := errgroup.WithContext(c.t.Context())
	group.SetLimit(16)
	for _, name := range names {
		group.Go(func() error {
			n := &v1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name, v1.LabelOSStable: "linux"}},
				Status: v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady"}},
					Images: images()},
			}
			_, err := c.kube.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
			return err
		})
	}
	c.must(group.Wait())
}

// images returns a list as large as that of a real node, which a cache has to leave out.
func images() []v1.ContainerImage {
	all := make([]v1.ContainerImage, 50)
	for i := range all {
		all[i] = v1.ContainerImage{SizeBytes: 1 << 20, Names: []string{fmt.Sprintf("registry.example/image-%02d@sha256:%064d", i, i)}}
	}
	return all
}

// partition makes a NodePartition for all nodes.
func (c *cluster) partition(change ...func(*v1alpha1.NodePartition)) {
	c.t.Helper()
	p := &v1alpha1.NodePartition{
		ObjectMeta: metav1.ObjectMeta{Name: "general"},
		Spec: v1alpha1.NodePartitionSpec{
			Section: limited("2Gi"),
			Rollout: v1alpha1.Rollout{First: 1, MaxFailures: 1, Soak: metav1.Duration{Duration: time.Second}},
		},
	}
	for _, f := range change {
		f(p)
	}
	c.must(c.admin.Create(c.t.Context(), p))
}

func limited(limit string) apiextensionsv1.JSON {
	return apiextensionsv1.JSON{Raw: []byte(`{"systemPartition": {"namespaces": ["kube-system"], "memoryLimit": "` + limit + `"}}`)}
}

// change changes the NodePartition as an operator does.
func (c *cluster) change(f func(*v1alpha1.NodePartition)) {
	c.t.Helper()
	p := c.get()
	before := p.DeepCopy()
	f(p)
	c.must(c.admin.Patch(c.t.Context(), p, client.MergeFrom(before)))
}

func (c *cluster) get() *v1alpha1.NodePartition {
	c.t.Helper()
	var p v1alpha1.NodePartition
	c.must(c.admin.Get(c.t.Context(), client.ObjectKey{Name: "general"}, &p))
	return &p
}

// await waits as kubectl wait does: for a condition of the present generation.
func (c *cluster) await(condition string, status metav1.ConditionStatus, reason string) v1alpha1.NodePartitionStatus {
	c.t.Helper()
	var last v1alpha1.NodePartition
	c.eventually(condition+"="+string(status)+" "+reason, func(ctx context.Context) (bool, string) {
		if err := c.admin.Get(ctx, client.ObjectKey{Name: "general"}, &last); err != nil {
			return false, err.Error()
		}
		text, _ := json.Marshal(last.Status)
		found := meta.FindStatusCondition(last.Status.Conditions, condition)
		return found != nil && found.ObservedGeneration == last.Generation && found.Status == status &&
			(reason == "" || found.Reason == reason), string(text)
	})
	return last.Status
}

// gone waits until the NodePartition is deleted.
func (c *cluster) gone() {
	c.t.Helper()
	c.eventually("it is deleted", func(ctx context.Context) (bool, string) {
		var p v1alpha1.NodePartition
		err := c.admin.Get(ctx, client.ObjectKey{Name: "general"}, &p)
		text, _ := json.Marshal(p.Status)
		return apierrors.IsNotFound(err), string(text)
	})
}

// labelled returns the number of Nodes that a selector selects.
func (c *cluster) labelled(selector string) int {
	c.t.Helper()
	list, err := c.kube.CoreV1().Nodes().List(c.t.Context(), metav1.ListOptions{LabelSelector: selector})
	c.must(err)
	return len(list.Items)
}

// kubelets runs each pod of a node for a while, and ends it.
func (c *cluster) kubelets(ctx context.Context) {
	seen := sync.Map{}
	begin := func(p *v1.Pod) {
		if _, known := seen.LoadOrStore(p.UID, true); known || p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
			return
		}
		c.mu.Lock()
		c.order = append(c.order, p.Annotations[plan.ModeAnnotation]+" "+p.Annotations[plan.NodeAnnotation])
		c.running++
		c.most = max(c.most, c.running)
		takes := c.takes
		c.mu.Unlock()
		time.AfterFunc(takes, func() { c.finish(ctx, p) })
	}
	for ctx.Err() == nil {
		w, err := c.kube.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			again(ctx)
			continue
		}
		for e := range w.ResultChan() {
			if p, ok := e.Object.(*v1.Pod); ok {
				begin(p)
			}
		}
	}
}

// finish writes the end of a pod. The API server may be away.
func (c *cluster) finish(ctx context.Context, p *v1.Pod) {
	c.mu.Lock()
	c.running--
	e := c.exits[p.Annotations[plan.NodeAnnotation]]
	c.mu.Unlock()
	text, _ := json.Marshal(e.message)
	p = p.DeepCopy()
	now := metav1.Now()
	p.Status = v1.PodStatus{Phase: v1.PodSucceeded, StartTime: &now, ContainerStatuses: []v1.ContainerStatus{{
		Name: plan.ContainerName, State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			ExitCode: e.status, Reason: "Error", Message: string(text), StartedAt: now, FinishedAt: now,
		}},
	}}}
	if e.status != 0 {
		p.Status.Phase = v1.PodFailed
	}
	p.ResourceVersion = ""
	for ctx.Err() == nil {
		_, err := c.kube.CoreV1().Pods(namespace).UpdateStatus(ctx, p, metav1.UpdateOptions{})
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return
		}
		again(ctx)
	}
}

func again(ctx context.Context) {
	select {
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
	}
}

// ran returns the pods that were made since a number of them.
func (c *cluster) ran(since int) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.order[since:])
}

// exits sets how the pods of a node end.
func (c *cluster) ends(node string, status int32, message record.Termination) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exits[node] = exit{status, message}
}

// fault answers a request in place of the API server; nil passes it on.
type fault func(r *http.Request) *http.Response

// answer returns an answer of the API server.
func answer(r *http.Request, status int, reason metav1.StatusReason) *http.Response {
	text, _ := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(status), Reason: reason, Message: "by the test",
	})
	h := http.Header{"Content-Type": {"application/json"}}
	if status == http.StatusTooManyRequests {
		h.Set("Retry-After", "1")
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(string(text))), Request: r, ProtoMajor: 1, ProtoMinor: 1}
}

// observed counts requests, and may answer them.
type observed struct {
	http.RoundTripper
	c     *cluster
	fault fault
}

// RoundTrip implements http.RoundTripper.
func (o observed) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(r.URL.Path, "/api/v1") || strings.HasPrefix(r.URL.Path, "/apis/") {
		o.c.mu.Lock()
		o.c.used[rightOf(r)]++
		o.c.mu.Unlock()
	}
	if o.fault != nil {
		if given := o.fault(r); given != nil {
			return given, nil
		}
	}
	return o.RoundTripper.RoundTrip(r)
}

// rightOf returns the right that a request needs: "VERB NAMESPACE/GROUP/RESOURCE", without the
// namespace where there is none.
func rightOf(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	group := ""
	if parts[0] == "apis" {
		group, parts = parts[1], parts[1:]
	}
	parts = parts[2:]
	in := ""
	if len(parts) > 2 && parts[0] == "namespaces" {
		in, parts = parts[1], parts[2:]
	}
	if len(parts) == 0 {
		return "discovery"
	}
	resource := parts[0]
	if len(parts) > 2 {
		resource += "/" + parts[2]
	}
	verb := map[string]string{http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete"}[r.Method]
	switch {
	case verb != "":
	case r.URL.Query().Get("watch") != "":
		verb = "watch"
	case len(parts) > 1:
		verb = "get"
	default:
		verb = "list"
	}
	return strings.TrimSpace(verb + " " + strings.Trim(in+"/"+group+"/"+resource, "/"))
}

// run starts a controller with the rights of its account, until stop is called. If it ends by
// itself, it is started again, as by a kubelet.
func (c *cluster) run(f fault) (stop func()) { return c.runVersion(settings.Version, f) }

// runVersion is run with another version than that of settings.
func (c *cluster) runVersion(version string, f fault) (stop func()) {
	c.t.Helper()
	s := settings
	s.Version, s.Image = version, strings.ReplaceAll(s.Image, s.Version, version)
	config := c.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: account, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return observed{rt, c, f} })
	config.QPS = -1 // as ctrl.GetConfig
	ctx, cancel := context.WithCancel(c.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ; ctx.Err() == nil; again(ctx) {
			m, err := controller.New(config, s, controller.Addresses{Metrics: "0", Health: "0"})
			if err == nil {
				err = m.Start(ctx)
			}
			if ctx.Err() == nil {
				c.t.Logf("the controller ended: %v", err)
			}
		}
	}()
	stop = func() {
		cancel()
		<-ended
	}
	c.t.Cleanup(stop)
	return stop
}

// program builds the program. start starts it as the chart does, until it is killed.
func (c *cluster) program() (start func() *exec.Cmd) {
	c.t.Helper()
	file := filepath.Join(c.t.TempDir(), "partition-rollout")
	build := exec.CommandContext(c.t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w -X node-partition.io/node-partition/internal/buildversion.set="+settings.Version, "-o", file, "../cmd/partition-rollout")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		c.t.Fatalf("%v: %s", err, out)
	}
	kubeconfig, err := c.KubeconfigOf(account, "system:serviceaccounts")
	c.must(err)
	c.must(os.WriteFile(file+".conf", bytes.ReplaceAll(kubeconfig, []byte(lab.HostAddress), []byte("127.0.0.1")), 0o600))
	return func() *exec.Cmd {
		p := exec.CommandContext(c.t.Context(), file, "--namespace="+namespace, "--image="+image, "--metrics-address=0", "--health-address=0")
		p.Env = append(os.Environ(), "KUBECONFIG="+file+".conf", "GOMEMLIMIT=60MiB")
		p.Stderr = c.t.Output()
		c.must(p.Start())
		return p
	}
}

// resident returns the bytes that a process has in memory, VmRSS, or the most that it has had,
// VmHWM.
func (c *cluster) resident(p *exec.Cmd, field string) int {
	c.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	c.must(err)
	_, after, _ := strings.Cut(string(text), field+":")
	var kib int
	_, err = fmt.Sscan(after, &kib)
	c.must(err)
	return kib << 10
}
