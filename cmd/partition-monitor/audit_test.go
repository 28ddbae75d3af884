package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"nodepartition/internal/audit"
)

// ListPods returns the pods of the kubelet.
func (k kubeletWithPods) ListPods(context.Context, *podsv1alpha1.ListPodsRequest) (*podsv1alpha1.ListPodsResponse, error) {
	answer := &podsv1alpha1.ListPodsResponse{}
	for _, pod := range k.pods {
		data, err := pod.Marshal()
		if err != nil {
			return nil, err
		}
		answer.Pods = append(answer.Pods, data)
	}
	return answer, nil
}

// audit runs audit with JSON, and expects an exit status.
func (n *fakeNode) audit(want int, args ...string) audit.Report {
	n.t.Helper()
	status, stdout, stderr := n.run(append([]string{"audit", "--output=json"}, args...)...)
	if status != want || stderr != "" {
		n.t.Fatalf("%q: status %d, %q; want %d", args, status, stderr, want)
	}
	var r audit.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		n.t.Fatalf("%v:\n%s", err, stdout)
	}
	return r
}

// at returns the finding at a path below the cgroup's mount, or elsewhere; nil without one.
func at(r audit.Report, where string) *audit.Finding {
	for i, f := range r.Findings {
		if f.Path == where || f.Path == "/sys/fs/cgroup/"+where {
			return &r.Findings[i]
		}
	}
	return nil
}

// cgroup writes files of a cgroup.
func (n *fakeNode) cgroup(cgroup string, files map[string]string) {
	n.t.Helper()
	for name, text := range files {
		n.write(path.Join("/sys/fs/cgroup", cgroup, name), text)
	}
}

// auditedNode has a pod without requests, on the slice of which somebody has set a limit, and a
// kubelet with drop-ins and flags.
func auditedNode(t *testing.T) *fakeNode {
	t.Helper()
	n := newNode(t, kubelet(""))
	n.write("/etc/k.yaml", kubelet("kubeReserved: {memory: 16Mi}\npodPidsLimit: 7\n"))
	n.write("/etc/k.d/1.conf", kubelet("systemReserved: {memory: 32Mi, pid: '100'}\npodPidsLimit: 9\n"))
	const slice = "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-poduid_shop.slice"
	none := map[string]string{"cpu.max": "max 100000", "memory.max": "max", "memory.high": "max", "pids.max": "max", "cpuset.cpus": ""}
	for _, cgroup := range []string{"kubepods.slice", "kubepods.slice/kubepods-besteffort.slice", slice, slice + "/cri-containerd-abc.scope"} {
		n.cgroup(cgroup, none)
		n.cgroup(cgroup, map[string]string{"cpu.weight": "1"})
	}
	n.cgroup("kubepods.slice", map[string]string{"memory.max": "4096"})
	n.cgroup(slice, map[string]string{"pids.max": "9", "memory.max": "8192"})
	n.cgroup(slice+"/cri-containerd-abc.scope", map[string]string{"cgroup.procs": ""})
	n.cgroup(slice+"/cri-containerd-abc.scope/container", map[string]string{"cgroup.procs": strconv.Itoa(os.Getpid())})
	pod := podOf("web", "shop", "0", "")
	pod.Spec.Containers[0].Resources = v1.ResourceRequirements{}
	pod.Status = v1.PodStatus{Phase: v1.PodRunning, QOSClass: v1.PodQOSBestEffort, ContainerStatuses: []v1.ContainerStatus{{
		Name: "c", ContainerID: "containerd://abc", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
	}}}
	n.serveGRPC("/var/lib/kubelet/pods-api/pods-api.sock", func(s *grpc.Server) {
		podsv1alpha1.RegisterPodsServer(s, kubeletWithPods{pods: []*v1.Pod{pod}})
	})
	n.systemctl("257", "", "Id=kubelet.service\nControlGroup=/system.slice/kubelet.service\n\n"+
		"Id=containerd.service\nActiveState=active\nMainPID=1\nControlGroup=/system.slice/containerd.service\n\n"+
		"Id=kubepods-besteffort.slice\nActiveState=active\nMemoryMax=infinity\nCPUWeight=50\nManagedOOMSwap=kill\n\nId=systemd-oomd.service\nActiveState=active")
	n.runKubelet("--config=/etc/k.yaml", "--config-dir=/etc/k.d", "--oom-score-adj=-500", "--kube-reserved=memory=64Mi")
	return n
}

