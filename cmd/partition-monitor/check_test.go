package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"nodepartition/internal/monitor/check"
	"nodepartition/tests/fakeapi"
)

// monitorAnswers serves /readyz as a running monitor does.
func monitorAnswers(t *testing.T, status int, text string) (flag string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			status = http.StatusNotFound
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text) // fails if the client has disconnected
	}))
	t.Cleanup(server.Close)
	return "--listen=" + strings.TrimPrefix(server.URL, "http://")
}

// check runs check, and expects an exit status and parts of the output.
func (n *fakeNode) check(t *testing.T, status int, want []string, args ...string) {
	t.Helper()
	got, stdout, stderr := n.run(append([]string{"check"}, args...)...)
	if got != status || stderr != "" {
		t.Errorf("status %d, %q; want %d", got, stderr, status)
	}
	for line := range strings.Lines(stdout) {
		grade, _, _ := strings.Cut(line, " ")
		if grade != "" && grade != "ok" && grade != "warning" && grade != "error" && grade != "ignored" {
			t.Errorf("a line that begins neither with a grade nor with a space: %q", line)
		}
	}
	for _, part := range want {
		if !strings.Contains(stdout, part) {
			t.Errorf("want %q in\n%s", part, stdout)
		}
	}
	if errors := strings.Count(stdout, "\nerror "); (errors > 0 || strings.HasPrefix(stdout, "error")) != (status == exitProblem) {
		t.Errorf("status %d with\n%s", status, stdout)
	}
}

// whole returns a node on which all checks are OK.
func whole(t *testing.T) *fakeNode {
	t.Helper()
	n := newNode(t, valid("kube-system, monitoring"))
	n.partition(fmt.Sprint(64 << 20))
	for name, text := range map[string]string{
		"memory.high": "max", "cpuset.cpus": "", "cgroup.kill": "", "memory.pressure": "some avg10=0.00", "memory.swap.max": "0",
	} {
		n.write(systemCgroup+"/"+name, text)
	}
	n.serve(&fakeRuntime{})
	n.listen("/run/nri/nri.sock")
	n.listen("/var/lib/kubelet/pods-api/pods-api.sock")
	c := fakeapi.New(t, httptest.NewServer)
	c.Kubeconfig(t, filepath.Join(n.root, "/var/lib/kubelet/kubeconfig"))
	n.cluster = c
	return n
}

// TestCheckOK: each check reports its finding in a line. The first lists the files that it read,
// and why it skipped others.
func TestCheckOK(t *testing.T) {
	t.Parallel()
	n := whole(t)
	status, stdout, stderr := n.run("check", monitorAnswers(t, http.StatusOK, "ok\n"))
	if status != exitOK || stderr != "" || strings.Count("\n"+stdout, "\nok ") != len(check.Names()) {
		t.Errorf("status %d, %q; want %d times ok:\n%s", status, stderr, len(check.Names()), stdout)
	}
	for _, part := range []string{
		"memoryLimit 67108864", "kube-system, monitoring", "containerd v2.3.7 at unix:///run/containerd/containerd.sock",
		"looked at: /var/lib/kubelet/config.yaml: read", "looked at: /etc/kubernetes/kubelet.conf: not read, /var/lib/kubelet/config.yaml exists",
		"looked at: /etc/kubernetes/node-partition.yaml: not there", "accepts evictions with /var/lib/kubelet/kubeconfig",
	} {
		if !strings.Contains(stdout, part) {
			t.Errorf("want %q in\n%s", part, stdout)
		}
	}
}

