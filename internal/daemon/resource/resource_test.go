package resource

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nodepartition/internal/daemon/faults"
	"nodepartition/internal/host"
	"nodepartition/internal/kubeapi"
	"nodepartition/internal/node"
	"nodepartition/tests/testkit"
)

// memory is a Node in memory.
type memory struct {
	mu      sync.Mutex
	present *kubeapi.Node
	changed chan struct{} // closed at the next change
	// failing is the error of all requests; nil for none.
	failing error
	// keeps changes what is written.
	keeps   func(values)
	watches int
	writes  []string
}

func newMemory(cores values) *memory {
	m := &memory{changed: make(chan struct{})}
	m.make("1", cores)
	return m
}

// make makes the Node, or changes it; it is deleted without a UID.
func (m *memory) make(uid string, cores values) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.replace(nil)
	if uid != "" {
		m.replace(&kubeapi.Node{UID: uid, Cores: cores})
	}
}

func (m *memory) replace(n *kubeapi.Node) {
	m.present = n
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *memory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failing = err
	close(m.changed)
	m.changed = make(chan struct{})
}

// counts returns the watches and the writes since the last call.
func (m *memory) counts() (watches int, writes string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	watches, writes = m.watches, strings.Join(m.writes, ", ")
	m.watches, m.writes = 0, nil
	return watches, writes
}

func (m *memory) cores() values {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.present == nil {
		return nil
	}
	return maps.Clone(m.present.Cores)
}

// watch ends after five minutes, as an API server's.
func (m *memory) watch(ctx context.Context, seen func(*kubeapi.Node)) error {
	m.mu.Lock()
	m.watches++
	m.mu.Unlock()
	end := time.After(5 * time.Minute)
	told := (*kubeapi.Node)(nil)
	for {
		m.mu.Lock()
		n, changed, err := m.present, m.changed, m.failing
		m.mu.Unlock()
		if err != nil {
			return err
		}
		if n != told {
			seen(n)
			told = n
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end:
			return nil
		case <-changed:
		}
	}
}

func (m *memory) set(_ context.Context, uid string, cores map[string]*int64) (kubeapi.Node, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes = append(m.writes, text(cores))
	switch {
	case m.failing != nil:
		return kubeapi.Node{}, m.failing
	case m.present == nil || m.present.UID != uid:
		return kubeapi.Node{}, kubeapi.ErrGone
	}
	n := kubeapi.Node{UID: uid, Cores: maps.Clone(m.present.Cores)}
	if n.Cores == nil {
		n.Cores = values{}
	}
	for one, value := range cores {
		if delete(n.Cores, one); value != nil {
			n.Cores[one] = *value
		}
	}
	if m.keeps != nil {
		m.keeps(n.Cores)
	}
	m.replace(&n)
	return n, nil
}

// nodeIn returns a node with a number of CPUs, whose state can be written.
func nodeIn(t *testing.T, online string) host.Node {
	t.Helper()
	n := host.Below(t.TempDir())
	if err := os.MkdirAll(filepath.Dir(n.Path(node.ResourcesFile)), 0o755); err != nil {
		t.Fatal(err)
	}
	setOnline(t, n, online)
	return n
}

