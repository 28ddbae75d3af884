//go:build node

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/tests/lab"
)

// TestAudit: on a node on which only the kubelet, the runtime and systemd have set values, check
// finds nothing in the cgroups. Each of the faults that follow is found, and nothing else is, and
// the change of each finding cures it.
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
			{"faults", auditProblems},
			{"partition", auditPartition},
			{"static CPU manager", auditStatic},
		} {
			t.Run(step.name, func(t *testing.T) { step.test(t, n) })
		}
	})
}

// auditCommand prints the findings, whatever the exit status is.
const auditCommand = monitorPath + " check --listen= -o json || true"

// treeChecks names the checks that compare cgroups.
var treeChecks = []string{
	"second-writer", "collective-limit", "cpu-manager",
}

// parseAudit returns what check has found in the cgroups, and what it has not compared.
func parseAudit(out string) (found, missing []state.Finding, err error) {
	var r struct{ Findings []state.Finding }
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		return nil, nil, fmt.Errorf("%w:\n%s", err, out)
	}
	for _, f := range r.Findings {
		switch {
		case f.Docs != "" && slices.Contains(treeChecks, f.Check):
			found = append(found, f)
		case strings.HasPrefix(f.Found, "not compared: "):
			missing = append(missing, f)
		}
	}
	return found, missing, nil
}

// audited runs commands and then check, at once: the kubelet writes some values every minute. All
// of the node has to be compared.
func audited(t *testing.T, n *lab.Node, commands ...string) []state.Finding {
	t.Helper()
	script := slices.Concat([]string{"set -e", "{ :"}, commands, []string{"} >/dev/null", auditCommand})
	found, missing, err := parseAudit(run(t, n, strings.Join(script, "\n")))
	if err != nil || len(missing) > 0 {
		t.Fatal(missing, err)
	}
	return found
}

// silent: nothing is found.
func silent(t *testing.T, n *lab.Node, found []state.Finding) {
	t.Helper()
	for _, f := range found {
		t.Errorf("%s: %s: %s; %s", n.Name, f.Check, f.Found, f.Change)
	}
}

// is reports whether the finding is of a check and about a path.
func (in injected) is(f state.Finding) bool {
	return f.Check == in.check && strings.HasPrefix(f.Found, in.path+" is ")
}

// The pods of the test, beside those of every node.
var (
	auditGuaranteed = spec{namespace: "default", name: "audit-guaranteed", requests: resources("300m", "32Mi"), limits: resources("300m", "32Mi")}
	// A quota of 125m is no whole percent of a CPU.
	auditBurstable = spec{namespace: "default", name: "audit-burstable", requests: resources("1m", "16Mi"), limits: resources("125m", "48Mi")}
)

// auditFresh: nothing is found beside pods of each class.
func auditFresh(t *testing.T, n *lab.Node) {
	silent(t, n, audited(t, n))
	apply(t, n, auditGuaranteed, auditBurstable)
	becomesFound(t, n, nil)
}

// injected is a fault: a command, and the finding that it causes.
type injected struct{ command, check, path string }

// setProperty returns a fault by systemd.
func setProperty(cgroup, assignment, name string) injected {
	return injected{fmt.Sprintf("systemctl set-property --runtime %s %s", path.Base(cgroup), assignment), "collective-limit", cgroupRoot + cgroup + "/" + name}
}

// second returns a fault by a writer beside systemd.
func second(cgroup, name, value string) injected {
	target := cgroupRoot + cgroup + "/" + name
	return injected{fmt.Sprintf("echo %s > %s", value, target), "second-writer", target}
}

