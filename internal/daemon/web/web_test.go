package web

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// fake is a monitor whose state a test sets.
type fake struct {
	state        state.Status
	alive, ready error
	// asked counts the readings of the state.
	asked int
}

// newFake returns a node on which all is well.
func newFake() *fake {
	return &fake{state: state.Status{Service: "ready", Report: report.Report{Pods: []report.Pod{
		{Namespace: "kube-system", Name: "etcd-node-1", Member: true, Belongs: partition.System},
	}}, Partitions: []state.Partition{{Name: partition.System}}}}
}

func (f *fake) handler(t *testing.T) http.Handler {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "answer"}))
	return Handler(Options{
		Version: "v1.2.3", Node: "node-1", Gatherer: registry,
		Alive: func() error { return f.alive }, Ready: func() error { return f.ready },
		State: func() state.Status {
			f.asked++
			return f.state
		},
	})
}

func do(t *testing.T, h http.Handler, method, url string) (int, http.Header, string) {
	t.Helper()
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, httptest.NewRequest(method, url, nil))
	body, err := io.ReadAll(recorder.Body)
	if err != nil {
		t.Fatal(err)
	}
	return recorder.Code, recorder.Header(), string(body)
}

func TestHandlerPaths(t *testing.T) {
	t.Parallel()
	h := newFake().handler(t)
	for _, test := range []struct {
		method, path string
		status       int
		kind, body   string
	}{
		{"GET", "/metrics", 200, "text/plain", "answer 0"},
		{"GET", "/healthz", 200, "text/plain", "ok\n"},
		{"GET", "/readyz", 200, "text/plain", "ok\n"},
		{"GET", "/report", 200, "application/json", `"name":"etcd-node-1"`},
		{"GET", "/", 200, "text/html", "etcd-node-1"},
		{"HEAD", "/", 200, "text/html", ""},
		{"HEAD", "/metrics", 200, "text/plain", ""},
		{"POST", "/", 405, "text/plain", "Method Not Allowed"},
		{"DELETE", "/metrics", 405, "text/plain", "Method Not Allowed"},
		{"OPTIONS", "/report", 405, "text/plain", "Method Not Allowed"},
		{"GET", "/debug/pprof/", 404, "text/plain", "not found"},
		{"GET", "/index.html", 404, "text/plain", "not found"},
		{"POST", "/nothing", 404, "text/plain", "not found"},
	} {
		status, header, body := do(t, h, test.method, "http://localhost"+test.path)
		if status != test.status || !strings.HasPrefix(header.Get("Content-Type"), test.kind) || !strings.Contains(body, test.body) {
			t.Errorf("%s %s: got %d, %s, %q; want %d, %s, %q", test.method, test.path, status, header.Get("Content-Type"), body,
				test.status, test.kind, test.body)
		}
		if status == 405 && header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s %s: Allow is %q", test.method, test.path, header.Get("Allow"))
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Content-Security-Policy": Policy} {
			if header.Get(name) != want {
				t.Errorf("%s %s: %s is %q, want %q", test.method, test.path, name, header.Get(name), want)
			}
		}
	}
}

func TestHandlerHealth(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change         func(*fake)
		path, problems string
	}{
		"stuck":    {func(f *fake) { f.alive = errors.Join(errors.New("no pass for 3m"), errors.New("and more")) }, "/healthz", "no pass for 3m\nand more\n"},
		"starting": {func(f *fake) { f.ready = errors.Join(errors.New("not looked yet"), errors.New("no runtime")) }, "/readyz", "not looked yet\nno runtime\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			test.change(f)
			status, _, body := do(t, f.handler(t), "GET", "http://localhost"+test.path)
			if status != 503 || body != test.problems {
				t.Errorf("got %d %q, want 503 %q", status, body, test.problems)
			}
		})
	}
}

// TestHandlerState: the report and both forms of the page have the state of the node, and however
// many ask for one, it is read once in a second.
func TestHandlerState(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		h := f.handler(t)
		_, _, body := do(t, h, "GET", "http://localhost/report")
		var got state.Status
		if err := json.Unmarshal([]byte(body), &got); err != nil || len(got.Pods) != 1 || got.Pods[0] != f.state.Pods[0] || got.Service != "ready" {
			t.Errorf("%v: %s", err, body)
		}
		for path, want := range map[string]string{"/": "Stop refreshing", "/?refresh=off": "Refresh every few seconds", "/?x=y": "Stop refreshing"} {
			if _, _, body := do(t, h, "GET", "http://localhost"+path); !strings.Contains(body, want) || !strings.Contains(body, "etcd-node-1") {
				t.Errorf("%s lacks %q: %s", path, want, body)
			}
		}
		f.asked = 0
		for range 100 {
			do(t, h, "GET", "http://localhost/")
		}
		if f.asked > keptBurst {
			t.Errorf("read %d times", f.asked)
		}
	})
}

func TestHosts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		listen, host string
		want         bool
	}{
		{"127.0.0.1", "localhost:9948", true},
		{"127.0.0.1", "LOCALHOST.", true},
		{"127.0.0.1", "127.0.0.1:9948", true},
		{"127.0.0.1", "127.9.9.9", true},
		{"127.0.0.1", "[::1]:9948", true},
		{"127.0.0.1", "[::1]", true},
		{"127.0.0.1", "[::ffff:127.0.0.1]:9948", true},
		{"127.0.0.1", "evil.example:9948", false},
		{"127.0.0.1", "localhost.evil.example", false},
		{"127.0.0.1", "127.0.0.1.evil.example", false},
		{"127.0.0.1", "2130706433", false},
		{"127.0.0.1", "10.0.0.5:9948", false},
		{"127.0.0.1", "", false},
		{"10.0.0.5", "10.0.0.5:9948", true},
		{"10.0.0.5", "10.0.0.6:9948", false},
		{"10.0.0.5", "[::ffff:10.0.0.5]:9948", true},
		{"fd00::5", "[fd00:0::5]:9948", true},
		{"Node-1", "node-1:9948", true},
		{"", "10.0.0.6:9948", true},
		{"0.0.0.0", "10.0.0.6:9948", true},
		{"::", "[fd00::5]:9948", true},
		{"::", "evil.example:9948", false},
	} {
		if got := newHosts([]string{test.listen}).include(test.host); got != test.want {
			t.Errorf("listening on %q, Host %q: got %t, want %t", test.listen, test.host, got, test.want)
		}
	}
	status, _, body := do(t, newFake().handler(t), "GET", "http://evil.example/report")
	if status != 403 || strings.Contains(body, "etcd") {
		t.Errorf("another's name: got %d %q, want 403 and no report", status, body)
	}
}