func setOnline(t *testing.T, n host.Node, online string) {
	t.Helper()
	path := n.Path("/sys/devices/system/cpu/online")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(online+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// of returns Resources of a Node in memory, and their log.
func of(n host.Node, m *memory) (*Resources, *testkit.Buffer) {
	lines := &testkit.Buffer{}
	r := New(Options{Node: n, Log: lines.Logger()})
	r.nodes = m
	return r, lines
}

// running runs Resources until stop is called.
func running(t *testing.T, r *Resources) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return func() {
		cancel()
		<-ended
	}
}

func wantCores(t *testing.T, m *memory, want values) {
	t.Helper()
	synctest.Wait()
	if got := m.cores(); !maps.Equal(got, want) {
		t.Errorf("the Node has %v; want %v", got, want)
	}
}

// TestIdle: a Node that is as it should be costs one request every few minutes, and none is
// written. Without a type there is no request at all.
func TestIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(nil)
		r, lines := of(nodeIn(t, "0-3"), m)
		defer running(t, r)()
		<-time.After(time.Hour)
		if watches, writes := m.counts(); watches != 0 || writes != "" {
			t.Errorf("without a type: %d watches, writes %q", watches, writes)
		}
		r.Follow([]string{"a"})
		wantCores(t, m, values{"a": 4000})
		if watches, writes := m.counts(); watches != 1 || writes != "a=4000" {
			t.Errorf("at first: %d watches, writes %q", watches, writes)
		}
		<-time.After(time.Hour)
		if watches, writes := m.counts(); watches < 11 || watches > 12 || writes != "" {
			t.Errorf("in an hour: %d watches, writes %q; want one in five minutes, and none", watches, writes)
		}
		r.Follow(nil)
		wantCores(t, m, values{})
		m.counts()
		<-time.After(time.Hour)
		if watches, writes := m.counts(); watches != 0 || writes != "" {
			t.Errorf("without a type again: %d watches, writes %q", watches, writes)
		}
		if _, err := os.Stat(r.node.Path(node.ResourcesFile)); !os.IsNotExist(err) {
			t.Errorf("the state file is left: %v", err)
		}
		if text := lines.String(); strings.Count(text, "\n") != 2 {
			t.Errorf("log %s; want one line for the resource, and one for its removal", text)
		}
	})
}

// TestOverwritten: a value that somebody overwrites is restored at once, and an overwriting in a
// loop is answered every ten seconds. It is logged.
func TestOverwritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(values{"other": 1})
		r, lines := of(nodeIn(t, "0-3"), m)
		defer running(t, r)()
		r.Follow([]string{"a", "b"})
		want := values{"a": 4000, "b": 4000, "other": 1}
		wantCores(t, m, want)
		<-time.After(time.Hour)
		m.make("1", values{"a": 0, "b": 4000, "other": 1})
		wantCores(t, m, want)
		if text := lines.String(); !strings.Contains(text, "was overwritten") || !strings.Contains(text, "found=0 capacity=4000") {
			t.Errorf("log %s", text)
		}
		<-time.After(time.Hour)
		m.counts()
		for range 600 {
			m.make("1", values{"a": 0, "other": 1})
			<-time.After(time.Second)
		}
		if _, writes := m.counts(); strings.Count(writes, "a=4000 b=4000") < 60 || strings.Count(writes, ",") > 70 {
			t.Errorf("writes in ten minutes: %s", writes)
		}
		<-time.After(time.Minute)
		wantCores(t, m, want)
	})
}

// TestNotKept: values that an admission policy takes back are written less and less often, and the
// log says so once.
func TestNotKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(nil)
		m.keeps = func(v values) { delete(v, "a") }
		r, lines := of(nodeIn(t, "0-3"), m)
		defer running(t, r)()
		r.Follow([]string{"a"})
		<-time.After(time.Hour)
		if _, writes := m.counts(); strings.Count(writes, "a=4000") < 4 || strings.Count(writes, "a=4000") > 9 {
			t.Errorf("writes in an hour: %s", writes)
		}
		if text := lines.String(); strings.Count(text, "admission policy") != 1 {
			t.Errorf("log %s", text)
		}
	})
}

// TestNodeComesAndGoes: a Node that is missing at the start gets the resources when it is there,
// and one that is deleted and made again gets them again.
func TestNodeComesAndGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(nil)
		m.make("", nil)
		r, _ := of(nodeIn(t, "0-3"), m)
		defer running(t, r)()
		r.Follow([]string{"a"})
		<-time.After(time.Hour)
		if _, writes := m.counts(); writes != "" {
			t.Errorf("without a Node: writes %q", writes)
		}
		m.make("1", nil)
		wantCores(t, m, values{"a": 4000})
		m.make("", nil)
		wantCores(t, m, nil)
		if all, err := node.ReadResources(r.node); err != nil || len(all.Seen) > 0 || len(all.Written) > 0 {
			t.Errorf("without the Node: %+v, %v", all, err)
		}
		<-time.After(time.Minute)
		m.make("2", nil)
		wantCores(t, m, values{"a": 4000})
		m.make("3", nil) // the watch has not shown that it was gone
		<-time.After(time.Minute)
		wantCores(t, m, values{"a": 4000})
		if all, err := node.ReadResources(r.node); err != nil || all.Node != "3" || all.Seen["a"] != 4000 {
			t.Errorf("on another Node: %+v, %v", all, err)
		}
	})
}

