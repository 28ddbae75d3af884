//go:build node

package e2e

import (
	"context"
	"strings"
	"testing"

	"node-partition.io/node-partition/tests/lab"
)

// enforced makes the kubelet limit two cgroups that no node has. The first is below another slice,
// and the second below the root. The kubelet converts both to the names of slices.
const enforced = `kubeReserved: {cpu: 100m, memory: 512Mi}
systemReserved: {cpu: 50m, memory: 256Mi}
enforceNodeAllocatable: [pods, kube-reserved, system-reserved]
kubeReservedCgroup: /kube-reserved
systemReservedCgroup: /os.slice
`

const (
	kubeReservedCgroup   = cgroupRoot + "kube.slice/kube-reserved.slice"
	systemReservedCgroup = cgroupRoot + "os.slice"
	// ofSystemSlice makes the kubelet limit system.slice alone, which every node has.
	ofSystemSlice = `systemReserved: {memory: 2Gi}
enforceNodeAllocatable: [pods, system-reserved]
systemReservedCgroup: /system.slice
`
)

// TestReserved: a kubelet whose reserved cgroups do not exist does not start. With the generator it
// does.
func TestReserved(t *testing.T) {
	onEach(t, kinds(debians(), "trixie"), func(t *testing.T, flavour string) {
		n := lab.ForTest(t, lab.Options{Flavour: flavour, Restore: true})
		for _, step := range []step{
			{"without generator", reservedWithout},
			{"with generator", reservedWith},
			{"kubelet restarted", reservedKubeletRestarted},
			{"reloaded", reservedReloaded},
		} {
			t.Run(step.name, func(t *testing.T) { step.test(t, n) })
		}
	})
}

// TestReservedBoot: a node boots with reserved cgroups, with services in a slice of their own, and
// with the limit of system.slice alone.
func TestReservedBoot(t *testing.T) {
	onEach(t, kinds(debians(), "trixie"), func(t *testing.T, flavour string) {
		n := lab.ForTest(t, lab.Options{Flavour: flavour, Files: append(programs(), kubeletConfig(t, enforced))})
		for _, step := range []step{
			{"reserved cgroups", reservedBooted},
			{"services", servicesMoved},
			{"system.slice", systemSliceAlone},
		} {
			t.Run(step.name, func(t *testing.T) { step.test(t, n) })
		}
	})
}

// step is a part of a test that continues on the node of the part before it.
type step struct {
	name string
	test func(*testing.T, *lab.Node)
}

// reservedWithout: the kubelet ends at its start, again and again.
func reservedWithout(t *testing.T, n *lab.Node) {
	t.Helper()
	if err := n.CopyTo(t.Context(), kubeletConfig(t, enforced)); err != nil {
		t.Fatal(err)
	}
	run(t, n, "systemctl restart --no-block kubelet.service")
	eventually(t, n, "a kubelet that has ended twice", func(ctx context.Context) (bool, string, error) {
		out, err := n.Run(ctx, "journalctl -b -o cat -u kubelet.service | grep -c 'Failed to enforce .* Reserved Cgroup Limits on' || true")
		got := strings.TrimSpace(out)
		return got != "0" && got != "1", got, err
	})
	want(t, n, "ls -d "+kubeReservedCgroup+" "+systemReservedCgroup+" 2>/dev/null || echo none", "none")
}

// reservedWith: the same configuration, with the generator.
func reservedWith(t *testing.T, n *lab.Node) {
	t.Helper()
	if err := n.CopyTo(t.Context(), programs()...); err != nil {
		t.Fatal(err)
	}
	run(t, n, "systemctl daemon-reload && systemctl restart --no-block kubelet.service")
	reservedEnforced(t, n)
	want(t, n, "journalctl -b -o cat -p notice -t partition-generator", "")
	want(t, n, "journalctl -b -o cat -p warning _PID=1 | grep -E 'kube-reserved|os.slice|50-node-partition|partition-generator' || true", "")
	want(t, n, "systemd-analyze --man=no verify kube-reserved.slice os.slice kubelet.service slices.target 2>&1", "")
	// No partition was asked for.
	want(t, n, "systemctl list-units --all --plain --no-legend 'kubepods-system*' 'partition-monitor*'", "")
}

// reservedEnforced: the kubelet runs, and has limited both slices. They have the controllers that
// it expects.
func reservedEnforced(t *testing.T, n *lab.Node) {
	t.Helper()
	if err := n.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	becomes(t, n, "cat "+kubeReservedCgroup+"/memory.max", "536870912")
	becomes(t, n, "cat "+systemReservedCgroup+"/memory.max", "268435456")
	for _, cgroup := range []string{kubeReservedCgroup, systemReservedCgroup} {
		want(t, n, "grep -owE 'cpu|cpuset|memory|hugetlb|pids' "+cgroup+"/cgroup.controllers | sort | xargs",
			run(t, n, "grep -owE 'cpu|cpuset|memory|hugetlb|pids' "+cgroupRoot+"cgroup.controllers | sort | xargs"))
	}
	want(t, n, "systemctl is-active kubelet.service", "active")
	want(t, n, "systemctl --failed --plain --no-legend", "")
}

