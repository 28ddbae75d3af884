package main

import (
	"encoding/json"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/command/plan"
	"node-partition.io/node-partition/tests/fakenode"
)

// plan runs plan with JSON, and expects an exit status.
func (n *fakeNode) plan(want int, args ...string) (p plan.Plan, stderr string) {
	n.t.Helper()
	status, stdout, stderr := n.here(append([]string{"plan", "--output=json"}, args...)...)
	if status != want {
		n.t.Fatalf("%q: status %d, %q; want %d", args, status, stderr, want)
	}
	if err := json.Unmarshal([]byte(stdout), &p); err != nil {
		n.t.Fatalf("%v:\n%s", err, stdout)
	}
	return p, stderr
}

// TestPlanExit: a plan with a section that is refused is shown, and the exit status is 1. An error
// has no plan.
func TestPlanExit(t *testing.T) {
	t.Parallel()
	n := newNode(t, fakenode.Configuration(""))
	if _, stderr := n.plan(exitOK); stderr != "" {
		t.Errorf("%q", stderr)
	}
	n.Write("/etc/partition.yaml", fakenode.Configuration("systemPartition: {memoryLimit: 32Gi, cpuset: 15-16, namespaces: [kube-system]}"))
	const capacity = "--capacity=cpu=16,memory=32Gi,storage=100Gi"
	if p, stderr := n.plan(exitProblem, capacity, "--config=/etc/partition.yaml"); len(p.Problems) == 0 || !strings.Contains(stderr, "the node has no CPU 16") {
		t.Errorf("%q, %+v", stderr, p)
	}
	for _, args := range [][]string{{"--capacity=cpu=2"}, {"--capacity="}, {"--output=xml"}, {"argument"}} {
		if status, _, stderr := n.here(append([]string{"plan"}, args...)...); status != exitUsage {
			t.Errorf("%q: status %d, %q", args, status, stderr)
		}
	}
	if status, stdout, _ := n.here("plan", "-o", "yaml", capacity); status != exitOK || !strings.Contains(stdout, "\nwarnings:\n") {
		t.Errorf("status %d:\n%s", status, stdout)
	}
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Configuration("kubeReserved: {memory: 1x}\nevictionHard: {memory.available: 200%}\n"))
	if status, stdout, stderr := n.here("plan"); status != exitProblem || stdout != "" || strings.Count(stderr, "\n") != 2 {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
	n.oneProblem([]string{"/etc/none.yaml", "no such file"}, "plan", capacity, "--config=/etc/none.yaml")
}
