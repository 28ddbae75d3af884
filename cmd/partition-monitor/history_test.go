package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"nodepartition/internal/monitor/advice"
	"nodepartition/internal/monitor/history"
	"nodepartition/internal/monitor/recorder"
	"nodepartition/internal/samples"
)

// record writes a history that ends now. usage returns the usage of two pods in MiB by the time
// since its beginning: one has a peak, the other leaks.
func (n *fakeNode) record(length time.Duration, members bool, change func(since time.Duration, s *samples.Sample)) (begin time.Time) {
	n.t.Helper()
	ring, err := samples.Open(filepath.Join(n.root, recorder.Dir), func(err error) { n.t.Error(err) })
	if err != nil {
		n.t.Fatal(err)
	}
	begin = time.Now().UTC().Add(-length).Truncate(time.Minute)
	for since := time.Minute; since <= length; since += time.Minute {
		backup, leak := uint64(60), uint64(40+4*since.Hours())
		if of := since % (24 * time.Hour); of > 3*time.Hour && of < 4*time.Hour {
			backup = 300
		}
		at := begin.Add(since)
		s := samples.Sample{Time: at, Seconds: 60, Boot: "0a1b2c3d",
			Partition: &samples.Partition{
				UsedPeakBytes: (backup + leak) * mebi, UsedLowBytes: (backup + leak) * mebi, CurrentPeakBytes: 2 * (backup + leak) * mebi, PeakTime: at,
				LimitBytes: 2048 * mebi, HardBytes: 103 * mebi, MilliCPU: 50,
			},
			Groups: []samples.Group{
				{Name: "system.slice", WorkingSetBytes: 400 * mebi, MilliCPU: 100},
				{Name: "system.slice/kubelet.service", Kube: true, WorkingSetBytes: 150 * mebi, MilliCPU: 60},
			},
		}
		if members {
			s.Members = []samples.Member{
				{UID: "1", Namespace: "kube-system", Name: "backup", Containers: "a", RequestBytes: 350 * mebi, UsedBytes: backup * mebi, WorkingSetBytes: backup * mebi},
				{UID: "2", Namespace: "kube-system", Name: "collector", Containers: "a", RequestBytes: 50 * mebi, UsedBytes: leak * mebi, WorkingSetBytes: leak * mebi},
			}
		}
		if change != nil {
			change(since, &s)
		}
		if err := ring.Add(s); err != nil {
			n.t.Fatal(err)
		}
	}
	if err := ring.Close(); err != nil {
		n.t.Fatal(err)
	}
	return begin
}

// recommend runs recommend, and returns its output as YAML and as JSON. Standard error has the
// warnings, and with another status than 0 the reason for it.
func (n *fakeNode) recommend(want int, args ...string) (text string, a advice.Advice) {
	n.t.Helper()
	status, text, stderr := n.run(append([]string{"recommend"}, args...)...)
	lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
	if want != exitOK {
		if last := lines[len(lines)-1]; !strings.HasPrefix(last, "partition-monitor: error: ") {
			n.t.Errorf("%q", stderr)
		}
		lines = lines[:len(lines)-1]
	}
	if status != want || strings.Count(strings.Join(lines, "\n"), "partition-monitor: warning: ") != strings.Count(text, "# warning: ") {
		n.t.Fatalf("status %d, %q\n%s", status, stderr, text)
	}
	_, encoded, _ := n.run(append([]string{"recommend", "--output=json"}, args...)...)
	if err := json.Unmarshal([]byte(encoded), &a); err != nil {
		n.t.Fatalf("%v:\n%s", err, encoded)
	}
	return text, a
}

// TestHistoryNone: without a history both commands report how to get one.
func TestHistoryNone(t *testing.T) {
	t.Parallel()
	n := newNode(t, valid("kube-system"))
	for _, name := range []string{"history", "recommend"} {
		n.oneProblem([]string{"no history in /var/lib/node-partition/history", "mkdir -m 0700 /var/lib/node-partition,", "--history into PARTITION_MONITOR_ARGS"}, name)
	}
	for _, args := range []string{
		"history --at=soon", "history --since=1h --until=2h", "history --at=03:12 --since=1h", "history -o yaml", "history x",
		"recommend --at-limit=much", "recommend --at-limit=0", "recommend -o table", "recommend --eviction-protect=all", "recommend --since=-1h",
	} {
		if status, _, stderr := n.run(strings.Fields(args)...); status != exitUsage || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: status %d, %q", args, status, stderr)
		}
	}
}

