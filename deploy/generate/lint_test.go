package main

import (
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// TestDashboardLint holds the dashboard to the rules of Grafana's dashboard-linter for Prometheus,
// under its names. They are here because its module depends on all of Loki.
func TestDashboardLint(t *testing.T) {
	t.Parallel()
	d := ourDashboard(t)
	if d.Editable {
		t.Error("uneditable-dashboard: it is editable")
	}
	ids := map[int]string{}
	for _, p := range d.all() {
		if before, twice := ids[p.ID]; twice || p.ID == 0 {
			t.Errorf("panel %s has the number %d, as %q", p.Title, p.ID, before)
		}
		ids[p.ID] = p.Title
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || p.Description == "" {
			t.Errorf("panel-title-description-rule: %q: %q", p.Title, p.Description)
		}
		if p.Datasource.UID != "${datasource}" {
			t.Errorf("panel-datasource-rule: %s: %s", p.Title, p.Datasource.UID)
		}
		if p.FieldConfig.Defaults.Unit == "" {
			t.Errorf("panel-units-rule: %s has no unit", p.Title)
		}
		if len(p.Targets) == 0 {
			t.Errorf("panel-no-targets-rule: %s", p.Title)
		}
	}
	// Panels outside of folded rows are about all nodes.
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			lintQuery(t, p.Title, target.Expr, "cluster=~.*", "job=~.+")
		}
		for _, folded := range p.Panels {
			for _, target := range folded.Targets {
				lintQuery(t, folded.Title, target.Expr, "cluster=~.*", "job=~.+", "instance=~.+")
			}
		}
	}
}

// lintQuery checks the ranges of a query, and that its selectors have matchers.
func lintQuery(t *testing.T, panel, query string, wanted ...string) {
	t.Helper()
	if strings.Count(query, "[") != strings.Count(query, "[$__rate_interval]") && !strings.Contains(query, "predict_linear") {
		t.Errorf("target-rate-interval-rule: %s: %s", panel, query)
	}
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(expand(query))
	if err != nil {
		t.Errorf("target-promql-rule: %s: %v", panel, err)
		return
	}
	parser.Inspect(expr, func(node parser.Node, parents []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		matchers := map[string]bool{}
		for _, m := range selector.LabelMatchers {
			matchers[m.Name+m.Type.String()+m.Value] = true
		}
		for _, want := range wanted {
			if !matchers[want] {
				t.Errorf("target-job-rule, target-instance-rule: %s: %s lacks %s", panel, selector, want)
			}
		}
		if strings.HasSuffix(selector.Name, "_total") {
			if len(parents) < 2 {
				t.Errorf("target-counter-agg-rule: %s: %s", panel, query)
				return nil
			}
			call, ok := parents[len(parents)-2].(*parser.Call)
			if !ok || call.Func.Name != "rate" && call.Func.Name != "increase" {
				t.Errorf("target-counter-agg-rule: %s: %s", panel, query)
			}
		}
		return nil
	})
}
