package cluster

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/tests/fakeapi"
	"node-partition.io/node-partition/tests/testkit"
)

func newReporter(kubeconfig string) (*Reporter, *testkit.Buffer) {
	log := &testkit.Buffer{}
	return &Reporter{kubeconfig: kubeconfig, node: "worker-1", log: log.Logger()}, log
}

const mebi = 1 << 20

// anEviction returns an eviction of kube-system/dns, with usage.
func anEviction() evict.Eviction {
	return evict.Eviction{
		PodMeta: evict.PodMeta{
			UID: fakeapi.UID, Namespace: "kube-system", Name: "dns", QoS: v1.PodQOSBurstable,
			Owner: "rs", Priority: 7,
		},
		Verdict: evict.Verdict{Time: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC), Threshold: evict.Hard, Method: evict.Evict},
		Amounts: evict.Amounts{AvailableBytes: 20 * mebi, AtBytes: 32 * mebi, LimitBytes: 512 * mebi, WorkingSetBytes: 130 * mebi, RequestBytes: 70 * mebi},
		Containers: []evict.Container{
			{ID: "c1", Name: "dns", WorkingSet: 125 * mebi, Request: 50 * mebi},
			{ID: "c2", Name: "log", WorkingSet: 5 * mebi, Request: 20 * mebi},
		},
	}
}

// evicts reports an eviction, and waits for its event.
func evicts(t *testing.T, a *Reporter) error {
	t.Helper()
	defer a.events.Wait()
	return a.Evict(t.Context(), anEviction())
}

// TestEvict: the pod gets the status of an evicted pod, and an event with the usage of its
// containers.
func TestEvict(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(http.Handler) *httptest.Server{"plain": httptest.NewServer, "TLS": httptest.NewTLSServer} {
		c := fakeapi.New(t, start)
		a, log := newReporter(c.NewKubeconfig(t))
		if a.Look(); !a.Available() {
			t.Fatalf("%s: not available: %s", name, log)
		}
		if err := evicts(t, a); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, want := c.Came(), []string{fakeapi.GetPod, fakeapi.PatchPod, fakeapi.PostEvent}; !slices.Equal(got, want) {
			t.Fatalf("%s: requests %v; want %v", name, got, want)
		}
		patch, event := c.Statuses[0], c.Events[0]
		if s := patch.Status; patch.Metadata.UID != fakeapi.UID || s.Phase != v1.PodFailed || s.Reason != "Evicted" {
			t.Errorf("%s: %+v", name, patch)
		}
		const who = "Container dns was using 125Mi, request is 50Mi"
		for _, text := range []string{patch.Status.Message, event.Message} {
			if !strings.Contains(text, "Threshold quantity: 32Mi, available: 20Mi.") || !strings.Contains(text, who) || strings.Contains(text, "Container log") {
				t.Errorf("%s: %q; want the figures and who used more than requested", name, text)
			}
		}
		if o := event.InvolvedObject; o.Kind != "Pod" || o.Name != "dns" || o.Namespace != "kube-system" || string(o.UID) != fakeapi.UID {
			t.Errorf("%s: the event is about %+v", name, o)
		}
		if event.Reason != "Evicted" || event.Type != v1.EventTypeWarning || event.Source.Host != "worker-1" || event.Annotations["offending_containers"] != "dns" {
			t.Errorf("%s: %+v", name, event)
		}
		if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, a.kubeconfig) || !strings.Contains(text, c.URL) || strings.Contains(text, "secret") {
			t.Errorf("%s: log %q; want once where to", name, text)
		}
	}
}