// TestCheckBehindProxy: the service is on this node, so no proxy is asked for it.
func TestCheckBehindProxy(t *testing.T) {
	t.Parallel()
	n := whole(t)
	n.write("/etc/hosts", "127.0.0.1 worker-1")
	proxy := httptest.NewServer(http.NotFoundHandler())
	defer proxy.Close()
	cmd := n.program("check", strings.Replace(monitorAnswers(t, http.StatusOK, "ok\n"), "127.0.0.1", "worker-1", 1))
	cmd.Env = append(cmd.Env, "HTTP_PROXY="+proxy.URL)
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), "ok      service: ready, metrics at http://worker-1:") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// TestCheckWarnings: the partition works, although not as well. The exit status stays 0.
func TestCheckWarnings(t *testing.T) {
	t.Parallel()
	n := newNode(t, valid("kube-system"))
	n.partition(fmt.Sprint(64 << 20))
	n.serve(&fakeRuntime{})
	n.check(t, exitOK, []string{
		"warning nri: dial unix /var/run/nri/nri.sock", "warning pods-api: dial unix /var/lib/kubelet/pods-api/pods-api.sock",
		"warning service: not ready: no connection to runtime; no connection to nri\n", "warning eviction-kernel: the kernel has no cgroup.kill",
		"warning eviction-kernel: the kernel reports no memory pressure", "warning eviction-api: kubeconfig of the kubelet: none at",
		"see: docs/troubleshooting.md#nri\n", "change: use a runtime that serves NRI",
	}, monitorAnswers(t, http.StatusServiceUnavailable, "no connection to runtime\nno connection to nri\n"))
	n.check(t, exitOK, []string{"warning service: not running"}, "--listen=127.0.0.1:1")
	n.check(t, exitOK, []string{"warning service: not queried"}, "--listen=")
}

// TestCheckProtectedPageCache: page cache that the kernel does not reclaim is used memory.
func TestCheckProtectedPageCache(t *testing.T) {
	t.Parallel()
	n := whole(t)
	for name, text := range map[string]string{
		"memory.min": "1073741824", "memory.max": "1073741824", "memory.current": "943718400",
		"memory.stat": "anon 104857600\ninactive_file 838860800\nactive_file 0\nslab_reclaimable 0",
	} {
		n.write(systemCgroup+"/kubepods-system-pod1.slice/"+name, text)
	}
	n.check(t, exitOK, []string{
		"ok      eviction-kernel: 838860800 bytes of page cache in the partition count as used: memory.min of their pods protects them",
	}, "--listen=")
	n.write(systemCgroup+"/kubepods-system-pod1.slice/memory.min", "much")
	n.check(t, exitProblem, []string{"error   eviction-kernel: the memory of the partition: "}, "--listen=")
}

// TestCheckReserved: the kubelet does not start without the cgroups that it enforces its
// reservations on.
func TestCheckReserved(t *testing.T) {
	t.Parallel()
	n := newNode(t, valid("kube-system")+"enforceNodeAllocatable: [pods, kube-reserved]\nkubeReservedCgroup: /kube-reserved\n")
	n.write("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory hugetlb pids\n")
	const cgroup, missing = "/sys/fs/cgroup/kube.slice/kube-reserved.slice", "error   reserved: kube-reserved.slice: no cgroup with the controllers "
	n.check(t, exitProblem, []string{missing + "cpu, cpuset, memory, pids, hugetlb; the kubelet does not start with kube-reserved"}, "--listen=")
	n.write(cgroup+"/cgroup.controllers", "cpuset cpu memory pids\n")
	n.check(t, exitProblem, []string{missing + "hugetlb;"}, "--listen=")
	n.write(cgroup+"/cgroup.controllers", "cpuset cpu io memory hugetlb pids\n")
	n.partition(fmt.Sprint(64 << 20))
	n.check(t, exitProblem, []string{"ok      reserved: the cgroups that the kubelet expects exist"}, "--listen=")
}

