package recommend

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/output"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/sizing/sizefile"
	"node-partition.io/node-partition/pkg/slices/config"
	"node-partition.io/node-partition/tests/fakenode"
)

const mebi = 1 << 20

// recommended returns the recommendation for a node as YAML and as it is written in JSON. verdict
// means that there is a section.
func recommended(t *testing.T, n *fakenode.Node, verdict bool, o Options) (text string, a Advice) {
	t.Helper()
	o.Node = n.Host()
	read, err := Read(o)
	if err != nil {
		t.Fatal(err)
	}
	var document, encoded bytes.Buffer
	if err := errors.Join(WriteYAML(&document, read), output.JSON(&encoded, read), json.Unmarshal(encoded.Bytes(), &a)); err != nil {
		t.Fatalf("%v:\n%s", err, &encoded)
	}
	if err := read.Verdict(); (err == nil) != verdict || len(read.Warnings) != strings.Count(document.String(), "# warning: ") {
		t.Fatalf("%v, warnings %q\n%s", err, read.Warnings, &document)
	}
	return document.String(), a
}

// TestRecommendSection: the section keeps the fields of the present one, its threshold too, says
// what it stands on, and is valid.
func TestRecommendSection(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"  memoryLimit: 2Gi\n", ""} {
		recommendsSection(t, limit)
	}
}

// recommendsSection: the threshold of the section is in the limit, whether it has had a limit or
// not.
func recommendsSection(t *testing.T, limit string) {
	t.Helper()
	n := fakenode.New(t, fakenode.Configuration("systemPartition:\n"+limit+"  cpuset: \"0\"\n  namespaces: [kube-system, logging]\n"+
		"  evictionHard: {memory.available: 200Mi}\n"))
	n.Measure(partition.System, 30*24*time.Hour, fakenode.Nightly)
	text, a := recommended(t, n, true, Options{})
	var document struct{ SystemPartition map[string]any }
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	section := document.SystemPartition
	if section["memoryLimit"] != quantity(a.LimitBytes) || section["cpuset"] != "0" || len(section["namespaces"].([]any)) != 2 || section["evictionHard"] == nil {
		t.Errorf("%v in\n%s", section, text)
	}
	if a.Need.Peak != 500*mebi || a.LimitBytes < 720*mebi || a.ThresholdBytes != 200*mebi || a.RequestBytes != 100*mebi || a.Members != 2 ||
		a.LargestMember != "kube-system/backup" || len(a.Warnings) > 0 || a.Slice != "kubepods-system.slice" {
		t.Errorf("%+v", a)
	}
	for _, want := range []string{
		"# memoryLimit of partition system, " + quantity(a.LimitBytes) + ": for 2 members and 30.0 days, 1 of 200 such nodes would exceed it in the 30.0 days after.",
		"#   peak            500Mi", "#   largest member  360Mi", "kube-system/backup", "#   threshold       200Mi",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	c, err := config.LoadWith(string(n.Host().Root), "recommended", []byte(text))
	if err != nil || c.Partition(partition.System).Limit != a.LimitBytes {
		t.Errorf("%v, %+v", err, c.Partitions)
	}
}

// TestRecommendLacks: what the history lacks is said, and too short a one gives no section.
func TestRecommendLacks(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Configuration(""))
	if _, err := Read(Options{Node: n.Host()}); err == nil || !strings.Contains(err.Error(), "nothing was measured") {
		t.Errorf("%v", err)
	}
	n.Measure(partition.System, 3*time.Hour, fakenode.Nightly)
	text, a := recommended(t, n, false, Options{})
	if strings.Contains(text, "systemPartition") || !strings.Contains(text, "# no section: 3h00m were measured, and a limit needs 6h00m: wait") || a.LimitBytes == 0 {
		t.Errorf("%s", text)
	}
	text, a = recommended(t, n, true, Options{Force: true})
	if !strings.Contains(text, "namespaces:\n  - kube-system\n") || len(a.Warnings) != 1 {
		t.Errorf("%q in\n%s", a.Warnings, text)
	}
	// In /run, with a gap, after a file that was damaged, with a leak.
	n = fakenode.New(t, fakenode.Configuration(""))
	n.Write("/var/lib/node-partition/sizes", "")
	root := n.Host().Root
	file, _ := sizefile.Open(root, partition.System)
	file.Lacks = "what was used before is not readable"
	write := func() {
		t.Helper()
		if err := file.Write(root); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Now().Add(-time.Hour * 24 * 2)
	for i := range uint64(20 * 60) {
		if i == 600 { // the node was off
			write()
			file, _ = sizefile.Open(root, partition.System)
			at = at.Add(9 * time.Hour)
		}
		at = at.Add(time.Minute)
		file.Add(at, time.Minute, sizefile.Minute{Used: (200 + i/5) * mebi, Members: 3})
	}
	write()
	_, a = recommended(t, n, true, Options{})
	for _, want := range []string{
		"20h00m were measured", "in addition to the 20h00m, ", "the record lacks something: what was used before", "which a reboot empties",
		"no member was measured: the largest counts as twice the mean of 3", "the partition grows without returning", "the recommendation has kube-system",
	} {
		if !strings.Contains(strings.Join(a.Warnings, "\n"), want) {
			t.Errorf("%q is not in %q", want, a.Warnings)
		}
	}
	if _, a = recommended(t, n, true, Options{}); a.Leak == nil {
		t.Error("no leak")
	}
	const evictions = `{"version":1,"last":[{"namespace":"kube-system","name":"%s","time":%q,"dryRun":%t}]}`
	for _, test := range []struct {
		text string
		want bool
	}{
		{fmt.Sprintf(evictions, "agent-1", time.Now().Format(time.RFC3339), false), true}, {"not JSON", true},
		{fmt.Sprintf(evictions, "agent-1", time.Now().Format(time.RFC3339), true), false}, {fmt.Sprintf(evictions, "agent-1", "2026-01-01T00:00:00Z", false), false},
	} {
		n.Write("/run/node-partition/monitor/evictions.json", test.text)
		_, a = recommended(t, n, true, Options{})
		if got := strings.Contains(strings.Join(a.Warnings, "\n"), "evicted"); got != test.want {
			t.Errorf("%s: %q", test.text, a.Warnings)
		}
	}
	n.Write("/proc/meminfo", "MemTotal: 262144 kB")
	if _, a = recommended(t, n, false, Options{}); !strings.Contains(strings.Join(a.NoSection, ""), "is not below the memory of the node, 256Mi") {
		t.Errorf("%q", a.NoSection)
	}
}

// TestRecommendBundle: a file that a bundle does not have hides no other fault.
func TestRecommendBundle(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Configuration("systemPartition: {namespaces: [kube-system]}\n"))
	n.Write("/etc/default/node-partition", "PARTITION_MEMORY_MIN=many\n")
	n.Measure(partition.System, 30*24*time.Hour, fakenode.Nightly)
	if err := os.Remove(n.Host().Path("/sys/devices/system/cpu/present")); err != nil {
		t.Fatal(err)
	}
	_, a := recommended(t, n, true, Options{})
	if len(a.Warnings) != 1 || !strings.Contains(a.Warnings[0], "try would refuse it: ") || !strings.Contains(a.Warnings[0], "PARTITION_MEMORY_MIN") {
		t.Errorf("%q", a.Warnings)
	}
}

