package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/fakeapi"
	"node-partition.io/node-partition/tests/testkit"
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
func started(t *testing.T, n host.Node, client API) (*Namespaces, <-chan bool, *testkit.Buffer) {
	t.Helper()
	lines, woken := &testkit.Buffer{}, make(chan bool, 100)
	return NewNamespaces(NamespacesOptions{API: client, Node: n, Log: lines.Logger(), Wake: func() { woken <- true }}), woken, lines
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
	if got := n.Allows("operators", "management"); got != partition.NamespaceUnknown {
		t.Errorf("before an answer: %q", got)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	<-woken
	if got := n.Allows("operators", "management"); got != "" {
		t.Errorf("allowed: %q", got)
	}
	if got := n.Allows("operators", "telemetry"); got != partition.NotAllowed {
		t.Errorf("another type: %q", got)
	}
	stop()
	<-ended
	again, _, _ := started(t, on, asking{t, cluster})
	if again.forget() {
		t.Error("an answer of the last start is forgotten before its pods are seen")
	}
	if got := again.Allows("operators", "management"); got != "" {
		t.Errorf("after a restart: %q", got)
	}
	all, err := node.ReadNamespaces(on)
	if err != nil || all.Allows("operators", "management") != "" || all.Allows("other", "management") != partition.NamespaceUnknown {
		t.Errorf("other programs read %v, %v", all, err)
	}
}

// hear asks for one namespace, due or not.
func (n *Namespaces) hear(ctx context.Context, name string) {
	answer, err := n.ask(ctx, name)
	n.take(name, answer, err, true)
}

// TestRefusals: what keeps us from an answer is the reason that is reported, and is logged once.
func TestRefusals(t *testing.T) {
	t.Parallel()
	cluster := fakeapi.New(t, httptest.NewServer)
	n, woken, lines := started(t, nodeIn(t), asking{t, cluster})
	ask := func() partition.Refusal {
		n.Allows("operators", "a")
		n.hear(t.Context(), "operators")
		return n.Allows("operators", "a")
	}
	cluster.SetNamespace("shop", "1", map[string]string{"workload.openshift.io/allowed": "a"})
	cluster.Answer(get, http.StatusForbidden)
	if got := ask(); got != partition.Forbidden || ask() != got {
		t.Errorf("forbidden: %q", got)
	}
	n.Allows("shop", "a")
	n.askAll(t.Context())
	<-woken
	if got := n.Allows("shop", "a"); got != "" {
		t.Errorf("another namespace: %q", got)
	}
	if got := ask(); got != partition.Forbidden {
		t.Errorf("still forbidden: %q", got)
	}
	n.write()
	if all, err := node.ReadNamespaces(n.Node); err != nil || all.Allows("operators", "a") != partition.Forbidden {
		t.Errorf("other programs read %+v, %v", all, err)
	}
	if text := lines.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "get namespaces") {
		t.Errorf("log %q; want one line with the right to grant", text)
	}
	cluster.Answer(get, http.StatusServiceUnavailable)
	if got := ask(); got != partition.NamespaceUnknown {
		t.Errorf("unavailable: %q", got)
	}
	cluster.Answer(get, 0)
	if got := ask(); got != partition.NotAllowed {
		t.Errorf("a namespace that is gone: %q", got)
	}
	n.API = &api{}
	n.API.(*api).err.Store(&kubeapi.ErrNoClient)
	delete(n.known, "operators")
	if got := ask(); got != partition.NoAPI {
		t.Errorf("without an API server: %q", got)
	}
}