// TestCheckFloor: the kernel protects the partition as far as kubepods.slice is protected, which
// the kubelet resets.
func TestCheckFloor(t *testing.T) {
	t.Parallel()
	n := whole(t)
	n.write("/etc/default/node-partition", "PARTITION_MEMORY_MIN=16Mi\nPARTITION_MEMORY_LOW=32Mi\nPARTITION_SWAP_MAX=8Mi\n"+
		"SERVICES_SLICE=kubernetes.slice\nSERVICES_MEMORY_MIN=64Mi\nSERVICES_CPU_WEIGHT=500\n")
	n.check(t, exitProblem, []string{
		"error   floor: kubepods-system.slice: memory.min is 0; the floor is 16777216 (/etc/default/node-partition)",
		"warning floor: kubernetes.slice is not active",
		"error   swap: kubepods-system.slice: memory.swap.max is 0; PARTITION_SWAP_MAX asks for 8388608",
	}, "--listen=")
	n.write(systemCgroup+"/memory.min", "16777216")
	n.write(systemCgroup+"/memory.low", "33554432")
	n.write(systemCgroup+"/memory.swap.max", "8388608")
	n.write(systemCgroup+"/../memory.min", "16777216")
	n.write(systemCgroup+"/../memory.low", "0")
	n.write("/sys/fs/cgroup/kubernetes.slice/memory.min", "67108864")
	n.write("/sys/fs/cgroup/kubernetes.slice/cpu.weight", "39")
	n.check(t, exitOK, []string{
		"warning floor: kubepods.slice: memory.low is 0; the floor is 33554432: the floor of the partition is effective only as far",
		"warning floor: kubernetes.slice: cpu.weight is 39; SERVICES_CPU_WEIGHT asks for 500",
		"ok      swap: the partition uses at most 8388608 bytes",
	}, "--listen=")
	n.write("/sys/fs/cgroup/kubernetes.slice/cpu.weight", "500")
	n.check(t, exitOK, []string{"ok      floor: kubernetes.slice has its protected memory and its weight"}, "--listen=")

	// Pods and services share by the outermost slice.
	n.write("/etc/default/node-partition", "SERVICES_SLICE=kube-services.slice\nSERVICES_MEMORY_MIN=64Mi\nSERVICES_CPU_WEIGHT=500\n")
	n.write("/sys/fs/cgroup/kube.slice/memory.min", "0")
	n.write("/sys/fs/cgroup/kube.slice/cpu.weight", "100")
	n.write("/sys/fs/cgroup/kube.slice/kube-services.slice/memory.min", "67108864")
	n.write("/sys/fs/cgroup/kube.slice/kube-services.slice/cpu.weight", "500")
	n.check(t, exitOK, []string{
		"warning floor: kube.slice: memory.min is 0; the floor is 67108864",
		"warning floor: kube.slice: cpu.weight is 100; SERVICES_CPU_WEIGHT asks for 500",
	}, "--listen=")
}

func TestCheckErrors(t *testing.T) {
	t.Parallel()
	n := whole(t)
	const slice = "error   slice: kubepods-system.slice"
	n.partition(fmt.Sprint(32 << 20))
	n.check(t, exitProblem, []string{slice + ": memory.max is 33554432; the configuration asks for 67108864", "change: systemctl daemon-reload"}, "--listen=")
	n.partition("max")
	n.check(t, exitProblem, []string{slice + ": memory.max is max;"}, "--listen=")
	n.partition(fmt.Sprint(64 << 20))
	n.write(systemCgroup+"/memory.high", "4096")
	n.write(systemCgroup+"/cpuset.cpus", "0-1")
	n.check(t, exitProblem, []string{slice + ": memory.high is 4096; the configuration asks for max", slice + `: cpuset.cpus is "0-1"; the configuration asks for ""`}, "--listen=")
	n.write(systemCgroup+"/memory.high", "max")
	n.write(systemCgroup+"/../cpuset.cpus", "")
	n.write(systemCgroup+"/../cpuset.cpus.effective", "0-3")
	n.check(t, exitProblem, []string{slice + `: cpuset.cpus is "0-1"; the configuration asks for ""`}, "--listen=")
	n.write(systemCgroup+"/../cpuset.cpus.effective", "0-1")
	n.check(t, exitOK, []string{"ok      slice: "}, "--listen=")
	if err := os.RemoveAll(n.root + systemCgroup); err != nil {
		t.Fatal(err)
	}
	n.check(t, exitProblem, []string{slice + " is not active"}, "--listen=")
	n.check(t, exitProblem, []string{"error   runtime: container runtime: /run/other.sock"}, "--listen=", "--runtime-endpoint=/run/other.sock")
	// Each problem of a configuration is in a line of its own.
	n.write("/var/lib/kubelet/config.yaml", broken)
	n.check(t, exitProblem, []string{"memoryLimit", "error   configuration: /var/lib/kubelet/config.yaml: ", "namespaces[0]"}, "--listen=")
}

