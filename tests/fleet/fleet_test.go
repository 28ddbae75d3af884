//go:build fleet

package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"nodepartition/deploy/generate/promapi"
)

var count = flag.Int("nodes", 5000, "the number of nodes")

const (
	// interval is the time between scrapes, and between evaluations of the rules.
	interval = time.Minute
	// coarse is the time between the samples of the day before.
	coarse = 2 * time.Minute
	// answers bounds the time of all queries of the row for many nodes together.
	answers = 2 * time.Second

	dashboardFile = "../../deploy/grafana/node-partition.json"
	ruleFolder    = "../../deploy/prometheus"
)

// begin is the start of the day that recommend reads. The last hour of it has all series.
var begin = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

const (
	recorded = 26 * time.Hour
	full     = 75 * time.Minute
	// The rack is off for eight minutes.
	downAt, upAt = recorded - 20*time.Minute, recorded - 12*time.Minute
	rulesAt      = recorded - 50*time.Minute
)

// prometheus is a storage with an engine and rules.
type prometheus struct {
	db        *tsdb.DB
	engine    *promql.Engine
	nodes     []node
	templates []template
	refs      map[ref]storage.SeriesRef
	groups    []*rules.Group
}

// ref is a series of a node.
type ref struct{ node, template int }

// TestFleet measures all in one Prometheus, because making it takes most of the time.
func TestFleet(t *testing.T) {
	p := newPrometheus(t)
	slowest := map[string]cost{}
	pages := map[time.Duration][]string{}
	for at := time.Duration(0); at < recorded; {
		everything := at >= recorded-full
		p.scrape(t, at, everything)
		if at >= rulesAt {
			p.evaluate(t, at, slowest)
			pages[at] = p.pages()
		}
		if everything {
			at += interval
		} else {
			at += coarse
		}
	}
	p.size(t)
	for name, took := range slowest {
		t.Logf("rules %s: %s of %s, %s of a processor", name, took.wall.Round(time.Millisecond), interval, took.processor.Round(time.Millisecond))
	}
	t.Run("rules", func(t *testing.T) {
		sum := time.Duration(0)
		for _, took := range slowest {
			sum += took.processor
		}
		// The time by the clock depends on what else the machine does.
		if t.Logf("%s of a processor in all, every %s", sum.Round(time.Millisecond), interval); sum > interval {
			t.Errorf("%s of a processor, every %s", sum, interval)
		}
	})
	t.Run("a rack is one page", func(t *testing.T) {
		most := 0
		for at, fired := range pages {
			most = max(most, len(fired))
			if len(fired) > 0 && (at < downAt || at > upAt+5*time.Minute) {
				t.Errorf("at %s: %q", at, fired)
			}
		}
		if most != 1 {
			t.Errorf("%d pages at once, want 1: %q", most, pages[upAt-interval])
		}
	})
	t.Run("row of the dashboard", p.row)
	t.Run("recommend", p.recommend)
}

func newPrometheus(t *testing.T) *prometheus {
	t.Helper()
	options := tsdb.DefaultOptions()
	options.RetentionDuration = int64(30 * 24 * time.Hour / time.Millisecond)
	db, err := tsdb.Open(t.TempDir(), nil, nil, options, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	p := &prometheus{
		db: db, engine: promapi.NewEngine(), nodes: fleetOf(*count), templates: templates(t), refs: map[ref]storage.SeriesRef{},
	}
	for _, name := range []string{
		"up", "scrape_duration_seconds", "scrape_samples_scraped", "scrape_samples_post_metric_relabeling", "scrape_series_added",
	} {
		p.templates = append(p.templates, template{labels.FromStrings("__name__", name), 1})
	}
	manager := rules.NewManager(&rules.ManagerOptions{
		ExternalURL: &url.URL{}, Context: t.Context(), Appendable: db, Queryable: db,
		QueryFunc:  rules.EngineQueryFunc(p.engine, db),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
	})
	files, err := filepath.Glob(ruleFolder + "/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(path string) bool {
		name := filepath.Base(path)
		return name != "alerts.yaml" && name != "recording.yaml"
	})
	groups, problems := manager.LoadGroups(interval, labels.EmptyLabels(), "", nil, false, files...)
	if len(problems) > 0 || len(groups) < 2 {
		t.Fatalf("%d groups, %v", len(groups), problems)
	}
	for _, g := range groups {
		for _, r := range g.AlertingRules() {
			r.SetRestored(true)
		}
		p.groups = append(p.groups, g)
	}
	return p
}