// TestEvictFails: an error that another attempt cannot change is final. Others are not.
func TestEvictFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answers map[string]int
		pod     func(*v1.Pod)
		fails   bool
		final   bool
		avoided bool   // for a while, containers of the next pods are only stopped
		text    string // in the error
		log     string
	}{
		"gone":                 {answers: map[string]int{fakeapi.GetPod: http.StatusNotFound}},
		"gone meanwhile":       {answers: map[string]int{fakeapi.PatchPod: http.StatusNotFound}},
		"made again":           {pod: func(p *v1.Pod) { p.UID = "another" }},
		"forbidden":            {answers: map[string]int{fakeapi.PatchPod: http.StatusForbidden}, fails: true, final: true, text: "patch of pods/status"},
		"forbidden to see":     {answers: map[string]int{fakeapi.GetPod: http.StatusForbidden, fakeapi.PatchPod: http.StatusForbidden}, fails: true, final: true, text: "get of pods"},
		"expired":              {answers: map[string]int{fakeapi.GetPod: http.StatusUnauthorized}, fails: true, final: true, avoided: true, text: "expired?"},
		"the mirror of static": {pod: func(p *v1.Pod) { p.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "x"} }, fails: true, final: true, text: "static"},
		"refused by a policy":  {answers: map[string]int{fakeapi.PatchPod: http.StatusUnprocessableEntity}, fails: true, final: true, text: "the cluster says no"},
		// It may run on.
		"forbidden to see, refused by a policy": {
			answers: map[string]int{fakeapi.GetPod: http.StatusForbidden, fakeapi.PatchPod: http.StatusUnprocessableEntity}, fails: true, final: true,
		},
		"overload":          {answers: map[string]int{fakeapi.PatchPod: http.StatusServiceUnavailable}, fails: true, text: "the cluster says no"},
		"overload at first": {answers: map[string]int{fakeapi.GetPod: http.StatusServiceUnavailable}, fails: true},
		// The pod is evicted nevertheless.
		"event forbidden": {answers: map[string]int{fakeapi.PostEvent: http.StatusForbidden}, log: "the event of an eviction could not be created"},
		"event overload":  {answers: map[string]int{fakeapi.PostEvent: http.StatusServiceUnavailable}, log: "the event of an eviction could not be created"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fakeapi.New(t, httptest.NewServer)
			c.Answers = test.answers
			if test.pod != nil {
				test.pod(c.Pod)
			}
			a, log := newReporter(c.NewKubeconfig(t))
			err := evicts(t, a)
			if (err != nil) != test.fails || errors.Is(err, evict.ErrFinal) != test.final {
				t.Errorf("%v; want an error: %t, final: %t", err, test.fails, test.final)
			}
			if err != nil && !strings.Contains(err.Error(), test.text) {
				t.Errorf("%v; want %q in it", err, test.text)
			}
			if !strings.Contains(log.String(), test.log) {
				t.Errorf("log %q; want %q", log, test.log)
			}
			// Credentials that are refused are so for all pods, and a policy may be of one namespace.
			if available := a.Available(); available == test.avoided {
				t.Errorf("available: %t", available)
			}
		})
	}
}

