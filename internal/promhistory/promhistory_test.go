package promhistory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
)

// clock is the time by the clock of the Prometheus of these tests: half past two.
var clock = time.Date(2026, 11, 20, 14, 30, 0, 0, time.UTC)

// fake answers as a Prometheus does.
type fake struct {
	// series lists the labels of the series with the names of the nodes.
	series []map[string]string
	// value returns the value of a query for a node at each hour, and false for none.
	value func(query, node string, at time.Time) (float64, bool)
	// most is the number of nodes of a query from which on it is too much, 0 for any.
	most int
	// warning is a warning of each answer.
	warning string

	mu    sync.Mutex
	asked []string
	spans []time.Duration
}

var nodesOf = regexp.MustCompile(`instance=~"([^"]*)"`)

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.FormValue("query")
	f.mu.Lock()
	f.asked = append(f.asked, query)
	f.mu.Unlock()
	answer := func(data any) {
		body := map[string]any{"status": "success", "data": data}
		if f.warning != "" {
			body["warnings"] = []string{f.warning}
		}
		_ = json.NewEncoder(w).Encode(body)
	}
	switch r.URL.Path {
	case "/api/v1/query":
		answer(map[string]any{"resultType": "scalar", "result": []any{float64(clock.Unix()), strconv.FormatInt(clock.Unix(), 10)}})
	case "/api/v1/series":
		answer(f.series)
	default:
		f.queryRange(w, r, query, answer)
	}
}

func (f *fake) queryRange(w http.ResponseWriter, r *http.Request, query string, answer func(any)) {
	nodes := strings.Split(nodesOf.FindStringSubmatch(query)[1], "|")
	if f.most > 0 && len(nodes) > f.most {
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory"}`)
		return
	}
	from, _ := strconv.ParseFloat(r.FormValue("start"), 64)
	to, _ := strconv.ParseFloat(r.FormValue("end"), 64)
	step, _ := strconv.ParseFloat(r.FormValue("step"), 64)
	f.mu.Lock()
	f.spans = append(f.spans, time.Duration((to-from)*float64(time.Second)))
	f.mu.Unlock()
	matrix := []any{}
	for _, of := range f.series {
		if !slices.Contains(nodes, of["instance"]) {
			continue
		}
		values := []any{}
		for at := from; at <= to; at += step {
			if value, ok := f.value(query, of["instance"], time.UnixMilli(int64(at*1000)).UTC()); ok {
				values = append(values, []any{at, strconv.FormatFloat(value, 'f', -1, 64)})
			}
		}
		if len(values) > 0 {
			matrix = append(matrix, map[string]any{"metric": of, "values": values})
		}
	}
	answer(map[string]any{"resultType": "matrix", "result": matrix})
}

// nodes returns the labels of so many nodes.
func nodes(n int) []map[string]string {
	list := make([]map[string]string, 0, n)
	for i := range n {
		list = append(list, map[string]string{"instance": fmt.Sprintf("node-%03d", i), "instance_type": "m5.large"})
	}
	return list
}

// usual has the same for each node and hour.
func usual(query, _ string, _ time.Time) (float64, bool) {
	switch {
	case strings.HasPrefix(query, "count_over_time"):
		return 60, true
	case strings.Contains(query, "increase("):
		return 0, false
	case strings.Contains(query, "nodepartition_least_threshold_bytes"):
		return 4 << 20, true
	}
	return 100, true
}

// read reads a Prometheus.
func read(t *testing.T, f http.Handler, o Options) ([]Node, []string, error) {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	o.URL = server.URL
	if o.By == "" {
		o.By = "instance_type"
	}
	o.Partition = "system"
	if o.Span == 0 {
		o.Span = 14 * 24 * time.Hour
	}
	if err := o.Check(); err != nil {
		t.Fatal(err)
	}
	var list []Node
	doubts, err := Nodes(t.Context(), o, func(n Node) { list = append(list, n) })
	return list, doubts, err
}