// scrape appends what a scrape of all nodes gives: all series, or those that recommend reads.
func (p *prometheus) scrape(t *testing.T, since time.Duration, everything bool) {
	t.Helper()
	at := begin.Add(since)
	appender := p.db.Appender(t.Context())
	for i := range p.nodes {
		n := &p.nodes[i]
		down := i < rack && since >= downAt && since < upAt
		for j := range p.templates {
			s := &p.templates[j]
			if !everything && !s.recommends() {
				continue
			}
			v := n.value(s, at)
			switch {
			case down && s.labels.Get("__name__") == "up":
				v = 0
			case down && since == downAt:
				v = math.Float64frombits(value.StaleNaN)
			case down:
				continue
			}
			key := ref{i, j}
			known := p.refs[key]
			var series labels.Labels
			if known == 0 {
				b := labels.NewBuilder(s.labels)
				b.Set("job", "node-partition").Set("instance", n.name).Set("instance_type", n.shape)
				series = b.Labels()
			}
			got, err := appender.Append(known, series, at.UnixMilli(), v)
			if err != nil {
				t.Fatal(err)
			}
			p.refs[key] = got
		}
	}
	if err := appender.Commit(); err != nil {
		t.Fatal(err)
	}
}

// evaluate evaluates all rules, and notes the longest time of each group.
func (p *prometheus) evaluate(t *testing.T, since time.Duration, slowest map[string]cost) {
	t.Helper()
	for _, g := range p.groups {
		started, used := time.Now(), processor(t)
		g.Eval(t.Context(), begin.Add(since))
		before := slowest[g.Name()]
		slowest[g.Name()] = cost{
			wall: max(before.wall, time.Since(started)), processor: max(before.processor, processor(t)-used),
		}
		for _, r := range g.Rules() {
			if err := r.LastError(); err != nil {
				t.Fatalf("%s: %v", r.Name(), err)
			}
		}
	}
}

// cost is the time of something by the clock and of processors.
type cost struct{ wall, processor time.Duration }

// processor returns the time of processors that this process has used.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// pages lists the alerts that fire and want somebody now.
func (p *prometheus) pages() []string {
	var list []string
	for _, g := range p.groups {
		for _, r := range g.AlertingRules() {
			for _, a := range r.ActiveAlerts() {
				if a.State == rules.StateFiring && a.Labels.Get("severity") == "critical" {
					list = append(list, a.Labels.String())
				}
			}
		}
	}
	return list
}

// size prints what the Prometheus has and needs.
func (p *prometheus) size(t *testing.T) {
	t.Helper()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, resident, _ := strings.Cut(string(status), "VmHWM:")
	resident, _, _ = strings.Cut(resident, "\n")
	t.Logf("%d nodes, %d series of a node, %d series in the head, heap %d MiB, resident at most %s",
		len(p.nodes), len(p.templates), p.db.Head().NumSeries(), m.HeapInuse>>20, strings.TrimSpace(resident))
}

// shown holds the queries of the dashboard.
type shown struct {
	Panels []struct {
		Type, Title string
		Targets     []struct {
			Expr    string `json:"expr"`
			Instant bool   `json:"instant"`
		} `json:"targets"`
	} `json:"panels"`
}