// TestRecommendPartitionSection: the section of a workload partition keeps its fields and all else
// of the file that it is for, because try replaces that.
func TestRecommendPartitionSection(t *testing.T) {
	t.Parallel()
	const section = "  telemetry: {namespaces: [logs], cpuset: \"0\", evictionMaxPodGracePeriod: 5, memoryLimit: 1Gi}\n  batch: {namespaces: [batch], memoryLimit: 2Gi}\n"
	const system = "systemPartition: {namespaces: [kube-system], memoryLimit: 3Gi}\n"
	const header = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	type document struct {
		SystemPartition    map[string]any
		WorkloadPartitions map[string]map[string]any
	}
	for name, test := range map[string]struct {
		kubelet, own string
		system       bool // the document has it
	}{
		"in its own file":       {"", header + system + "workloadPartitions:\n" + section, true},
		"in the kubelet's file": {system + "workloadPartitions:\n" + section, "", false},
		"in two files":          {"workloadPartitions:\n" + section, header + system, true},
	} {
		n := fakenode.New(t, fakenode.Configuration(test.kubelet))
		if test.own != "" {
			n.Write("/etc/kubernetes/node-partition.yaml", test.own)
		}
		n.Measure("telemetry", week, fakenode.Nightly)
		text, a := recommended(t, n, true, Options{Partition: "telemetry"})
		var got document
		if err := yaml.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%s: %v:\n%s", name, err, text)
		}
		telemetry := got.WorkloadPartitions["telemetry"]
		if telemetry["memoryLimit"] != quantity(a.LimitBytes) || telemetry["cpuset"] != "0" || telemetry["evictionMaxPodGracePeriod"] != 5.0 ||
			got.WorkloadPartitions["batch"]["memoryLimit"] != "2Gi" || (got.SystemPartition != nil) != test.system {
			t.Errorf("%s: %+v in\n%s", name, got, text)
		}
		if a.Partition != "telemetry" || a.WorkloadPartitions["telemetry"]["memoryLimit"] != quantity(a.LimitBytes) || a.SystemPartition != nil {
			t.Errorf("%s: %+v", name, a)
		}
		c, err := config.LoadWith(string(n.Host().Root), "recommended", []byte(text))
		if err != nil || c.Partition("telemetry").Limit != a.LimitBytes || c.Partition(partition.System).Limit != 3<<30 {
			t.Errorf("%s: %v, %+v", name, err, c.Partitions)
		}
	}
	// One that was removed keeps its record.
	n := fakenode.New(t, fakenode.Configuration("systemPartition: {namespaces: [kube-system]}\n"))
	n.Measure("telemetry", week, fakenode.Nightly)
	if text, _ := recommended(t, n, true, Options{Partition: "telemetry"}); !strings.Contains(text, "# warning: workloadPartitions.telemetry is not in the configuration") {
		t.Errorf("%s", text)
	}
}

