package check

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/tests/fakenode"
)

// flag changes the options as a flag does.
type flag func(o *node.Options, n *fakenode.Node)

func listen(address string) flag {
	return func(o *node.Options, _ *fakenode.Node) { o.Listen = address }
}

func endpoint(socket string) flag {
	return func(o *node.Options, n *fakenode.Node) { o.Runtime = n.Host().Endpoint(socket) }
}

// textOf returns what check writes for people about a node, with the paths of the node.
func textOf(t *testing.T, n *fakenode.Node, ignored []string, flags ...flag) (out string, found []state.Finding) {
	t.Helper()
	o := n.Options()
	for _, set := range flags {
		set(&o, n)
	}
	all := Node(t.Context(), o, ignored)
	var text bytes.Buffer
	if err := Text(true)(&text, all); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(text.String(), n.Root, ""), all.Findings
}

// The two results of a check: without an error, and with one.
const (
	passes = true
	fails  = false
)

// expect runs check, and expects a result and parts of the output.
func expect(t *testing.T, n *fakenode.Node, result bool, want []string, flags ...flag) {
	t.Helper()
	expectIgnoring(t, n, nil, result, want, flags...)
}

func expectIgnoring(t *testing.T, n *fakenode.Node, ignored []string, result bool, want []string, flags ...flag) {
	t.Helper()
	stdout, found := textOf(t, n, ignored, flags...)
	if failed := slices.ContainsFunc(found, func(f state.Finding) bool { return f.Grade == state.Error }); failed == result {
		t.Errorf("an error: %t; want %t", failed, !result)
	}
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	for i, line := range lines {
		grade, _, _ := strings.Cut(line, " ")
		if i == len(lines)-1 {
			if !strings.Contains(line, " ok (-v lists all; ") {
				t.Errorf("the last line is %q; want the number of findings of each grade", line)
			}
		} else if grade != "" && grade != "ok" && grade != "warning" && grade != "error" && grade != "ignored" {
			t.Errorf("a line that begins neither with a grade nor with a space: %q", line)
		}
	}
	for _, part := range want {
		if !strings.Contains(stdout, part) {
			t.Errorf("want %q in\n%s", part, stdout)
		}
	}
	if errors := strings.Count(stdout, "\nerror "); (errors > 0 || strings.HasPrefix(stdout, "error")) == result {
		t.Errorf("passes %t with\n%s", result, stdout)
	}
}

// TestCheckOK: each check reports its finding in a line. The first lists the files that it read,
// and why it skipped others.
func TestCheckOK(t *testing.T) {
	t.Parallel()
	n := fakenode.Whole(t)
	n.MonitorAnswers(http.StatusOK, "ok\n")
	stdout, _ := textOf(t, n, nil)
	var ok []string
	for line := range strings.Lines(stdout) {
		if names, found := strings.CutPrefix(line, "ok "); found {
			names, _, _ = strings.Cut(strings.TrimSpace(names), ":")
			ok = append(ok, strings.Split(names, ", ")...)
		}
	}
	slices.Sort(ok)
	if want := slices.Sorted(slices.Values(Names())); !slices.Equal(ok, want) {
		t.Errorf("ok are %q; want %q:\n%s", ok, want, stdout)
	}
	for _, part := range []string{
		"memoryLimit 64Mi", "kube-system, monitoring", "containerd v2.3.7 at unix:///run/containerd/containerd.sock",
		"file: /var/lib/kubelet/config.yaml: read", "file: /etc/kubernetes/kubelet.conf: not read, /var/lib/kubelet/config.yaml exists",
		"file: /etc/kubernetes/node-partition.yaml: not there", "accepts evictions with /var/lib/kubelet/kubeconfig",
	} {
		if !strings.Contains(stdout, part) {
			t.Errorf("want %q in\n%s", part, stdout)
		}
	}
}

// TestCheckWarnings: the partition works, although not as well. The exit status stays 0.
func TestCheckWarnings(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Valid("kube-system"))
	n.Partition(fmt.Sprint(64 << 20))
	n.Serve(&fakenode.Runtime{})
	expect(t, n, passes, []string{"warning  service: not running"}, listen("127.0.0.1:1"))
	n.MonitorAnswers(http.StatusServiceUnavailable, "no connection to runtime\nno connection to nri\n")
	expect(t, n, passes, []string{
		"warning  nri: dial unix /run/nri/nri.sock: connect: no such file", "warning  pods-api: dial unix /var/lib/kubelet/pods-api/pods-api.sock: connect: no such file",
		"warning  service: not ready: no connection to runtime; no connection to nri\n", "warning  eviction-kernel: the kernel has no cgroup.kill",
		"warning  eviction-api: pods are restarted, and not evicted for good: kubeconfig of the kubelet: none at",
		"change: use a runtime that serves NRI",
	})
}