// TestOldAnswer: an answer that is not fresh gives no right to a new pod before the API server was
// asked. If it does not answer, the last answer counts for an hour, over a restart too.
func TestOldAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on, now := nodeIn(t), time.Now()
		one := func(heard time.Time) node.Namespace {
			return node.Namespace{UID: "1", Types: []string{"a"}, Heard: heard}
		}
		if err := node.WriteNamespaces(on, node.Namespaces{Known: map[string]node.Namespace{
			"young": one(now.Add(-fresh / 2)), "old": one(now.Add(-fresh)), "ancient": one(now.Add(-node.Remembered)),
			"future": one(now.Add(time.Hour)), "never": {Why: partition.Forbidden},
		}}); err != nil {
			t.Fatal(err)
		}
		away := &api{}
		err := errors.New("unreachable")
		away.err.Store(&err)
		n := NewNamespaces(NamespacesOptions{API: away, Node: on, Log: slog.New(slog.DiscardHandler), Wake: func() {}})
		for _, test := range []struct {
			namespace     string
			before, after partition.Refusal
		}{
			{"young", "", ""},
			{"old", partition.NamespaceUnknown, ""},
			{"ancient", partition.NamespaceUnknown, partition.NamespaceUnknown},
			{"future", partition.NamespaceUnknown, partition.NamespaceUnknown},
			{"never", partition.NamespaceUnknown, partition.NamespaceUnknown},
		} {
			if got := n.Allows(test.namespace, "a"); got != test.before {
				t.Errorf("%s, before a request: %q; want %q", test.namespace, got, test.before)
			}
			n.hear(t.Context(), test.namespace)
			if got := n.Allows(test.namespace, "a"); got != test.after {
				t.Errorf("%s, without an answer: %q; want %q", test.namespace, got, test.after)
			}
		}
		<-time.After(node.Remembered - fresh)
		if got := n.Allows("old", "a"); got != partition.NamespaceUnknown {
			t.Errorf("an hour without an answer: %q", got)
		}
		away.err.Store(nil)
		n.hear(t.Context(), "old")
		n.write()
		if all, err := node.ReadNamespaces(on); err != nil || !all.Known["old"].Heard.Equal(time.Now()) {
			t.Errorf("written %+v, %v; want the time of the answer", all, err)
		}
	})
}

// TestNamespacesAway: while the API server is away, the last answers about all namespaces count for
// new pods, after one request that took its time. The next request is for another one: the API
// server may have failed for the first alone.
func TestNamespacesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 30
		on, away := nodeIn(t), &api{}
		all := node.Namespaces{Known: map[string]node.Namespace{}}
		for i := range count {
			all.Known[strconv.Itoa(i)] = node.Namespace{UID: "1", Types: []string{"a"}, Heard: time.Now().Add(-fresh)}
		}
		if err := node.WriteNamespaces(on, all); err != nil {
			t.Fatal(err)
		}
		err := fmt.Errorf("get namespaces: %w", kubeapi.ErrUnreachable)
		away.err.Store(&err)
		away.took = findDue
		lines := &testkit.Buffer{}
		n := NewNamespaces(NamespacesOptions{API: away, Node: on, Log: lines.Logger(), Wake: func() {}})
		begin := time.Now()
		for i := range count {
			n.Allows(strconv.Itoa(i), "a")
		}
		n.askAll(t.Context())
		for i := range count {
			if got := n.Allows(strconv.Itoa(i), "a"); got != "" {
				t.Errorf("namespace %d, %s later: %q", i, time.Since(begin), got)
			}
		}
		if got := away.calls.Load(); got != 1 {
			t.Errorf("%d requests in a row to an API server that is away", got)
		}
		if got := strings.Count(lines.String(), "\n"); got != count {
			t.Errorf("%d lines about %d namespaces", got, count)
		}
		<-time.After(findDue)
		if due := n.due(); len(due) != count || due[count-1] != "0" {
			t.Errorf("asked for next: %q; want the one that was asked for at the end", due)
		}
	})
}

// TestAnswerEndsOutage: after an answer, the next one has to be fresh again.
func TestAnswerEndsOutage(t *testing.T) {
	t.Parallel()
	k, now := &known{}, time.Now()
	k.answer("1", []string{"a"}, now)
	k.without(kubeapi.ErrUnreachable, true, now)
	if now = now.Add(fresh); k.allows("a", now) != "" {
		t.Errorf("while the API server is away: %q", k.allows("a", now))
	}
	k.answer("1", []string{"a"}, now)
	now = now.Add(fresh)
	if got := k.allows("a", now); got != "" {
		t.Errorf("of the pods that run: %q", got)
	}
	if k.want(now); k.allows("a", now) != partition.NamespaceUnknown {
		t.Errorf("an old answer, and no request since: %q", k.allows("a", now))
	}
}

// TestDenialStays: what was denied stays denied: while the API server is away, when the answer is
// old, and while it is asked again. A pod on its way out must not turn back.
func TestDenialStays(t *testing.T) {
	t.Parallel()
	k, now := &known{}, time.Now()
	k.answer("1", []string{"a"}, now)
	k.answer("1", nil, now)
	k.answer("1", nil, now)
	for _, age := range []time.Duration{0, fresh, node.Remembered, 100 * node.Remembered} {
		if got := k.allows("a", now.Add(age)); got != partition.NotAllowed {
			t.Errorf("%s later: %q", age, got)
		}
	}
	k.without(kubeapi.ErrForbidden, true, now)
	if got := k.allows("a", now); got != partition.NotAllowed {
		t.Errorf("after the right to ask was taken: %q", got)
	}
}