// auditProblems puts in faults that do not disturb each other, and audits the node once.
func auditProblems(t *testing.T, n *lab.Node) {
	const kubepods = "kubepods.slice"
	app := partition.CgroupPath(partition.PodSlice(partition.Default, v1.PodQOSBurstable, uidOf(t, n, "default", "user-app")))
	faults := []injected{
		setProperty(kubepods, "CPUQuota=150%", "cpu.max"),
		setProperty(kubepods, "MemoryHigh=1G", "memory.high"),
		// systemd writes a file again when it applies another property of the unit, so these are last.
		second("system.slice", "memory.max", strconv.Itoa(8<<30)),
		second("system.slice", "pids.max", "50000"),
		second("system.slice", "cpu.weight", "55"),
		second(app, "memory.max", strconv.Itoa(1<<30)),
		second(app, "pids.max", "800"),
	}
	commands := make([]string, 0, len(faults))
	for _, f := range faults {
		commands = append(commands, f.command)
	}
	found := audited(t, n, commands...)
	wantFound(t, n, found, faults)
	silent(t, n, audited(t, n, cures(t, found)...))
}

// wantFound: the report has these findings, each once, and no other.
func wantFound(t *testing.T, n *lab.Node, found []state.Finding, faults []injected) {
	t.Helper()
	for _, f := range found {
		if !slices.ContainsFunc(faults, func(in injected) bool { return in.is(f) }) {
			t.Errorf("%s: found beside the faults: %s: %s", n.Name, f.Check, f.Found)
		}
	}
	for _, in := range faults {
		if times := len(slices.DeleteFunc(slices.Clone(found), func(f state.Finding) bool { return !in.is(f) })); times != 1 {
			t.Errorf("%s: %q is found %d times at %s", n.Name, in.command, times, in.path)
		}
	}
}

// cures returns the commands that findings advise.
func cures(t *testing.T, found []state.Finding) []string {
	t.Helper()
	var commands []string
	for _, f := range found {
		if strings.HasPrefix(f.Change, "set ") {
			t.Errorf("%s: the change is no command: %s", f.Check, f.Change)
			continue
		}
		commands = append(commands, f.Change)
	}
	return commands
}

// auditPartition: user pods run on the CPUs of a partition, as the kubelet does not keep them away.
func auditPartition(t *testing.T, n *lab.Node) {
	if err := n.CopyTo(t.Context(), kubeletConfig(t, partitionOf("512Mi", "0"))); err != nil {
		t.Fatal(err)
	}
	remove(t, n, auditGuaranteed, auditBurstable)
	found := audited(t, n)
	if len(found) != 1 || found[0].Check != "cpu-manager" || !strings.Contains(found[0].Found, "/cpuset.cpus.effective is ") {
		t.Errorf("%s: %+v; want one finding about the CPUs of user pods", n.Name, found)
	}
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

// becomesFound waits until check has these findings in the cgroups and no others: after a start the
// kubelet writes limits and CPUs within seconds.
func becomesFound(t *testing.T, n *lab.Node, faults []injected) {
	t.Helper()
	eventually(t, n, "these findings", func(ctx context.Context) (bool, string, error) {
		out, err := n.Run(ctx, auditCommand)
		if err != nil {
			return false, "", err
		}
		found, missing, err := parseAudit(out)
		same := len(found) == len(faults) && len(missing) == 0
		for _, in := range faults {
			same = same && slices.ContainsFunc(found, in.is)
		}
		return same, fmt.Sprintf("%+v, not compared %+v", found, missing), err
	})
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
	restartedKubelet(t, n, "cpuManagerPolicy: static\nreservedSystemCPUs: '0'\n"+partitionOf("512Mi", "0"))
	apply(t, n, spec{namespace: "kube-system", name: "whole", requests: resources("1", "32Mi"), limits: resources("1", "32Mi")})
	becomesFound(t, n, []injected{
		{"no strict-cpu-reservation", "cpu-manager", lab.KubeletConfigPath + ": cpuManagerPolicyOptions.strict-cpu-reservation"},
		{"a member with CPU 1", "cpu-manager", cgroupRoot + scopeOf(t, n, "kube-system", "whole") + "/cpuset.cpus"},
	})
}