// TestCheckUnserved: a monitor that is ready and cannot serve metrics says why, over its socket.
func TestCheckUnserved(t *testing.T) {
	t.Parallel()
	for why, want := range map[string]string{
		"": "ok       service: ready, metrics at 0.0.0.0:9948\n",
		"web configuration /etc/web.yml: yaml: line 3": "warning  service: ready, but metrics and health are not served: " +
			"web configuration /etc/web.yml: yaml: line 3\n",
	} {
		n := fakenode.Whole(t)
		listener := n.Listen(node.ControlSocket)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/listening" && why != "" {
				http.Error(w, why, http.StatusServiceUnavailable)
			}
		})}
		go func() { _ = server.Serve(listener) }() // it ends with Close
		t.Cleanup(func() { _ = server.Close() })
		expect(t, n, passes, []string{want}, listen("0.0.0.0:9948"))
	}
}

// TestCheckProtectedPageCache: page cache that the kernel does not reclaim is used memory.
func TestCheckProtectedPageCache(t *testing.T) {
	t.Parallel()
	n := fakenode.Whole(t)
	for name, text := range map[string]string{
		"memory.min": "1073741824", "memory.max": "1073741824", "memory.current": "943718400",
		"memory.stat": "anon 104857600\ninactive_file 838860800\nactive_file 0\nslab_reclaimable 0",
	} {
		n.Write(fakenode.SystemCgroup+"/kubepods-system-pod1.slice/"+name, text)
	}
	expect(t, n, passes, []string{
		"ok       eviction-kernel: 838860800 bytes of page cache in the partition count as used: memory.min of their pods protects them",
	})
	n.Write(fakenode.SystemCgroup+"/kubepods-system-pod1.slice/memory.min", "much")
	expect(t, n, fails, []string{"error    eviction-kernel: the memory of the partition: "})
}

// TestCheckNamespaces: the namespaces of any section that no running pod has are listed.
func TestCheckNamespaces(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Configuration("systemPartition:\n  namespaces: [kube-systm]\n"+
		"workloadPartitions:\n  telemetry: {memoryLimit: 64Mi, allowedNamespaces: [operators]}\n"))
	n.Partition("max")
	sandbox := func(namespace string, state runtime.PodSandboxState) *runtime.PodSandbox {
		return &runtime.PodSandbox{Id: namespace, State: state, Metadata: &runtime.PodSandboxMetadata{Name: "a", Namespace: namespace, Uid: fakenode.UID}}
	}
	pods := &fakenode.Runtime{Sandboxes: []*runtime.PodSandbox{
		sandbox("kube-system", runtime.PodSandboxState_SANDBOX_READY), sandbox("operators", runtime.PodSandboxState_SANDBOX_NOTREADY),
	}}
	n.Serve(pods)
	const both = "ok       namespaces: no pod of this node has these namespaces of the configuration: " +
		"kube-systm (systemPartition.namespaces in /var/lib/kubelet/config.yaml), operators (workloadPartitions.telemetry.allowedNamespaces in "
	const without = "warning  namespaces: no namespace of partition system has a pod on this node\n"
	expect(t, n, fails, []string{both, without})
	pods.Sandboxes[1].State = runtime.PodSandboxState_SANDBOX_READY
	expect(t, n, fails, []string{"ok       namespaces: no pod of this node has these namespaces of the configuration: kube-systm (systemPartition.namespaces in /var/lib/kubelet/config.yaml)\n"})
}

// TestCheckReserved: the kubelet does not start without the cgroups that it enforces its
// reservations on.
func TestCheckReserved(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Valid("kube-system")+"enforceNodeAllocatable: [pods, kube-reserved]\nkubeReservedCgroup: /kube-reserved\n")
	n.Write("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory hugetlb pids\n")
	const cgroup, missing = "/sys/fs/cgroup/kube.slice/kube-reserved.slice", "error    reserved: kube-reserved.slice: no cgroup with the controllers "
	expect(t, n, fails, []string{missing + "cpu, cpuset, memory, pids, hugetlb; the kubelet does not start with kube-reserved"})
	n.Write(cgroup+"/cgroup.controllers", "cpuset cpu memory pids\n")
	expect(t, n, fails, []string{missing + "hugetlb;"})
	n.Write(cgroup+"/cgroup.controllers", "cpuset cpu io memory hugetlb pids\n")
	n.Partition(fmt.Sprint(64 << 20))
	expect(t, n, fails, []string{"ok       reserved: the cgroups that the kubelet expects exist"})
}

