//go:build node

package e2e

import (
	"testing"

	"nodepartition/pkg/podmove"
	"nodepartition/tests/lab"
)

// TestBoot boots a node with a partition and the monitor where the runtime, or systemd, is another one than in TestLateVar, which shows the
// same with a configuration that comes late.
func TestBoot(t *testing.T) {
	onEach(t, kinds(allFlavours(), "crio", "forky"), func(t *testing.T, flavour string) {
		n := lab.ForTest(t, lab.Options{Flavour: flavour, Files: append(programs(), kubeletConfig(t, partition("512Mi", "0-1")))})
		if err := n.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		partitioned(t, n)
		startedBeforeKubelet(t, n)
		placedAtBoot(t, n, flavour)
		want(t, n, "systemctl --failed --plain --no-legend", "")
	})
}

// placedAtBoot: the member of a node that has booted is in the partition. Where the runtime places, it has never been elsewhere: its first
// container runs.
func placedAtBoot(t *testing.T, n *lab.Node, flavour string) {
	t.Helper()
	want(t, n, "systemctl is-active "+monitorUnit, "active")
	inSlice(t, n, "kube-system", "system-agent", podmove.System, podmove.Burstable)
	inSlice(t, n, "default", "user-app", podmove.Default, podmove.Burstable)
	pod, err := n.Pod(t.Context(), "kube-system", "system-agent")
	if err != nil {
		t.Fatal(err)
	}
	if restarts := pod.Status.ContainerStatuses[0].RestartCount; restarts != 0 {
		t.Errorf("%s: the member's container was restarted %d times during the boot", flavour, restarts)
	}
	if placing(flavour) {
		wantMetric(t, n, `systempartition_placements_total{partition="system",result="success",way="creation"}`, 1)
		wantMetric(t, n, `systempartition_placements_total{partition="system",result="success",way="restart"}`, 0)
	}
}
