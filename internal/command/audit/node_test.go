package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"nodepartition/internal/audit"
	"nodepartition/internal/node/allocatable"
	"nodepartition/internal/podsapi"
	"nodepartition/tests/fakenode"
)

// audited returns the report on a node, as it is written in JSON.
func audited(t *testing.T, n *fakenode.Node) audit.Report {
	t.Helper()
	read, err := Node(t.Context(), Options{Node: n.Host(), PodsAPI: n.Host().Path(podsapi.DefaultSocket)})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	var r audit.Report
	if err := errors.Join(WriteJSON(&text, read), json.Unmarshal(text.Bytes(), &r)); err != nil {
		t.Fatalf("%v:\n%s", err, &text)
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

// TestAuditNode: the findings come from the cgroups, the processes, systemd, the pods and the
// configuration of the kubelet, flags over drop-ins over the file.
func TestAuditNode(t *testing.T) {
	t.Parallel()
	n := fakenode.Audited(t)
	capacity, err := allocatable.ReadCapacity(n.Host(), "/var/lib/kubelet")
	if err != nil {
		t.Fatal(err)
	}
	r := audited(t, n)
	const bestEffort = "kubepods.slice/kubepods-besteffort.slice"
	const slice = bestEffort + "/kubepods-besteffort-poduid_shop.slice"
	memory := (capacity.Resources.Memory().Value() - 96<<20) / int64(os.Getpagesize()) * int64(os.Getpagesize())
	for where, want := range map[string]audit.Finding{
		"kubepods.slice/memory.max":                         {Rule: "node-limits", Value: "4096", Expected: strconv.FormatInt(memory, 10)},
		slice + "/memory.max":                               {Rule: "pod-limits", Value: "8192", Expected: "max"},
		bestEffort + "/cpu.weight":                          {Rule: "second-writer", Value: "1", Expected: "50"},
		"kubepods-besteffort.slice: ManagedOOMSwap":         {Rule: "systemd-oomd", Value: "kill", Expected: "auto"},
		fmt.Sprintf("/proc/%d/oom_score_adj", os.Getpid()):  {Rule: "oom-score", Expected: "1000"},
		"/proc/1/oom_score_adj":                             {Rule: "oom-score", Expected: "-999"},
		fmt.Sprintf("/proc/%d/oom_score_adj", fakenode.PID): {Rule: "oom-score", Expected: "-500"},
		"kubepods.slice/pids.max":                           {Rule: "node-limits", Value: "max"},
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
	var text bytes.Buffer
	if err := WriteText(&text, audited(t, fakenode.Audited(t))); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"error   node-limits: /sys/fs/cgroup/kubepods.slice/memory.max is 4096; expected ", "\n        why: ", "\n        see: https://kubernetes.io/",
		"\n        cure: systemctl set-property --runtime kubepods.slice MemoryMax=", "Formula of cpu.weight: unknown for the kubelet, unknown for the runtime",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("want %q in\n%s", want, &text)
		}
	}
}

// TestAuditUnknown: without a kubelet, and without its pods, the report says what it leaves out.
func TestAuditUnknown(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Broken)
	n.Cgroup("kubepods.slice", map[string]string{"memory.max": "4096", "cpu.max": "1000 100000"})
	n.Systemctl("257", "", "Id=kubepods.slice\nActiveState=active\nMemoryMax=4096")
	r := audited(t, n)
	if at(r, "kubepods.slice/memory.max") != nil || at(r, "kubepods.slice/cpu.max") == nil {
		t.Errorf("%+v", r.Findings)
	}
	if all := strings.Join(r.NotChecked, "\n"); !strings.Contains(all, "no kubelet runs as kubelet.service") || !strings.Contains(all, "does not serve its Pods API") ||
		!strings.Contains(all, "the partition's CPUs: ") {
		t.Errorf("not checked: %s", all)
	}
}

// TestAuditPodsError: the report repeats what the kubelet answers.
func TestAuditPodsError(t *testing.T) {
	t.Parallel()
	n := fakenode.Audited(t)
	n.RemoveAll(podsapi.DefaultSocket)
	n.ServeGRPC(podsapi.DefaultSocket, func(*grpc.Server) {})
	if all := strings.Join(audited(t, n).NotChecked, "\n"); !strings.Contains(all, "unknown service ") {
		t.Errorf("not checked: %s", all)
	}
}

// TestAuditNotPossible: a node that cannot be audited is an error, and not one without findings.
func TestAuditNotPossible(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Configuration(""))
	if r, err := Node(t.Context(), Options{Node: n.Host()}); err == nil || !strings.Contains(err.Error(), "kubepods.slice does not exist") {
		t.Errorf("%+v, %v", r, err)
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
		n := fakenode.New(t, fakenode.Configuration(""))
		n.Write("/etc/k.yaml", fakenode.Configuration(test.fields))
		n.Cgroup("kubepods.slice", map[string]string{"memory.max": "4096", "cpu.weight": "1", "pids.max": "max", "cpu.max": "max 100000"})
		n.Systemctl("257", "", "Id=kubelet.service\nControlGroup=/system.slice/kubelet.service")
		n.RunKubelet(append([]string{"--config=/etc/k.yaml"}, test.flags...)...)
		r, err := Node(t.Context(), Options{Node: n.Host(), PodsAPI: n.Host().Path(podsapi.DefaultSocket)})
		if test.want == "" {
			if f := at(r, "kubepods.slice/memory.max"); err != nil || f == nil || f.Value != "4096" {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %+v, %v; want %q", name, r, err, test.want)
		}
	}
}
