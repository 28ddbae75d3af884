//go:build node

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"nodepartition/internal/audit"
	"nodepartition/internal/cpuweight"
	"nodepartition/internal/unitname"
	"nodepartition/tests/lab"
)

// TestAudit: a node on which only the kubelet, the runtime and systemd have set values has no
// finding. Each of the faults that follow is found, and nothing else is, and the cure of each
// finding cures it.
func TestAudit(t *testing.T) {
	onEach(t, kinds(allFlavours(), "trixie"), func(t *testing.T, flavour string) {
		n := lab.ForTest(t, lab.Options{Flavour: flavour, Restore: true})
		if err := n.CopyTo(t.Context(), programs()...); err != nil {
			t.Fatal(err)
		}
		if err := n.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, step := range []step{
			{"fresh", auditFresh},
			{"weights", auditWeights},
			{"faults", auditFaults},
			{"classes", auditClasses},
			{"partition", auditPartition},
			{"system container", auditSystemContainer},
			{"static CPU manager", auditStatic},
		} {
			t.Run(step.name, func(t *testing.T) { step.test(t, n) })
		}
	})
}

// auditCommand prints the report, whatever the exit status is. It ends with the status.
const auditCommand = monitorPath + " audit -o json; echo $?"

// parseAudit returns the report in the output of auditCommand.
func parseAudit(out string) (audit.Report, error) {
	var r audit.Report
	out = strings.TrimSpace(out)
	i := strings.LastIndexByte(out, '\n')
	if err := json.Unmarshal([]byte(out[:max(i, 0)]), &r); err != nil {
		return r, fmt.Errorf("%w:\n%s", err, out)
	}
	want := "0"
	if len(r.Findings) > 0 {
		want = "1"
	}
	if got := out[i+1:]; got != want {
		return r, fmt.Errorf("exit status %s with %d findings, want %s", got, len(r.Findings), want)
	}
	return r, nil
}