// TestCheckProtection: the kernel protects the partition as far as kubepods.slice is protected,
// which the kubelet resets.
func TestCheckProtection(t *testing.T) {
	t.Parallel()
	n := fakenode.Whole(t)
	n.Write("/etc/default/node-partition", "PARTITION_MEMORY_MIN=16Mi\nPARTITION_MEMORY_LOW=32Mi\nPARTITION_SWAP_MAX=8Mi\n"+
		"SERVICES_SLICE=kubernetes.slice\nSERVICES_MEMORY_MIN=64Mi\nSERVICES_CPU_WEIGHT=500\n")
	expect(t, n, fails, []string{
		"error    floor: kubepods-system.slice: memory.min is 0; the floor is 16777216 (/etc/default/node-partition)",
		"warning  floor: kubernetes.slice is not active",
		"error    swap: kubepods-system.slice: memory.swap.max is 0; PARTITION_SWAP_MAX asks for 8388608",
	})
	n.Write(fakenode.SystemCgroup+"/memory.min", "16777216")
	n.Write(fakenode.SystemCgroup+"/memory.low", "33554432")
	n.Write(fakenode.SystemCgroup+"/memory.swap.max", "8388608")
	n.Write(fakenode.SystemCgroup+"/../memory.min", "16777216")
	n.Write(fakenode.SystemCgroup+"/../memory.low", "0")
	n.Write("/sys/fs/cgroup/kubernetes.slice/memory.min", "67108864")
	n.Write("/sys/fs/cgroup/kubernetes.slice/cpu.weight", "39")
	expect(t, n, passes, []string{
		"warning  floor: kubepods.slice: memory.low is 0; the floor is 33554432: the floor of the partition is effective only as far",
		"warning  floor: kubernetes.slice: cpu.weight is 39; SERVICES_CPU_WEIGHT asks for 500",
		"ok       swap: kubepods-system.slice uses at most 8388608 bytes",
	})
	n.Write("/sys/fs/cgroup/kubernetes.slice/cpu.weight", "500")
	expect(t, n, passes, []string{"ok       floor: kubernetes.slice has its protected memory and its weight"})

	// Pods and services share by the outermost slice.
	n.Write("/etc/default/node-partition", "SERVICES_SLICE=kube-services.slice\nSERVICES_MEMORY_MIN=64Mi\nSERVICES_CPU_WEIGHT=500\n")
	n.Write("/sys/fs/cgroup/kube.slice/memory.min", "0")
	n.Write("/sys/fs/cgroup/kube.slice/cpu.weight", "100")
	n.Write("/sys/fs/cgroup/kube.slice/kube-services.slice/memory.min", "67108864")
	n.Write("/sys/fs/cgroup/kube.slice/kube-services.slice/cpu.weight", "500")
	expect(t, n, passes, []string{
		"warning  floor: kube.slice: memory.min is 0; the floor is 67108864",
		"warning  floor: kube.slice: cpu.weight is 100; SERVICES_CPU_WEIGHT asks for 500",
	})
}

func TestCheckErrors(t *testing.T) {
	t.Parallel()
	n := fakenode.Whole(t)
	const slice = "error    slice: kubepods-system.slice"
	n.Partition(fmt.Sprint(32 << 20))
	expect(t, n, fails, []string{slice + ": memory.max is 33554432; the configuration asks for 67108864", "change: systemctl daemon-reload"})
	n.Partition("max")
	expect(t, n, fails, []string{slice + ": memory.max is max;"})
	n.Partition(fmt.Sprint(64 << 20))
	n.Write(fakenode.SystemCgroup+"/memory.high", "4096")
	n.Write(fakenode.SystemCgroup+"/cpuset.cpus", "0-1")
	expect(t, n, fails, []string{slice + ": memory.high is 4096; the configuration asks for max", slice + `: cpuset.cpus is "0-1"; the configuration asks for ""`})
	n.Write(fakenode.SystemCgroup+"/memory.high", "max")
	n.Write(fakenode.SystemCgroup+"/../cpuset.cpus", "")
	n.Write(fakenode.SystemCgroup+"/../cpuset.cpus.effective", "0-3")
	expect(t, n, fails, []string{slice + `: cpuset.cpus is "0-1"; the configuration asks for ""`})
	n.Write(fakenode.SystemCgroup+"/../cpuset.cpus.effective", "0-1")
	expect(t, n, passes, []string{"ok       slice: "})
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Valid("kube-system")+"  memoryBurst: 32Mi\n")
	expect(t, n, fails, []string{slice + ": memory.max is 67108864; the configuration asks for 100663296"})
	n.Partition(fmt.Sprint(96 << 20))
	expect(t, n, passes, []string{"ok       slice: "})
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Valid("kube-system"))
	if err := os.RemoveAll(n.Root + fakenode.SystemCgroup); err != nil {
		t.Fatal(err)
	}
	expect(t, n, fails, []string{slice + " is not active"})
	expect(t, n, fails, []string{"error    runtime: container runtime: /run/other.sock"}, endpoint("/run/other.sock"))
	// Each problem of a configuration is in a line of its own.
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Broken)
	expect(t, n, fails, []string{"memoryLimit", "error    configuration: /var/lib/kubelet/config.yaml: ", "namespaces[0]"})
}