// row asks all queries of the row at once, as a browser does.
func (p *prometheus) row(t *testing.T) {
	data, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var d shown
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	now := begin.Add(recorded - interval)
	type asked struct {
		title, expr string
		instant     bool
		series      int
		took        time.Duration
		err         error
	}
	var all []*asked
	of := false
	for _, panel := range d.Panels {
		if panel.Type == "row" {
			of = strings.Contains(strings.ToLower(panel.Title), "fleet")
		}
		for _, target := range panel.Targets {
			if of {
				all = append(all, &asked{title: panel.Title, expr: expand(target.Expr), instant: target.Instant})
			}
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s has no row for a fleet", dashboardFile)
	}
	started := time.Now()
	var waits sync.WaitGroup
	for _, a := range all {
		waits.Go(func() {
			begun := time.Now()
			var q promql.Query
			if a.instant {
				q, a.err = p.engine.NewInstantQuery(t.Context(), p.db, nil, a.expr, now)
			} else {
				q, a.err = p.engine.NewRangeQuery(t.Context(), p.db, nil, a.expr, now.Add(-full), now, 30*time.Second)
			}
			if a.err == nil {
				out := q.Exec(t.Context())
				a.err, a.series = out.Err, length(out.Value)
				q.Close()
			}
			a.took = time.Since(begun)
		})
	}
	waits.Wait()
	took, answered := time.Since(started), 0
	for _, a := range all {
		if a.err != nil {
			t.Errorf("%s: %s: %v", a.title, a.expr, a.err)
		}
		t.Logf("%8s  %4d series  %s", a.took.Round(time.Millisecond), a.series, a.title)
		answered += min(a.series, 1)
	}
	if answered*2 < len(all) {
		t.Errorf("%d of %d queries have an answer", answered, len(all))
	}
	if t.Logf("%d queries together: %s", len(all), took.Round(time.Millisecond)); took > answers {
		t.Errorf("%s, at most %s", took, answers)
	}
}

// length returns the number of series of an answer.
func length(of parser.Value) int {
	switch of := of.(type) {
	case promql.Matrix:
		return len(of)
	case promql.Vector:
		return len(of)
	}
	return 0
}

var variable = regexp.MustCompile(`\$(__)?\w+`)

// expand replaces Grafana's variables as if all is selected.
func expand(expr string) string {
	return variable.ReplaceAllStringFunc(expr, func(name string) string {
		if strings.HasPrefix(name, "$__") {
			return "5m"
		}
		return ".*"
	})
}

// recommend computes sections for all shapes, and compares one of them with the histories on disks.
func (p *prometheus) recommend(t *testing.T) {
	program := filepath.Join(t.TempDir(), "partition-monitor")
	build := exec.Command("go", "build", "-o", program, "./cmd/partition-monitor")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var mu sync.Mutex
	queries, slowest := 0, time.Duration(0)
	handler := promapi.Handler(p.engine, p.db, func() time.Time { return begin.Add(recorded) }, func(_ string, took time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		queries++
		slowest = max(slowest, took)
	})
	server := httptest.NewServer(handler)
	defer server.Close()
	run := func(args ...string) (string, time.Duration) {
		t.Helper()
		command := exec.Command(program, append([]string{"recommend"}, args...)...)
		var problems bytes.Buffer
		command.Stderr = &problems
		command.Env = append(os.Environ(), "TZ=UTC")
		started := time.Now()
		out, err := command.Output()
		if exited := new(exec.ExitError); err != nil && !errors.As(err, &exited) {
			t.Fatal(err)
		}
		if len(out) == 0 {
			t.Fatalf("%s", &problems)
		}
		return string(out), time.Since(started)
	}
	used := processor(t)
	all, took := run("--prometheus=" + server.URL)
	t.Logf("recommend for %d nodes and %s: %s, %d queries, the slowest %s, %s of a processor for Prometheus", len(p.nodes), recorded,
		took.Round(time.Second), queries, slowest.Round(time.Millisecond), (processor(t) - used).Round(time.Second))
	if shapes := strings.Count(all, "\nsystemPartition:"); shapes != 11 {
		t.Errorf("%d sections, want 11:\n%s", shapes, all)
	}
	dir := t.TempDir()
	folders := []string{}
	for _, n := range p.nodes[len(p.nodes)-compared:] {
		folder := filepath.Join(dir, n.name)
		if err := promapi.WriteHistory(folder, n.history(begin, begin.Add(recorded))); err != nil {
			t.Fatal(err)
		}
		folders = append(folders, fmt.Sprintf("--dir=%s=%s", n.shape, folder))
	}
	scraped, _ := run("--prometheus="+server.URL, `--match=instance_type="compared"`)
	if fromFiles, _ := run(folders...); scraped != fromFiles {
		t.Errorf("from Prometheus:\n%s\nfrom the histories:\n%s", scraped, fromFiles)
	}
}
