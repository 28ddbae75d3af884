//go:build node

package e2e

import (
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/partition"
)

// TestSoakRestarts: every service that the monitor connects to is restarted, one after the other in
// random order, and the next pod is placed.
func TestSoakRestarts(t *testing.T) {
	seed := seedFrom(t, "RESTARTS_SEED")
	random := rand.New(rand.NewPCG(seed, 0))
	onEach(t, kinds(allFlavours(), allFlavours()...), func(t *testing.T, flavour string) {
		n := monitored(t, flavour, "1Gi")
		runtime := runtimeUnit(flavour)
		restarts := []string{
			"systemctl restart " + monitorUnit, "systemctl restart " + runtime, "systemctl restart kubelet.service",
			"systemctl restart dbus.service", "systemctl daemon-reexec", "systemctl daemon-reload",
			"systemctl kill --signal=KILL " + monitorUnit, "systemctl stop " + monitorUnit + "; systemctl restart " + runtime + " dbus.service; systemctl start " + monitorUnit,
		}
		random.Shuffle(len(restarts), func(i, j int) { restarts[i], restarts[j] = restarts[j], restarts[i] })
		for i, restart := range restarts {
			t.Log(restart)
			run(t, n, restart)
			s := spec{namespace: "kube-system", name: fmt.Sprintf("after-%d", i), requests: resources("200m", "8Mi")}
			apply(t, n, s)
			inSlice(t, n, "kube-system", s.name, partition.System, v1.PodQOSBurstable)
			slice := cgroupRoot + partition.CgroupPath(partition.PodSlice(partition.System, v1.PodQOSBurstable, uidOf(t, n, "kube-system", s.name)))
			defaultSlice := cgroupRoot + partition.CgroupPath(partition.PodSlice(partition.Default, v1.PodQOSBurstable, uidOf(t, n, "kube-system", s.name)))
			becomes(t, n, "cat "+slice+"/cpu.weight", run(t, n, "cat "+defaultSlice+"/cpu.weight"))
			remove(t, n, s)
			noSlicesLeft(t, n)
			becomes(t, n, "systemctl is-active "+monitorUnit, "active")
			for _, source := range []string{"systemd", "kubelet", "runtime"} {
				wantMetric(t, n, `nodepartition_source_connected{source="`+source+`"}`, 1)
			}
		}
		t.Run("made while the monitor was down", func(t *testing.T) {
			run(t, n, "systemctl stop "+monitorUnit)
			s := spec{namespace: "kube-system", name: "missed"}
			apply(t, n, s)
			inSlice(t, n, "kube-system", "missed", partition.Default, v1.PodQOSBestEffort)
			run(t, n, "systemctl start "+monitorUnit)
			inSlice(t, n, "kube-system", "missed", partition.System, v1.PodQOSBestEffort)
			wantMetric(t, n, `nodepartition_misplaced_pods{partition="system",reason="pending"}`, 0)
			// A stop of the monitor changes nothing.
			run(t, n, "systemctl stop "+monitorUnit)
			inSlice(t, n, "kube-system", "missed", partition.System, v1.PodQOSBestEffort)
			run(t, n, "systemctl start "+monitorUnit)
			remove(t, n, s)
			noSlicesLeft(t, n)
		})
	})
}
