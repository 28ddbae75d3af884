package namespaces

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"nodepartition/internal/daemon/faults"
	"nodepartition/internal/host"
	"nodepartition/internal/kubeapi"
	"nodepartition/internal/membership"
	"nodepartition/internal/node"
	"nodepartition/tests/fakeapi"
	"nodepartition/tests/locked"
)

const get = "GET /api/v1/namespaces/operators"

// api is an API server in memory, whose namespaces have no annotations, or an error. It may take
// time.
type api struct {
	err   atomic.Pointer[error]
	took  time.Duration
	calls atomic.Int32
}

func (a *api) Try(ctx context.Context, _ func(context.Context, *kubeapi.Client, string) error) error {
	a.calls.Add(1)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(a.took):
	}
	if err := a.err.Load(); err != nil {
		return *err
	}
	return nil
}

// nodeIn returns a node whose state can be written.
func nodeIn(t *testing.T) host.Node {
	t.Helper()
	n := host.Below(t.TempDir())
	if err := os.MkdirAll(filepath.Dir(n.Path(node.NamespacesFile)), 0o755); err != nil {
		t.Fatal(err)
	}
	return n
}

// started returns Namespaces that ask a cluster, and a channel that has an element for each change.
func started(t *testing.T, n host.Node, client faults.API) (*Namespaces, <-chan bool, *locked.Buffer) {
	t.Helper()
	lines, woken := &locked.Buffer{}, make(chan bool, 100)
	return New(Options{API: client, Node: n, Log: lines.Logger(), Wake: func() { woken <- true }}), woken, lines
}

// asking calls ask with a client of a cluster.
type asking struct {
	t       *testing.T
	cluster *fakeapi.Cluster
}

func (a asking) Try(ctx context.Context, ask func(context.Context, *kubeapi.Client, string) error) error {
	client, err := kubeapi.New(a.cluster.NewKubeconfig(a.t))
	if err != nil {
		return err
	}
	return ask(ctx, client, "")
}

// TestAnswers: a namespace that pods ask with is asked for, and remembered over a restart.
func TestAnswers(t *testing.T) {
	t.Parallel()
	cluster := fakeapi.New(t, httptest.NewServer)
	cluster.SetNamespace("operators", "1", map[string]string{"workload.openshift.io/allowed": "management"})
	on := nodeIn(t)
	n, woken, _ := started(t, on, asking{t, cluster})
	if got := n.Allows("operators", "management"); got != membership.NamespaceUnknown {
		t.Errorf("before an answer: %q", got)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	<-woken
	if got := n.Allows("operators", "management"); got != "" {
		t.Errorf("allowed: %q", got)
	}
	if got := n.Allows("operators", "telemetry"); got != membership.NotAllowed {
		t.Errorf("another type: %q", got)
	}
	stop()
	<-ended
	again, _, _ := started(t, on, asking{t, cluster})
	if got := again.Allows("operators", "management"); got != "" {
		t.Errorf("after a restart: %q", got)
	}
	all, err := node.ReadNamespaces(on)
	if err != nil || all.Allows("operators", "management") != "" || all.Allows("other", "management") != membership.NamespaceUnknown {
		t.Errorf("other programs read %v, %v", all, err)
	}
}

// TestRefusals: what keeps us from an answer is the reason that is reported, and is logged once.
func TestRefusals(t *testing.T) {
	t.Parallel()
	cluster := fakeapi.New(t, httptest.NewServer)
	n, woken, lines := started(t, nodeIn(t), asking{t, cluster})
	ask := func() membership.Refusal {
		n.Allows("operators", "a")
		n.ask(t.Context(), "operators")
		return n.Allows("operators", "a")
	}
	cluster.Answer(get, http.StatusForbidden)
	if got := ask(); got != membership.Forbidden || ask() != got {
		t.Errorf("forbidden: %q", got)
	}
	n.askAll(t.Context())
	n.write()
	if all, err := node.ReadNamespaces(n.Node); err != nil || all.Allows("operators", "a") != membership.Forbidden {
		t.Errorf("other programs read %+v, %v", all, err)
	}
	if text := lines.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "get namespaces") {
		t.Errorf("log %q; want one line with the right to grant", text)
	}
	cluster.Answer(get, http.StatusServiceUnavailable)
	if got := ask(); got != membership.NamespaceUnknown {
		t.Errorf("unavailable: %q", got)
	}
	cluster.Answer(get, 0)
	if got := ask(); got != membership.NotAllowed {
		t.Errorf("a namespace that is gone: %q", got)
	}
	n.API = &api{}
	n.API.(*api).err.Store(&faults.ErrNoClient)
	delete(n.known, "operators")
	if got := ask(); got != membership.NoAPI {
		t.Errorf("without an API server: %q", got)
	}
	select {
	case <-woken:
		t.Error("woken without a change")
	default:
	}
}

