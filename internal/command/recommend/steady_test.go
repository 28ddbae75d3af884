package recommend

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"

	"nodepartition/internal/budget"
	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/samples"
	"nodepartition/pkg/evict"
	"nodepartition/pkg/slices/config"
)

// TestRecommendPlanAlerts holds three programs together: the section that recommend writes for a
// partition that is steady at its peak raises no warning of plan, and no alert. promtool evaluates
// the alerts (TestPromtool of deploy/generate) on the file that this test compares.
func TestRecommendPlanAlerts(t *testing.T) {
	t.Parallel()
	const rules, golden = "../../../deploy/prometheus/alerts.yaml", "../../../deploy/prometheus/tests/recommended.yaml"
	const memory = 64 << 30
	var series strings.Builder
	for _, peak := range []uint64{60, 100, 150, 200, 500, 1 << 10, 4 << 10, 16 << 10} {
		m := made{pods: []pod{{name: "a", request: peak / 2, uses: flat(peak - 2)}}} // and 2 of noise
		h := m.samples(usualNode)
		for _, cpus := range []int{2, 64, 128, 256} {
			has := samples.Node{CPUs: cpus, MemoryBytes: memory, PageBytes: 4096, Pods: 40}
			for i := range h.Tens {
				h.Tens[i].Node = &has
			}
			o := Options{Dir: t.TempDir(), Now: now, Protected: evict.DefaultProtected}
			a, err := o.advise(t.Context(), h)
			if err == nil {
				err = a.Verdict()
			}
			if err != nil {
				t.Errorf("%dMi, %d CPUs: %v", peak, cpus, err)
				continue
			}
			for _, warning := range planned(t, a, has) {
				t.Errorf("%dMi, %d CPUs: plan warns: %s", peak, cpus, warning)
			}
			writeSeries(&series, a, peak<<20, fmt.Sprintf("%dMi-%dCPUs", peak, cpus))
		}
	}
	got := []byte(ruleTest(t, rules, series.String()))
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(golden); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what recommend gives (%v): go test ./internal/command/recommend -update writes it", golden, err)
	}
}

// planned returns what plan, try and check remark on a section with the reservations beside it.
func planned(t *testing.T, a Advice, has samples.Node) []string {
	t.Helper()
	var text bytes.Buffer
	if err := WriteYAML(&text, a); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "section.yaml")
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := kubeletconfig.LoadFiles("/", "", path)
	if err != nil {
		t.Fatal(err)
	}
	cpus := make([]int, 0, has.CPUs)
	for n := range has.CPUs {
		cpus = append(cpus, n)
	}
	all := cpuset.New(cpus...)
	draft, err := config.Draft(k, config.Size{MemoryBytes: has.MemoryBytes, CPUs: all})
	if err != nil || len(draft.Partitions) != 1 {
		t.Fatalf("%+v, %v", draft, err)
	}
	section, warnings := draft.Partitions[0], draft.Warnings
	reserved := func(memory uint64, milli uint64) map[string]string {
		return map[string]string{"memory": quantity(memory), "cpu": fmt.Sprintf("%dm", milli)}
	}
	b, err := budget.Compute(budget.Input{
		Kubelet: budget.Kubelet{
			KubeReserved:   reserved(a.KubeReserved.Memory.Bytes, a.KubeReserved.MilliCPU),
			SystemReserved: reserved(a.SystemReserved.WithPartition.Bytes, a.SystemReserved.MilliCPU),
			EvictionHard:   budget.DefaultEvictionHard(),
		},
		Capacity: budget.List(int64(has.CPUs)*1000, int64(has.MemoryBytes)), CPUs: all,
		Partitions: []budget.Share{{
			Name: section.Name, MemoryLimit: int64(section.Limit),
			// As in the history.
			Members: &budget.Members{Pods: 1, MemoryRequestBytes: int64(a.MemoryLimit.PeakBytes >> 21 << 20), Unlimited: 1},
		}},
		HostBytes: 520 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	return append(warnings, b.Warnings...)
}

// writeSeries writes what the monitor serves on a node with the recommended section, as series of
// promtool.
func writeSeries(to *strings.Builder, a Advice, used uint64, node string) {
	limit, hard := a.MemoryLimit.Bytes, a.EvictionHard.Bytes
	for _, s := range []struct {
		name, labels string
		value        any
	}{
		{"up", "", 1},
		{"nodepartition_configured_memory_limit_bytes", `, partition="system"`, limit},
		{"nodepartition_memory_limit_bytes", `, partition="system", slice="kubepods-system.slice"`, limit},
		{"nodepartition_memory_available_bytes", `, partition="system"`, limit - used},
		{"nodepartition_eviction_threshold_bytes", `, partition="system", threshold="hard"`, hard},
		{"nodepartition_eviction_last_poll_timestamp_seconds", `, partition="system"`, "0+60"},
		{"nodepartition_host_memory_used_bytes", `, slice="system.slice"`, uint64(520 << 20)},
		{"nodepartition_budget_memory_bytes", `, part="kube-reserved"`, a.KubeReserved.Memory.Bytes},
		{"nodepartition_budget_memory_bytes", `, part="system-reserved"`, a.SystemReserved.WithPartition.Bytes},
	} {
		fmt.Fprintf(to, "      - {series: '%s{job=\"node-partition\", instance=\"%s\"%s}', values: '%vx60'}\n", s.name, node, s.labels, s.value)
	}
}

// ruleTest returns a test of promtool in which none of the alerts of a file fires.
func ruleTest(t *testing.T, rules, series string) string {
	t.Helper()
	text, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	out.WriteString("# What the monitor serves on nodes with the section that recommend writes, at the peak that it was\n" +
		"# computed from. go test ./internal/command/recommend -update writes it.\n" +
		"rule_files: [../alerts.yaml]\nevaluation_interval: 1m\n\ntests:\n" +
		"  - name: the recommended sections of steady partitions\n    interval: 1m\n    input_series:\n" + series + "    alert_rule_test:\n")
	for _, match := range regexp.MustCompile(`(?m)- alert: (\w+)$`).FindAllStringSubmatch(string(text), -1) {
		fmt.Fprintf(&out, "      - {alertname: %s, eval_time: 1h, exp_alerts: []}\n", match[1])
	}
	return out.String()
}
