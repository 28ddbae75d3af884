//go:build node

package e2e

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/tests/lab"
)

// kubeletFlags is the file with arguments of the lab's kubelet.
const kubeletFlags = "/etc/default/kubelet"

// TestExclusiveCPUManager: exclusive CPUs beside those that the static CPU manager of a stock
// kubelet assigns, with and without its option strict-cpu-reservation, and where the kubelet
// assigns CPUs of a partition that it does not know as reserved.
func TestExclusiveCPUManager(t *testing.T) {
	onOne(t, func(t *testing.T, flavour string) {
		n := lab.ForTest(t, lab.Options{
			Flavour: flavour, CPUs: 4, Files: append(programs(), kubeletConfig(t, exclusiveStatic("", false))),
		})
		if err := n.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			name string
			test func(*testing.T, *lab.Node)
		}{
			{"reserved", poolReserved},
			{"strict reservation", poolStrict},
			{"assigned", poolAssigned},
			{"reserved while it is assigned", poolReservedLate},
		} {
			if !t.Run(step.name, func(t *testing.T) { step.test(t, n) }) {
				return
			}
		}
	})
}

// exclusiveStatic is a configuration in which the kubelet reserves two CPUs, and one of them is a
// partition's, for itself or not. More options of the CPU manager may precede.
func exclusiveStatic(options string, on bool) string {
	return "cpuManagerPolicy: static\nreservedSystemCPUs: \"0-1\"\n" + options + exclusive{telemetry, "1", on}.sections()
}

// pools are the pods of these tests, all static: two members and a pod of a user, of which one each
// requests a whole CPU. The node has another pod of a user.
func pools() (member, wholeMember, whole spec) {
	return spec{namespace: string(telemetry), name: "member", requests: resources("50m", "16Mi")},
		guaranteed(string(telemetry), "whole-member", "1"), guaranteed(v1.NamespaceDefault, "whole", "1")
}

// poolReserved: the kubelet reserves the CPU, and assigns others. It has the reserved CPUs in its
// shared pool, and exclusive takes one of them from the pods there.
func poolReserved(t *testing.T, n *lab.Node) {
	t.Helper()
	member, wholeMember, whole := pools()
	apply(t, n, member, whole)
	inSlice(t, n, member.namespace, member.name, telemetry, v1.PodQOSBurstable)
	for _, step := range []struct {
		on   bool
		user string
	}{{false, "0-1,3"}, {true, "0,3"}, {false, "0-1,3"}, {true, "0,3"}} {
		configure(t, n, exclusiveStatic("", step.on))
		cpusOf(t, n, "default", "user-app", "0-1,3", step.user)
		cpusOf(t, n, whole.namespace, whole.name, "2", "2")
		cpusOf(t, n, member.namespace, member.name, "0-1,3", "1")
	}
	remove(t, n, whole)
	apply(t, n, wholeMember)
	inSlice(t, n, wholeMember.namespace, wholeMember.name, telemetry, v1.PodQOSGuaranteed)
	cpusOf(t, n, wholeMember.namespace, wholeMember.name, "2", "1")
	cpusOf(t, n, "default", "user-app", "0-1,3", "0,3")
	remove(t, n, wholeMember)
	cpusOf(t, n, "default", "user-app", "0-3", "0,2-3")
}

// poolStrict: the kubelet's shared pool has no reserved CPU, and exclusive changes nothing for
// users.
func poolStrict(t *testing.T, n *lab.Node) {
	t.Helper()
	const strict = "cpuManagerPolicyOptions: {strict-cpu-reservation: \"true\"}\n"
	member, wholeMember, whole := pools()
	reconfigureCPUs(t, n, exclusiveStatic(strict, true))
	apply(t, n, whole)
	for _, on := range []bool{true, false, true} {
		configure(t, n, exclusiveStatic(strict, on))
		cpusOf(t, n, "default", "user-app", "3", "3")
		cpusOf(t, n, whole.namespace, whole.name, "2", "2")
		cpusOf(t, n, member.namespace, member.name, "3", "1")
	}
	remove(t, n, whole)
	apply(t, n, wholeMember)
	inSlice(t, n, wholeMember.namespace, wholeMember.name, telemetry, v1.PodQOSGuaranteed)
	cpusOf(t, n, wholeMember.namespace, wholeMember.name, "2", "1")
	remove(t, n, wholeMember)
}

// poolAssigned: by its command line the kubelet does not reserve the CPU, and assigns it to a pod
// of a user. That pod keeps off it, and shares the others with all pods. It has its CPU again when
// exclusive ends.
func poolAssigned(t *testing.T, n *lab.Node) {
	t.Helper()
	member, _, whole := pools()
	if err := n.WriteFile(t.Context(), kubeletFlags, []byte("KUBELET_EXTRA_ARGS=--reserved-cpus=0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	reconfigureCPUs(t, n, exclusiveStatic("", true))
	apply(t, n, whole)
	for _, step := range []struct {
		on        bool
		effective string
	}{{true, "0,2-3"}, {false, "1"}, {true, "0,2-3"}} {
		configure(t, n, exclusiveStatic("", step.on))
		cpusOf(t, n, whole.namespace, whole.name, "1", step.effective)
		cpusOf(t, n, "default", "user-app", "0,2-3", "0,2-3")
		cpusOf(t, n, member.namespace, member.name, "0,2-3", "1")
	}
	becomes(t, n, monitorPath+" check -v | grep -oE 'command line: reservedSystemCPUs is \"0\": the static CPU manager may assign the CPUs 1 of' || true",
		`command line: reservedSystemCPUs is "0": the static CPU manager may assign the CPUs 1 of`)
}

// poolReservedLate: the kubelet does not start with a reservation of a CPU that its state assigns
// to a container. Without that state it does, and assigns another one to the running container.
func poolReservedLate(t *testing.T, n *lab.Node) {
	t.Helper()
	_, _, whole := pools()
	scope := cgroupRoot + scopeOf(t, n, whole.namespace, whole.name)
	run(t, n, "rm "+kubeletFlags+" && systemctl restart kubelet.service")
	becomes(t, n, "journalctl -b -o cat -u kubelet --no-pager | grep -oE 'not all reserved cpus: .* are present in defaultCpuSet' | tail -1 | cut -c1-21",
		"not all reserved cpus")
	want(t, n, "cat "+scope+"/cpuset.cpus "+scope+"/cpuset.cpus.effective | xargs", "1 0,2-3")
	reconfigureCPUs(t, n, exclusiveStatic("", true))
	cpusOf(t, n, whole.namespace, whole.name, "2", "2")
	cpusOf(t, n, "default", "user-app", "0-1,3", "0,3")
}