// TestShrinks: a namespace that allows less is believed the second time, because its pods are
// restarted for it. Another namespace of that name is another one.
func TestShrinks(t *testing.T) {
	t.Parallel()
	said := func(uid string, types ...string) node.Namespace { return node.Namespace{UID: uid, Types: types} }
	k := &known{done: make(chan struct{})}
	for i, step := range []struct {
		said    node.Namespace
		changed bool
		want    string
	}{
		{said("1", "a", "b"), true, "a b"},
		{said("1", "a", "b"), false, "a b"},
		{said("1", "a"), false, "a b"},
		{said("1", "a", "b"), false, "a b"}, // it came back
		{said("1", "a"), false, "a b"},
		{said("1", "a"), true, "a"},
		{said("1", "a", "c"), true, "a c"},
		{said("2"), true, ""},
	} {
		if got := k.answer(step.said); got != step.changed || strings.Join(k.Types, " ") != step.want {
			t.Errorf("%d: changed %t, %q; want %t, %q", i, got, k.Types, step.changed, step.want)
		}
	}
}

// TestAwait: a sandbox waits for a part of a second, and all of them for one second, until the API
// server answers again.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &api{took: time.Minute}
		n := New(Options{API: slow, Node: nodeIn(t), Log: slog.New(slog.DiscardHandler), Wake: func() {}})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = n.Run(ctx) }() // it ends with its context
		wait := func(namespace string) time.Duration {
			begin := time.Now()
			n.Await(ctx, namespace)
			return time.Since(begin)
		}
		for i, want := range []time.Duration{patience, patience, patience, allPatience - 3*patience, 0} {
			if got := wait("n" + string(rune('a'+i))); got != want {
				t.Errorf("sandbox %d waits %s; want %s", i, got, want)
			}
		}
		<-time.After(2 * time.Minute) // the answers come
		if got := wait("nz"); got != patience {
			t.Errorf("after an answer: %s", got)
		}
		if got := wait("na"); got != 0 {
			t.Errorf("a known namespace: %s", got)
		}
		stop()
		synctest.Wait()
	})
}

// TestRefresh: a namespace in use is read again. One without pods that ask is not, and is
// forgotten.
func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quick := &api{}
		n := New(Options{API: quick, Node: nodeIn(t), Log: slog.New(slog.DiscardHandler), Wake: func() {}})
		ctx, stop := context.WithCancel(t.Context())
		go func() { _ = n.Run(ctx) }() // it ends with its context
		for range 20 {                 // for ten minutes
			n.Allows("used", "a")
			<-time.After(30 * time.Second)
		}
		if got := quick.calls.Load(); got < 15 || got > 25 {
			t.Errorf("%d requests in ten minutes; want one in each 30 s", got)
		}
		before := quick.calls.Load()
		<-time.After(unused + time.Minute)
		if got := quick.calls.Load() - before; got > 3 {
			t.Errorf("%d requests for a namespace that nobody uses", got)
		}
		stop()
		synctest.Wait()
		if len(n.known) > 0 {
			t.Errorf("%v is not forgotten", n.known)
		}
	})
}
