package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The examples of scrape configurations, and those for many nodes, which are made from them.
const (
	scrapeFile        = "prometheus/prometheus.yaml"
	operatorFile      = "prometheus/scrapeconfig.yaml"
	scrapeFleetFile   = "prometheus/prometheus-fleet.yaml"
	operatorFleetFile = "prometheus/scrapeconfig-fleet.yaml"
)

// mark is the label that a series has while it is relabelled and is to be kept. A label of a
// sample that begins with __ is not removed by itself.
const mark = "__tmp_keep"

// fleetScrapes returns the scrape configurations for many nodes: a scrape each minute, and no
// series but those that are read.
func fleetScrapes(dir string, list []kept) (map[string][]byte, error) {
	files := map[string][]byte{}
	plain, operator := relabelRules(list), operatorRules(list)
	for _, f := range []struct {
		from, to, short, long, source string
		rules                         string
	}{
		{scrapeFile, scrapeFleetFile, "scrape_interval: 15s", "scrape_interval: 60s", "prometheus.yaml", plain},
		{operatorFile, operatorFleetFile, "scrapeInterval: 15s", "scrapeInterval: 60s", "scrapeconfig.yaml", operator},
	} {
		data, err := os.ReadFile(filepath.Join(dir, f.from))
		if err != nil {
			return nil, err
		}
		if strings.Count(string(data), f.short) != 1 {
			return nil, fmt.Errorf("%s: want %q once", f.from, f.short)
		}
		body := strings.Replace(withoutHead(string(data)), f.short, f.long, 1)
		files[f.to] = []byte(fmt.Sprintf(fleetHead, f.source) + strings.TrimRight(body, "\n") + "\n" + f.rules)
	}
	return files, nil
}

// withoutHead removes the comment at the beginning.
func withoutHead(text string) string {
	for strings.HasPrefix(text, "#") {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}

const fleetHead = `# Generated from %s, the rules, the dashboard's row for many nodes and the queries of
# partition-monitor recommend by make generate: a scrape each minute, and the series that they read.
# docs/fleet-figures.md has what it costs, and what it leaves out.
`

// relabelRules returns the list in the form of Prometheus' configuration.
func relabelRules(list []kept) string {
	return writeRules(list, "    ", "metric_relabel_configs", "source_labels", "target_label")
}

// operatorRules returns the list in the form of the Prometheus operator.
func operatorRules(list []kept) string {
	return writeRules(list, "  ", "metricRelabelings", "sourceLabels", "targetLabel")
}

// writeRules writes the list with the names of fields of one form.
func writeRules(list []kept, indent, field, source, target string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s:\n%[1]s  # A line for each metric that is read, with the labels of the series that are.\n", indent, field)
	for _, k := range list {
		fmt.Fprintf(&b, "%s  - {%s: [%s], regex: '%s', %s: %s, replacement: \"1\"}\n",
			indent, source, strings.Join(k.labelNames(), ", "), quoted(k.text()), target, mark)
	}
	fmt.Fprintf(&b, "%s  - {%s: [%s], regex: \"1\", action: keep}\n", indent, source, mark)
	fmt.Fprintf(&b, "%s  - {regex: %s, action: labeldrop}\n", indent, mark)
	return b.String()
}

// quoted returns a text for a string in single quotes of YAML.
func quoted(text string) string { return strings.ReplaceAll(text, "'", "''") }
