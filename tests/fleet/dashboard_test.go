//go:build fleet

package fleet

import (
	"context"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

const (
	dashboardFile = "../../deploy/grafana/node-partition.json"
	// answers bounds the time in which the dashboard has what it shows when it is opened.
	answers = 2 * time.Second
	// step is the least time between two values of a panel: Grafana takes 15 seconds as the scrape
	// interval of a data source that has none.
	step = 15 * time.Second
)

// dashboard has what Grafana asks when somebody opens the dashboard: its folded rows ask nothing.
type dashboard struct {
	// opened is the time that the dashboard shows, until now.
	opened    time.Duration
	variables []values
	// panels has the queries of the row for many nodes, and annotations the ones of its marks.
	panels, annotations []query
}

// values asks which values a label has in the series of a selector.
type values struct{ name, label, selector string }

// query is one of PromQL. step is the time between two values, zero for a query at one time.
type query struct {
	title, expr string
	step        time.Duration
}

// dashboardJSON has the fields of the dashboard's file that Grafana asks by.
type dashboardJSON struct {
	Time       struct{ From, To string }
	Templating struct {
		List []struct{ Type, Name, Query, AllValue string }
	}
	Annotations struct {
		List []struct {
			Name, Expr, Step string
			Enable           bool
		}
	}
	Panels []struct {
		Type, Title string
		Targets     []struct {
			Expr    string
			Instant bool
		}
	}
}

var (
	variable    = regexp.MustCompile(`\$[a-z_]\w*`)
	labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
)

// readDashboard returns the dashboard as it is when it is opened: all is selected.
func readDashboard(t *testing.T) dashboard {
	t.Helper()
	data, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var file dashboardJSON
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	duration := func(text string) time.Duration {
		t.Helper()
		d, err := model.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		return time.Duration(d)
	}
	from, relative := strings.CutPrefix(file.Time.From, "now-")
	if !relative || file.Time.To != "now" {
		t.Fatalf("%s shows the time from %s to %s", dashboardFile, file.Time.From, file.Time.To)
	}
	d := dashboard{opened: duration(from)}
	all := map[string]string{}
	expand := func(expr string) string {
		return variable.ReplaceAllStringFunc(expr, func(name string) string {
			value, known := all[strings.TrimPrefix(name, "$")]
			if !known {
				t.Fatalf("%s is not a variable of the dashboard: %s", name, expr)
			}
			return value
		})
	}
	for _, v := range file.Templating.List {
		if v.Type != "query" {
			continue
		}
		parts := labelValues.FindStringSubmatch(v.Query)
		if parts == nil {
			t.Fatalf("the variable %s asks %q", v.Name, v.Query)
		}
		d.variables = append(d.variables, values{v.Name, parts[2], expand(parts[1])})
		all[v.Name] = v.AllValue
	}
	ofFleet := false
	for _, p := range file.Panels {
		if p.Type == "row" {
			ofFleet = strings.Contains(strings.ToLower(p.Title), "fleet")
		}
		if !ofFleet {
			continue
		}
		for _, target := range p.Targets {
			q := query{p.Title, expand(target.Expr), step}
			if target.Instant {
				q.step = 0
			}
			d.panels = append(d.panels, q)
		}
	}
	for _, a := range file.Annotations.List {
		if a.Enable {
			d.annotations = append(d.annotations, query{a.Name, expand(a.Expr), duration(a.Step)})
		}
	}
	if len(d.variables) == 0 || len(d.panels) == 0 || len(d.annotations) == 0 {
		t.Fatalf("%s: %d variables, %d panels for a fleet, %d annotations",
			dashboardFile, len(d.variables), len(d.panels), len(d.annotations))
	}
	return d
}

// reads adds the names of the series that an expression reads.
func reads(names map[string]bool, of parser.Expr) {
	parser.Inspect(of, func(n parser.Node, _ []parser.Node) error {
		if selector, ok := n.(*parser.VectorSelector); ok {
			names[selector.Name] = true
		}
		return nil
	})
}

// reads returns the names of the series that the panels and the annotations read.
func (d dashboard) reads(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, q := range slices.Concat(d.panels, d.annotations) {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(q.expr)
		if err != nil {
			t.Fatalf("%s: %v", q.title, err)
		}
		reads(names, expr)
	}
	return names
}

// answer has what a query gave.
type answer struct {
	query
	series int
	// first is the time of the earliest value.
	first time.Time
	took  time.Duration
	err   error
}

// open asks what Grafana asks when somebody opens the dashboard. The selector of a variable has the
// values of those before it: Grafana asks for one after the other. Then it asks the queries of all
// panels and annotations at once.
func (p *prometheus) open(t *testing.T) {
	now := begin.Add(recorded - interval)
	from := now.Add(-p.dashboard.opened)
	started := begins(t)
	for _, v := range p.dashboard.variables {
		asked := time.Now()
		list, err := p.labelValues(t.Context(), v, from, now)
		if err != nil {
			t.Fatalf("the variable %s: %v", v.name, err)
		}
		t.Logf("%8s  %4d values  %s", time.Since(asked).Round(time.Millisecond), len(list), v.name)
		if v.name == "instance" && len(list) != len(p.nodes) {
			t.Errorf("the variable %s has %d values, of %d nodes", v.name, len(list), len(p.nodes))
		}
	}
	panels := make([]answer, len(p.dashboard.panels))
	annotations := make([]answer, len(p.dashboard.annotations))
	var waits sync.WaitGroup
	for i, q := range p.dashboard.panels {
		waits.Go(func() { panels[i] = p.ask(t.Context(), q, from, now) })
	}
	for i, q := range p.dashboard.annotations {
		waits.Go(func() { annotations[i] = p.ask(t.Context(), q, from, now) })
	}
	waits.Wait()
	took := started.until(t)
	answered := 0
	for _, a := range slices.Concat(panels, annotations) {
		if a.err != nil {
			t.Errorf("%s: %s: %v", a.title, a.expr, a.err)
		}
		t.Logf("%8s  %4d series  %s", a.took.Round(time.Millisecond), a.series, a.title)
	}
	for _, a := range panels {
		answered += min(a.series, 1)
		if a.step > 0 && a.series > 0 && a.first.After(from) {
			t.Errorf("%s begins at %s, and the dashboard at %s: less was read", a.title, a.first, from)
		}
	}
	if answered*2 < len(panels) {
		t.Errorf("%d of %d queries of panels have an answer", answered, len(panels))
	}
	if !slices.ContainsFunc(annotations, func(a answer) bool { return a.series > 0 }) {
		t.Error("no annotation has an answer")
	}
	t.Logf("%d variables, %d queries of panels and %d of annotations over %s: %s",
		len(p.dashboard.variables), len(panels), len(annotations), p.dashboard.opened, took)
	if took.clock > answers {
		t.Errorf("%s, at most %s", took, answers)
	}
}

// labelValues answers as Prometheus does at /api/v1/label/NAME/values.
func (p *prometheus) labelValues(ctx context.Context, v values, from, to time.Time) ([]string, error) {
	matchers, err := parser.NewParser(parser.Options{}).ParseMetricSelector(v.selector)
	if err != nil {
		return nil, err
	}
	querier, err := p.db.Querier(from.UnixMilli(), to.UnixMilli())
	if err != nil {
		return nil, err
	}
	defer func() { _ = querier.Close() }()
	list, _, err := querier.LabelValues(ctx, v.label, nil, matchers...)
	return list, err
}

// ask runs a query over a time, or at its end.
func (p *prometheus) ask(ctx context.Context, of query, from, to time.Time) answer {
	began := time.Now()
	a := answer{query: of}
	var q promql.Query
	if of.step == 0 {
		q, a.err = p.engine.NewInstantQuery(ctx, p.db, nil, of.expr, to)
	} else {
		q, a.err = p.engine.NewRangeQuery(ctx, p.db, nil, of.expr, from, to, of.step)
	}
	if a.err == nil {
		out := q.Exec(ctx)
		a.err = out.Err
		switch value := out.Value.(type) {
		case promql.Matrix:
			a.series = len(value)
			for _, series := range value {
				if at := time.UnixMilli(series.Floats[0].T).UTC(); a.first.IsZero() || at.Before(a.first) {
					a.first = at
				}
			}
		case promql.Vector:
			a.series = len(value)
		}
		q.Close()
	}
	a.took = time.Since(began)
	return a
}
