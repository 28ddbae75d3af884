package recommend

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/node"
	"nodepartition/internal/samples"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
	"nodepartition/pkg/slices/config"
	"nodepartition/tests/fakenode"
)

// recommended returns the recommendation for a node as YAML and as it is written in JSON. verdict
// means that there is a section that does not evict at once.
func recommended(t *testing.T, n *fakenode.Node, verdict bool, change func(*Options)) (text string, a Advice) {
	t.Helper()
	o := Options{Node: n.Host(), Dir: n.Host().Path(node.HistoryDir), Now: time.Now(), Protected: evict.DefaultProtected}
	if change != nil {
		change(&o)
	}
	read, err := Read(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var document, encoded bytes.Buffer
	if err := errors.Join(WriteYAML(&document, read), WriteJSON(&encoded, read), json.Unmarshal(encoded.Bytes(), &a)); err != nil {
		t.Fatalf("%v:\n%s", err, &encoded)
	}
	if err := read.Verdict(); (err == nil) != verdict || len(read.Warnings) != strings.Count(document.String(), "# warning: ") {
		t.Fatalf("%v, warnings %q\n%s", err, read.Warnings, &document)
	}
	return document.String(), a
}

func withoutLeaks(o *Options) { o.WithoutLeaks = true }
func forced(o *Options)       { o.Force = true }

func atLimit(limit uint64) func(*Options) { return func(o *Options) { o.AtLimit = limit } }

// TestRecommendSection: the section keeps the fields of the present one, has the reasoning as
// comments, and is valid.
func TestRecommendSection(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Configuration("systemPartition:\n  memoryLimit: 2Gi\n  cpuset: \"0\"\n  namespaces: [kube-system, logging]\n  evictionMaxPodGracePeriod: 5\n"))
	n.Record(7*24*time.Hour, true, nil)
	text, a := recommended(t, n, false, withoutLeaks) // the leak is still in use
	var document struct{ SystemPartition map[string]any }
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	section := document.SystemPartition
	// 300 and 40, less the leak: 340 x 1.15 = 391. The pods request 400: with 32 it is 432.
	if section["memoryLimit"] != "432Mi" || section["cpuset"] != "0" || len(section["namespaces"].([]any)) != 2 || section["evictionMaxPodGracePeriod"] != 5.0 {
		t.Errorf("%v in\n%s", section, text)
	}
	if a.MemoryLimit.Bytes != 432*mebi || a.Section["memoryLimit"] != "432Mi" || len(a.Leaks) != 1 || a.Leaks[0].Name != "kube-system/collector" {
		t.Errorf("%+v, %+v", a.MemoryLimit, a.Leaks)
	}
	// 150 x 1.15 and 60 x 1.15; 250 x 1.15 and 40 x 1.15.
	for _, want := range []string{
		"# memoryLimit 432Mi:", "# kubeReserved memory 192Mi", "#   kubeReserved: {cpu: 70m, memory: 192Mi}", "#   systemReserved: {cpu: 50m, memory: 384Mi}",
		"#   kube-system/collector: 4Mi an hour", "it leaks", "with pods",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	// The section is valid.
	c, err := config.LoadWith(string(n.Host().Root), "recommended", []byte(text))
	if err != nil || c.Partition(unitname.System).Limit != 432*mebi {
		t.Errorf("%v, %+v", err, c.Partitions)
	}
	// With what the leak had added it is twice what the pods need without, and not more.
	if text, a = recommended(t, n, true, nil); a.MemoryLimit.Bytes != 896*mebi || a.WithoutGrowth.Bytes != 432*mebi || !strings.Contains(text, "memoryLimit: 896Mi") {
		t.Errorf("%+v, %+v", a.MemoryLimit, a.WithoutGrowth)
	}
	// At a lower limit the peak is too much, at a much higher one nothing is.
	_, a = recommended(t, n, true, atLimit(320*mebi))
	if len(a.Simulations) != 2 || a.Simulations[0].LimitBytes != 320*mebi || len(a.Simulations[0].Evictions) == 0 {
		t.Errorf("%+v", a.Simulations)
	}
	text, _ = recommended(t, n, true, atLimit(4096*mebi))
	if !strings.Contains(text, "# At 4096Mi, with a threshold of 205Mi, no pod would have been evicted") {
		t.Errorf("%s", text)
	}
}

// TestRecommendShortHistory: a short history without pods, on a node without a section.
func TestRecommendShortHistory(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Configuration(""))
	n.Record(3*time.Hour, false, nil)
	text, a := recommended(t, n, false, nil)
	if strings.Contains(text, "systemPartition") || a.Section != nil || !strings.Contains(text, "# no section: the history has 3h0m0s") || a.MemoryLimit == nil {
		t.Errorf("%s", text)
	}
	text, a = recommended(t, n, true, forced)
	if a.History.MaxPods != 110 { // the kubelet's default
		t.Errorf("maxPods %d", a.History.MaxPods)
	}
	for _, want := range []string{"the history is 3h0m0s long", "--history-members", "the recommendation has kube-system"} {
		if !strings.Contains(text, "# warning: ") || !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if !strings.Contains(text, "namespaces:\n  - kube-system\n") || a.Section["memoryLimit"] == nil {
		t.Errorf("%s", text)
	}
	// Only reservations, if there was no partition; nothing before a sample.
	n = fakenode.New(t, fakenode.Configuration(""))
	n.Record(3*time.Hour, false, func(_ time.Duration, s *samples.Sample) { s.Partition = nil })
	if text, a = recommended(t, n, false, nil); strings.Contains(text, "systemPartition") || a.KubeReserved == nil || !strings.Contains(text, "no partition") {
		t.Errorf("%s", text)
	}
	if _, a = recommended(t, n, false, func(o *Options) { o.Since = o.Now }); a.KubeReserved != nil || len(a.NoSection) != 1 {
		t.Errorf("%q", a.NoSection)
	}
}

// withTelemetry adds a partition to samples that ends half way, and uses half of the system
// partition's memory.
func withTelemetry(end time.Duration) func(time.Duration, *samples.Sample) {
	return func(since time.Duration, s *samples.Sample) {
		if since > end {
			return
		}
		usage := *s.Partition
		usage.UsedPeakBytes, usage.UsedLowBytes = 100*mebi, 100*mebi
		s.Others = []samples.Other{{Name: "telemetry", Usage: usage, Members: []samples.Member{
			{UID: "t", Namespace: "logs", Name: "agent", Containers: "a", UsedBytes: 100 * mebi, WorkingSetBytes: 100 * mebi},
		}}}
	}
}

func of(name unitname.PartitionName) func(*Options) { return func(o *Options) { o.Partition = name } }

// TestRecommendPartitionSection: the section of a workload partition keeps its fields and all else
// of the file that it is for, because try replaces that.
func TestRecommendPartitionSection(t *testing.T) {
	t.Parallel()
	const week = 7 * 24 * time.Hour
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
		n.Record(week, true, withTelemetry(week))
		text, a := recommended(t, n, true, of("telemetry"))
		var got document
		if err := yaml.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%s: %v:\n%s", name, err, text)
		}
		// 100 x 1.15, and 32 beside them.
		telemetry := got.WorkloadPartitions["telemetry"]
		if telemetry["memoryLimit"] != "160Mi" || telemetry["cpuset"] != "0" || telemetry["evictionMaxPodGracePeriod"] != 5.0 ||
			got.WorkloadPartitions["batch"]["memoryLimit"] != "2Gi" || (got.SystemPartition != nil) != test.system {
			t.Errorf("%s: %+v in\n%s", name, got, text)
		}
		if a.Partition != "telemetry" || a.Section["memoryLimit"] != "160Mi" || a.KubeReserved != nil || !strings.Contains(text, "# workloadPartitions.telemetry.memoryLimit 160Mi:") {
			t.Errorf("%s: %+v", name, a)
		}
		c, err := config.LoadWith(string(n.Host().Root), "recommended", []byte(text))
		if err != nil || c.Partition("telemetry").Limit != 160*mebi || c.Partition("batch").Limit != 2<<30 || c.Partition(unitname.System).Limit != 3<<30 {
			t.Errorf("%s: %v, %+v", name, err, c.Partitions)
		}
	}
}

