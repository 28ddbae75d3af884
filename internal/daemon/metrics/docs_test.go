package metrics

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// documented returns the rows of the tables of docs/metrics.md: name -> type and labels.
func documented(t *testing.T) map[string][2]string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][2]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || !strings.Contains(cells[1], "`") {
			continue
		}
		name := strings.Trim(cells[1], " `")
		if _, twice := rows[name]; twice {
			t.Errorf("docs/metrics.md has %s twice", name)
		}
		if strings.TrimSpace(cells[4]) == "" {
			t.Errorf("docs/metrics.md does not say what %s means", name)
		}
		rows[name] = [2]string{strings.TrimSpace(cells[2]), strings.ReplaceAll(strings.TrimSpace(cells[3]), "`", "")}
	}
	return rows
}

// TestMetricsDocumented: docs/metrics.md has each of our metrics with its type and its labels, and
// no other.
func TestMetricsDocumented(t *testing.T) {
	t.Parallel()
	rows := documented(t)
	m := served(options{Version: "v1.2.3", Cgroups: "testdata/node", Partitions: system(), Reports: sampleReport(), PerPod: true})
	observe(m)
	families, err := m.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		name := family.GetName()
		if !strings.HasPrefix(name, prefix) && !strings.HasPrefix(name, "kubelet_") {
			continue
		}
		var labels []string
		for _, label := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, label.GetName())
		}
		slices.Sort(labels)
		want := [2]string{strings.ToLower(family.GetType().String()), strings.Join(labels, ", ")}
		if got, ok := rows[name]; !ok || got != want {
			t.Errorf("docs/metrics.md: %s: %q; want %q", name, got, want)
		}
		delete(rows, name)
	}
	for name := range rows {
		t.Errorf("docs/metrics.md has %s, which is not served", name)
	}
}