// TestAuditNode: the findings come from the cgroups, the processes, systemd, the pods and the
// configuration of the kubelet, flags over drop-ins over the file.
func TestAuditNode(t *testing.T) {
	t.Parallel()
	n := auditedNode(t)
	p, _ := n.plan(exitOK)
	r := n.audit(exitProblem)
	const bestEffort = "kubepods.slice/kubepods-besteffort.slice"
	const slice = bestEffort + "/kubepods-besteffort-poduid_shop.slice"
	memory := (p.Capacity.MemoryBytes - 96<<20) / int64(os.Getpagesize()) * int64(os.Getpagesize())
	for where, want := range map[string]audit.Finding{
		"kubepods.slice/memory.max":                                       {Rule: "node-limits", Value: "4096", Expected: strconv.FormatInt(memory, 10)},
		slice + "/memory.max":                                             {Rule: "pod-limits", Value: "8192", Expected: "max"},
		bestEffort + "/cpu.weight":                                        {Rule: "second-writer", Value: "1", Expected: "50"},
		"kubepods-besteffort.slice: ManagedOOMSwap":                       {Rule: "systemd-oomd", Value: "kill", Expected: "auto"},
		fmt.Sprintf("/proc/%d/oom_score_adj", os.Getpid()):                {Rule: "oom-score", Expected: "1000"},
		"/proc/1/oom_score_adj":                                           {Rule: "oom-score", Expected: "-999"},
		fmt.Sprintf("/proc/%d/oom_score_adj", p.Configuration.KubeletPID): {Rule: "oom-score", Expected: "-500"},
		"kubepods.slice/pids.max":                                         {Rule: "node-limits", Value: "max"},
	} {
		got := at(r, where)
		if got == nil || got.Rule != want.Rule || want.Value != "" && got.Value != want.Value || want.Expected != "" && got.Expected != want.Expected {
			t.Errorf("%s: %+v; want %+v", where, got, want)
		}
	}
	for _, where := range []string{slice + "/pids.max", slice + "/cpu.weight", slice + "/cri-containerd-abc.scope/memory.max", bestEffort + "/memory.max"} {
		if f := at(r, where); f != nil {
			t.Errorf("want no finding at %s: %+v", where, f)
		}
	}
	if len(r.NotChecked) != 0 {
		t.Errorf("not checked: %q", r.NotChecked)
	}
}

// TestAuditText: people see the reason, the document and the cure.
func TestAuditText(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := auditedNode(t).run("audit")
	for _, want := range []string{
		"error   node-limits: /sys/fs/cgroup/kubepods.slice/memory.max is 4096; expected ", "\n        why: ", "\n        see: https://kubernetes.io/",
		"\n        cure: systemctl set-property --runtime kubepods.slice MemoryMax=", "Formula of cpu.weight: unknown for the kubelet, unknown for the runtime",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("want %q in\n%s", want, stdout)
		}
	}
	if status != exitProblem || stderr != "" {
		t.Errorf("status %d, %q", status, stderr)
	}
}

// TestAuditUnknown: without a kubelet, and without its pods, the report says what it leaves out.
func TestAuditUnknown(t *testing.T) {
	t.Parallel()
	n := newNode(t, broken)
	n.cgroup("kubepods.slice", map[string]string{"memory.max": "4096", "cpu.max": "1000 100000"})
	n.systemctl("257", "", "Id=kubepods.slice\nActiveState=active\nMemoryMax=4096")
	r := n.audit(exitProblem)
	if at(r, "kubepods.slice/memory.max") != nil || at(r, "kubepods.slice/cpu.max") == nil {
		t.Errorf("%+v", r.Findings)
	}
	if all := strings.Join(r.NotChecked, "\n"); !strings.Contains(all, "no kubelet runs as kubelet.service") || !strings.Contains(all, "does not serve its Pods API") ||
		!strings.Contains(all, "the partition's CPUs: ") {
		t.Errorf("not checked: %s", all)
	}
}