// TestHistoryShown: the table of the last hours, a moment by the minute with its pods, and JSON.
func TestHistoryShown(t *testing.T) {
	t.Parallel()
	n := newNode(t, valid("kube-system"))
	const length = 30 * time.Hour
	event := length - 95*time.Minute
	begin := n.record(length, true, func(since time.Duration, s *samples.Sample) {
		if since == event {
			s.Partition.Evicted, s.Partition.KilledAtLimit = []string{"kube-system/col\x1blector"}, 2
		}
		if since > length-time.Hour {
			s.Boot = "ffffffff"
		}
	})
	status, stdout, stderr := n.run("history")
	if status != exitOK || stderr != "" {
		t.Fatalf("status %d, %q", status, stderr)
	}
	for _, want := range []string{"UNTIL", "2048Mi", "evicted kube-system/col?lector, the kernel killed 2 at the limit", "the node was started", "150Mi", "250Mi"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not in\n%s", want, stdout)
		}
	}
	if rows := strings.Count(stdout, "\n"); rows < 36 || rows > 41 {
		t.Errorf("%d rows for six hours in ten minutes:\n%s", rows, stdout)
	}
	at := begin.Add(event).Local()
	_, stdout, _ = n.run("history", "--at", at.Format("2006-01-02 15:04"))
	if !strings.Contains(stdout, at.Format("2006-01-02 15:04")+" ") || strings.Count(stdout, "2048Mi") != 10 || !strings.Contains(stdout, "collector") {
		t.Errorf("the minutes around %s:\n%s", at, stdout)
	}
	_, stdout, _ = n.run("history", "--since=30m", "-o", "json")
	var v history.View
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || len(v.Samples) < 28 || len(v.Samples) > 30 || v.Samples[0].Seconds != 60 || v.Samples[0].Partition.LimitBytes != 2048*mebi {
		t.Errorf("%v: %d samples, %+v", err, len(v.Samples), v)
	}
	// A day and more is by the hour.
	_, stdout, _ = n.run("history", "--since=29h", "-o", "json")
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || len(v.Samples) < 29 || len(v.Samples) > 33 {
		t.Errorf("%v: %d samples", err, len(v.Samples))
	}
	if _, stdout, _ = n.run("history", "--at=2020-01-01"); !strings.Contains(stdout, "No samples from 2019-12-31") {
		t.Errorf("%s", stdout)
	}
}

// TestRecommendSection: the section keeps the fields of the present one, has the reasoning as
// comments, and is valid.
func TestRecommendSection(t *testing.T) {
	t.Parallel()
	n := newNode(t, kubelet("systemPartition:\n  memoryLimit: 2Gi\n  cpuset: \"0\"\n  namespaces: [kube-system, logging]\n  evictionMaxPodGracePeriod: 5\n"))
	n.record(7*24*time.Hour, true, nil)
	text, a := n.recommend(exitProblem, "--without-leaks") // the leak is still in use
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
	n.write("/etc/recommended.yaml", text)
	if p, _ := n.plan(exitOK, "--capacity=cpu=4,memory=8Gi", "--config=/etc/recommended.yaml"); p.Partition.MemoryBytes != 432*mebi {
		t.Errorf("%+v", p.Partition)
	}
	// With what the leak had added it is twice what the pods need without, and not more.
	if text, a = n.recommend(exitOK); a.MemoryLimit.Bytes != 896*mebi || a.WithoutGrowth.Bytes != 432*mebi || !strings.Contains(text, "memoryLimit: 896Mi") {
		t.Errorf("%+v, %+v", a.MemoryLimit, a.WithoutGrowth)
	}
	// At a lower limit the peak is too much, at a much higher one nothing is.
	_, a = n.recommend(exitOK, "--at-limit=320Mi")
	if len(a.Simulations) != 2 || a.Simulations[0].LimitBytes != 320*mebi || len(a.Simulations[0].Evictions) == 0 {
		t.Errorf("%+v", a.Simulations)
	}
	text, _ = n.recommend(exitOK, "--at-limit=4Gi")
	if !strings.Contains(text, "# At 4096Mi, with a threshold of 205Mi, no pod would have been evicted") {
		t.Errorf("%s", text)
	}
}