// TestRecommendShare: a limit that is a percentage stays one, and no bound counts in its place.
func TestRecommendShare(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		bounds, min, max string
		warns            int
	}{
		{"", "", "", 0},
		{"  memoryLimitMin: 100Mi\n  memoryLimitMax: 2Gi\n", "100Mi", "2Gi", 0},
		{"  memoryLimitMin: 1Gi\n  memoryLimitMax: 2Gi\n", "LIMIT", "2Gi", 1},
		{"  memoryLimitMin: 100Mi\n  memoryLimitMax: 200Mi\n", "100Mi", "LIMIT", 1},
	} {
		n := fakenode.New(t, fakenode.Configuration(""))
		n.Write("/etc/kubernetes/node-partition.yaml", fakenode.Configuration(
			"systemPartition:\n  memoryLimit: 50%\n  namespaces: [kube-system]\n"+test.bounds))
		n.Measure(partition.System, week, fakenode.Nightly)
		text, a := recommended(t, n, true, Options{})
		section := a.SystemPartition
		if limit, _ := section["memoryLimit"].(string); !strings.HasSuffix(limit, "%") {
			t.Errorf("%q: %q in\n%s", test.bounds, limit, text)
		}
		for field, want := range map[string]string{"memoryLimitMin": test.min, "memoryLimitMax": test.max} {
			if got, _ := section[field].(string); got != strings.Replace(want, "LIMIT", quantity(a.LimitBytes), 1) {
				t.Errorf("%q: %s %q; want %q", test.bounds, field, got, want)
			}
		}
		if got := strings.Count(text, "which would count in place of the percentage"); got != test.warns {
			t.Errorf("%q: %d warnings in\n%s", test.bounds, got, text)
		}
		c, err := config.LoadWith(string(n.Host().Root), "recommended", []byte(text))
		if got := c.Partition(partition.System).Limit; err != nil || got < a.LimitBytes || got > a.LimitBytes+2*mebi {
			t.Errorf("%q: %v, %+v", test.bounds, err, c.Partitions)
		}
	}
}

// TestAdviseSoft: a soft threshold that is nearer than the hard one counts, because the alerts and
// the eviction count to it.
func TestAdviseSoft(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Configuration("systemPartition: {memoryLimit: 2Gi, namespaces: [kube-system], "+
		"evictionSoft: {memory.available: 20%}, evictionSoftGracePeriod: {memory.available: 1m}}\n"))
	n.Measure(partition.System, week, fakenode.Nightly)
	r, _, err := sizefile.Read(n.Host().Root, partition.System)
	if a := node.Advise(n.Host().Root, &r); err != nil || a.ThresholdBytes < a.LimitBytes/5-mebi || a.ThresholdBytes > a.LimitBytes/5+mebi {
		t.Errorf("%d of %d, %v", a.ThresholdBytes, a.LimitBytes, err)
	}
}