// TestRefused: without the right, and without an API server, requests get rare. The cause is logged
// once, and nothing is remembered that was not written. It works when the cause is gone.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err         error
		lines       int
		most, least int
	}{
		"forbidden":   {kubeapi.ErrForbidden, 1, 8, 3},
		"unreachable": {kubeapi.ErrUnreachable, 1, 90, 45},
		"no client":   {faults.ErrNoClient, 0, 361, 350},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(nil)
				m.fail(test.err)
				r, lines := of(nodeIn(t, "0-3"), m)
				defer running(t, r)()
				r.Follow([]string{"a"})
				<-time.After(time.Hour - time.Second)
				if watches, writes := m.counts(); watches > test.most || watches < test.least || writes != "" {
					t.Errorf("%d watches in an hour, writes %q", watches, writes)
				}
				if text := lines.String(); strings.Count(text, "\n") != test.lines {
					t.Errorf("log %s; want %d lines", text, test.lines)
				}
				m.fail(nil)
				<-time.After(2 * time.Hour * 3 / 2)
				wantCores(t, m, values{"a": 4000})
			})
		})
	}
}

// patchless is a Node whose status the user may not patch.
type patchless struct {
	*memory
	err error
}

func (p patchless) set(ctx context.Context, uid string, cores map[string]*int64) (kubeapi.Node, error) {
	if p.err != nil {
		p.counts()
		return kubeapi.Node{}, p.err
	}
	return p.memory.set(ctx, uid, cores)
}

// TestPatchRefused: a resource that could not be written is not ours. One for which no answer came
// may be.
func TestPatchRefused(t *testing.T) {
	t.Parallel()
	for err, ours := range map[error]int{kubeapi.ErrForbidden: 0, kubeapi.ErrCredentials: 0, kubeapi.ErrUnreachable: 1} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory(nil)
			r, lines := of(nodeIn(t, "0-3"), m)
			r.nodes = patchless{m, err}
			defer running(t, r)()
			r.Follow([]string{"a"})
			<-time.After(30 * time.Minute)
			if all, readErr := node.ReadResources(r.node); readErr != nil || len(all.Written) != ours {
				t.Errorf("%v: %+v, %v; want %d written", err, all, readErr, ours)
			}
			if text := lines.String(); strings.Count(text, "could not be written") != 1 || strings.Count(text, "\n") != 1 {
				t.Errorf("%v: log %s; want one line", err, text)
			}
		})
	}
}

// TestRestart: a restart changes nothing on the Node. A type that was removed meanwhile loses its
// resource, and a resource of somebody else stays.
func TestRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(values{"theirs": 7})
		on := nodeIn(t, "0-3")
		r, _ := of(on, m)
		stop := running(t, r)
		r.Follow([]string{"a", "b"})
		all := values{"a": 4000, "b": 4000, "theirs": 7}
		wantCores(t, m, all)
		stop()
		wantCores(t, m, all)
		m.counts()
		r, _ = of(on, m)
		r.Follow([]string{"a", "b"})
		stop = running(t, r)
		<-time.After(time.Minute)
		if _, writes := m.counts(); writes != "" {
			t.Errorf("writes at a restart: %q", writes)
		}
		stop()
		setOnline(t, on, "0-1")
		r, _ = of(on, m)
		r.Follow([]string{"a"})
		stop = running(t, r)
		wantCores(t, m, values{"a": 4000, "theirs": 7})
		stop()
		r, _ = of(on, m) // with no type at all
		stop = running(t, r)
		wantCores(t, m, values{"theirs": 7})
		stop()
	})
}

// TestCPUs: CPUs that come online count within seconds. A value is not lowered while the node runs.
func TestCPUs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(nil)
		on := nodeIn(t, "0-3")
		r, lines := of(on, m)
		defer running(t, r)()
		r.Follow([]string{"a"})
		wantCores(t, m, values{"a": 4000})
		<-time.After(calm)
		setOnline(t, on, "0-5")
		<-time.After(look)
		wantCores(t, m, values{"a": 6000})
		setOnline(t, on, "0")
		<-time.After(calm)
		wantCores(t, m, values{"a": 6000})
		if err := os.Remove(on.Path("/sys/devices/system/cpu/online")); err != nil {
			t.Fatal(err)
		}
		r.Follow([]string{"a", "b"})
		<-time.After(time.Minute)
		wantCores(t, m, values{"a": 6000})
		if text := lines.String(); strings.Contains(text, "overwritten") || strings.Count(text, "are not known") != 1 {
			t.Errorf("log %s", text)
		}
	})
}