func TestCheckSystemd(t *testing.T) {
	t.Parallel()
	n := whole(t)
	n.systemctl("249.11-0ubuntu3", "", "")
	n.check(t, exitProblem, []string{"error   systemd: systemd 249.11-0ubuntu3: want 252 or later"}, "--listen=")
	n.systemctl("v262.1", "Id=partition-generator-apply.path\nLoadState=loaded\nActiveState=failed\nResult=trigger-limit-hit\n\nId=partition-monitor.service\n"+
		"LoadState=masked\nActiveState=inactive\nResult=success", "")
	n.check(t, exitProblem, []string{
		"error   systemd: partition-generator-apply.path has failed (trigger-limit-hit)", "warning systemd: partition-monitor.service is masked",
		"change: systemctl status partition-generator-apply.path",
	}, "--listen=")
	const kills = "Id=kubepods.slice\nActiveState=active\nManagedOOMSwap=auto\nManagedOOMMemoryPressure=kill"
	n.systemctl("257", "", "Id=systemd-oomd.service\nActiveState=active\n\n"+kills)
	n.check(t, exitOK, []string{"warning systemd-oomd: kubepods.slice has ManagedOOMMemoryPressure=kill"}, "--listen=")
	n.systemctl("257", "", "Id=systemd-oomd.service\nActiveState=inactive\n\n"+kills)
	n.check(t, exitOK, []string{"ok      systemd-oomd: "}, "--listen=")
	if err := os.Remove(filepath.Join(n.root, "bin/systemctl")); err != nil {
		t.Fatal(err)
	}
	n.check(t, exitOK, []string{"warning systemd: systemctl show: "}, "--listen=")
}

// TestCheckKubelet: the flags of the running kubelet may differ from the configuration that is read
// here.
func TestCheckKubelet(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		flags []string
		want  []string
	}{
		"the same":       {[]string{"--config=/var/lib/kubelet/config.yaml"}, []string{"ok      kubelet: process "}},
		"another file":   {[]string{"--config", "/etc/other.yaml"}, []string{"warning kubelet: the running kubelet was started with --config=/etc/other.yaml", "KUBELET_CONFIG=/etc/other.yaml in /etc/default/node-partition"}},
		"another folder": {[]string{"--config-dir=/etc/k.d/"}, []string{"warning kubelet: the running kubelet was started with --config-dir=/etc/k.d/", "KUBELET_CONFIG_DIR="}},
		// Without a cpuset the partition has all CPUs.
		"reserved CPUs":   {[]string{"--reserved-cpus=7"}, []string{"ok      kubelet: "}},
		"another driver":  {[]string{"--cgroup-driver=cgroupfs"}, []string{"error   cgroup-driver: cgroupfs, set by the kubelet's --cgroup-driver"}},
		"another runtime": {[]string{"--container-runtime-endpoint=/run/elsewhere.sock"}, []string{"error   runtime: container runtime: /run/elsewhere.sock"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := whole(t)
			n.runKubelet(test.flags...)
			status := exitOK
			if strings.HasPrefix(test.want[0], "error") {
				status = exitProblem
			}
			n.check(t, status, test.want, "--listen=")
		})
	}
}

func TestCheckCgroupDriver(t *testing.T) {
	t.Parallel()
	of := func(driver runtime.CgroupDriver) *runtime.RuntimeConfigResponse {
		return &runtime.RuntimeConfigResponse{Linux: &runtime.LinuxRuntimeConfiguration{CgroupDriver: driver}}
	}
	for name, test := range map[string]struct {
		config *runtime.RuntimeConfigResponse
		file   string
		status int
		want   string
	}{
		"the runtime's":        {of(runtime.CgroupDriver_SYSTEMD), "", exitOK, "ok      cgroup-driver: systemd, reported by the runtime"},
		"the runtime's, other": {of(runtime.CgroupDriver_CGROUPFS), "cgroupDriver: systemd\n", exitProblem, "error   cgroup-driver: the runtime uses cgroupfs"},
		"the file's":           {nil, "cgroupDriver: systemd\n", exitOK, "ok      cgroup-driver: systemd, set by the kubelet's configuration"},
		"neither, so cgroupfs": {nil, "", exitOK, "warning cgroup-driver: the runtime does not report its driver"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, strings.Replace(valid("kube-system"), "cgroupDriver: systemd\n", test.file, 1))
			n.partition(fmt.Sprint(64 << 20))
			n.serve(&fakeRuntime{config: test.config})
			n.check(t, test.status, []string{test.want}, "--listen=")
		})
	}
}