// TestRecommendPartitionGone: the history of a partition that was removed is of use until it ages
// out. An unknown name is an error with those that there are, and a node without a system partition
// gets the figures of the node, and the names.
func TestRecommendPartitionGone(t *testing.T) {
	t.Parallel()
	const length = 3 * 24 * time.Hour
	n := fakenode.New(t, fakenode.Configuration("systemPartition: {namespaces: [kube-system]}\n"))
	n.Record(length, true, withTelemetry(length-12*time.Hour))
	text, a := recommended(t, n, true, of("telemetry"))
	if a.MemoryLimit.PeakBytes != 100*mebi || !strings.Contains(text, "# warning: workloadPartitions.telemetry is not in the configuration: the section has the recommended fields alone") {
		t.Errorf("%s", text)
	}
	if _, a = recommended(t, n, false, func(o *Options) { o.Partition, o.Since = "telemetry", o.Now.Add(-time.Hour) }); len(a.NoSection) != 1 ||
		!strings.Contains(a.NoSection[0], "no sample of the partition in that time") {
		t.Errorf("%q", a.NoSection)
	}
	_, err := Read(t.Context(), Options{Node: n.Host(), Dir: n.Host().Path(node.HistoryDir), Now: time.Now(), Partition: "batch"})
	if err == nil || !strings.Contains(err.Error(), `no partition "batch"; it has system, telemetry`) {
		t.Errorf("%v", err)
	}
	n = fakenode.New(t, fakenode.Configuration(""))
	n.Record(length, true, func(since time.Duration, s *samples.Sample) {
		withTelemetry(length)(since, s)
		s.Partition, s.Members = nil, nil
	})
	if _, a = recommended(t, n, false, nil); a.KubeReserved == nil || len(a.NoSection) != 1 ||
		a.NoSection[0] != "the history has no system partition; --partition=NAME is for another one: telemetry" {
		t.Errorf("%q", a.NoSection)
	}
	recommended(t, n, true, of("telemetry"))
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
		{"  memoryLimitMin: 1Gi\n  memoryLimitMax: 2Gi\n", "432Mi", "2Gi", 1},
		{"  memoryLimitMin: 100Mi\n  memoryLimitMax: 200Mi\n", "100Mi", "432Mi", 1},
	} {
		n := fakenode.New(t, fakenode.Configuration(""))
		n.Write("/etc/kubernetes/node-partition.yaml", fakenode.Configuration(
			"systemPartition:\n  memoryLimit: 50%\n  namespaces: [kube-system]\n"+test.bounds))
		n.Record(7*24*time.Hour, true, nil)
		text, a := recommended(t, n, false, withoutLeaks)
		section := a.Section
		limit, _ := section["memoryLimit"].(string)
		if !strings.HasSuffix(limit, "%") || a.MemoryLimit.Bytes != 432*mebi || !strings.Contains(text, "as a percentage, as in the present section: "+limit) {
			t.Errorf("%q: %q in\n%s", test.bounds, limit, text)
		}
		for field, want := range map[string]string{"memoryLimitMin": test.min, "memoryLimitMax": test.max} {
			if got, _ := section[field].(string); got != want {
				t.Errorf("%q: %s %q; want %q", test.bounds, field, got, want)
			}
		}
		if got := strings.Count(text, "which would count in place of the percentage"); got != test.warns {
			t.Errorf("%q: %d warnings in\n%s", test.bounds, got, text)
		}
		c, err := config.LoadWith(string(n.Host().Root), "recommended", []byte(text))
		if err != nil || c.Partition(unitname.System).Limit < 432*mebi || c.Partition(unitname.System).Limit > 434*mebi {
			t.Errorf("%q: %v, %+v", test.bounds, err, c.Partitions)
		}
	}
}

