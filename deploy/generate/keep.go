package main

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// kept has the series of a metric that a relabel list keeps: those whose labels match, and all
// without matchers.
type kept struct {
	name     string
	matchers []*labels.Matcher // anchored regular expressions, sorted by label
}

// keptSeries returns what the rules and the dashboard's row for many nodes read, and so what a
// Prometheus for many nodes has to keep. Two of the rules read what recommend asks for.
func keptSeries(dir string) ([]kept, error) {
	exprs, err := fleetQueries(dir)
	if err != nil {
		return nil, err
	}
	all := map[string][]kept{}
	for _, expr := range exprs {
		parsed, err := newParser().ParseExpr(expr)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", expr, err)
		}
		parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
			if s, ok := node.(*parser.VectorSelector); ok && scraped(s.Name) {
				all[s.Name] = append(all[s.Name], kept{s.Name, own(s.LabelMatchers)})
			}
			return nil
		})
	}
	var list []kept
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, fewest(all[name])...)
	}
	return list, nil
}

// scraped reports whether a metric comes from a node: a rule has recorded the others, the
// controller of NodePartitions serves them, or Prometheus makes them up.
func scraped(name string) bool {
	return !strings.Contains(name, ":") && !strings.HasPrefix(name, "nodepartition_rollout_") &&
		name != "up" && name != "ALERTS"
}

// attached are the labels that are not the target's own.
var attached = []string{"__name__", "cluster", "job", "instance", "instance_type"}

// own returns the matchers that say which series of a target are read. A matcher that excludes is
// none: what it excludes is kept too.
func own(matchers []*labels.Matcher) []*labels.Matcher {
	var list []*labels.Matcher
	for _, m := range matchers {
		pattern := m.Value
		if m.Type == labels.MatchEqual {
			pattern = regexp.QuoteMeta(m.Value)
		}
		selects := m.Type == labels.MatchEqual || m.Type == labels.MatchRegexp
		if !selects || slices.Contains(attached, m.Name) || pattern == ".*" || pattern == ".+" {
			continue
		}
		list = append(list, labels.MustNewMatcher(labels.MatchRegexp, m.Name, pattern))
	}
	slices.SortFunc(list, func(a, b *labels.Matcher) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// fewest drops what others keep already.
func fewest(list []kept) []kept {
	slices.SortStableFunc(list, func(a, b kept) int {
		return cmp.Or(cmp.Compare(len(a.matchers), len(b.matchers)), strings.Compare(a.text(), b.text()))
	})
	var out []kept
	for _, k := range list {
		if !slices.ContainsFunc(out, func(o kept) bool { return o.includes(k) }) {
			out = append(out, k)
		}
	}
	return out
}

// includes reports whether k has each matcher of o: then o keeps all that k does.
func (o kept) includes(k kept) bool {
	for _, m := range o.matchers {
		same := func(other *labels.Matcher) bool { return m.Name == other.Name && m.Value == other.Value }
		if !slices.ContainsFunc(k.matchers, same) {
			return false
		}
	}
	return true
}

// text is the regular expression of the metric's name and of its labels, as relabelling joins them.
func (o kept) text() string {
	parts := make([]string, 0, 1+len(o.matchers))
	parts = append(parts, o.name)
	for _, m := range o.matchers {
		parts = append(parts, m.Value)
	}
	if len(parts) == 1 {
		return o.name
	}
	for i := range parts[1:] {
		if strings.Contains(parts[i+1], "|") {
			parts[i+1] = "(" + parts[i+1] + ")"
		}
	}
	return strings.Join(parts, ";")
}

// labelNames lists the labels that relabelling joins.
func (o kept) labelNames() []string {
	names := make([]string, 0, 1+len(o.matchers))
	names = append(names, "__name__")
	for _, m := range o.matchers {
		names = append(names, m.Name)
	}
	return names
}

// grafanaVariable is a variable of Grafana in a query.
var grafanaVariable = regexp.MustCompile(`\$(__)?\w+`)

// fleetQueries returns the queries of all rules, and of the dashboard's row for many nodes with its
// variables, with values in place of Grafana's variables.
func fleetQueries(dir string) ([]string, error) {
	groups, err := readRules(dir)
	if err != nil {
		return nil, err
	}
	var exprs []string
	for _, g := range groups {
		for _, r := range g.Rules {
			exprs = append(exprs, r.Expr)
		}
	}
	d, err := readDashboard(dir)
	if err != nil {
		return nil, err
	}
	var shown []string
	for _, p := range d.Panels { // a folded row holds its panels itself
		for _, target := range p.Targets {
			shown = append(shown, target.Expr)
		}
	}
	for _, v := range d.Templating.List {
		if series, ok := v.series(); ok {
			shown = append(shown, series)
		}
	}
	for _, expr := range shown {
		exprs = append(exprs, grafanaVariable.ReplaceAllStringFunc(expr, func(variable string) string {
			if strings.HasPrefix(variable, "$__") {
				return "5m"
			}
			return ".*"
		}))
	}
	return exprs, nil
}

// newParser returns a parser of PromQL without experiments.
func newParser() parser.Parser { return parser.NewParser(parser.Options{}) }
