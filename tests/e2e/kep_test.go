//go:build node

package e2e

import (
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/lab"
)

// TestKEP5894 runs the end-to-end tests that KEP-5894 lists, under its names, except for eviction.
func TestKEP5894(t *testing.T) {
	onEach(t, kinds(allFlavours(), "trixie", "bookworm"), func(t *testing.T, flavour string) {
		n := monitored(t, flavour, "96Mi")
		t.Run("System partition cgroup hierarchy is created when feature is enabled and configured", func(t *testing.T) {
			want(t, n, "cat "+systemCgroup+"/memory.max", strconv.Itoa(96<<20))
			want(t, n, "cat "+systemCgroup+"/cpuset.cpus", "0-1")
			want(t, n, "cd "+systemCgroup+" && ls -d kubepods-system-b*.slice", "kubepods-system-besteffort.slice\nkubepods-system-burstable.slice")
		})
		t.Run("Pods in configured namespaces are placed under kubepods/system/ cgroup", func(t *testing.T) {
			inSlice(t, n, "kube-system", "system-agent", partition.System, v1.PodQOSBurstable)
		})
		t.Run("Pods in other namespaces remain in the default cgroup hierarchy", func(t *testing.T) {
			inSlice(t, n, "default", "user-app", partition.Default, v1.PodQOSBurstable)
			inSlice(t, n, "default", "user-besteffort", partition.Default, v1.PodQOSBestEffort)
		})
		t.Run("Memory limit is enforced on the system partition cgroup", func(t *testing.T) { memoryLimitEnforced(t, n) })
		t.Run("System Pods running in the default partition (wrong partition) are restarted and moved to the system partition on the next Pod sync (e.g., after enabling the feature on an existing node)",
			func(t *testing.T) { turnedOffAndOn(t, n, flavour) })
		t.Run("Feature disabled: no system partition cgroup is created, all Pods use default hierarchy", func(t *testing.T) {
			configure(t, n, "")
			becomes(t, n, "systemctl is-active "+monitorUnit+" || true", "inactive")
			// Debian 13 boots without a section in TestWithoutPartition.
			if flavour == "bookworm" || everything() {
				if err := n.Reboot(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := n.WaitReady(t.Context()); err != nil {
				t.Fatal(err)
			}
			want(t, n, "find "+cgroupRoot+" -name 'kubepods-system*'", "")
			inSlice(t, n, "kube-system", "system-agent", partition.Default, v1.PodQOSBurstable)
			want(t, n, "systemctl is-active "+monitorUnit+" || true", "inactive")
		})
	})
}

// memoryLimitEnforced: two pods without limits of their own together need more than the partition
// has. The kernel kills in the partition, and no process outside of it.
func memoryLimitEnforced(t *testing.T, n *lab.Node) {
	t.Helper()
	hungry := spec{namespace: "kube-system", name: "hungry", command: []string{"/podtool", "grow", "8Mi", "16Mi", "256Mi"}}
	if _, err := n.ApplyPod(t.Context(), hungry.manifest(t)); err != nil {
		t.Fatal(err)
	}
	becomes(t, n, "awk '$1 == \"oom_kill\" { print ($2 > 0) }' "+systemCgroup+"/memory.events", "1")
	// The kernel lets a few pages through (try_charge with __GFP_NOFAIL).
	if peak := file(t, n, "kubepods.slice/kubepods-system.slice", "memory.peak"); peak > 97<<20 {
		t.Errorf("the partition has used %d bytes, above its limit", peak)
	}
	total := run(t, n, "awk '$1 == \"oom_kill\" { print $2 }' "+cgroupRoot+"kubepods.slice/memory.events")
	inside := run(t, n, "awk '$1 == \"oom_kill\" { print $2 }' "+systemCgroup+"/memory.events")
	if total != inside {
		t.Errorf("%s kills below kubepods.slice, %s of them in the partition: a pod outside was killed", total, inside)
	}
	remove(t, n, hungry)
}

// turnedOffAndOn: without the section pods move back and nothing is left. With it they are moved
// in.
func turnedOffAndOn(t *testing.T, n *lab.Node, flavour string) {
	t.Helper()
	before := containerID(t, n, "default", "user-app")
	configure(t, n, "")
	becomes(t, n, "systemctl is-active "+monitorUnit+" || true", "inactive")
	want(t, n, "systemctl show --value -p Result "+monitorUnit, "success")
	want(t, n, "find "+cgroupRoot+" -name 'kubepods-system*'", "")
	want(t, n, "systemctl list-units --all --plain --no-legend 'kubepods-system*' 'partition-cri*'", "")
	want(t, n, "ls /run/systemd/transient /run/systemd/system.control 2>/dev/null | grep -e kubepods-system -e ^partition- || true", "")
	inSlice(t, n, "kube-system", "system-agent", partition.Default, v1.PodQOSBurstable)

	agentBefore := containerID(t, n, "kube-system", "system-agent")
	configure(t, n, partitionOf("96Mi", "0-1"))
	run(t, n, "systemctl start slices.target")
	inSlice(t, n, "kube-system", "system-agent", partition.System, v1.PodQOSBurstable)
	want(t, n, "systemctl is-active "+monitorUnit, "active")
	placed := containerID(t, n, "kube-system", "system-agent")
	if restarted := placed != agentBefore; restarted != placing(flavour) {
		t.Errorf("container restarted: %t, want %t", restarted, placing(flavour))
	}
	method := map[bool]string{true: "restart", false: "live"}[placing(flavour)]
	wantMetric(t, n, `nodepartition_placements_total{method="`+method+`",partition="system",result="success"}`, 1)
	wantMetric(t, n, `kubelet_partition_pod_count{partition="system"}`, 1)
	if after := containerID(t, n, "default", "user-app"); after != before {
		t.Error("the user's container was restarted")
	}
	if failed := run(t, n, "systemctl --failed --plain --no-legend"); failed != "" {
		t.Errorf("failed units: %s", failed)
	}
}

// containerID returns the ID of the running container of a static pod.
func containerID(t *testing.T, n *lab.Node, namespace, pod string) string {
	t.Helper()
	p, err := n.WaitPod(t.Context(), namespace, pod)
	if err != nil {
		t.Fatal(err)
	}
	_, id, _ := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")
	return id
}
