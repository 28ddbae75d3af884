package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"
)

// anchors returns the anchors of the headings of a page, as they are made from headings without
// punctuation.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(deploy, "..", page))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			all[strings.ReplaceAll(strings.ToLower(strings.TrimSpace(title)), " ", "-")] = true
		}
	}
	return all
}

// TestAlertsAreComplete: each alert says how bad it is, for how long it has to be so, what it is
// and where, and which page explains what to do. The page about the alerts lists it.
func TestAlertsAreComplete(t *testing.T) {
	t.Parallel()
	const page = "docs/runbooks.md"
	explained := anchors(t, page)
	listed, err := os.ReadFile(filepath.Join(deploy, "../docs/dashboards.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
			t.Errorf("%s: severity %q", r.Alert, r.Labels["severity"])
		}
		if _, err := model.ParseDuration(r.For); err != nil {
			t.Errorf("%s: for: %v", r.Alert, err)
		}
		where := "$labels.instance"
		if slices.Contains(aboutFleet, r.Alert) {
			where = "{{ with $labels.cluster }} of {{ . }}{{ end }}"
		}
		for _, name := range []string{"summary", "description"} {
			if !strings.Contains(r.Annotations[name], where) {
				t.Errorf("%s: %s: %q does not say where it is: %s", r.Alert, name, r.Annotations[name], where)
			}
		}
		anchor, ok := strings.CutPrefix(r.Annotations["runbook_url"], docsURL()+"/runbooks.md#")
		if !ok || !explained[anchor] || anchor != strings.ToLower(r.Alert) {
			t.Errorf("%s: runbook_url %q is not the address of a section of %s", r.Alert, r.Annotations["runbook_url"], page)
		}
		if row := "| " + r.Alert + " | " + r.Labels["severity"]; !strings.Contains(string(listed), "\n"+row) {
			t.Errorf("docs/dashboards.md has no row %q", row)
		}
		delete(explained, anchor)
	}
	for anchor := range explained {
		if strings.HasPrefix(anchor, "nodepartition") {
			t.Errorf("%s explains %s, which is no alert", page, anchor)
		}
	}
}

// ruleTest holds the fields of a file of promtool that this test reads.
type ruleTest struct {
	Tests []struct {
		Alerts []struct {
			Alert string `json:"alertname"`
			Exp   []any  `json:"exp_alerts"`
		} `json:"alert_rule_test"`
		Expressions []struct {
			Expr string `json:"expr"`
		} `json:"promql_expr_test"`
	} `json:"tests"`
}

// TestPromtool: promtool's tests of the rules pass, and have for each alert a node on which it
// fires and one on which it does not, and for each recording rule a result.
func TestPromtool(t *testing.T) {
	t.Parallel()
	promtool := func(args ...string) {
		t.Helper()
		command := exec.Command("../../tests/prometheus", append([]string{"promtool"}, args...)...)
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	files, err := filepath.Glob(filepath.Join(deploy, "prometheus/tests/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	promtool("check", "rules", filepath.Join(deploy, alertsFile), filepath.Join(deploy, recordingFile))
	for _, example := range []string{scrapeFile, scrapeFleetFile} {
		promtool("check", "config", withoutKubernetes(t, example))
	}
	promtool(append([]string{"test", "rules"}, files...)...)
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var tests ruleTest
		if err := yaml.Unmarshal(data, &tests); err != nil {
			t.Fatal(err)
		}
		for _, test := range tests.Tests {
			for _, alert := range test.Alerts {
				if len(alert.Exp) > 0 {
					fires[alert.Alert] = true
				} else {
					quiet[alert.Alert] = true
				}
			}
			for _, e := range test.Expressions {
				fires[e.Expr], quiet[e.Expr] = true, true
			}
		}
	}
	for _, r := range rules(t) {
		if name := r.Alert + r.Record; !fires[name] || !quiet[name] {
			t.Errorf("%s: fires in a test: %t, does not in another: %t", name, fires[name], quiet[name])
		}
	}
}

// withoutKubernetes returns a copy of an example of a configuration, beside copies of the rules.
// The example finds nodes through the API server, which Debian's promtool is built without.
func withoutKubernetes(t *testing.T, example string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{example, alertsFile, recordingFile} {
		data, err := os.ReadFile(filepath.Join(deploy, name))
		if err != nil {
			t.Fatal(err)
		}
		if name == example {
			discovery := regexp.MustCompile(`kubernetes_sd_configs:\n      - role: .*\n( {8}.*\n)*`)
			if found := discovery.FindAll(data, -1); len(found) != 2 {
				t.Fatalf("%s finds %q", name, found)
			}
			data = discovery.ReplaceAll(data, []byte("static_configs:\n      - targets: [\"127.0.0.1:9948\"]\n"))
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, filepath.Base(example))
}

// TestAlertsWaitForScrapes: an alert that compares over a range has one that holds some scrapes of
// the usual intervals.
func TestAlertsWaitForScrapes(t *testing.T) {
	t.Parallel()
	for _, r := range rules(t) {
		for _, match := range regexp.MustCompile(`\[(\w+)\]`).FindAllStringSubmatch(r.Expr, -1) {
			if d, err := model.ParseDuration(match[1]); err != nil || time.Duration(d) < 5*time.Minute {
				t.Errorf("%s%s: [%s]: want 5m or more: two scrapes a minute apart, and one that is lost", r.Alert, r.Record, match[1])
			}
		}
	}
}