// TestForbiddenLater: without the right to ask, the last answer gives nothing to a new pod.
func TestForbiddenLater(t *testing.T) {
	t.Parallel()
	k, now := &known{}, time.Now()
	k.answer("1", []string{"a"}, now)
	k.without(kubeapi.ErrForbidden, true, now)
	if got := k.allows("a", now); got != partition.Forbidden {
		t.Errorf("%q", got)
	}
	k.without(kubeapi.ErrUnreachable, false, now)
	k.without(kubeapi.ErrNoClient, true, now)
	if got := k.allows("a", now); got != partition.Forbidden {
		t.Errorf("in an outage: %q", got)
	}
	k.answer("1", []string{"a"}, now)
	if got := k.allows("a", now); got != "" {
		t.Errorf("after an answer: %q", got)
	}
}

// TestEndOfRun: a request that the end of the service cuts off is no failure.
func TestEndOfRun(t *testing.T) {
	t.Parallel()
	n, _, lines := started(t, nodeIn(t), &api{took: time.Hour})
	n.Allows("operators", "a")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	n.askAll(ctx)
	if text, why := lines.String(), n.known["operators"].Why; text != "" || why != "" {
		t.Errorf("log %q, reason %q", text, why)
	}
}

// TestShrinks: a right is lost when two answers in a row lack it, because pods are restarted for
// it. It gives nothing to new pods before. Another namespace of that name is another one.
func TestShrinks(t *testing.T) {
	t.Parallel()
	k, now := &known{}, time.Now()
	for i, step := range []struct {
		uid, types, want, doubted string
		changed                   bool
	}{
		{"1", "a b", "a b", "", true},
		{"1", "a b", "a b", "", false},
		{"1", "a", "a b", "b", true},
		{"1", "a b", "a b", "", true}, // it came back
		{"1", "b", "b a", "a", true},
		{"1", "a", "a b", "b", true}, // no two answers agree
		{"1", "b", "b a", "a", true},
		{"1", "b", "b", "", true},
		{"", "", "b", "b", true}, // gone
		{"1", "b c", "b c", "", true},
		{"1", "", "b c", "b c", true},
		{"1", "", "", "", true},
		{"1", "c", "c", "", true},
		{"2", "", "", "", true},
	} {
		before := k.view()
		k.answer(step.uid, strings.Fields(step.types), now)
		got, doubted := strings.Join(k.Types, " "), strings.Join(k.Doubted, " ")
		if got != step.want || doubted != step.doubted || (k.view() != before) != step.changed {
			t.Errorf("%d: %q, in doubt %q, changed %t; want %+v", i, got, doubted, k.view() != before, step)
		}
		for _, one := range k.Doubted {
			if got := k.allows(one, now); got != partition.NamespaceUnknown {
				t.Errorf("%d: %s, which is in doubt: %q", i, one, got)
			}
		}
	}
}

// TestInterval: an answer that differs from the one before is confirmed after the shortest
// interval.
func TestInterval(t *testing.T) {
	t.Parallel()
	k, now := &known{used: time.Now()}, time.Now()
	for i, step := range []struct {
		types string
		want  time.Duration
	}{{"a", refresh}, {"a", 2 * refresh}, {"a", 4 * refresh}, {"", refresh}, {"", refresh}, {"", 2 * refresh}, {"a", refresh}} {
		k.answer("1", strings.Fields(step.types), now)
		if k.due(now.Add(step.want-1)) || !k.due(now.Add(step.want)) {
			t.Errorf("answer %d: read again after %s; want %s", i, k.interval, step.want)
		}
	}
}

// TestTooMany: the namespaces that are remembered are bounded, and so are the requests for one
// whose request fails.
func TestTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := &api{}
		err := fmt.Errorf("get namespaces: %w", kubeapi.ErrForbidden)
		away.err.Store(&err)
		n := NewNamespaces(NamespacesOptions{API: away, Node: nodeIn(t), Log: slog.New(slog.DiscardHandler), Wake: func() {}})
		ctx, stop := context.WithCancel(t.Context())
		go func() { _ = n.Run(ctx) }() // it ends with its context
		for range 10 * 60 {
			if got := n.Allows("one", "a"); got != partition.Forbidden && got != partition.NamespaceUnknown {
				t.Fatal(got)
			}
			<-time.After(time.Second)
		}
		if got := away.calls.Load(); got < 2 || got > 4 {
			t.Errorf("%d requests in ten minutes without the right; want pauses up to %s", got, maxRefresh)
		}
		stop()
		synctest.Wait()
		for i := range maxKnown + 10 {
			n.Allows(strconv.Itoa(i), "a")
		}
		if len(n.known) != maxKnown {
			t.Errorf("%d namespaces are remembered", len(n.known))
		}
		if got := n.Allows("another", "a"); got != partition.NamespaceUnknown {
			t.Errorf("one more: %q", got)
		}
		n.Await(t.Context(), "another") // returns
	})
}