// TestConfirm: a status that the kubelet has overwritten is written again, without a second event.
func TestConfirm(t *testing.T) {
	t.Parallel()
	c := fakeapi.New(t, httptest.NewServer)
	a, _ := newReporter(c.NewKubeconfig(t))
	if err := evicts(t, a); err != nil {
		t.Fatal(err)
	}
	c.Came()
	confirm := func(wantKnown bool, want ...string) {
		t.Helper()
		known, again, err := a.Confirm(t.Context(), anEviction())
		if wantAgain := slices.Contains(want, fakeapi.PatchPod); err != nil || known != wantKnown || again != wantAgain {
			t.Errorf("known: %t, again: %t, %v; want %t, %t", known, again, err, wantKnown, wantAgain)
		}
		if came := c.Came(); !slices.Equal(came, want) {
			t.Errorf("requests %v; want %v", came, want)
		}
	}
	confirm(true, fakeapi.GetPod) // as it was left
	c.Pod.Status.Phase = v1.PodRunning
	confirm(false, fakeapi.GetPod, fakeapi.GetPod, fakeapi.PatchPod)
	confirm(true, fakeapi.GetPod) // marked again
	c.Pod.Status.Reason = ""
	// The kubelet has written the status, and dropped the reason.
	confirm(true, fakeapi.GetPod, fakeapi.GetPod, fakeapi.PatchPod)
	confirm(true, fakeapi.GetPod)
	c.Pod.Status.Phase = v1.PodSucceeded
	confirm(true, fakeapi.GetPod)
	c.Pod.Status.ContainerStatuses = []v1.ContainerStatus{{State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}
	confirm(false, fakeapi.GetPod) // the kubelet has not written the end of the container
	c.Answers[fakeapi.GetPod] = http.StatusNotFound
	confirm(true, fakeapi.GetPod) // deleted by now
	c.Answers[fakeapi.GetPod] = http.StatusServiceUnavailable
	if _, _, err := a.Confirm(t.Context(), anEviction()); err == nil || errors.Is(err, evict.ErrFinal) {
		t.Errorf("%v; want an error that is not final", err)
	}
	c.Answers[fakeapi.GetPod], c.Pod.Status.Phase = 0, v1.PodRunning
	c.Answers[fakeapi.PatchPod] = http.StatusForbidden
	if _, _, err := a.Confirm(t.Context(), anEviction()); !errors.Is(err, evict.ErrFinal) {
		t.Errorf("%v; want a final error", err)
	}
}

// TestKubeconfigReplaced: if a server refuses or does not answer, the kubeconfig may have been
// replaced. The eviction in progress uses the new one.
func TestKubeconfigReplaced(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*fakeapi.Cluster){
		"expired":   func(c *fakeapi.Cluster) { c.Answers[fakeapi.GetPod] = http.StatusUnauthorized },
		"forbidden": func(c *fakeapi.Cluster) { c.Answers[fakeapi.PatchPod] = http.StatusForbidden },
		"overload":  func(c *fakeapi.Cluster) { c.Answers[fakeapi.PatchPod] = http.StatusServiceUnavailable },
		"moved":     func(c *fakeapi.Cluster) { c.Close() },
	} {
		old, renewed := fakeapi.New(t, httptest.NewServer), fakeapi.New(t, httptest.NewServer)
		path := old.NewKubeconfig(t)
		a, log := newReporter(path)
		if err := evicts(t, a); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		old.Pod.Status = v1.PodStatus{Phase: v1.PodRunning}
		fail(old)
		renewed.Kubeconfig(t, path)
		if err := evicts(t, a); err != nil || len(renewed.Statuses) != 1 || !a.Available() {
			t.Errorf("%s: %v, %d statuses, available %t; want a report to the new server", name, err, len(renewed.Statuses), a.Available())
		}
		if text := log.String(); strings.Count(text, "are reported to the API server") != 2 || !strings.Contains(text, renewed.URL) {
			t.Errorf("%s: log %q", name, text)
		}
		renewed.Answers[fakeapi.GetPod] = http.StatusUnauthorized
		if err := evicts(t, a); !errors.Is(err, evict.ErrFinal) || a.Available() {
			t.Errorf("%s: %v, available %t; want a final error of the present one", name, err, a.Available())
		}
	}
}

// TestEventHangs: an eviction does not wait for its event, which a webhook may keep. The end of the
// program cancels both.
func TestEventHangs(t *testing.T) {
	t.Parallel()
	c := fakeapi.New(t, httptest.NewServer)
	c.Hang[fakeapi.PostEvent] = 1
	a, _ := newReporter(c.NewKubeconfig(t))
	ctx, end := context.WithTimeout(t.Context(), 10*time.Second) // its event has fifteen
	defer end()
	if err := a.Evict(ctx, anEviction()); err != nil {
		t.Error(err)
	}
	c.Pod.Status.Reason = "Evicted"
	if known, again, err := a.Confirm(ctx, anEviction()); !known || again || err != nil {
		t.Errorf("known: %t, again: %t, %v", known, again, err)
	}
	end()
	over := time.Now()
	if a.events.Wait(); time.Since(over) > 5*time.Second {
		t.Errorf("the event is given up after %s", time.Since(over))
	}
	if err := a.Evict(ctx, anEviction()); !errors.Is(err, context.Canceled) {
		t.Errorf("%v; want the end of the program", err)
	}
}

