package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nodepartition/internal/command/history"
	"nodepartition/internal/command/recommend"
	"nodepartition/internal/node"
	"nodepartition/internal/samples"
	"nodepartition/internal/unitname"
	"nodepartition/tests/fakenode"
)

// TestHistoryNone: without a history both commands report how to get one.
func TestHistoryNone(t *testing.T) {
	t.Parallel()
	n := newNode(t, fakenode.Valid("kube-system"))
	for _, name := range []string{"history", "recommend"} {
		n.oneProblem([]string{"no history in /var/lib/node-partition/history", "mkdir -m 0700 /var/lib/node-partition,", "--history into PARTITION_MONITOR_ARGS"}, name)
	}
	for _, args := range []string{
		"history --at=soon", "history --since=1h --until=2h", "history --at=03:12 --since=1h", "history -o yaml", "history x",
		"recommend --at-limit=much", "recommend --at-limit=0", "recommend -o table", "recommend --eviction-protect=all", "recommend --since=-1h",
		"recommend --by=zone", "recommend --prometheus=prometheus:9090", "recommend --prometheus=http://localhost --dir=/",
		"recommend --prometheus=http://localhost --since=1m", "recommend --prometheus=http://localhost --by=a-b",
		"recommend --dir=a=/b --at-limit=0", "recommend --dir=a=/b -o table",
	} {
		if status, _, stderr := n.run(strings.Fields(args)...); status != exitUsage || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: status %d, %q", args, status, stderr)
		}
	}
}

// TestRecommendPlan: plan takes a section of recommend. The warnings are on standard error, too,
// with the reason for the status 1.
func TestRecommendPlan(t *testing.T) {
	t.Parallel()
	n := newNode(t, fakenode.Configuration("systemPartition:\n  memoryLimit: 2Gi\n  cpuset: \"0\"\n  namespaces: [kube-system, logging]\n"))
	n.Record(7*24*time.Hour, true, nil)
	n.recommend(exitOK)
	text := n.recommend(exitProblem, "--without-leaks") // the leak is still in use
	n.Write("/etc/recommended.yaml", text)
	if p, _ := n.plan(exitOK, "--capacity=cpu=4,memory=8Gi", "--config=/etc/recommended.yaml"); len(p.Partitions) != 1 || p.Partitions[0].MemoryBytes != 432*mebi {
		t.Errorf("%+v", p.Partitions)
	}
	n.recommend(exitOK, "--at-limit=320Mi")
	n.recommend(exitProblem, "--since=0s")
	n.recommend(exitOK, "--force")
	for args, want := range map[string]string{"--since=30m": "2048Mi", "-o json": `"samples": [`, "--at=2020-01-01": "No samples from 2019-12-31"} {
		status, stdout, stderr := n.here(append([]string{"history"}, strings.Fields(args)...)...)
		if status != exitOK || stderr != "" || !strings.Contains(stdout, want) {
			t.Errorf("history %s: status %d, %q; want %q in\n%s", args, status, stderr, want, stdout)
		}
	}
}

// recommend runs recommend, and returns its output as YAML. Its JSON can be decoded. Standard error
// has the warnings, and with another status than 0 the reason for it.
func (n *fakeNode) recommend(want int, args ...string) (text string) {
	n.t.Helper()
	status, text, stderr := n.here(append([]string{"recommend"}, args...)...)
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
	_, encoded, _ := n.here(append([]string{"recommend", "--output=json"}, args...)...)
	var a recommend.Advice
	if err := json.Unmarshal([]byte(encoded), &a); err != nil {
		n.t.Fatalf("%v:\n%s", err, encoded)
	}
	return text
}

// TestHistoryPartition: both commands take a partition, and name those that the history has if it
// does not have that one.
func TestHistoryPartition(t *testing.T) {
	t.Parallel()
	n := newNode(t, fakenode.Configuration("systemPartition: {namespaces: [kube-system]}\nworkloadPartitions: {telemetry: {namespaces: [logs]}}\n"))
	n.Record(7*24*time.Hour, true, func(_ time.Duration, s *samples.Sample) {
		s.Others = []samples.Other{{Name: "telemetry", Usage: *s.Partition, Members: s.Members}}
	})
	for _, name := range []string{"history", "recommend"} {
		n.oneProblem([]string{`the history in /var/lib/node-partition/history has no partition "batch"; it has system, telemetry`}, name, "--partition=batch")
	}
	if text := n.recommend(exitOK, "--partition=telemetry"); !strings.Contains(text, "\nworkloadPartitions:\n  telemetry:\n") {
		t.Errorf("%s", text)
	}
	status, stdout, stderr := n.here("history", "--partition=telemetry", "--since=30m", "-o", "json")
	if status != exitOK || stderr != "" || !strings.Contains(stdout, `"partition": "telemetry"`) || strings.Contains(stdout, "kubepods-system") {
		t.Errorf("status %d, %q\n%s", status, stderr, stdout)
	}
}

