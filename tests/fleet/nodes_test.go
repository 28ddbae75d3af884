//go:build fleet

package fleet

import (
	"bufio"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

const (
	// exposition has the series that the monitor serves. A Prometheus for many nodes with scrapeFile
	// keeps some of them.
	exposition = "../../internal/daemon/metrics/testdata/expected.txt"
	scrapeFile = "../../deploy/prometheus/prometheus-fleet.yaml"

	// racks is the number of nodes that are off together, the first ones: more than 2 % of 5,000,
	// which is where a page begins.
	racks = 120
)

// template is a series of each node.
type template struct {
	labels labels.Labels
	value  float64
	// since is the time at which its scrapes begin.
	since time.Duration
}

// scrapeConfig holds the fields of a scrape configuration.
type scrapeConfig struct {
	ScrapeConfigs []struct {
		Relabel []struct {
			SourceLabels []string `json:"source_labels"`
			Regex        string   `json:"regex"`
			TargetLabel  string   `json:"target_label"`
			Replacement  string   `json:"replacement"`
			Action       string   `json:"action"`
		} `json:"metric_relabel_configs"`
	} `json:"scrape_configs"`
}

// relabelling reads the relabel list.
func relabelling(t *testing.T) []*relabel.Config {
	t.Helper()
	data, err := os.ReadFile(scrapeFile)
	if err != nil {
		t.Fatal(err)
	}
	var file scrapeConfig
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	var list []*relabel.Config
	for _, r := range file.ScrapeConfigs[1].Relabel {
		c := relabel.DefaultRelabelConfig
		for _, name := range r.SourceLabels {
			c.SourceLabels = append(c.SourceLabels, model.LabelName(name))
		}
		c.Regex, c.TargetLabel = relabel.MustNewRegexp(r.Regex), r.TargetLabel
		c.NameValidationScheme = model.UTF8Validation
		if r.Replacement != "" {
			c.Replacement = r.Replacement
		}
		if r.Action != "" {
			c.Action = relabel.Action(r.Action)
		}
		list = append(list, &c)
	}
	return list
}

// templates returns the series that are kept of a node on which all is well.
func templates(t *testing.T) []template {
	t.Helper()
	file, err := os.Open(exposition)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rules := relabelling(t)
	list := []template{{labels: labels.FromStrings("__name__", "process_start_time_seconds"), value: 1}}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndex(line, " ")
		series, err := parser.NewParser(parser.Options{}).ParseMetric(line[:at])
		if err != nil {
			t.Fatal(err)
		}
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			t.Fatal(err)
		}
		if b := labels.NewBuilder(series); relabel.ProcessBuilder(b, rules...) {
			list = append(list, template{labels: b.Labels(), value: well(series, value)})
		}
	}
	return list
}

// well returns the value of a series on a node on which all is well.
func well(series labels.Labels, value float64) float64 {
	name := series.Get("__name__")
	for _, trouble := range []string{"problem", "misplaced", "refused", "lowering", "no_candidates", "trial", "failures", "kills"} {
		if strings.Contains(name, trouble) {
			return 0
		}
	}
	if strings.HasSuffix(name, "source_connected") {
		return 1
	}
	return value
}

// node is a made-up node.
type node struct {
	name, shape string
	number      int
}

// fleetOf returns nodes of ten shapes.
func fleetOf(n int) []node {
	list := make([]node, n)
	for i := range list {
		list[i] = node{fmt.Sprintf("node-%04d", i), fmt.Sprintf("m5.%d", i%10), i}
	}
	return list
}

// noise returns a number below 1 that depends on the node and the time alone.
func (n node) noise(at time.Time) float64 {
	h := fnv.New32a()
	fmt.Fprint(h, n.number, at.Unix()/600)
	return float64(h.Sum32()%1000) / 1000
}

// used returns the usage of the partition: the same in ten minutes, so that a scrape every two
// minutes has it.
func (n node) used(at time.Time) float64 {
	return float64(int((150 + 60*n.noise(at)) * mebi))
}

// value returns a sample of a series.
func (n node) value(s *template, at time.Time) float64 {
	switch name := s.labels.Get("__name__"); {
	case name == "nodepartition_memory_used_peak_bytes":
		if before := at.Add(-4 * time.Minute); !before.Before(begin) {
			return max(n.used(at), n.used(before))
		}
		return n.used(at)
	case name == "nodepartition_memory_used_bytes":
		return n.used(at)
	case name == "nodepartition_memory_working_set_bytes":
		return n.used(at) + 20*mebi
	case name == "nodepartition_memory_available_bytes":
		return 512*mebi - n.used(at)
	case name == "nodepartition_evictions_total" && s.evicts() && n.evicts():
		// These nodes evict in different minutes.
		return s.value + math.Floor((at.Sub(begin) + time.Duration(n.number)*time.Minute).Hours())
	case strings.HasSuffix(name, "_timestamp_seconds"):
		return float64(at.Unix())
	}
	return s.value
}

// evicts reports whether the node evicts a pod each hour, as one in a hundred does: the dashboard
// marks it.
func (n node) evicts() bool { return n.number%100 == 0 }

// evicts reports whether a series of evictions counts the pods that these nodes evict.
func (s *template) evicts() bool {
	return s.labels.Get("threshold") == "soft" && s.labels.Get("method") == "evict"
}