// TestRecommendShareThreshold: beside a limit that is a percentage, the threshold follows the limit
// on nodes of all sizes, and validate accepts the section for each of them.
func TestRecommendShareThreshold(t *testing.T) {
	t.Parallel()
	killed := func(since time.Duration, s *samples.Sample) {
		if since == time.Hour {
			s.Partition.KilledAtLimit = 1 // with a threshold of 103Mi
		}
	}
	for name, test := range map[string]struct {
		change func(time.Duration, *samples.Sample)
		why    string
	}{
		"the default":           {nil, "not in the section: the default follows memoryLimit"},
		"more than the default": {killed, "as a percentage, as memoryLimit: "},
	} {
		n := fakenode.New(t, fakenode.Configuration(""))
		n.Write("/etc/kubernetes/node-partition.yaml", fakenode.Configuration(
			"systemPartition: {memoryLimit: 50%, memoryLimitMin: 100Mi, namespaces: [kube-system], evictionHard: {memory.available: 10Mi}}\n"))
		n.Record(7*24*time.Hour, true, test.change)
		text, a := recommended(t, n, false, withoutLeaks)
		document, err := kubeletconfig.LoadDocument("node-partition.yaml", []byte(text))
		if err != nil || !strings.Contains(text, test.why) {
			t.Fatalf("%s: %v:\n%s", name, err, text)
		}
		for _, size := range []uint64{0, 100 << 20, 1 << 30, a.MemoryLimit.Bytes * 2, 256 << 30} {
			c, err := config.Validate(document, config.Size{MemoryBytes: size})
			refused := size == 100<<20 // by memoryLimitMin, which is the operator's
			if (err != nil) != refused || len(c.Warnings) > 0 {
				t.Errorf("%s: %d: %v, %q", name, size, err, c.Warnings)
			}
			if size == 0 || refused {
				continue
			}
			p := c.Partition(unitname.System)
			got, least := p.Hard, config.DefaultThreshold(p.Limit, 0)
			share := float64(got) / float64(p.Limit)
			if wants := float64(a.EvictionHard.Bytes) / float64(a.MemoryLimit.Bytes); test.change != nil && (share < wants || share > wants+0.0002) {
				t.Errorf("%s: %d: a threshold of %.5f of the limit; want %.5f", name, size, share, wants)
			}
			if got < least {
				t.Errorf("%s: %d: a threshold of %d of %d; want at least %d", name, size, got, p.Limit, least)
			}
		}
	}
}
