//go:build node

package e2e

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/lab"
)

// staticPolicy makes the kubelet assign CPUs exclusively. CPU 0 is the partition's, and no
// container gets it exclusively. More options may follow.
const staticPolicy = "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n"

const cpuState = "/var/lib/kubelet/cpu_manager_state"

// TestCPUManager: what the static CPU manager of a stock kubelet does to members. A member with
// whole CPUs gets some outside the partition and runs inside it, so that they idle. The rest run on
// the partition's CPUs, whatever the kubelet has set for them. Without NRI the static pods of the
// lab are not in the partition.
func TestCPUManager(t *testing.T) {
	onOne(t, func(t *testing.T, flavour string) {
		n := lab.ForTest(t, lab.Options{
			Flavour: flavour, CPUs: 3,
			Files: append(programs(), kubeletConfig(t, staticPolicy+partitionOf("512Mi", "0"))),
		})
		if err := n.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			name string
			test func(*testing.T, *lab.Node)
		}{
			{"whole CPUs", cpusExclusive},
			{"part of a CPU", cpusShared},
			{"strict reservation", cpusStrict},
			{"no cpuset", cpusWithoutSet},
		} {
			t.Run(step.name, func(t *testing.T) { step.test(t, n) })
		}
	})
}

// guaranteed is a pod of that class.
func guaranteed(namespace, name, cpu string) spec {
	return spec{namespace: namespace, name: name, requests: resources(cpu, "32Mi"), limits: resources(cpu, "32Mi")}
}

// cpusOf waits until the container of a pod has these CPUs: given by the kubelet, in effect in its
// cgroup, and in effect for its process.
func cpusOf(t *testing.T, n *lab.Node, namespace, pod, given, effective string) {
	t.Helper()
	scope := cgroupRoot + scopeOf(t, n, namespace, pod)
	becomes(t, n, "cat "+scope+"/cpuset.cpus "+scope+"/cpuset.cpus.effective | xargs", given+" "+effective)
	becomes(t, n, "awk '/^Cpus_allowed_list/ {print $2}' /proc/$(find "+scope+" -name cgroup.procs -exec cat {} + | head -1)/status", effective)
}

// idle waits until check lists these assignments of CPUs that idle.
func idle(t *testing.T, n *lab.Node, assignments string) {
	t.Helper()
	becomes(t, n, monitorPath+" check -v | grep -oE 'assigns the CPUs [0-9,-]+ to container [a-z]+ of the member [^ ]+' || true", assignments)
}

// cpusExclusive: CPU 1 belongs to a member that cannot run on it, and no other pod may.
func cpusExclusive(t *testing.T, n *lab.Node) {
	t.Helper()
	cpusOf(t, n, "kube-system", "system-agent", "0-2", "0")
	idle(t, n, "")
	member := guaranteed(members, "whole", "1")
	apply(t, n, member)
	inSlice(t, n, members, "whole", partition.System, v1.PodQOSGuaranteed)
	cpusOf(t, n, members, "whole", "1", "0")
	cpusOf(t, n, "default", "user-app", "0,2", "0,2")
	idle(t, n, "assigns the CPUs 1 to container main of the member kube-system/whole-"+n.Hostname)
	remove(t, n, member)
	cpusOf(t, n, "default", "user-app", "0-2", "0-2")
	idle(t, n, "")
}

// cpusShared: a member of the same class with a part of a CPU takes nothing from others.
func cpusShared(t *testing.T, n *lab.Node) {
	t.Helper()
	member, user := guaranteed(members, "part", "500m"), guaranteed("default", "user-whole", "1")
	apply(t, n, member, user)
	inSlice(t, n, members, "part", partition.System, v1.PodQOSGuaranteed)
	cpusOf(t, n, "default", "user-whole", "1", "1")
	cpusOf(t, n, members, "part", "0,2", "0")
	idle(t, n, "")
	remove(t, n, member, user)
}

// cpusStrict: with strict-cpu-reservation the kubelet gives no container a reserved CPU. Members
// run on the partition's CPUs all the same, and users' pods no longer.
func cpusStrict(t *testing.T, n *lab.Node) {
	t.Helper()
	reconfigureCPUs(t, n, staticPolicy+"cpuManagerPolicyOptions: {strict-cpu-reservation: \"true\"}\n"+partitionOf("512Mi", "0"))
	member := guaranteed(members, "part", "500m")
	apply(t, n, member)
	inSlice(t, n, members, "part", partition.System, v1.PodQOSGuaranteed)
	for _, pod := range []string{"part", "system-agent"} {
		cpusOf(t, n, members, pod, "1-2", "0")
	}
	cpusOf(t, n, "default", "user-app", "1-2", "1-2")
	idle(t, n, "")
	remove(t, n, member)
}

// cpusWithoutSet: in a partition without cpuset, a member runs on the CPUs that are its own.
func cpusWithoutSet(t *testing.T, n *lab.Node) {
	t.Helper()
	reconfigureCPUs(t, n, staticPolicy+partitionOf("512Mi", ""))
	member := guaranteed(members, "whole", "1")
	apply(t, n, member)
	inSlice(t, n, members, "whole", partition.System, v1.PodQOSGuaranteed)
	cpusOf(t, n, members, "whole", "1", "1")
	idle(t, n, "")
	remove(t, n, member)
}

// reconfigureCPUs restarts the kubelet with other settings of the CPU manager. It does not start
// with the state of other settings.
func reconfigureCPUs(t *testing.T, n *lab.Node, section string) {
	t.Helper()
	if err := n.CopyTo(t.Context(), kubeletConfig(t, section)); err != nil {
		t.Fatal(err)
	}
	run(t, n, "systemctl stop kubelet.service && rm "+cpuState)
	reload(t, n)
	run(t, n, "systemctl start kubelet.service")
	if err := n.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
}