func TestCheckSystemd(t *testing.T) {
	t.Parallel()
	n := fakenode.Whole(t)
	n.Systemctl("249.11-0ubuntu3", "", "")
	expect(t, n, fails, []string{"error    systemd: systemd 249.11-0ubuntu3: want 252 or later"})
	n.Systemctl("v262.1", "Id=partition-generator-apply.path\nLoadState=loaded\nActiveState=failed\nResult=trigger-limit-hit\n\nId=partition-monitor.service\n"+
		"LoadState=masked\nActiveState=inactive\nResult=success", "")
	expect(t, n, fails, []string{
		"error    systemd: partition-generator-apply.path has failed (trigger-limit-hit)", "warning  systemd: partition-monitor.service is masked",
		"change: systemctl status partition-generator-apply.path",
	})
	const kills = "Id=kubepods.slice\nActiveState=active\nManagedOOMSwap=auto\nManagedOOMMemoryPressure=kill"
	n.Systemctl("257", "", "Id=systemd-oomd.service\nActiveState=active\n\n"+kills)
	expect(t, n, passes, []string{"warning  systemd-oomd: kubepods.slice has ManagedOOMMemoryPressure=kill"})
	n.Systemctl("257", "", "Id=systemd-oomd.service\nActiveState=inactive\n\n"+kills)
	expect(t, n, passes, []string{"ok       systemd-oomd: "})
	// systemd 261 has rules by name.
	n.Systemctl("261", "", "Id=systemd-oomd.service\nActiveState=active\n\nId=-.slice\nManagedOOMSwap=kill\nManagedOOMMemoryPressure=auto\nOOMRules=\n\n"+
		"Id=kubepods.slice\nManagedOOMSwap=auto\nManagedOOMMemoryPressure=auto\nOOMRules=low-memory")
	expect(t, n, passes, []string{
		"warning  systemd-oomd: -.slice has ManagedOOMSwap=kill, kubepods.slice has OOMRules=low-memory: ",
	})
	if err := os.Remove(filepath.Join(n.Root, "bin/systemctl")); err != nil {
		t.Fatal(err)
	}
	expect(t, n, passes, []string{"warning  systemd: systemctl show: "})
}

// TestCheckKubelet: the flags of the running kubelet may differ from the configuration that is read
// here.
func TestCheckKubelet(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		flags []string
		want  []string
	}{
		"the same":       {[]string{"--config=/var/lib/kubelet/config.yaml"}, []string{"ok       kubelet: process "}},
		"another file":   {[]string{"--config", "/etc/other.yaml"}, []string{"warning  kubelet: the running kubelet was started with --config=/etc/other.yaml", "KUBELET_CONFIG=/etc/other.yaml in /etc/default/node-partition"}},
		"another folder": {[]string{"--config-dir=/etc/k.d/"}, []string{"warning  kubelet: the running kubelet was started with --config-dir=/etc/k.d/", "KUBELET_CONFIG_DIR="}},
		// Without a cpuset the partition has all CPUs.
		"reserved CPUs":   {[]string{"--reserved-cpus=7"}, []string{"ok       kubelet: "}},
		"another driver":  {[]string{"--cgroup-driver=cgroupfs"}, []string{"error    cgroup-driver: cgroupfs, set by the kubelet's --cgroup-driver"}},
		"another runtime": {[]string{"--container-runtime-endpoint=/run/elsewhere.sock"}, []string{"error    runtime: container runtime: /run/elsewhere.sock"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := fakenode.Whole(t)
			n.RunKubelet(test.flags...)
			result := !strings.HasPrefix(test.want[0], "error")
			expect(t, n, result, test.want)
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
		result bool
		want   string
	}{
		"the runtime's":        {of(runtime.CgroupDriver_SYSTEMD), "", passes, "ok       cgroup-driver: systemd, reported by the runtime"},
		"the runtime's, other": {of(runtime.CgroupDriver_CGROUPFS), "cgroupDriver: systemd\n", fails, "error    cgroup-driver: the runtime uses cgroupfs"},
		"the file's":           {nil, "cgroupDriver: systemd\n", passes, "ok       cgroup-driver: systemd, set by the kubelet's configuration"},
		"neither, so cgroupfs": {nil, "", passes, "warning  cgroup-driver: the runtime does not report its driver"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := fakenode.New(t, strings.Replace(fakenode.Valid("kube-system"), "cgroupDriver: systemd\n", test.file, 1))
			n.Partition(fmt.Sprint(64 << 20))
			n.Serve(&fakenode.Runtime{Config: test.config})
			expect(t, n, test.result, []string{test.want})
		})
	}
}

