package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// outage is a time in minutes during which a monitor is not reached. A zero one is none.
type outage struct{ from, to int }

// values returns the samples of up, one a minute, in the notation of promtool.
func (o outage) values(minutes int) string {
	if o.from >= o.to {
		return fmt.Sprintf("1x%d", minutes)
	}
	text := fmt.Sprintf("1x%d 0x%d", o.from-1, o.to-o.from-1)
	if o.from == 0 {
		text = fmt.Sprintf("0x%d", o.to-1)
	}
	return text + fmt.Sprintf(" 1x%d", max(minutes-o.to, 0))
}

// TestFleetAlerts: many nodes with one fault are one page, and as many tickets. Few nodes, and
// nodes that reboot one after the other, do not page.
func TestFleetAlerts(t *testing.T) {
	t.Parallel()
	const minutes, many = 40, 150
	first := func(count int, o outage) func(int) outage {
		return func(node int) outage {
			if node < count {
				return o
			}
			return outage{}
		}
	}
	// rolling has the nodes reboot for six minutes, one after the other.
	rolling := func(node int) outage {
		if from := node * 6; from < minutes {
			return outage{from, from + 6}
		}
		return outage{}
	}
	long := outage{10, 35}
	for name, test := range map[string]struct {
		nodes int
		down  func(node int) outage
		// want holds, by the minute, how many tickets and pages there are.
		want map[int][2]int
	}{
		"two in a hundred":           {many, first(3, long), map[int][2]int{9: {}, 23: {}, 28: {3, 1}, 34: {3, 1}, 37: {}}},
		"less":                       {many + 1, first(3, long), map[int][2]int{28: {3, 0}}},
		"the network is down":        {many, first(many, long), map[int][2]int{23: {}, 28: {many, 1}, 37: {}}},
		"a reboot of ten minutes":    {many, first(3, outage{10, 20}), map[int][2]int{12: {}, 19: {}, 22: {}}},
		"one of 20":                  {20, first(1, long), map[int][2]int{28: {1, 0}}},
		"two of 20":                  {20, first(2, long), map[int][2]int{28: {2, 0}}},
		"three of 20":                {20, first(3, long), map[int][2]int{28: {3, 1}}},
		"a rolling reboot of 20":     {20, rolling, map[int][2]int{10: {}, 20: {}, 30: {}, 38: {}}},
		"the only node of a cluster": {1, first(1, long), map[int][2]int{28: {1, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var text strings.Builder
			rulesFile, err := filepath.Abs(filepath.Join(deploy, alertsFile))
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&text, "rule_files: [%q]\nevaluation_interval: 1m\ntests:\n- interval: 1m\n  input_series:\n", rulesFile)
			for node := range test.nodes {
				fmt.Fprintf(&text, "  - {series: 'up{job=\"node-partition\", cluster=\"c\", instance=\"node-%d\"}', values: '%s'}\n",
					node, test.down(node).values(minutes))
			}
			text.WriteString("  promql_expr_test:\n")
			for minute, count := range test.want {
				fmt.Fprintf(&text, "  - expr: count by (alertname, severity) (ALERTS{alertstate=\"firing\"})\n    eval_time: %dm\n    exp_samples:\n", minute)
				for i, alert := range []string{
					`alertname="NodePartitionMonitorDown", severity="warning"`, `alertname="NodePartitionOnManyNodes", severity="critical"`,
				} {
					if count[i] > 0 {
						fmt.Fprintf(&text, "    - {labels: '{%s}', value: %d}\n", alert, count[i])
					}
				}
			}
			file := filepath.Join(t.TempDir(), "fleet.yaml")
			if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command("../../tests/prometheus", "promtool", "test", "rules", file).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// aboutFleet lists the alerts on a cluster. They name no node.
var aboutFleet = []string{"NodePartitionOnManyNodes", "NodePartitionNotScraped", "NodePartitionDegraded", "NodePartitionVersionSkew"}

// TestNoNodeIsAPage: no alert on one node pages. One that cannot wait counts by its name for the
// alert on many.
func TestNoNodeIsAPage(t *testing.T) {
	t.Parallel()
	faults := 0
	for _, r := range rules(t) {
		if r.Alert == "" || slices.Contains(aboutFleet, r.Alert) {
			continue
		}
		if r.Labels["severity"] == "critical" {
			t.Errorf("%s is critical, and about one node: make it a warning with the label fault", r.Alert)
		}
		if fault, ok := r.Labels["fault"]; ok {
			faults++
			if fault != r.Alert || r.Labels["severity"] != "warning" {
				t.Errorf("%s: %v; want its own name as fault, and a warning", r.Alert, r.Labels)
			}
		}
	}
	if faults == 0 {
		t.Error("no alert counts")
	}
}

// columns is the width of Grafana's grid.
const columns = 24

// TestDashboardFolds: the first row is about the fleet, and open. The rows of a node are folded
// below it, so that the dashboard asks for no series of each node before somebody opens one.
func TestDashboardFolds(t *testing.T) {
	t.Parallel()
	d := ourDashboard(t)
	first := d.Panels[0]
	if first.Type != "row" || first.Collapsed || len(first.Panels) > 0 || first.Title != "The fleet" {
		t.Errorf("the first row: %+v", first)
	}
	taken := map[[2]int]string{}
	bottom := 0
	for _, p := range d.Panels {
		at := p.GridPos
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok || x >= columns {
					t.Fatalf("%s at %d, %d lies on %q", p.Title, x, y, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		bottom = max(bottom, at.Y+at.H)
		if p.Type != "row" || p.Title == first.Title {
			continue
		}
		if !p.Collapsed || len(p.Panels) == 0 {
			t.Errorf("the row %s is open", p.Title)
		}
	}
	if len(taken) != bottom*columns {
		t.Errorf("%d of %d places are taken: there are gaps", len(taken), bottom*columns)
	}
}

// TestFleetRowReadsFewSeries: the queries over time of the first row read what is recorded for each
// cluster. A list at one time may read series of nodes.
func TestFleetRowReadsFewSeries(t *testing.T) {
	t.Parallel()
	metric := regexp.MustCompile(`([\w:]+)\{`)
	d := ourDashboard(t)
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			for _, name := range find(metric, target.Expr) {
				if p.Type != "table" && !strings.HasPrefix(name, "cluster_job") {
					t.Errorf("%s reads %s at each point of time", p.Title, name)
				}
			}
		}
	}
	for _, a := range d.Annotations.List {
		if names := find(metric, a.Expr); len(names) != 1 || !strings.Contains(names[0], ":") {
			t.Errorf("the annotation %s reads %q at each point of time", a.Name, names)
		}
	}
}

// TestDashboardLinks: links to runbooks lead to a section that there is, and links between the
// fleet and a node set variables that there are.
func TestDashboardLinks(t *testing.T) {
	t.Parallel()
	d := ourDashboard(t)
	variables := map[string]bool{"__url_time_range": true, "__data": true}
	for _, v := range d.Templating.List {
		variables[v.Name] = true
	}
	const (
		runbooks   = "${docs:raw}/runbooks.md"
		allNodes   = "&var-instance=All"
		rowsOfNode = "&var-instance=${__data.fields.instance:percentencode}&"
	)
	explained := anchors(t, "docs/runbooks.md")
	var urls []string
	toNodes, toAll := 0, 0
	for _, l := range d.Links {
		urls = append(urls, l.URL)
		if strings.HasSuffix(l.URL, allNodes) {
			toAll++
		}
	}
	for _, p := range d.all() {
		for _, l := range p.Links {
			anchor, ok := strings.CutPrefix(l.URL, runbooks+"#")
			if !ok || !explained[anchor] {
				t.Errorf("%s: %s is not a section of the runbooks", p.Title, l.URL)
			}
			urls = append(urls, l.URL)
		}
		for _, o := range p.FieldConfig.Overrides {
			for _, property := range o.Properties {
				if property.ID != "links" {
					continue
				}
				var links []link
				if err := json.Unmarshal(property.Value, &links); err != nil || len(links) != 1 || !strings.Contains(links[0].URL, rowsOfNode) {
					t.Fatalf("%s: %s, %v", p.Title, property.Value, err)
				}
				toNodes++
				urls = append(urls, links[0].URL)
			}
		}
	}
	if toNodes == 0 || toAll == 0 {
		t.Errorf("%d links to the rows of a node, %q", toNodes, d.Links)
	}
	for _, u := range urls {
		for _, name := range append(find(regexp.MustCompile(`\$\{(\w+)`), u), find(regexp.MustCompile(`var-(\w+)=`), u)...) {
			if !variables[name] {
				t.Errorf("%s: no variable %s", u, name)
			}
		}
		if here := "/d/" + d.UID + "?"; !strings.HasPrefix(u, here) && !strings.HasPrefix(u, runbooks) {
			t.Errorf("%s leads neither to this dashboard nor to the runbooks", u)
		}
	}
}