// TestServiceHistory: the service records its evictions and pods, and a damaged file does not stop
// it. Without the option it writes nothing.
func TestServiceHistory(t *testing.T) {
	t.Parallel()
	n := guarded(t)
	n.TellPods()
	n.Write(fakenode.SystemCgroup+"/cpu.stat", "usage_usec 1000")
	n.Write(fakenode.SystemCgroup+"/memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0")
	n.Write(node.HistoryDir+"/minutes-000007.log", "damaged")
	damaged := false
	n.evicting("an eviction has ended", func(line string) {
		damaged = damaged || strings.Contains(line, "the history is damaged") && strings.Contains(line, "minutes-000007.log")
		if strings.Contains(line, "stopping the containers of a pod") {
			n.Write(fakenode.SystemCgroup+"/memory.current", fakenode.Plenty)
			n.End(fakenode.Pods[0])
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
	h, err := samples.Read(t.Context(), filepath.Join(n.Root, node.HistoryDir))
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
	n.TellPods()
	n.Write(fakenode.SystemCgroup+"/cpu.stat", "usage_usec 1000")
	// There is no systemd here: the pass has found the pods, and fails.
	n.evicting("reconciling failed", func(string) {}, "--history", "--eviction=dry-run")
	h, err := samples.Read(t.Context(), filepath.Join(n.Root, node.HistoryDir))
	if err != nil || len(h.Minutes) == 0 {
		t.Fatalf("%+v, %v", h, err)
	}
	s := h.Minutes[len(h.Minutes)-1]
	if s.Node == nil || s.Node.Pods == 0 || s.Partition == nil || s.Partition.Pods == nil || s.Partition.Pods.Members == 0 || s.Partition.Pods.RequestBytes == 0 {
		t.Errorf("node %+v, partition %+v", s.Node, s.Partition)
	}
}

// TestServiceHistoryPartitions: the service records each partition of the node. What happens in one
// of them is in no sample of the other.
func TestServiceHistoryPartitions(t *testing.T) {
	t.Parallel()
	n := guarded(t)
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Configuration("systemPartition: {memoryLimit: 96Mi, namespaces: [kube-system]}\n"+
		"workloadPartitions: {telemetry: {memoryLimit: 64Mi, namespaces: [logs]}}\n"))
	n.Generate(0)
	n.TellPods()
	for file, text := range map[string]string{
		"memory.max": "67108864", "memory.current": "31457280", "cpu.stat": "usage_usec 1000", "cpu.weight": "1",
		"memory.stat":   "anon 31457280\ninactive_file 0\nactive_file 0\nslab_reclaimable 0",
		"memory.events": "oom 0\noom_kill 0", "memory.events.local": "oom 0\noom_kill 0",
		"memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0",
	} {
		n.Write(unitname.PartitionName("telemetry").Cgroup()+"/"+file, text)
		if file == "cpu.stat" || file == "memory.pressure" {
			n.Write(fakenode.SystemCgroup+"/"+file, text)
		}
	}
	n.evicting("an eviction has ended", func(line string) {
		if strings.Contains(line, "stopping the containers of a pod") {
			n.Write(fakenode.SystemCgroup+"/memory.current", fakenode.Plenty)
			n.End(fakenode.Pods[0])
		}
	}, "--history-members")
	for partition, want := range map[string]struct {
		evicted string
		limit   uint64
		peak    uint64
	}{"system": {"kube-system/dns", 96 * mebi, 80 * mebi}, "telemetry": {"", 64 * mebi, 30 * mebi}} {
		status, stdout, stderr := n.run("history", "--since=5m", "--partition="+partition, "-o", "json")
		var v history.View
		if err := json.Unmarshal([]byte(stdout), &v); err != nil || status != exitOK || len(v.Samples) == 0 {
			t.Fatalf("%s: status %d, %q, %v: %s", partition, status, stderr, err, stdout)
		}
		evicted, peak, limit := "", uint64(0), uint64(0)
		for _, s := range v.Samples {
			of := s.Partition
			if of == nil && len(s.Others) == 1 && string(s.Others[0].Name) == partition { // decoded
				of = &s.Others[0].Usage
			}
			if of != nil {
				evicted += strings.Join(of.Evicted, " ")
				peak, limit = max(peak, of.UsedPeakBytes), of.LimitBytes
			}
		}
		if evicted != want.evicted || limit != want.limit || peak < want.peak || partition == "telemetry" && peak > want.peak {
			t.Errorf("%s: evicted %q, limit %d, peak %d in\n%s", partition, evicted, limit, peak, stdout)
		}
	}
}

// TestServiceNoHistory: a service that was not asked for a history writes none.
func TestServiceNoHistory(t *testing.T) {
	t.Parallel()
	n := guarded(t)
	n.TellPods()
	n.evicting("an eviction has ended", func(line string) {
		if strings.Contains(line, "stopping the containers of a pod") {
			n.Write(fakenode.SystemCgroup+"/memory.current", fakenode.Plenty)
			n.End(fakenode.Pods[0])
		}
	})
	if _, err := os.Stat(filepath.Join(n.Root, "/var/lib/node-partition")); !os.IsNotExist(err) {
		t.Errorf("%v; want no folder", err)
	}
}
