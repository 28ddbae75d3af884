package recommend

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

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
	if a.MemoryLimit.Bytes != 432*mebi || a.SystemPartition["memoryLimit"] != "432Mi" || len(a.Leaks) != 1 || a.Leaks[0].Name != "kube-system/collector" {
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
	if err != nil || c.Partition(unitname.System).MemoryLimit != 432*mebi {
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
	if strings.Contains(text, "systemPartition") || a.SystemPartition != nil || !strings.Contains(text, "# no section: the history has 3h0m0s") || a.MemoryLimit == nil {
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
	if !strings.Contains(text, "namespaces:\n  - kube-system\n") || a.SystemPartition["memoryLimit"] == nil {
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