// audited runs commands and then an audit, at once: the kubelet writes some values every minute.
func audited(t *testing.T, n *lab.Node, commands ...string) audit.Report {
	t.Helper()
	// sysctl prints what it sets.
	script := slices.Concat([]string{"set -e", "{ :"}, commands, []string{"} >/dev/null", "set +e", auditCommand})
	r, err := parseAudit(run(t, n, strings.Join(script, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// silent: nothing is found, and all of the node was checked.
func silent(t *testing.T, n *lab.Node, r audit.Report) {
	t.Helper()
	for _, f := range r.Findings {
		t.Errorf("%s: %s: %s is %q, expected %q; %s", n.Name, f.Rule, f.Path, f.Value, f.Expected, f.Cure)
	}
	if len(r.NotChecked) > 0 {
		t.Errorf("%s: not checked: %q", n.Name, r.NotChecked)
	}
}

// The pods of the test, beside those of every node.
var (
	auditGuaranteed = spec{namespace: "default", name: "audit-guaranteed", requests: resources("300m", "32Mi"), limits: resources("300m", "32Mi")}
	// A quota of 125m is no whole percent of a CPU.
	auditBurstable = spec{namespace: "default", name: "audit-burstable", requests: resources("1m", "16Mi"), limits: resources("125m", "48Mi")}
)

// auditFresh: the report has the formulas of this kubelet and this runtime.
func auditFresh(t *testing.T, n *lab.Node) {
	silent(t, n, audited(t, n))
	apply(t, n, auditGuaranteed, auditBurstable)
	var r audit.Report
	// A pod that has just started is not counted in its class yet.
	eventually(t, n, "an audit without findings", func(ctx context.Context) (bool, string, error) {
		out, err := n.Run(ctx, auditCommand)
		if err != nil {
			return false, "", err
		}
		r, err = parseAudit(out)
		return err == nil && len(r.Findings) == 0, fmt.Sprintf("%+v", r.Findings), err
	})
	silent(t, n, r)
	want := audit.Formulas{Kubelet: cpuweight.Linear.Name, Runtime: cpuweight.Linear.Name}
	if strings.HasPrefix(n.Flavour, "forky") {
		want.Runtime = cpuweight.Quadratic.Name
	}
	if r.Formulas != want {
		t.Errorf("%s: formulas %+v, want %+v", n.Name, r.Formulas, want)
	}
}

// auditWeights: the runtime converts shares, from 2 to 262144, by the formula that the audit finds.
func auditWeights(t *testing.T, n *lab.Node) {
	r := audited(t, n)
	formula := cpuweight.Linear
	if r.Formulas.Runtime == cpuweight.Quadratic.Name {
		formula = cpuweight.Quadratic
	}
	flavour, err := lab.FlavourByName(n.Flavour)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("passthrough:///"+n.Name, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return n.Dial(ctx, "unix", flavour.Socket) }))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	runtime := cri.NewRuntimeServiceClient(conn)
	scope := scopeOf(t, n, "default", "user-app")
	id := unitname.ContainerID(path.Base(scope))
	// The last restores the request of 100m.
	for _, shares := range []uint64{2, 3, 29, 512, 1024, 2048, 10240, 65536, 262_143, 262_144, 102} {
		wanted := strconv.FormatUint(formula.Weight(shares), 10)
		// The kubelet may restore its request, as it resizes a container, between the two.
		eventually(t, n, fmt.Sprintf("%d shares have the weight %s", shares, wanted), func(ctx context.Context) (bool, string, error) {
			_, err := runtime.UpdateContainerResources(ctx, &cri.UpdateContainerResourcesRequest{
				ContainerId: id, Linux: &cri.LinuxContainerResources{CpuShares: int64(shares)},
			})
			if err != nil {
				return false, "", err
			}
			out, err := n.Run(ctx, "cat "+cgroupRoot+scope+"/cpu.weight")
			got := strings.TrimSpace(out)
			return got == wanted, got, err
		})
	}
}

// injected is a fault: a command, and the finding that it causes.
type injected struct{ command, rule, path string }

// setProperty returns a fault by systemd.
func setProperty(rule, cgroup, assignment, name string) injected {
	return injected{fmt.Sprintf("systemctl set-property --runtime %s %s", path.Base(cgroup), assignment), rule, cgroupRoot + cgroup + "/" + name}
}

// second returns a fault by a writer beside systemd.
func second(cgroup, name, value string) injected {
	target := cgroupRoot + cgroup + "/" + name
	return injected{fmt.Sprintf("echo %s > %s", value, target), "second-writer", target}
}

func sysctl(name string, value int) injected {
	return injected{fmt.Sprintf("sysctl -qw %s=%d", name, value), "kernel-parameter", "/proc/sys/" + strings.ReplaceAll(name, ".", "/")}
}

func oomScore(pid string, score int) injected {
	target := "/proc/" + pid + "/oom_score_adj"
	return injected{fmt.Sprintf("echo %d > %s", score, target), "oom-score", target}
}

// auditFaults puts in faults that do not disturb each other, and audits the node once.
func auditFaults(t *testing.T, n *lab.Node) {
	slice := func(name string, q v1.PodQOSClass) string {
		return unitname.CgroupPath(unitname.PodSlice(unitname.Default, q, uidOf(t, n, "default", name)))
	}
	kubepods, burstable, besteffort := "kubepods.slice", "kubepods.slice/kubepods-burstable.slice", "kubepods.slice/kubepods-besteffort.slice"
	guaranteed := slice("audit-guaranteed", v1.PodQOSGuaranteed)
	limited, app := slice("audit-burstable", v1.PodQOSBurstable), slice("user-app", v1.PodQOSBurstable)
	none := slice("user-besteffort", v1.PodQOSBestEffort)
	container := scopeOf(t, n, "default", "audit-guaranteed")
	pids := strings.Fields(run(t, n, "systemctl show --value -p MainPID kubelet.service "+runtimeUnit(n.Flavour)+"; find "+cgroupRoot+
		scopeOf(t, n, "default", "user-besteffort")+" -name cgroup.procs -exec cat {} + | head -1"))
	if len(pids) != 3 {
		t.Fatalf("processes %q", pids)
	}
	faults := []injected{
		setProperty("node-limits", kubepods, "MemoryMax=infinity", "memory.max"),
		setProperty("node-limits", kubepods, "CPUWeight=100", "cpu.weight"),
		setProperty("node-limits", kubepods, "TasksMax=20000", "pids.max"),
		setProperty("node-limits", kubepods, "AllowedCPUs=0", "cpuset.cpus"),
		setProperty("collective-limit", kubepods, "CPUQuota=150%", "cpu.max"),
		setProperty("collective-limit", kubepods, "MemoryHigh=1G", "memory.high"),
		setProperty("collective-limit", burstable, "CPUQuota=120%", "cpu.max"),
		setProperty("collective-limit", burstable, "MemoryMax=1G", "memory.max"),
		setProperty("collective-limit", burstable, "TasksMax=9000", "pids.max"),
		setProperty("collective-limit", besteffort, "MemoryMax=1G", "memory.max"),
		setProperty("collective-limit", besteffort, "CPUQuota=50%", "cpu.max"),
		setProperty("pod-limits", guaranteed, "MemoryMax=infinity", "memory.max"),
		setProperty("pod-limits", guaranteed, "CPUQuota=", "cpu.max"),
		setProperty("pod-limits", guaranteed, "CPUWeight=77", "cpu.weight"),
		setProperty("pod-limits", guaranteed, "TasksMax=900", "pids.max"),
		setProperty("pod-limits", limited, "MemoryMax=64M", "memory.max"),
		setProperty("pod-limits", limited, "CPUQuota=40%", "cpu.max"),
		setProperty("pod-limits", none, "MemoryMax=512M", "memory.max"),
		setProperty("pod-limits", none, "CPUWeight=90", "cpu.weight"),
		setProperty("container-limits", container, "MemoryMax=infinity", "memory.max"),
		setProperty("container-limits", container, "CPUQuota=90%", "cpu.max"),
		setProperty("container-limits", container, "CPUWeight=77", "cpu.weight"),
		{"systemctl set-property --runtime kubepods.slice ManagedOOMMemoryPressure=kill", "systemd-oomd", "kubepods.slice: ManagedOOMMemoryPressure"},
		{"systemctl set-property --runtime -- -.slice ManagedOOMSwap=kill", "systemd-oomd", "-.slice: ManagedOOMSwap"},
		sysctl("vm.overcommit_memory", 0),
		sysctl("vm.panic_on_oom", 1),
		sysctl("kernel.panic", 0),
		sysctl("kernel.panic_on_oops", 0),
		sysctl("kernel.keys.root_maxkeys", 900_000),
		oomScore(pids[0], 0),
		oomScore(pids[1], -900),
		oomScore(pids[2], -500),
		// systemd writes a file again when it applies another property of the unit, so these are last.
		second("system.slice", "memory.max", strconv.Itoa(8<<30)),
		second("system.slice", "pids.max", "50000"),
		second("system.slice", "cpu.weight", "55"),
		second(app, "memory.max", strconv.Itoa(1<<30)),
		second(app, "pids.max", "800"),
		second(app, "cpu.max", "'90000 100000'"),
	}
	commands := make([]string, 0, len(faults))
	for _, f := range faults {
		commands = append(commands, f.command)
	}
	r := audited(t, n, commands...)
	wantFound(t, n, r, faults)
	silent(t, n, audited(t, n, cures(t, r)...))
}

// wantFound: the report has these findings, each once, and no other.
func wantFound(t *testing.T, n *lab.Node, r audit.Report, faults []injected) {
	t.Helper()
	for _, f := range r.Findings {
		if !slices.ContainsFunc(faults, func(in injected) bool { return in.path == f.Path && in.rule == f.Rule }) {
			t.Errorf("%s: %s found beside the faults: %s is %q, expected %q", n.Name, f.Rule, f.Path, f.Value, f.Expected)
		}
	}
	for _, in := range faults {
		times := 0
		for _, f := range r.Findings {
			if f.Path == in.path && f.Rule == in.rule {
				times++
			}
		}
		if times != 1 {
			t.Errorf("%s: %q is found %d times at %s", n.Name, in.command, times, in.path)
		}
	}
}

// cures returns the commands that a report advises.
func cures(t *testing.T, r audit.Report) []string {
	t.Helper()
	var commands []string
	for _, f := range r.Findings {
		if strings.HasPrefix(f.Cure, "set ") {
			t.Errorf("%s: %s: the cure is no command: %s", f.Rule, f.Path, f.Cure)
			continue
		}
		commands = append(commands, f.Cure)
	}
	return commands
}

// auditClasses: the weights of the classes. The kubelet writes them every minute, perhaps between
// the fault and the audit.
func auditClasses(t *testing.T, n *lab.Node) {
	const class = "kubepods.slice/kubepods-"
	faults := []injected{
		setProperty("qos-weight", class+"burstable.slice", "CPUWeight=100", "cpu.weight"),
		setProperty("qos-weight", class+"besteffort.slice", "CPUWeight=100", "cpu.weight"),
	}
	var r audit.Report
	eventually(t, n, "both weights in an audit", func(ctx context.Context) (bool, string, error) {
		out, err := n.Run(ctx, faults[0].command+"; "+faults[1].command+"; "+auditCommand)
		if err != nil {
			return false, "", err
		}
		r, err = parseAudit(out)
		return len(r.Findings) >= len(faults), fmt.Sprintf("%+v", r.Findings), err
	})
	wantFound(t, n, r, faults)
	silent(t, n, audited(t, n, cures(t, r)...))
	remove(t, n, auditGuaranteed, auditBurstable)
}

// auditPartition: user pods run on the CPUs of a partition, as the kubelet does not keep them away.
// check says so too.
func auditPartition(t *testing.T, n *lab.Node) {
	if err := n.CopyTo(t.Context(), kubeletConfig(t, partition("512Mi", "0"))); err != nil {
		t.Fatal(err)
	}
	r := audited(t, n)
	if len(r.Findings) != 1 || r.Findings[0].Rule != audit.RulePartitionCPUs || !strings.HasSuffix(r.Findings[0].Path, "/cpuset.cpus.effective") {
		t.Errorf("%s: %+v; want one finding about the CPUs of user pods", n.Name, r.Findings)
	}
	want(t, n, monitorPath+" check --listen= | grep -o '^warning cpu-manager' || true", "warning cpu-manager")
}

// restartedKubelet restarts the kubelet with another configuration. It does not start with the
// state of another CPU manager policy.
func restartedKubelet(t *testing.T, n *lab.Node, section string) {
	t.Helper()
	if err := n.CopyTo(t.Context(), kubeletConfig(t, section)); err != nil {
		t.Fatal(err)
	}
	run(t, n, "systemctl stop kubelet.service; rm -f /var/lib/kubelet/cpu_manager_state; systemctl start kubelet.service")
	if err := n.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// becomesFound waits until the audit has these findings and no others: after a start the kubelet
// writes limits and CPUs within seconds.
func becomesFound(t *testing.T, n *lab.Node, faults []injected) {
	t.Helper()
	eventually(t, n, "these findings", func(ctx context.Context) (bool, string, error) {
		out, err := n.Run(ctx, auditCommand)
		if err != nil {
			return false, "", err
		}
		// There is no report while the kubelet starts.
		r, err := parseAudit(out)
		if err != nil {
			return false, out, err
		}
		same := len(r.Findings) == len(faults)
		for _, in := range faults {
			same = same && slices.ContainsFunc(r.Findings, func(f audit.Finding) bool { return f.Rule == in.rule && f.Path == in.path })
		}
		return same, fmt.Sprintf("%+v, not checked %q", r.Findings, r.NotChecked), nil
	})
}

// auditSystemContainer: the kubelet is in the cgroup whose resources are reserved for others. The
// limit of that cgroup is the reservation, and is no finding.
func auditSystemContainer(t *testing.T, n *lab.Node) {
	restartedKubelet(t, n, ofSystemSlice)
	becomesFound(t, n, []injected{{"the kubelet in system.slice", "kubelet-cgroup", cgroupRoot + "system.slice/kubelet.service"}})
	// The limit that the kubelet wrote stays when it does not ask for it any more.
	run(t, n, "systemctl set-property --runtime system.slice MemoryMax=infinity CPUWeight=100")
}

// auditStatic: the static CPU manager lets user pods onto reserved CPUs, and assigns a CPU to a
// member, which that does not use.
func auditStatic(t *testing.T, n *lab.Node) {
	// One CPU is reserved, and the member requests the other: no other pod may request any.
	for _, name := range []string{"system-agent", "user-app"} {
		if err := n.DeletePod(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.WaitNoPod(t.Context(), "kube-system", "system-agent"); err != nil {
		t.Fatal(err)
	}
	if err := n.WaitNoPod(t.Context(), "default", "user-app"); err != nil {
		t.Fatal(err)
	}
	restartedKubelet(t, n, "cpuManagerPolicy: static\nreservedSystemCPUs: '0'\n"+partition("512Mi", "0"))
	apply(t, n, spec{namespace: "kube-system", name: "whole", requests: resources("1", "32Mi"), limits: resources("1", "32Mi")})
	becomesFound(t, n, []injected{
		{"no strict-cpu-reservation", audit.RulePartitionCPUs, lab.KubeletConfigPath + ": cpuManagerPolicyOptions.strict-cpu-reservation"},
		{"a member with CPU 1", audit.RulePartitionCPUs, cgroupRoot + scopeOf(t, n, "kube-system", "whole") + "/cpuset.cpus"},
	})
}