// TestRemove: at the end of the partitions nothing of ours stays, also if the watch has failed. An
// API server that does not answer is not waited for, and the log says what to remove.
func TestRemove(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(values{"theirs": 7})
		r, lines := of(nodeIn(t, "0-3"), m)
		stop := running(t, r)
		r.Follow([]string{"a"})
		wantCores(t, m, values{"a": 4000, "theirs": 7})
		stop()
		m.fail(kubeapi.ErrUnreachable)
		r.Remove(t.Context())
		if text := lines.String(); !strings.Contains(text, "could not be removed") || !strings.Contains(text, "a.workload.openshift.io/cores") {
			t.Errorf("log %s", text)
		}
		m.fail(nil)
		r.Remove(t.Context())
		wantCores(t, m, values{"theirs": 7})
		m.counts()
		r.Remove(t.Context())
		if _, writes := m.counts(); writes != "" {
			t.Errorf("removed again: %q", writes)
		}
	})
}

// TestStateNotRead: a state file of a later version is not followed, and said. What the API server
// knows of our writes replaces it.
func TestStateNotRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(values{"a": 4000, "b": 4000, "theirs": 7})
		m.present.Ours = []string{"b"}
		on := nodeIn(t, "0-3")
		if err := os.WriteFile(on.Path(node.ResourcesFile), []byte(`{"version":9}`), 0o600); err != nil {
			t.Fatal(err)
		}
		r, lines := of(on, m)
		defer running(t, r)()
		r.Follow([]string{"a"})
		wantCores(t, m, values{"a": 4000, "theirs": 7})
		if text := lines.String(); !strings.Contains(text, "version 9") {
			t.Errorf("log %s", text)
		}
	})
}

// lagging is a Node whose watch shows the state before a write once more.
type lagging struct {
	written chan struct{}
	writes  []string
}

func (l *lagging) watch(ctx context.Context, seen func(*kubeapi.Node)) error {
	seen(&kubeapi.Node{UID: "1", Version: "9"})
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-l.written:
	}
	seen(&kubeapi.Node{UID: "1", Version: "10"}) // a heartbeat of the kubelet
	seen(&kubeapi.Node{UID: "1", Version: "11", Cores: values{"a": 4000}})
	<-ctx.Done()
	return ctx.Err()
}

func (l *lagging) set(_ context.Context, _ string, cores map[string]*int64) (kubeapi.Node, error) {
	if l.writes = append(l.writes, text(cores)); len(l.writes) == 1 {
		close(l.written)
	}
	return kubeapi.Node{UID: "1", Version: "11", Cores: values{"a": 4000}}, nil
}

// TestWatchLags: a state of the Node that is older than our write causes no other write.
func TestWatchLags(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _ := of(nodeIn(t, "0-3"), nil)
		l := &lagging{written: make(chan struct{})}
		r.nodes = l
		stop := running(t, r)
		r.Follow([]string{"a"})
		<-time.After(time.Minute)
		stop()
		if len(l.writes) != 1 {
			t.Errorf("writes %q; want one", l.writes)
		}
	})
}

// TestRemoveThenLag: a state of the Node from before the removal does not make its resources ours
// again.
func TestRemoveThenLag(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(nil)
		r, _ := of(nodeIn(t, "0-3"), m)
		stop := running(t, r)
		r.Follow([]string{"a"})
		wantCores(t, m, values{"a": 4000})
		stop()
		r.Remove(t.Context())
		m.counts()
		<-time.After(calm)
		r.keep(t.Context(), &kubeapi.Node{UID: "1", Cores: values{"a": 4000}, Ours: []string{"a"}})
		if _, writes := m.counts(); writes != "" || !r.isIdle() {
			t.Errorf("writes %q, idle: %v; want none", writes, r.isIdle())
		}
	})
}
