package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// deploy is the folder with the files that are tested.
const deploy = ".."

// named is an expression, and its place for messages.
type named struct {
	place, expr string
	// names are the names of labels that a legend or an annotation uses.
	names []string
}

// all returns the panels of the dashboard and of its folded rows, and the rows.
func (d dashboard) all() []panel {
	var list []panel
	for _, p := range d.Panels {
		list = append(append(list, p), p.Panels...)
	}
	return list
}

func ourDashboard(t *testing.T) dashboard {
	t.Helper()
	d, err := readDashboard(deploy)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var (
	legendLabel     = regexp.MustCompile(`\{\{ *(\w+) *\}\}`)
	annotationLabel = regexp.MustCompile(`\$labels\.(\w+)`)
)

func find(pattern *regexp.Regexp, text string) []string {
	matches := pattern.FindAllStringSubmatch(text, -1)
	names := make([]string, 0, len(matches))
	for _, match := range matches {
		names = append(names, match[1])
	}
	return names
}

// interval replaces Grafana's variables of time.
const interval = "5m"

// expand replaces the variables of the dashboard as Grafana does if all values are selected.
func expand(expr string) string {
	return strings.NewReplacer("$__rate_interval", interval, "$cluster", ".*", "$job", ".+", "$instance", ".+", "$partition", ".+").Replace(expr)
}

// expressions returns all queries of the dashboard and of the rules.
func expressions(t *testing.T) []named {
	t.Helper()
	var all []named
	d := ourDashboard(t)
	for _, p := range d.all() {
		for _, target := range p.Targets {
			all = append(all, named{"panel " + p.Title, expand(target.Expr), find(legendLabel, target.Legend)})
		}
	}
	for _, a := range d.Annotations.List {
		all = append(all, named{"annotation " + a.Name, expand(a.Expr), find(legendLabel, a.Title+a.Text)})
	}
	for _, v := range d.Templating.List {
		if series, ok := v.series(); ok {
			all = append(all, named{"variable " + v.Name, expand(series), []string{v.Name}})
		}
	}
	for _, r := range rules(t) {
		var names []string
		for _, text := range r.Annotations {
			names = append(names, find(annotationLabel, text)...)
		}
		all = append(all, named{"rule " + r.Alert + r.Record, r.Expr, names})
	}
	if len(all) == 0 {
		t.Error("no queries")
	}
	return all
}

func rules(t *testing.T) []rule {
	t.Helper()
	groups, err := readRules(deploy)
	if err != nil {
		t.Fatal(err)
	}
	var all []rule
	for _, g := range groups {
		all = append(all, g.Rules...)
	}
	return all
}

// TestQueriesNameServedMetrics: each metric, label and value in a query is one that the monitor
// serves. A metric that is renamed fails here.
func TestQueriesNameServedMetrics(t *testing.T) {
	t.Parallel()
	known := readRegistry(t)
	recorded := map[string]bool{}
	for _, r := range rules(t) {
		if r.Record != "" {
			recorded[r.Record] = true
		}
	}
	known["ALERTS"] = alertLabels(t)
	for _, q := range expressions(t) {
		for _, problem := range check(q, known, recorded) {
			t.Errorf("%s: %s", q.place, problem)
		}
	}
}

// alertLabels returns the labels of ALERTS, which Prometheus makes of the alerts that wait or fire.
func alertLabels(t *testing.T) map[string][]string {
	t.Helper()
	labels := map[string][]string{"alertstate": {"pending", "firing"}}
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		labels["alertname"] = append(labels["alertname"], r.Alert)
		for name, value := range r.Labels {
			labels[name] = append(labels[name], value)
		}
	}
	return labels
}

// check returns what is wrong with a query.
func check(q named, known registry, recorded map[string]bool) (problems []string) {
	complain := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(q.expr)
	if err != nil {
		return []string{"parse error: " + err.Error()}
	}
	var metrics, used []string
	used = append(used, q.names...)
	made := slices.Clone(targetLabels)
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch node := node.(type) {
		case *parser.VectorSelector:
			if recorded[node.Name] { // its own rule is checked
				made = append(made, levels(node.Name)...)
				problems = append(problems, checkRecorded(node)...)
				return nil
			}
			metrics = append(metrics, node.Name)
			problems = append(problems, checkSelector(node, known)...)
		case *parser.Call:
			if node.Func.Name == "label_replace" {
				made = append(made, node.Args[1].(*parser.StringLiteral).Val)
			}
		case *parser.AggregateExpr:
			used = append(used, node.Grouping...)
		case *parser.BinaryExpr:
			if node.VectorMatching != nil {
				used = append(append(used, node.VectorMatching.MatchingLabels...), node.VectorMatching.Include...)
			}
		}
		return nil
	})
	for _, label := range used {
		if !slices.ContainsFunc(metrics, func(metric string) bool { return known.has(metric, label) }) &&
			!slices.Contains(made, label) {
			complain("label %s is of none of its metrics", label)
		}
	}
	return problems
}

// levels returns the labels of a recorded metric, which its name begins with.
func levels(recorded string) []string {
	labels, _, _ := strings.Cut(recorded, ":")
	return strings.Split(labels, "_")
}

// checkRecorded checks the labels of a selector of a recorded metric.
func checkRecorded(s *parser.VectorSelector) (problems []string) {
	for _, m := range s.LabelMatchers {
		if m.Name != model.MetricNameLabel && !slices.Contains(targetLabels, m.Name) && !slices.Contains(levels(s.Name), m.Name) {
			problems = append(problems, fmt.Sprintf("%s has no label %s", s.Name, m.Name))
		}
	}
	return problems
}

// checkSelector checks the name and the labels of a selector.
func checkSelector(s *parser.VectorSelector, known registry) (problems []string) {
	values, ok := known[s.Name]
	if !ok {
		return []string{"metric " + s.Name + " is not served"}
	}
	for _, m := range s.LabelMatchers {
		if m.Name == model.MetricNameLabel || slices.Contains(targetLabels, m.Name) {
			continue
		}
		served, ok := values[m.Name]
		switch {
		case !ok:
			problems = append(problems, fmt.Sprintf("%s has no label %s", s.Name, m.Name))
		case slices.Contains(openLabels, m.Name):
		default:
			for value := range strings.SplitSeq(m.Value, "|") {
				if !slices.ContainsFunc(served, regexp.MustCompile("^(?:"+value+")$").MatchString) {
					problems = append(problems, fmt.Sprintf("%s{%s}: no value %s", s.Name, m.Name, value))
				}
			}
		}
	}
	return problems
}