// TestCheckRights: the check sends the requests of an eviction, and changes nothing.
func TestCheckRights(t *testing.T) {
	t.Parallel()
	n := whole(t)
	const noPod = "/api/v1/namespaces/kube-system/pods/node-partition-asks-for-its-rights"
	for _, answers := range []map[string]int{
		{"GET " + noPod: http.StatusNotFound, "PATCH " + noPod + "/status": http.StatusForbidden},
		{"GET " + noPod: http.StatusUnauthorized},
		{"POST /api/v1/namespaces/kube-system/events": http.StatusForbidden},
	} {
		n.cluster.Answers = answers
		n.check(t, exitProblem, []string{"error   eviction-api: API server " + n.cluster.URL}, "--listen=")
	}
	// The answers that a kubelet gets for a pod that does not exist.
	n.cluster.Answers = map[string]int{"GET " + noPod: http.StatusForbidden, "PATCH " + noPod + "/status": http.StatusNotFound}
	n.check(t, exitOK, []string{"ok      eviction-api: "}, "--listen=")
	n.cluster.Close()
	n.check(t, exitOK, []string{"warning eviction-api: API server ", "cannot be reached"}, "--listen=")
	n.check(t, exitOK, []string{"ok      eviction-api: evictions are not reported to the API server"}, "--listen=", "--kubeconfig=none")
}

// TestCheckIgnore: an ignored finding does not count, and is shown.
func TestCheckIgnore(t *testing.T) {
	t.Parallel()
	n := whole(t)
	n.partition("max")
	n.check(t, exitOK, []string{"ignored slice: kubepods-system.slice: memory.max is max", "ignored service: "}, "--listen=", "--ignore=slice", "--ignore=service")
	n.check(t, exitOK, []string{"ignored slice: "}, "--listen=", "--ignore=slice,service")
	status, stdout, stderr := n.run("check", "--listen=", "--ignore=slices")
	if status != exitUsage || stdout != "" || !strings.Contains(stderr, "--ignore=slices: want one of configuration, trial, kubelet, ") {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
}

func TestCheckJSON(t *testing.T) {
	t.Parallel()
	n := whole(t)
	n.partition("max")
	status, stdout, stderr := n.run("check", "--listen=", "-o", "json")
	var got struct{ Findings []check.Finding }
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || status != exitProblem || stderr != "" {
		t.Fatalf("status %d, %q, %v:\n%s", status, stderr, err, stdout)
	}
	i := slices.IndexFunc(got.Findings, func(f check.Finding) bool { return f.Check == "slice" })
	if i < 0 || got.Findings[i].Grade != check.Error || got.Findings[i].Change == "" || got.Findings[i].Docs == "" ||
		!slices.ContainsFunc(got.Findings, func(f check.Finding) bool { return f.Check == "configuration" && len(f.Looked) > 0 }) {
		t.Errorf("%+v", got.Findings)
	}
}

// TestCheckWithoutPartition: a node without a partition is not an error.
func TestCheckWithoutPartition(t *testing.T) {
	t.Parallel()
	n := whole(t)
	n.write("/proc/cmdline", "quiet node_partition=0")
	n.check(t, exitOK, []string{"warning configuration: no systemPartition section, or switched off by node_partition=0"}, "--listen=")
	n.write("/proc/cmdline", "quiet")
	n.write("/var/lib/kubelet/config.yaml", kubelet(""))
	n.check(t, exitOK, []string{"warning configuration: no systemPartition section"}, "--listen=")
	n.write("/var/lib/kubelet/config.yaml", valid("kube-system")+"featureGates: {NodeSystemPartition: true}")
	n.check(t, exitOK, []string{"warning configuration: /var/lib/kubelet/config.yaml: featureGates: NodeSystemPartition is on"}, "--listen=")
}
