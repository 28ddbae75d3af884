//go:build node

package e2e

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/sizing/sizefile"
	"node-partition.io/node-partition/pkg/slices/config"
	"node-partition.io/node-partition/tests/lab"
)

// TestBoot boots a node with a partition and the monitor, on flavours whose runtime or systemd
// differs from that of TestLateVar. TestLateVar shows the same with a configuration that comes
// late.
func TestBoot(t *testing.T) {
	onEach(t, kinds(allFlavours(), "crio", "trixie"), func(t *testing.T, flavour string) {
		n := lab.ForTest(t, lab.Options{Flavour: flavour, Files: append(programs(), kubeletConfig(t, partitionOf("512Mi", "0-1")))})
		if err := n.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		partitioned(t, n)
		startedBeforeKubelet(t, n)
		placedAtBoot(t, n, flavour, 0)
		monitorWritesOnly(t, n)
		want(t, n, "systemctl --failed --plain --no-legend", "")
	})
}

// monitorWritesOnly: find, run in the mount namespace of the monitor, finds no folder of the host
// that can be written but its state folder, that of what partitions have used, and systemd's folder
// of settings, beside its private /tmp, /var/tmp and /dev. Folders of the runtime and the kubelet,
// which come and go, are not looked at.
func monitorWritesOnly(t *testing.T, n *lab.Node) {
	t.Helper()
	const ours = config.StateDir + "/monitor"
	found := strings.Fields(run(t, n, "nsenter -m -t $(systemctl show -P MainPID "+monitorUnit+") "+
		"find / -ignore_readdir_race -path /proc -prune -o -path /sys -prune -o -path '/run/container*/*' -prune -o "+
		"-path '/var/lib/container*/*' -prune -o -path '/var/lib/kubelet/*' -prune -o -type d -writable -print"))
	if !slices.Contains(found, ours) {
		t.Errorf("the monitor cannot write %s: %q", ours, found)
	}
	for _, folder := range found {
		if !slices.ContainsFunc([]string{ours, sizefile.Dir, "/run/systemd/system.control", "/tmp", "/var/tmp", "/dev"}, func(f string) bool {
			return folder == f || strings.HasPrefix(folder, f+"/")
		}) {
			t.Errorf("the monitor can write %s", folder)
		}
	}
}

// placedAtBoot: the member of a node that has booted is in the partition. If the runtime places
// containers, the member has not been elsewhere since: its container was restarted as often as
// before the boot and by the boot, which on a new node is not at all.
func placedAtBoot(t *testing.T, n *lab.Node, flavour string, restarts int32) {
	t.Helper()
	want(t, n, "systemctl is-active "+monitorUnit, "active")
	inSlice(t, n, "kube-system", "system-agent", partition.System, v1.PodQOSBurstable)
	inSlice(t, n, "default", "user-app", partition.Default, v1.PodQOSBurstable)
	pod, err := n.Pod(t.Context(), "kube-system", "system-agent")
	if err != nil {
		t.Fatal(err)
	}
	if got := pod.Status.ContainerStatuses[0].RestartCount; got != restarts {
		t.Errorf("%s: the member's container was restarted %d times; want %d", flavour, got, restarts)
	}
	// The partition has the weight of its one pod, as the kubelet wrote it: the slices beside the
	// partition and in it are written by the kubelet. The runtime of forky uses another formula for
	// the container.
	defaultSlice := partition.CgroupPath(partition.PodSlice(partition.Default, v1.PodQOSBurstable, string(pod.UID)))
	weight := run(t, n, "cat "+cgroupRoot+defaultSlice+"/cpu.weight")
	container := run(t, n, "cat "+cgroupRoot+scopeOf(t, n, "kube-system", "system-agent")+"/cpu.weight")
	if other := flavour == "forky"; (container != weight) != other {
		t.Errorf("the kubelet gave the pod the weight %s, the runtime gave its container %s; want another one: %t", weight, container, other)
	}
	becomes(t, n, "cat "+systemCgroup+"/cpu.weight", weight)
	becomes(t, n, "cat "+systemCgroup+"/kubepods-system-burstable.slice/cpu.weight", weight)
	if placing(flavour) {
		wantMetric(t, n, `nodepartition_placements_total{method="creation",partition="system",result="success"}`, 1)
		wantMetric(t, n, `nodepartition_placements_total{method="restart",partition="system",result="success"}`, 0)
	}
}