// TestRecommendShortHistory: a short history without pods, on a node without a section.
func TestRecommendShortHistory(t *testing.T) {
	t.Parallel()
	n := newNode(t, kubelet(""))
	n.record(3*time.Hour, false, nil)
	text, a := n.recommend(exitProblem)
	if strings.Contains(text, "systemPartition") || a.SystemPartition != nil || !strings.Contains(text, "# no section: the history has 3h0m0s") || a.MemoryLimit == nil {
		t.Errorf("%s", text)
	}
	text, a = n.recommend(exitOK, "--force")
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
	n = newNode(t, kubelet(""))
	n.record(3*time.Hour, false, func(_ time.Duration, s *samples.Sample) { s.Partition = nil })
	if text, a = n.recommend(exitProblem); strings.Contains(text, "systemPartition") || a.KubeReserved == nil || !strings.Contains(text, "no partition") {
		t.Errorf("%s", text)
	}
	if _, a = n.recommend(exitProblem, "--since=0s"); a.KubeReserved != nil || len(a.NoSection) != 1 {
		t.Errorf("%q", a.NoSection)
	}
}

// TestServiceHistory: the service records its evictions and pods, and a damaged file does not stop
// it. Without the option it writes nothing.
func TestServiceHistory(t *testing.T) {
	t.Parallel()
	n := guarded(t)
	n.tellPods()
	n.write(systemCgroup+"/cpu.stat", "usage_usec 1000")
	n.write(systemCgroup+"/memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0")
	n.write(recorder.Dir+"/minutes-000007.log", "damaged")
	damaged := false
	n.evicting("an eviction has ended", func(line string) {
		damaged = damaged || strings.Contains(line, "the history is damaged") && strings.Contains(line, "minutes-000007.log")
		if strings.Contains(line, "stopping the containers of a pod") {
			n.write(systemCgroup+"/memory.current", plenty)
			n.end(nodePods[0])
		}
	}, "--history-members")
	if !damaged {
		t.Error("no message about the damaged file")
	}
	status, stdout, stderr := n.run("history", "--since=5m", "-o", "json")
	var v history.View
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || status != exitOK || len(v.Samples) == 0 {
		t.Fatalf("status %d, %q, %v: %s", status, stderr, err, stdout)
	}
	evicted, peak := "", uint64(0)
	for _, s := range v.Samples {
		if s.Partition != nil {
			evicted += strings.Join(s.Partition.Evicted, " ")
			peak = max(peak, s.Partition.UsedPeakBytes)
		}
	}
	if evicted != "kube-system/dns" || peak < 80*mebi {
		t.Errorf("evicted %q, peak %d", evicted, peak)
	}
	h, err := samples.Read(t.Context(), filepath.Join(n.root, recorder.Dir))
	if err != nil || len(h.Tens) == 0 || len(h.Tens[0].Members) == 0 || h.Tens[0].Members[0].Namespace != "kube-system" {
		t.Errorf("%+v, %v", h.Tens, err)
	}
	if s := h.Tens[0]; s.Up == 0 || s.Node == nil || s.Node.MemoryBytes == 0 || s.Node.CPUs == 0 || s.Partition.Cache == nil {
		t.Errorf("%d s, node %+v, partition %+v", s.Up, s.Node, s.Partition)
	}
}

// TestServiceHistoryPlacement: the service records the members that a pass has found, with what the
// kubelet says that they request.
func TestServiceHistoryPlacement(t *testing.T) {
	t.Parallel()
	n := guarded(t)
	n.tellPods()
	n.write(systemCgroup+"/cpu.stat", "usage_usec 1000")
	// There is no systemd here: the pass has found the pods, and fails.
	n.evicting("reconciling failed", func(string) {}, "--history", "--eviction=dry-run")
	h, err := samples.Read(t.Context(), filepath.Join(n.root, recorder.Dir))
	if err != nil || len(h.Minutes) == 0 {
		t.Fatalf("%+v, %v", h, err)
	}
	s := h.Minutes[len(h.Minutes)-1]
	if s.Node == nil || s.Node.Pods == 0 || s.Partition == nil || s.Partition.Pods == nil || s.Partition.Pods.Members == 0 || s.Partition.Pods.RequestBytes == 0 {
		t.Errorf("node %+v, partition %+v", s.Node, s.Partition)
	}
}

// TestServiceNoHistory: a service that was not asked for a history writes none.
func TestServiceNoHistory(t *testing.T) {
	t.Parallel()
	n := guarded(t)
	n.tellPods()
	n.evicting("an eviction has ended", func(line string) {
		if strings.Contains(line, "stopping the containers of a pod") {
			n.write(systemCgroup+"/memory.current", plenty)
			n.end(nodePods[0])
		}
	})
	if _, err := os.Stat(filepath.Join(n.root, "/var/lib/node-partition")); !os.IsNotExist(err) {
		t.Errorf("%v; want no folder", err)
	}
}