// TestNodes: each node comes with all its hours before the last full one, by the clock of the
// Prometheus.
func TestNodes(t *testing.T) {
	t.Parallel()
	list, _, err := read(t, &fake{series: nodes(2), value: usual}, Options{})
	if err != nil || len(list) != 2 || len(list[0].Hours) != 14*24 {
		t.Fatalf("%d nodes, %v", len(list), err)
	}
	n := list[0]
	first, last := n.Hours[0], n.Hours[len(n.Hours)-1]
	if n.Name != "node-000" || n.Shape != "m5.large" || n.LeastThreshold != 4<<20 || n.NodeBytes != 100 ||
		!first.Time.Equal(time.Date(2026, 11, 6, 14, 0, 0, 0, time.UTC)) || !last.Time.Equal(time.Date(2026, 11, 20, 13, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v, from %s to %s", n, first.Time, last.Time)
	}
	p := last.Partition
	if last.Seconds != 3600 || p.UsedPeakBytes != 100 || p.UsedLowBytes != 100 || p.Cache.WorkingSetBytes != 100 || p.Pods.AllUsedBytes != 100 ||
		p.Pods.RequestBytes != 100 || p.HardBytes != 0 || len(p.Evicted) > 0 || p.KilledAtLimit+p.KilledElsewhere > 0 || last.Groups[0].WorkingSetBytes != 100 {
		t.Errorf("%+v, %+v, %+v", last, p, p.Pods)
	}
}

// TestNodesBounded: no query is for more than some nodes and hours.
func TestNodesBounded(t *testing.T) {
	t.Parallel()
	f := &fake{series: nodes(250), value: usual}
	list, _, err := read(t, f, Options{})
	if err != nil || len(list) != 250 {
		t.Fatalf("%d nodes, %v", len(list), err)
	}
	for _, query := range f.asked {
		if found := nodesOf.FindStringSubmatch(query); found != nil && strings.Count(found[1], "|") >= maxNodes {
			t.Errorf("%s", query)
		}
	}
	if most := slices.Max(f.spans); most >= maxHours*time.Hour {
		t.Errorf("%s in one query", most)
	}
	// Three chunks of nodes, seven of hours, and all queries but that for the threshold.
	if want := 3 * 7 * (len(queries(Options{})) - 1); len(f.spans) != want {
		t.Errorf("%d queries; want %d", len(f.spans), want)
	}
}

// TestNodesTooMuch: a Prometheus that allows less is asked for less, and each node comes once.
func TestNodesTooMuch(t *testing.T) {
	t.Parallel()
	list, _, err := read(t, &fake{series: nodes(90), value: usual, most: 30}, Options{Span: 50 * time.Hour})
	names := map[string]bool{}
	for _, n := range list {
		names[n.Name] = true
	}
	if err != nil || len(list) != 90 || len(names) != 90 || len(list[89].Hours) != 50 {
		t.Errorf("%d nodes, %d names, %v", len(list), len(names), err)
	}
	f := &fake{series: nodes(4)}
	fewest := 4
	refuse := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/query_range" {
			fewest = min(fewest, 1+strings.Count(r.FormValue("query"), "|"))
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"status":"error","errorType":"timeout","error":"query timed out in expression evaluation"}`)
			return
		}
		f.ServeHTTP(w, r)
	})
	if list, _, err := read(t, refuse, Options{}); err == nil || !strings.Contains(err.Error(), "does not tell minutes: query timed out") || len(list) > 0 || fewest != 1 {
		t.Errorf("%d nodes, asked for %d, %v", len(list), fewest, err)
	}
}

// TestNodesLabels: the time before the label was attached belongs to the only shape that the node
// has had, and nodes of one name in two clusters are two.
func TestNodesLabels(t *testing.T) {
	t.Parallel()
	f := &fake{value: usual, series: []map[string]string{
		{"instance": "a", "instance_type": "m5.large"}, {"instance": "a"}, {"instance": "b"},
		{"instance": "c", "instance_type": "c5.large", "cluster": "one"}, {"instance": "c", "instance_type": "c5.large", "cluster": "two"},
	}}
	f.value = func(query, node string, at time.Time) (float64, bool) {
		if strings.HasPrefix(query, "count_over_time") {
			return 30, true
		}
		return usual(query, node, at)
	}
	list, _, err := read(t, f, Options{Span: time.Hour})
	names := make([]string, 0, len(list))
	for _, n := range list {
		names = append(names, n.Shape+":"+n.Name)
	}
	if want := []string{":b", "c5.large:one/c", "c5.large:two/c", "m5.large:a"}; err != nil || !slices.Equal(names, want) {
		t.Fatalf("%q, %v; want %q", names, err, want)
	}
	if a := list[3].Hours[0]; a.Seconds != 3600 {
		t.Errorf("%+v", a)
	}
}

// TestNodesLabelUnclear: of a node that has had two shapes, the time before the label was attached
// belongs to neither.
func TestNodesLabelUnclear(t *testing.T) {
	t.Parallel()
	f := &fake{value: usual, series: []map[string]string{
		{"instance": "a"}, {"instance": "a", "instance_type": "m5.large"}, {"instance": "a", "instance_type": "c5.large"}, {"instance": "b"},
	}}
	f.value = func(query, node string, at time.Time) (float64, bool) {
		if strings.HasPrefix(query, "count_over_time") {
			return 20, true
		}
		return usual(query, node, at)
	}
	list, _, err := read(t, f, Options{Span: time.Hour})
	if err != nil || len(list) != 4 {
		t.Fatalf("%+v, %v", list, err)
	}
	for i, want := range []string{":a", ":b", "c5.large:a", "m5.large:a"} {
		if n := list[i]; n.Shape+":"+n.Name != want || n.Hours[0].Seconds != 20*60 {
			t.Errorf("%s:%s with %d seconds; want %s with its own 1200", n.Shape, n.Name, n.Hours[0].Seconds, want)
		}
	}
}

// TestNodesNotAnAmount: what is not an amount of bytes counts as not known.
func TestNodesNotAnAmount(t *testing.T) {
	t.Parallel()
	for _, value := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1} {
		f := &fake{series: nodes(1), value: func(query, node string, at time.Time) (float64, bool) {
			if strings.HasPrefix(query, "count_over_time") || at.Hour() != 12 {
				return usual(query, node, at)
			}
			return value, !strings.Contains(query, "increase(")
		}}
		list, _, err := read(t, f, Options{Span: 3 * time.Hour})
		if err != nil || len(list) != 1 {
			t.Fatalf("%f: %d nodes, %v", value, len(list), err)
		}
		for _, s := range list[0].Hours {
			if known := s.Time.Hour() != 12; (s.Partition != nil) != known || (len(s.Groups) > 0) != known {
				t.Errorf("%f: %+v; want that the hour is not known", value, s)
			}
		}
		if n := list[0]; n.LeastThreshold != 4<<20 || n.NodeBytes != 100 {
			t.Errorf("%f: %+v; want the other hours' amounts", value, n)
		}
	}
}

// TestNodesEvents: evictions and kills, and the threshold that was in force then.
func TestNodesEvents(t *testing.T) {
	t.Parallel()
	f := &fake{series: nodes(1), value: func(query, node string, at time.Time) (float64, bool) {
		if strings.Contains(query, "increase(") {
			return 1, at.Hour() == 3
		}
		return usual(query, node, at)
	}}
	list, _, err := read(t, f, Options{Span: 24 * time.Hour})
	if err != nil || len(list) != 1 {
		t.Fatal(len(list), err)
	}
	for _, s := range list[0].Hours {
		p := s.Partition
		if happened := s.Time.Hour() == 3; (len(p.Evicted) > 0) != happened || (p.KilledAtLimit > 0) != happened ||
			(p.KilledElsewhere > 0) != happened || p.HardBytes != 100 {
			t.Errorf("%s: %+v", s.Time, p)
		}
	}
}

// TestNodesDoubts: a warning of the Prometheus, such as one that a part of it has not answered, is
// passed on, once.
func TestNodesDoubts(t *testing.T) {
	t.Parallel()
	_, doubts, err := read(t, &fake{series: nodes(1), value: usual, warning: "no answer from store 2"}, Options{})
	if err != nil || !slices.Equal(doubts, []string{"no answer from store 2"}) {
		t.Errorf("%q, %v", doubts, err)
	}
	about := "PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket"
	if _, doubts, err = read(t, &fake{series: nodes(1), value: usual, warning: about}, Options{}); err != nil || len(doubts) > 0 {
		t.Errorf("%q, %v; want that what it says about a query is none", doubts, err)
	}
}

// TestExplained: an error has the reason of the Prometheus, or the beginning of what another server
// says, and whether fewer nodes may do.
func TestExplained(t *testing.T) {
	t.Parallel()
	for want, test := range map[string]struct {
		err  error
		much bool
	}{
		"client error: 401: who are you?":  {&v1.Error{Type: v1.ErrClient, Msg: "client error: 401", Detail: " who are you?\n"}, false},
		"server error: 502":                {&v1.Error{Type: v1.ErrServer, Msg: "server error: 502"}, false},
		"bad: " + strings.Repeat("x", 200): {&v1.Error{Type: v1.ErrBadResponse, Msg: "bad", Detail: strings.Repeat("x", 300)}, false},
		"server error: 500: {}":            {&v1.Error{Type: v1.ErrServer, Msg: "server error: 500", Detail: "{}"}, false},
		"too late": {
			&v1.Error{Type: v1.ErrServer, Msg: "server error: 503", Detail: `{"status":"error","errorType":"timeout","error":"too late"}`}, true,
		},
		"not ready":                      {&v1.Error{Type: v1.ErrServer, Msg: "server error: 503", Detail: `{"errorType":"unavailable","error":"not ready"}`}, false},
		"timed out":                      {&v1.Error{Type: v1.ErrTimeout, Msg: "timed out"}, true},
		"too many":                       {&v1.Error{Type: v1.ErrExec, Msg: "too many"}, true},
		"parse error":                    {&v1.Error{Type: v1.ErrBadData, Msg: "parse error"}, false},
		context.DeadlineExceeded.Error(): {fmt.Errorf("%w", context.DeadlineExceeded), true},
		"refused":                        {errors.New("refused"), false},
	} {
		r := &reader{address: "http://a"}
		err := r.ask(t.Context(), "its time", func(context.Context) (v1.Warnings, error) { return nil, test.err })
		if err == nil || err.Error() != "http://a does not tell its time: "+want || tooMuch(err) != test.much {
			t.Errorf("%v, too much: %t; want %s, %t", err, tooMuch(err), want, test.much)
		}
	}
}

// TestNodesNotPrometheus: no history is made of the answers of another server.
func TestNodesNotPrometheus(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"<html>":                    "does not tell its time",
		`{"status":"success"}`:      "does not tell its time",
		strings.Repeat(" ", 65<<20): "more than 64 MiB",
	} {
		_, _, err := read(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }), Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v; want %s", text, err, want)
		}
	}
}

// TestNodesEnd: a context that ends ends the reading.
func TestNodesEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	f := &fake{series: nodes(150)}
	f.value = func(query, node string, at time.Time) (float64, bool) {
		cancel()
		return usual(query, node, at)
	}
	server := httptest.NewServer(f)
	defer server.Close()
	o := Options{URL: server.URL, By: "instance_type", Partition: "system", Span: 24 * time.Hour}
	if _, err := Nodes(ctx, o, func(Node) { t.Error("a node") }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestHTTPConfig: the file has a password, and is not shown. A file that is not valid is an error.
func TestHTTPConfig(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "http.yml")
	if err := os.WriteFile(file, []byte("basic_auth: {username: sizing, password: secret}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &fake{series: nodes(1), value: usual}
	guarded := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, password, _ := r.BasicAuth(); name != "sizing" || password != "secret" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		f.ServeHTTP(w, r)
	})
	if list, _, err := read(t, guarded, Options{HTTPConfig: file}); err != nil || len(list) != 1 {
		t.Errorf("%d nodes, %v", len(list), err)
	}
	if _, _, err := read(t, guarded, Options{}); err == nil || !strings.Contains(err.Error(), "who are you?") {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(file, []byte("basic_auht: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newReader(Options{URL: "http://localhost", By: "x", HTTPConfig: file}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("%v", err)
	}
}

// TestCheck: an option that would be another query, or none, is refused.
func TestCheck(t *testing.T) {
	t.Parallel()
	good := Options{URL: "https://user:secret@prometheus:9090/path", By: "instance_type", Partition: "system"}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for want, o := range map[string]Options{
		"prometheus: ": {URL: "prometheus:9090", By: "a"}, "prometheus: want": {URL: "ftp://a", By: "a"},
		"by=a b": {URL: good.URL, By: "a b"}, "by=": {URL: good.URL},
		`partition=a"`: {URL: good.URL, By: "a", Partition: `a"`}, "partition=:": {URL: good.URL, By: "a"},
	} {
		if err := o.Check(); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v; want %s", err, want)
		}
	}
}
