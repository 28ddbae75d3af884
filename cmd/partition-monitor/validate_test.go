package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/tests/fakenode"
	"node-partition.io/node-partition/tests/generator/golden"
)

// TestValidate: the exit status says whether the generator would take the file, on a machine that
// has nothing of a node.
func TestValidate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, section string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(golden.KubeletHead+section), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good.yaml", "systemPartition: {memoryLimit: 12%, cpuset: 0-1, namespaces: [kube-system]}\n")
	bad := file("bad.yaml", "systemPartition: {memoryLimit: 4GB, namespaces: [kube-system]}\n")
	misspelt := file("misspelt.yaml", "systemPartition: {memoryLimt: 4Gi, namespaces: [kube-system]}\n")
	kubelets := file("kubelets.yaml", "cgroupDriver: systemd\nsystemPartition: {memoryLimit: 12%, namespaces: [kube-system]}\n")
	here := host.Below(t.TempDir()) // an empty machine
	for _, test := range []struct {
		args         []string
		status       int
		stdout, errs string
	}{
		{[]string{good}, exitOK, "memoryLimit 12% of the node's memory", ""},
		{[]string{good, "--capacity=cpu=2,memory=8Gi"}, exitOK, "memoryLimit 983Mi, 12% of 8Gi", ""},
		{[]string{"--capacity=cpu=1,memory=8Gi", good}, exitProblem, "the node has no CPU 1", ""},
		{[]string{bad}, exitProblem, `error     ` + bad + `: systemPartition.memoryLimit: "4GB": is not a quantity`, ""},
		{[]string{kubelets}, exitProblem, "which only /etc/kubernetes/node-partition.yaml may have", ""},
		{[]string{filepath.Join(dir, "none")}, exitUsage, "", "no such file"},
		{[]string{dir}, exitUsage, "", "a directory"},
		{[]string{misspelt}, exitOK, "warning   " + misspelt + `: systemPartition: unknown field "memoryLimt"`, ""},
		{[]string{"--strict", misspelt}, exitProblem, "error     " + misspelt + `: systemPartition: unknown field "memoryLimt"`, ""},
		{[]string{misspelt, "--strict"}, exitProblem, " is not valid, as /etc/kubernetes/node-partition.yaml: 1 error, 0 warnings\n", ""},
		{[]string{"--strict", good}, exitOK, "0 errors, 0 warnings", ""},
		{nil, exitUsage, "", "want one FILE"},
		{[]string{good, bad}, exitUsage, "", "want one FILE"},
		{[]string{good, "--capacity=memory=8Gi"}, exitUsage, "", "--capacity=memory=8Gi: cpu is missing"},
		{[]string{good, "--capacity=cpu=1,memory=1Gi", "--root=/"}, exitUsage, "", "want one of --capacity and --root"},
		{[]string{good, "-o", "xml"}, exitUsage, "", "want table, json or yaml"},
	} {
		status, stdout, stderr := commandOn(t, here, append([]string{"validate"}, test.args...)...)
		if status != test.status || !strings.Contains(stdout, test.stdout) || !strings.Contains(stderr, test.errs) || (stdout == "") != (test.stdout == "") || (stderr == "") != (test.errs == "") {
			t.Errorf("%q: status %d, %q, %q; want %+v", test.args, status, stdout, stderr, test)
		}
	}
	status, stdout, _ := commandOn(t, here, "validate", bad, "-o", "json")
	var r state.Validation
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || status != exitProblem || len(r.Problems) != 1 ||
		r.Problems[0].File != bad || r.Problems[0].Field != "systemPartition.memoryLimit" || !strings.Contains(r.Problems[0].Message, "is not a quantity") {
		t.Errorf("status %d, %v, %s", status, err, stdout)
	}
	// The files of a node count with --root.
	node := otherNode(t, map[string]string{
		"/var/lib/kubelet/config.yaml": fakenode.Configuration("cgroupRoot: /kube\n"), "/proc/cmdline": "quiet\n", "/proc/meminfo": "MemTotal: 4194304 kB\n",
		"/sys/devices/system/cpu/present": "0-1\n", "/sys/devices/system/cpu/online": "0-1\n", "/sys/fs/cgroup/cgroup.controllers": "cpuset cpu memory\n",
	})
	status, stdout, stderr := commandOn(t, here, "validate", "--root", node, good)
	if status != exitProblem || !strings.Contains(stdout, "error     /var/lib/kubelet/config.yaml: cgroupRoot: ") || strings.Count(stdout, "error ") != 1 {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
}