func reservedKubeletRestarted(t *testing.T, n *lab.Node) {
	t.Helper()
	run(t, n, "systemctl restart kubelet.service")
	reservedEnforced(t, n)
	want(t, n, "systemctl show --value -p NRestarts kubelet.service", "0")
}

// reservedReloaded: a reload, which writes the units again, leaves the kubelet's limits as they
// are.
func reservedReloaded(t *testing.T, n *lab.Node) {
	t.Helper()
	weight := run(t, n, "cat "+kubeReservedCgroup+"/cpu.weight")
	run(t, n, "systemctl daemon-reload && systemctl start slices.target")
	want(t, n, "cat "+kubeReservedCgroup+"/cpu.weight", weight)
	reservedEnforced(t, n)
}

// reservedBooted: the slices exist when the kubelet starts for the first and only time.
func reservedBooted(t *testing.T, n *lab.Node) {
	t.Helper()
	reservedEnforced(t, n)
	want(t, n, "systemctl show --value -p NRestarts kubelet.service", "0")
	kubelet := number(t, n, "kubelet.service", "ExecMainStartTimestampMonotonic")
	for _, slice := range []string{"kube-reserved.slice", "os.slice"} {
		if active := number(t, n, slice, "ActiveEnterTimestampMonotonic"); active == 0 || active >= kubelet {
			t.Errorf("%s is active %d µs after boot, the kubelet starts at %d; want it before", slice, active, kubelet)
		}
	}
}

func rebooted(t *testing.T, n *lab.Node) {
	t.Helper()
	if err := n.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := n.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// servicesMoved: kubelet and runtime run in a slice of their own, on the partition's CPUs. Pods of
// users run on all CPUs, and the monitor finds the kubelet.
func servicesMoved(t *testing.T, n *lab.Node) {
	t.Helper()
	settings := "SERVICES_SLICE=kubernetes.slice\nSERVICES_CPUS=partition\nSERVICES_OOM_SCORE_ADJUST=-999\nSYSTEM_CPUS=partition\n"
	if err := n.WriteFile(t.Context(), "/etc/default/node-partition", []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	const inSlice = "kubeReserved: {memory: 2Gi}\nenforceNodeAllocatable: [pods, kube-reserved]\nkubeReservedCgroup: /kubernetes.slice\n"
	if err := n.CopyTo(t.Context(), kubeletConfig(t, inSlice+partitionOf("512Mi", "0"))); err != nil {
		t.Fatal(err)
	}
	rebooted(t, n)
	becomes(t, n, "cat "+cgroupRoot+"kubernetes.slice/memory.max", "2147483648")
	for _, service := range []string{"kubelet.service", runtimeUnit(n.Flavour)} {
		want(t, n, "systemctl show --value -p ControlGroup "+service, "/kubernetes.slice/"+service)
		want(t, n, "cat "+cgroupRoot+"kubernetes.slice/"+service+"/cpuset.cpus.effective", "0")
		process := "/proc/$(systemctl show --value -p MainPID " + service + ")/"
		want(t, n, "awk '/^Cpus_allowed_list/ {print $2}' "+process+"status", "0")
		want(t, n, "cat "+process+"oom_score_adj", "-999")
	}
	hostRunsOn(t, n, "0")
	// Containers are started by a process of the runtime's service.
	user := cgroupRoot + scopeOf(t, n, "default", "user-app")
	want(t, n, "awk '/^Cpus_allowed_list/ {print $2}' /proc/$(find "+user+" -name cgroup.procs -exec cat {} + | head -1)/status", "0-1")
	want(t, n, "systemctl --failed --plain --no-legend", "")
	becomes(t, n, monitorPath+" check -v | grep -oE '^ok +(kubelet: process|reserved: the cgroups)' | tr -s ' ' | xargs",
		"ok kubelet: process ok reserved: the cgroups")
}

// systemSliceAlone: nothing is written for system.slice. The limit on it is the kubelet's.
func systemSliceAlone(t *testing.T, n *lab.Node) {
	t.Helper()
	run(t, n, "rm /etc/default/node-partition")
	if err := n.CopyTo(t.Context(), kubeletConfig(t, ofSystemSlice)); err != nil {
		t.Fatal(err)
	}
	rebooted(t, n)
	becomes(t, n, "cat "+cgroupRoot+"system.slice/memory.max", "2147483648")
	want(t, n, "cd /run/systemd/generator && find . ../generator.*/ ! -type d | grep -e node-partition -e slice || true",
		"./slices.target.d/50-node-partition.conf") // which waits for a section
	want(t, n, "systemctl show --value -p FragmentPath system.slice", "")
}
