//go:build node

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove/report"
	"node-partition.io/node-partition/tests/lab"
)

// TestNothingIsRestarted: the partition is switched on on a running node. The monitor restarts no
// static pod, reports that, and places the pod when an operator orders it. On the way back the pod
// is placed at its next start.
func TestNothingIsRestarted(t *testing.T) {
	// On bookworm pods are moved live, which restarts nothing.
	onEach(t, kinds([]string{"trixie", "crio"}, "trixie"), func(t *testing.T, flavour string) {
		n := lab.ForTest(t, lab.Options{Flavour: flavour, Restore: true})
		if err := n.CopyTo(t.Context(), append(programs(), kubeletConfig(t, partitionOf("512Mi", "0-1")))...); err != nil {
			t.Fatal(err)
		}
		run(t, n, "systemctl daemon-reload")
		before := containerID(t, n, "kube-system", "system-agent")
		run(t, n, "systemctl start slices.target")
		becomes(t, n, "systemctl is-active "+monitorUnit+" || true", "active")
		waitsForItsStart(t, n, partition.Default)
		// A pod that is created is placed all the same.
		created := spec{namespace: "kube-system", name: "created"}
		apply(t, n, created)
		inSlice(t, n, "kube-system", "created", partition.System, v1.PodQOSBestEffort)
		remove(t, n, created)
		if after := containerID(t, n, "kube-system", "system-agent"); after != before {
			t.Fatal("the static pod was restarted")
		}
		run(t, n, monitorPath+" move kube-system/system-agent-"+n.Hostname)
		// The command has waited for it.
		if scope := scopeOf(t, n, "kube-system", "system-agent"); !strings.Contains(scope, "/kubepods-system.slice/") {
			t.Fatalf("partition-monitor move has ended, and the pod is in %s", scope)
		}
		want(t, n, monitorPath+" move kube-system/nobody 2>&1 | grep -o 'no such pod'", "no such pod")
		want(t, n, "runuser -u nobody -- "+monitorPath+" move kube-system/system-agent-"+n.Hostname+" 2>&1 | grep -o 'it has to run as root'", "it has to run as root")

		placed := containerID(t, n, "kube-system", "system-agent")
		configure(t, n, "")
		waitsForItsStart(t, n, partition.System)
		want(t, n, "systemctl is-active "+monitorUnit, "active")
		if after := containerID(t, n, "kube-system", "system-agent"); after != placed {
			t.Fatal("the static pod was restarted when the partition was switched off")
		}
		startsAgain(t, n, partition.Default)
		becomes(t, n, "systemctl is-active "+monitorUnit+" || true", "inactive")
		want(t, n, "find "+cgroupRoot+" -name 'kubepods-system*'", "")
	})
}

// waitsForItsStart: the member is in a partition that is not its own, and the monitor's report has
// the reason.
func waitsForItsStart(t *testing.T, n *lab.Node, p partition.Name) {
	t.Helper()
	eventually(t, n, "the static pod waits for its next start", func(ctx context.Context) (bool, string, error) {
		found, err := reportOf(ctx, n)
		for _, pod := range found.Pods {
			if pod.Namespace == "kube-system" {
				return pod.Reason == report.NextStart && pod.Partition() == p && pod.Misplaced == 1, fmt.Sprintf("%+v", pod), err
			}
		}
		return false, "not in the report", err
	})
	wantMetric(t, n, `nodepartition_misplaced_pods{partition="system",reason="next-start"}`, 1)
}

// startsAgain ends the member's container, as a crash does, and waits until the next one is in its
// place.
func startsAgain(t *testing.T, n *lab.Node, p partition.Name) {
	t.Helper()
	run(t, n, "echo 1 >"+cgroupRoot+scopeOf(t, n, "kube-system", "system-agent")+"/cgroup.kill")
	inSlice(t, n, "kube-system", "system-agent", p, v1.PodQOSBurstable)
}
