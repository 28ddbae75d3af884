package main

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// relabelling holds the fields of a rule of either form of a scrape configuration.
type relabelling struct {
	SourceLabels  []string `json:"source_labels"`
	SourceLabels2 []string `json:"sourceLabels"`
	Regex         string   `json:"regex"`
	TargetLabel   string   `json:"target_label"`
	TargetLabel2  string   `json:"targetLabel"`
	Replacement   string   `json:"replacement"`
	Action        string   `json:"action"`
}

// configs returns the rules as Prometheus applies them.
func configs(t *testing.T, rules []relabelling) []*relabel.Config {
	t.Helper()
	list := make([]*relabel.Config, 0, len(rules))
	for _, r := range rules {
		c := relabel.DefaultRelabelConfig
		for _, name := range slices.Concat(r.SourceLabels, r.SourceLabels2) {
			c.SourceLabels = append(c.SourceLabels, model.LabelName(name))
		}
		c.Regex = relabel.MustNewRegexp(r.Regex)
		c.TargetLabel = r.TargetLabel + r.TargetLabel2
		if r.Replacement != "" {
			c.Replacement = r.Replacement
		}
		if r.Action != "" {
			c.Action = relabel.Action(r.Action)
		}
		c.NameValidationScheme = model.UTF8Validation
		if err := c.Validate(model.UTF8Validation); err != nil {
			t.Fatal(err)
		}
		list = append(list, &c)
	}
	if len(list) == 0 {
		t.Fatal("no rules")
	}
	return list
}

// fleetRelabelling returns the relabel list of both examples for many nodes.
func fleetRelabelling(t *testing.T) map[string][]*relabel.Config {
	t.Helper()
	read := func(name string, to any) {
		data, err := os.ReadFile(filepath.Join(deploy, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(data, to); err != nil {
			t.Fatal(err)
		}
	}
	var plain struct {
		ScrapeConfigs []struct {
			Relabel []relabelling `json:"metric_relabel_configs"`
		} `json:"scrape_configs"`
	}
	read(scrapeFleetFile, &plain)
	var operator struct {
		Spec struct {
			Relabel []relabelling `json:"metricRelabelings"`
		} `json:"spec"`
	}
	read(operatorFleetFile, &operator)
	return map[string][]*relabel.Config{
		scrapeFleetFile:   configs(t, plain.ScrapeConfigs[1].Relabel),
		operatorFleetFile: configs(t, operator.Spec.Relabel),
	}
}

// process relabels a series, and reports whether it is kept.
func process(series labels.Labels, rules []*relabel.Config) (labels.Labels, bool) {
	b := labels.NewBuilder(series)
	keep := relabel.ProcessBuilder(b, rules...)
	return b.Labels(), keep
}

// exposition returns the series that the monitor serves, with process_start_time_seconds of the
// client library.
func exposition(t *testing.T) []labels.Labels {
	t.Helper()
	file, err := os.Open(served)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	list := []labels.Labels{labels.FromStrings("__name__", "process_start_time_seconds")}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		series, err := newParser().ParseMetric(line[:strings.LastIndex(line, " ")])
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		list = append(list, series)
	}
	return list
}

// TestRelabelListIsWhatIsRead: the list keeps each series that the rules, the dashboard's row for
// many nodes and recommend read, and no other.
func TestRelabelListIsWhatIsRead(t *testing.T) {
	t.Parallel()
	exprs, err := fleetQueries(deploy)
	if err != nil {
		t.Fatal(err)
	}
	var selectors [][]*labels.Matcher
	for _, expr := range exprs {
		parsed, err := newParser().ParseExpr(expr)
		if err != nil {
			t.Fatalf("%s: %v", expr, err)
		}
		for _, s := range parser.ExtractSelectors(parsed) {
			selectors = append(selectors, slices.DeleteFunc(slices.Clone(s), func(m *labels.Matcher) bool {
				return slices.Contains(targetLabels, m.Name)
			}))
		}
	}
	matches := func(series labels.Labels, all []*labels.Matcher) bool {
		return !slices.ContainsFunc(all, func(m *labels.Matcher) bool { return !m.Matches(series.Get(m.Name)) })
	}
	for name, rules := range fleetRelabelling(t) {
		for _, series := range exposition(t) {
			read := slices.ContainsFunc(selectors, func(s []*labels.Matcher) bool { return matches(series, s) })
			after, keep := process(series, rules)
			if keep != read && !excluded(series) {
				t.Errorf("%s: %s: kept %t, read %t", name, series, keep, read)
			}
			if keep && !labels.Equal(after, series) {
				t.Errorf("%s: %s becomes %s", name, series, after)
			}
		}
	}
}

// excluded reports whether a series is kept although a matcher excludes its value: the list has
// what matchers select.
func excluded(series labels.Labels) bool {
	return series.Get("__name__") == "nodepartition_workload_refused_pods"
}

// TestRelabelCostIsDocumented: docs/fleet-figures.md has the number of series of a node, all of
// them and those that are kept.
func TestRelabelCostIsDocumented(t *testing.T) {
	t.Parallel()
	rules := fleetRelabelling(t)[scrapeFleetFile]
	all, kept := 0, 0
	names := map[string]bool{}
	for _, series := range exposition(t) {
		name := series.Get("__name__")
		if strings.HasPrefix(name, "nodepartition_pod_") || name == "process_start_time_seconds" {
			continue // of --per-pod-metrics; not ours
		}
		all++
		if _, keep := process(series, rules); keep {
			kept++
			names[name] = true
		}
	}
	text, err := os.ReadFile(filepath.Join(deploy, "../docs/fleet-figures.md"))
	if err != nil {
		t.Fatal(err)
	}
	for what, n := range map[string]int{"all series": all, "the relabel list": kept} {
		row := regexp.MustCompile(`(?m)^\| ` + what + `[^|]*\| (\d+) \|`).FindStringSubmatch(string(text))
		if row == nil || row[1] != strconv.Itoa(n) {
			t.Errorf("docs/fleet-figures.md: %s: want %d, got %q", what, n, row)
		}
	}
	t.Logf("%d metrics, %d of %d series", len(names), kept, all)
}