// TestAwait: a sandbox waits for a part of a second, and all of them for one second, until the API
// server answers again.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &api{took: time.Minute}
		n := NewNamespaces(NamespacesOptions{API: slow, Node: nodeIn(t), Log: slog.New(slog.DiscardHandler), Wake: func() {}})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = n.Run(ctx) }() // it ends with its context
		wait := func(namespace string) time.Duration {
			begin := time.Now()
			n.Await(ctx, namespace)
			return time.Since(begin)
		}
		for i, want := range []time.Duration{sandboxPatience, sandboxPatience, sandboxPatience, allPatience - 3*sandboxPatience, 0} {
			if got := wait("n" + string(rune('a'+i))); got != want {
				t.Errorf("sandbox %d waits %s; want %s", i, got, want)
			}
		}
		<-time.After(2 * time.Minute) // the answers come
		if got := wait("nz"); got != sandboxPatience {
			t.Errorf("after an answer: %s", got)
		}
		n.Allows("na", "a")
		if got := wait("na"); got != 0 && got != sandboxPatience {
			t.Errorf("a known namespace: %s", got)
		}
		stop()
		synctest.Wait()
	})
}

// TestRefresh: a namespace in use is read again, the less often the longer it says the same. A new
// pod has an answer of the last minute. A namespace without pods that ask is not read, and is
// forgotten.
func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quick := &api{}
		n := NewNamespaces(NamespacesOptions{API: quick, Node: nodeIn(t), Log: slog.New(slog.DiscardHandler), Wake: func() {}})
		ctx, stop := context.WithCancel(t.Context())
		go func() { _ = n.Run(ctx) }() // it ends with its context
		pass := func(long time.Duration) int32 {
			before := quick.calls.Load()
			for end := time.Now().Add(long); time.Now().Before(end); <-time.After(10 * time.Second) {
				if got := n.Allows("used", "a"); got != partition.NotAllowed && got != partition.NamespaceUnknown {
					t.Fatal(got)
				}
			}
			return quick.calls.Load() - before
		}
		if got := pass(10 * time.Minute); got < 4 || got > 6 { // 0, 30 s, 1.5, 3.5, 7.5 minutes
			t.Errorf("%d requests in the first ten minutes; want one after 30 s, and pauses that double", got)
		}
		if got := pass(time.Hour); got < 11 || got > 12 {
			t.Errorf("%d requests in the next hour; want one in each 5 minutes", got)
		}
		for i, want := range []int32{1, 0, 1} {
			before := quick.calls.Load()
			if n.Await(ctx, "used"); quick.calls.Load()-before != want {
				t.Errorf("new pod %d: %d requests; want %d", i, quick.calls.Load()-before, want)
			}
			<-time.After([]time.Duration{fresh / 4, fresh, 0}[i])
		}
		<-time.After(inUse)
		before := quick.calls.Load()
		<-time.After(unused)
		if got := quick.calls.Load() - before; got > 1 {
			t.Errorf("%d requests for a namespace that nobody uses", got)
		}
		stop()
		synctest.Wait()
		if len(n.known) > 0 {
			t.Errorf("%v is not forgotten", n.known)
		}
	})
}

// TestKept: the time of the last answer is written every ten minutes although nothing changes, for
// the plugin that places pods after a restart of the runtime and cannot ask.
func TestKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNamespaces(NamespacesOptions{API: &api{}, Node: nodeIn(t), Log: slog.New(slog.DiscardHandler), Wake: func() {}})
		ctx, stop := context.WithCancel(t.Context())
		go func() { _ = n.Run(ctx) }() // it ends with its context
		for range 2 * 60 {             // for an hour
			n.Allows("used", "a")
			<-time.After(30 * time.Second)
		}
		stop()
		synctest.Wait()
		all, err := node.ReadNamespaces(n.Node)
		if age := time.Since(all.Known["used"].Heard); err != nil || age > kept+refresh+look {
			t.Errorf("the last answer is %s old in the file, %v", age, err)
		}
	})
}