// TestCheckCPUManager: a user pod that may run on the partition's CPUs is a warning.
func TestCheckCPUManager(t *testing.T) {
	t.Parallel()
	n := auditedNode(t)
	n.write("/etc/kubernetes/node-partition.yaml", kubelet("systemPartition: {namespaces: [kube-system], memoryLimit: 64Mi, cpuset: '0'}\n"))
	const scope = "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-poduid_shop.slice/cri-containerd-abc.scope"
	for cpus, want := range map[string]string{
		"0-1": "warning cpu-manager: /sys/fs/cgroup/" + scope + "/cpuset.cpus.effective is 0-1; expected ",
		"1":   "ok      cpu-manager: found no user pod on the partition's CPUs, and no member with others\n",
	} {
		n.cgroup(scope, map[string]string{"cpuset.cpus.effective": cpus})
		if _, stdout, stderr := n.run("check", "--listen="); !strings.Contains(stdout, want) || stderr != "" {
			t.Errorf("want %q in\n%s%s", want, stdout, stderr)
		}
	}
}

// TestAuditNotPossible: status 2 is for a node that cannot be audited, and for an invalid command
// line.
func TestAuditNotPossible(t *testing.T) {
	t.Parallel()
	n := newNode(t, kubelet(""))
	for args, want := range map[string]string{
		"":               "kubepods.slice does not exist",
		"--output=table": "want text or json",
		"--fast":         "flag provided but not defined",
	} {
		status, stdout, stderr := n.run(append([]string{"audit"}, strings.Fields(args)...)...)
		if status != exitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%q: status %d, %q, %q; want %d and %q", args, status, stdout, stderr, exitUsage, want)
		}
	}
}

// TestAuditOtherTree: a kubelet that has its pods elsewhere has nothing to do with kubepods.slice,
// so its files are no findings.
func TestAuditOtherTree(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		flags  []string
		fields string
		want   string
	}{
		"root as a flag":     {[]string{"--cgroup-root=/pods"}, "", `cgroupRoot of the kubelet is "/pods"`},
		"root in the file":   {nil, "cgroupRoot: /pods\n", `cgroupRoot of the kubelet is "/pods"`},
		"no classes":         {[]string{"--cgroups-per-qos=false"}, "", "cgroupsPerQOS of the kubelet is false"},
		"no classes in file": {nil, "cgroupsPerQOS: false\nenforceNodeAllocatable: [none]\n", "cgroupsPerQOS of the kubelet is false"},
		"a flag over a file": {[]string{"--cgroup-root=/"}, "cgroupRoot: /pods\n", ""},
	} {
		n := newNode(t, kubelet(""))
		n.write("/etc/k.yaml", kubelet(test.fields))
		n.cgroup("kubepods.slice", map[string]string{"memory.max": "4096", "cpu.weight": "1", "pids.max": "max", "cpu.max": "max 100000"})
		n.systemctl("257", "", "Id=kubelet.service\nControlGroup=/system.slice/kubelet.service")
		n.runKubelet(append([]string{"--config=/etc/k.yaml"}, test.flags...)...)
		status, stdout, stderr := n.run("audit")
		if test.want == "" {
			if status != exitProblem || !strings.Contains(stdout, "kubepods.slice/memory.max is 4096") {
				t.Errorf("%s: status %d, %q, %q", name, status, stdout, stderr)
			}
			continue
		}
		if status != exitUsage || stdout != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("%s: status %d, %q, %q; want %q", name, status, stdout, stderr, test.want)
		}
	}
}