// TestCheckRights: the check sends the requests of an eviction, and changes nothing.
func TestCheckRights(t *testing.T) {
	t.Parallel()
	n := fakenode.Whole(t)
	const noPod = "/api/v1/namespaces/kube-system/pods/node-partition-asks-for-its-rights"
	for _, answers := range []map[string]int{
		{"GET " + noPod: http.StatusNotFound, "PATCH " + noPod + "/status": http.StatusForbidden},
		{"GET " + noPod: http.StatusUnauthorized},
		{"POST /api/v1/namespaces/kube-system/events": http.StatusForbidden},
	} {
		n.Cluster.Answers = answers
		expect(t, n, fails, []string{"error    eviction-api: API server " + n.Cluster.URL})
	}
	// The answers that a kubelet gets for a pod that does not exist.
	n.Cluster.Answers = map[string]int{"GET " + noPod: http.StatusForbidden, "PATCH " + noPod + "/status": http.StatusNotFound}
	expect(t, n, passes, []string{"ok       eviction-api: "})
	n.Cluster.Close()
	expect(t, n, passes, []string{"warning  eviction-api, events: API server ", "cannot be reached"})
	expect(t, n, passes, []string{"ok       eviction-api: evictions are not reported to the API server"}, func(o *node.Options, _ *fakenode.Node) { o.Eviction.Kubeconfig = node.KubeconfigNone })
}

// TestCheckIgnore: an ignored finding does not count, and is shown.
func TestCheckIgnore(t *testing.T) {
	t.Parallel()
	n := fakenode.Whole(t)
	n.Partition("max")
	expectIgnoring(t, n, []string{"slice", "service"}, passes, []string{"ignored  slice: kubepods-system.slice: memory.max is max", "ignored  service: "})
}

// TestCheckWithoutPartition: a node without a partition is not an error.
func TestCheckWithoutPartition(t *testing.T) {
	t.Parallel()
	n := fakenode.Whole(t)
	n.Write("/proc/cmdline", "quiet node_partition=0")
	expect(t, n, passes, []string{"warning  configuration: no section systemPartition and no workloadPartitions, or switched off by node_partition=0"})
	n.Write("/proc/cmdline", "quiet")
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Configuration(""))
	expect(t, n, passes, []string{"warning  configuration: no section systemPartition and no workloadPartitions"})
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Valid("kube-system")+"featureGates: {NodeSystemPartition: true}")
	expect(t, n, passes, []string{"warning  configuration: /var/lib/kubelet/config.yaml: featureGates: NodeSystemPartition is on"})
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Valid("kube-system"))
	n.RunKubelet("--feature-gates=NodeSystemPartition=true")
	expect(t, n, passes, []string{"the kubelet makes the system partition itself"})
}

// TestCheckCPUManager: a user pod that may run on the partition's CPUs is a warning.
func TestCheckCPUManager(t *testing.T) {
	t.Parallel()
	n := fakenode.Audited(t)
	n.Write("/etc/kubernetes/node-partition.yaml", fakenode.Configuration("systemPartition: {namespaces: [kube-system], memoryLimit: 64Mi, cpuset: '0'}\n"))
	const scope = "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-poduid_shop.slice/cri-containerd-abc.scope"
	for cpus, want := range map[string]string{
		"0-1": "warning  cpu-manager: /sys/fs/cgroup/" + scope + "/cpuset.cpus.effective is 0-1; expected ",
		"1":   "cpu-manager: as the kubelet, systemd and the configuration set it\n",
	} {
		n.Cgroup(scope, map[string]string{"cpuset.cpus.effective": cpus})
		if stdout, _ := textOf(t, n, nil); !strings.Contains(stdout, want) {
			t.Errorf("want %q in\n%s", want, stdout)
		}
	}
}
