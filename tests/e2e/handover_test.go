//go:build node

package e2e

import (
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/slices/config"
)

// TestHandover: a kubelet that makes the partition itself takes over, and gives it back, and no pod
// is touched. It uses the same names.
//
// No released kubelet has the gate, and 1.37 does not start with an unknown one. The test sets
// limits as the kubelet's library does if the slice exists already (startUnit and setUnitProperties
// of opencontainers/cgroups systemd/common.go), and does not restart the running kubelet.
func TestHandover(t *testing.T) {
	onEach(t, kinds(debians(), "trixie"), func(t *testing.T, flavour string) {
		n := monitored(t, flavour, "512Mi")
		before := containerID(t, n, "kube-system", "system-agent")
		unharmed := func() {
			t.Helper()
			inSlice(t, n, "kube-system", "system-agent", partition.System, v1.PodQOSBurstable)
			if after := containerID(t, n, "kube-system", "system-agent"); after != before {
				t.Error("the member's container was restarted")
			}
		}

		configure(t, n, partitionOf("512Mi", "0-1")+"featureGates: {"+config.Gate+": true}\n")
		becomes(t, n, "systemctl is-active "+monitorUnit+" || true", "inactive")
		want(t, n, "systemctl show --value -p Result "+monitorUnit, "success")
		unharmed()
		run(t, n, "systemctl set-property --runtime "+systemSlice+" MemoryMax=256M AllowedCPUs=1")
		reload(t, n)
		want(t, n, "cat "+systemCgroup+"/memory.max", strconv.Itoa(256<<20))
		want(t, n, "cat "+systemCgroup+"/cpuset.cpus", "1")
		want(t, n, "systemctl is-active "+monitorUnit+" || true", "inactive")
		unharmed()
		// The only file of ours that is left is the drop-in that keeps a shutdown from stopping pods
		// first.
		for line := range strings.Lines(run(t, n, "systemctl show --value -p FragmentPath -p DropInPaths "+systemSlice+" | tr ' ' '\\n'")) {
			if path := strings.TrimSpace(line); path != "" && !strings.Contains(path, "/system.control/") && !strings.HasSuffix(path, "/50-node-partition.conf") {
				t.Errorf("%s has %s", systemSlice, path)
			}
		}

		run(t, n, "systemctl revert "+systemSlice)
		configure(t, n, partitionOf("512Mi", "0-1"))
		// The partition's slice is active already, so slices.target does not start the monitor.
		run(t, n, "systemctl start "+monitorUnit)
		becomes(t, n, "systemctl is-active "+monitorUnit+" || true", "active")
		becomes(t, n, "cat "+systemCgroup+"/memory.max", strconv.Itoa(512<<20))
		becomes(t, n, "cat "+systemCgroup+"/cpuset.cpus", "0-1")
		unharmed()
		if failed := run(t, n, "systemctl --failed --plain --no-legend"); failed != "" {
			t.Errorf("failed units: %s", failed)
		}
	})
}
