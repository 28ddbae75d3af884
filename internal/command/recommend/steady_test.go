package recommend

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/budget"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/slices/config"
	"node-partition.io/node-partition/tests/fakenode"
)

var update = flag.Bool("update", false, "write the expected output")

// The node of the test, and what is reserved on it, in bytes.
const (
	memory         = 64 << 30
	kubeReserved   = 384 << 20
	systemReserved = 384 << 20
)

// TestRecommendPlanAlerts holds three programs together: the section that recommend writes for a
// partition that is steady at its peak raises no warning of plan, and no alert. promtool evaluates
// the alerts (TestPromtool of deploy/generate) on the file that this test compares.
func TestRecommendPlanAlerts(t *testing.T) {
	t.Parallel()
	const rules, golden = "../../../deploy/prometheus/alerts.yaml", "../../../deploy/prometheus/tests/recommended.yaml"
	var series strings.Builder
	for _, peak := range []uint64{60, 150, 500, 1 << 10, 4 << 10, 16 << 10} {
		for _, members := range []uint64{1, 40} {
			n := fakenode.New(t, fakenode.Configuration(""))
			n.Write("/proc/meminfo", fmt.Sprintf("MemTotal: %d kB", memory>>10))
			n.Measure(partition.System, 30*24*time.Hour, func(time.Duration) (largest, others uint64) {
				return peak << 20 / members, peak<<20 - peak<<20/members
			})
			for _, cpus := range []int{2, 64, 256} {
				node := fmt.Sprintf("%dMi-%dCPUs-%dpods", peak, cpus, members)
				n.Write("/sys/devices/system/cpu/online", fmt.Sprintf("0-%d", cpus-1))
				a, err := Read(Options{Node: n.Host()})
				if err == nil {
					err = a.Verdict()
				}
				if err != nil {
					t.Errorf("%s: %v", node, err)
					continue
				}
				for _, warning := range planned(t, a, cpus) {
					t.Errorf("%s: plan warns: %s", node, warning)
				}
				writeSeries(&series, a, peak<<20, node)
			}
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
func planned(t *testing.T, a Advice, count int) []string {
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
	cpus := make([]int, 0, count)
	for n := range count {
		cpus = append(cpus, n)
	}
	all := cpuset.New(cpus...)
	draft, err := config.Draft(k, config.Size{MemoryBytes: uint64(memory), CPUs: all})
	if err != nil || len(draft.Partitions) != 1 {
		t.Fatalf("%+v, %v", draft, err)
	}
	section, warnings := draft.Partitions[0], draft.Warnings
	b, err := budget.Compute(budget.Input{
		Kubelet: budget.Kubelet{
			KubeReserved: map[string]string{"memory": quantity(kubeReserved), "cpu": "100m"},
			// The part of memoryLimit that members do not request is in it: docs/budget.md.
			SystemReserved: map[string]string{"memory": quantity(systemReserved + a.LimitBytes - a.RequestBytes), "cpu": "100m"},
			EvictionHard:   budget.DefaultEvictionHard(),
		},
		Capacity: budget.List(int64(count)*1000, memory), CPUs: all,
		Partitions: []budget.Partition{{
			Name: section.Name, Resources: budget.Resources{MemoryBytes: int64(section.Limit)},
			Members: &budget.Members{Pods: 1, MemoryRequestBytes: int64(a.RequestBytes), Unlimited: 1},
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
	limit, hard := a.LimitBytes, a.ThresholdBytes
	for _, s := range []struct {
		name, labels string
		value        any
	}{
		{"up", "", 1},
		{"nodepartition_configured_memory_limit_bytes", `, partition="system"`, limit},
		{"kubelet_partition_memory_limit_bytes", `, partition="system"`, limit},
		{"nodepartition_memory_available_bytes", `, partition="system"`, limit - used},
		{"nodepartition_eviction_threshold_bytes", `, partition="system", threshold="hard"`, hard},
		{"nodepartition_eviction_last_poll_timestamp_seconds", `, partition="system"`, "0+60"},
		{"nodepartition_host_memory_used_bytes", `, slice="system.slice"`, uint64(520 << 20)},
		{"nodepartition_budget_memory_bytes", `, part="kube-reserved"`, uint64(kubeReserved)},
		{"nodepartition_budget_memory_bytes", `, part="system-reserved"`, systemReserved + limit - a.RequestBytes},
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
