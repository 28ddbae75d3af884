//go:build node

package e2e

import (
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/tests/lab"
)

// kubeletUnharmed: the kubelet keeps its own limits on kubepods.slice and runs its pods in their
// usual place.
func kubeletUnharmed(t *testing.T, n *lab.Node) {
	t.Helper()
	const kubepods = "/sys/fs/cgroup/kubepods.slice"
	memory, err := strconv.ParseInt(capacity(t, n), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	// Node Allocatable: capacity less reservations.
	want(t, n, "cat "+kubepods+"/memory.max", strconv.FormatInt(memory-256<<20, 10))
	if weight := run(t, n, "cat "+kubepods+"/cpu.weight"); weight == "100" {
		t.Error("cpu.weight of kubepods.slice is systemd's default: the kubelet has not set it")
	}
	want(t, n, "cat "+kubepods+"/cpuset.cpus.effective", "0-1")
	pods, err := n.Pods(t.Context())
	if err != nil || len(pods) != 3 {
		t.Fatalf("%d pods, %v; want the node's three", len(pods), err)
	}
	for i := range pods {
		if phase := pods[i].Status.Phase; phase != v1.PodRunning {
			t.Errorf("pod %s is %s", pods[i].Name, phase)
		}
	}
	inPods := 0
	for _, path := range cgroupPaths(t, n) {
		switch {
		case !strings.Contains(path, "-pod"):
		case strings.Contains(path, "kubepods-system"):
			t.Errorf("a pod in the partition, where only the monitor can put it: %s", path)
		default:
			inPods++
		}
	}
	if inPods < 6 {
		t.Errorf("%d cgroups of pods and their containers, want at least those of three pods", inPods)
	}
}

// kubeletRestarted: a kubelet that starts beside the partition adopts what exists.
func kubeletRestarted(t *testing.T, n *lab.Node) {
	t.Helper()
	run(t, n, "systemctl restart kubelet.service")
	if err := n.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantLimits(t, n, "671088640", "1")
	want(t, n, "systemctl show --value -p NRestarts kubelet.service", "0")
}

// capacity returns the node's memory in bytes.
func capacity(t *testing.T, n *lab.Node) string {
	t.Helper()
	return run(t, n, "awk '/MemTotal/ {printf \"%.0f\", $2*1024}' /proc/meminfo")
}

func cgroupPaths(t *testing.T, n *lab.Node) []string {
	t.Helper()
	tree, err := n.CgroupTree(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	paths := make([]string, 0, len(tree))
	for _, group := range tree {
		paths = append(paths, group.Path)
	}
	return paths
}