// TestKubeconfigLater: a node may join its cluster long after the start of the service. Until then
// the log has once the reason why evictions are not reported.
func TestKubeconfigLater(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "kubelet.conf")
	c := fakeapi.New(t, httptest.NewServer)
	synctest.Test(t, func(t *testing.T) {
		a, log := newReporter(path)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = a.Run(ctx) // it ends with its context
		}()
		<-time.After(lookAgain / 2) // files are changed between two checks
		for range 5 {
			<-time.After(lookAgain)
			if a.Available() {
				t.Error("available without a file")
			}
			// Not final: it may come at any time.
			if err := evicts(t, a); err == nil || errors.Is(err, evict.ErrFinal) {
				t.Errorf("%v; want an error that is not final", err)
			}
		}
		if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "are not reported to the API server") || !strings.Contains(text, path) {
			t.Errorf("log %q; want once why not", text)
		}
		// A file that is not a kubeconfig is another reason.
		if err := os.WriteFile(path, []byte("kind: [\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * lookAgain)
		if a.Available() {
			t.Error("available with what is no kubeconfig")
		}
		if text := log.String(); strings.Count(text, "\n") != 2 {
			t.Errorf("log %q; want the second reason, once", text)
		}
		c.Kubeconfig(t, path)
		if a.Available() {
			t.Error("Available has read a file")
		}
		<-time.After(2 * lookAgain)
		if !a.Available() {
			t.Errorf("not available: %s", log)
		}
		if text := log.String(); strings.Count(text, "\n") != 3 || !strings.Contains(text, "are reported to the API server") || !strings.Contains(text, c.URL) {
			t.Errorf("log %q; want which server", text)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * lookAgain)
		if a.Available() {
			t.Error("available after the node has left its cluster")
		}
		stop()
		<-ended
	})
	if came := c.Came(); len(came) > 0 {
		t.Errorf("asked without need: %v", came)
	}
}

// TestTry: requests use the kubeconfig as it is now, and a refusal does not keep evictions from
// being reported.
func TestTry(t *testing.T) {
	t.Parallel()
	old, renewed := fakeapi.New(t, httptest.NewServer), fakeapi.New(t, httptest.NewServer)
	path := filepath.Join(t.TempDir(), "kubelet.conf")
	a, _ := newReporter(path)
	event := func(ctx context.Context, client *kubeapi.Client, node string) error {
		return client.Event(ctx, kubeapi.NewEvent(kubeapi.AboutNode(node), node, "X", "", time.Now()))
	}
	if err := a.Try(t.Context(), event); !errors.Is(err, kubeapi.ErrNoClient) || !strings.Contains(err.Error(), path) {
		t.Errorf("%v; want that there is no kubeconfig yet", err)
	}
	old.Kubeconfig(t, path)
	if err := a.Try(t.Context(), event); err != nil || len(old.Happened()) != 1 {
		t.Fatalf("%v, %d events", err, len(old.Happened()))
	}
	if got, want := old.Happened()[0].InvolvedObject.Name, strings.ToLower(node.Hostname()); got != want {
		t.Errorf("about %q; want %q, for the kubeconfig has no certificate", got, want)
	}
	old.Answer(fakeapi.PostNodeEvent, http.StatusForbidden)
	if err := a.Try(t.Context(), event); !errors.Is(err, kubeapi.ErrForbidden) || !a.Available() {
		t.Errorf("%v, available %t; want a refusal that evictions do not depend on", err, a.Available())
	}
	renewed.Kubeconfig(t, path)
	if err := a.Try(t.Context(), event); err != nil || len(renewed.Happened()) != 1 {
		t.Errorf("%v, %d events; want one at the new server", err, len(renewed.Happened()))
	}
	none, _ := newReporter(node.KubeconfigNone)
	if err := none.Try(t.Context(), event); !errors.Is(err, kubeapi.ErrNoClient) {
		t.Errorf("%v; want that there is none", err)
	}
}

// TestKubeconfigNone: with none, no file is read and no line is logged, because the user asked for
// it.
func TestKubeconfigNone(t *testing.T) {
	t.Parallel()
	a, log := newReporter(node.KubeconfigNone)
	if a.Available() || log.String() != "" {
		t.Errorf("available, or log %q", log)
	}
	if err := evicts(t, a); !errors.Is(err, evict.ErrFinal) {
		t.Errorf("%v; want a final error", err)
	}
}
