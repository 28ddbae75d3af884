package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/command/recommend"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/sizing/sizefile"
	"node-partition.io/node-partition/tests/fakenode"
)

// TestRecommendPlan: plan takes a section of recommend. The warnings are on standard error, too,
// with the reason for the status 1.
func TestRecommendPlan(t *testing.T) {
	t.Parallel()
	n := newNode(t, fakenode.Configuration("systemPartition:\n  memoryLimit: 2Gi\n  cpuset: \"0\"\n  namespaces: [kube-system, logging]\n"))
	n.oneProblem([]string{`nothing was measured of partition "system"`, "each ten minutes", "also one without memoryLimit"}, "recommend")
	n.Measure(partition.System, 7*24*time.Hour, fakenode.Nightly)
	n.Write("/etc/recommended.yaml", n.recommend(exitOK))
	if p, _ := n.plan(exitOK, "--capacity=cpu=4,memory=8Gi", "--config=/etc/recommended.yaml"); len(p.Partitions) != 1 || p.Partitions[0].MemoryBytes != 768*mebi {
		t.Errorf("%+v", p.Partitions)
	}
	n.oneProblem([]string{`nothing was measured of partition "batch"`}, "recommend", "--partition=batch")
	n.Measure("batch", 2*time.Hour, fakenode.Nightly)
	n.recommend(exitProblem, "--partition=batch")
	if text := n.recommend(exitOK, "--partition=batch", "--force"); !strings.Contains(text, "\nworkloadPartitions:\n  batch:\n    memoryLimit: ") {
		t.Errorf("%s", text)
	}
	n.Write("/var/lib/node-partition/sizes/system.json", "{")
	n.oneProblem([]string{"/var/lib/node-partition/sizes/system.json: unexpected end"}, "recommend")
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
	if err := json.Unmarshal([]byte(encoded), &a); err != nil || a.LimitBytes == 0 {
		n.t.Fatalf("%v:\n%s", err, encoded)
	}
	return text
}

// TestServiceSizes: the service measures each partition of the node with its members, writes that
// when it ends, and does not overwrite what it cannot read without saying so. status shows it.
func TestServiceSizes(t *testing.T) {
	t.Parallel()
	n := guarded(t)
	n.TellPods()
	n.Write("/var/lib/node-partition/sizes/system.json", "damaged")
	damaged := false
	// No systemd runs here. The reconcile finds the pods, and then fails.
	n.evicting("reconciling failed", func(line string) {
		damaged = damaged || strings.Contains(line, "not recorded whole") && strings.Contains(line, "sizes/system.json")
	}, "--eviction=dry-run")
	if !damaged {
		t.Error("no message about the damaged file")
	}
	r, _, err := sizefile.Read(n.Host().Root, partition.System)
	if err != nil || len(r.Minutes) != 1 || r.Minutes[0] < 80*mebi || r.Hours[0].Members == 0 || r.RequestBytes == 0 || len(r.Members) == 0 || !strings.Contains(r.Lacks, "is not readable") {
		t.Errorf("%+v, %v", r, err)
	}
	if _, stdout, _ := n.run("status"); !strings.Contains(stdout, "  Last day ") {
		t.Errorf("%s", stdout)
	}
}
