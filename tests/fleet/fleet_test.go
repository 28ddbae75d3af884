//go:build fleet

package fleet

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"math"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"node-partition.io/node-partition/tests/fleet/promapi"
)

var count = flag.Int("nodes", 5000, "the number of nodes")

const (
	// interval is the time between scrapes, and between evaluations of the rules.
	interval = time.Minute
	// coarse is the time between the samples of the day before, and between the evaluations there.
	coarse = 2 * time.Minute

	ruleFolder = "../../deploy/prometheus"
)

// begin is the start of the day that recommend reads. The last hour of it has all series.
var begin = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

const (
	recorded = 26 * time.Hour
	// From fullAt on each scrape has all series, and from rulesAt on Prometheus evaluates all rules.
	// Before, it has the series and the rules that recommend and the dashboard need.
	fullAt  = recorded - 75*time.Minute
	rulesAt = recorded - 50*time.Minute
	// The racks are off for longer than an alert about one node waits.
	downAt, upAt = recorded - 33*time.Minute, recorded - 13*time.Minute
)

// prometheus is a storage with an engine and rules.
type prometheus struct {
	db        *tsdb.DB
	engine    *promql.Engine
	nodes     []node
	templates []template
	refs      map[ref]storage.SeriesRef
	groups    []*rules.Group
	dashboard dashboard
	// shown has the groups that record what the dashboard reads. Prometheus evaluates them from
	// shownAt on.
	shown   []*rules.Group
	shownAt time.Duration
}

// ref is a series of a node.
type ref struct{ node, template int }

// TestFleet measures all in one Prometheus, because making it takes most of the time.
func TestFleet(t *testing.T) {
	p := newPrometheus(t)
	costs := map[*rules.Group]*cost{}
	for _, g := range p.groups {
		costs[g] = &cost{}
	}
	pages := map[time.Duration][]string{}
	for at := time.Duration(0); at < recorded; {
		p.scrape(t, at)
		switch {
		case at >= rulesAt:
			p.evaluate(t, at, p.groups, costs)
			pages[at] = p.pages()
		case at >= p.shownAt && at%coarse == 0:
			p.evaluate(t, at, p.shown, costs)
		}
		if at >= fullAt {
			at += interval
		} else {
			at += coarse
		}
	}
	p.size(t)
	t.Run("rules", func(t *testing.T) {
		sum := time.Duration(0)
		for _, g := range p.groups {
			costs[g].compare(t, g)
			sum += costs[g].most
		}
		if t.Logf("%s of a processor in all, every %s", sum.Round(time.Millisecond), interval); sum > interval {
			t.Errorf("%s of a processor, every %s", sum, interval)
		}
	})
	t.Run("racks are one page", func(t *testing.T) {
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
	t.Run("dashboard", p.open)
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
		dashboard: readDashboard(t),
	}
	for _, name := range []string{
		"up", "scrape_duration_seconds", "scrape_samples_scraped", "scrape_samples_post_metric_relabeling", "scrape_series_added",
	} {
		p.templates = append(p.templates, template{labels: labels.FromStrings("__name__", name), value: 1})
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
	slices.SortFunc(p.groups, func(a, b *rules.Group) int { return strings.Compare(nameOf(a), nameOf(b)) })
	p.schedule(t)
	return p
}

// nameOf returns the name of a group. Two files have a group of the same name.
func nameOf(g *rules.Group) string { return filepath.Base(g.File()) + " " + g.Name() }

// schedule sets when the scrapes of each series begin: those that the dashboard needs before its
// time begins, and the others late.
func (p *prometheus) schedule(t *testing.T) {
	t.Helper()
	// Some rules read what was ten minutes ago.
	p.shownAt = (recorded - interval - p.dashboard.opened - 15*time.Minute).Truncate(coarse)
	if p.shownAt < 0 || p.shownAt > rulesAt {
		t.Fatalf("the dashboard shows %s, of %s", p.dashboard.opened, recorded)
	}
	shows, names := p.dashboard.reads(t), map[string]bool{}
	for _, g := range p.groups {
		if !slices.ContainsFunc(g.Rules(), func(r rules.Rule) bool { return shows[r.Name()] }) {
			continue
		}
		p.shown = append(p.shown, g)
		for _, r := range g.Rules() {
			reads(names, r.Query())
		}
	}
	if len(p.shown) == 0 {
		t.Fatal("no group of rules records what the dashboard reads")
	}
	for i := range p.templates {
		s := &p.templates[i]
		switch {
		case names[s.labels.Get("__name__")]:
			s.since = p.shownAt
		default:
			s.since = fullAt
		}
	}
}

// scrape appends what a scrape of all nodes gives, of the series whose scrapes have begun.
func (p *prometheus) scrape(t *testing.T, since time.Duration) {
	t.Helper()
	at := begin.Add(since)
	appender := p.db.Appender(t.Context())
	for i := range p.nodes {
		n := &p.nodes[i]
		down := i < racks && since >= downAt && since < upAt
		for j := range p.templates {
			s := &p.templates[j]
			if since < s.since {
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

// evaluate evaluates groups of rules, and adds what it costs.
func (p *prometheus) evaluate(t *testing.T, since time.Duration, groups []*rules.Group, costs map[*rules.Group]*cost) {
	t.Helper()
	for _, g := range groups {
		started := begins(t)
		g.Eval(t.Context(), begin.Add(since))
		costs[g].add(started.until(t))
		for _, r := range g.Rules() {
			if err := r.LastError(); err != nil {
				t.Fatalf("%s: %v", r.Name(), err)
			}
		}
	}
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

// recommend gives sections for all shapes.
func (p *prometheus) recommend(t *testing.T) {
	program := filepath.Join(t.TempDir(), "partition-monitor")
	build := exec.Command("go", "build", "-o", program, "./cmd/partition-monitor")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var mu sync.Mutex
	queries, slowest := 0, time.Duration(0)
	handler := promapi.Handler(p.engine, p.db, begin.Add(recorded), func(took time.Duration) {
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
	started := begins(t)
	all, took := run("--prometheus=" + server.URL)
	t.Logf("recommend for %d nodes and %s: %s, %d queries, the slowest %s, %s of a processor for Prometheus", len(p.nodes), recorded,
		took.Round(time.Second), queries, slowest.Round(time.Millisecond), started.until(t).processor.Round(time.Second))
	if shapes := strings.Count(all, "\nsystemPartition:"); shapes != 10 {
		t.Errorf("%d sections, want 10:\n%s", shapes, all)
	}
}
