//go:build node

package e2e

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/lab"
)

// TestTrial: a section is tried on a node without a partition. The trial reverts by itself, even if
// the monitor has died or the timer was stopped, and the section stays if it is kept.
func TestTrial(t *testing.T) {
	// They differ in how they treat a transient unit at a reload.
	onEach(t, kinds([]string{"trixie", "bookworm"}, "trixie", "bookworm"), func(t *testing.T, flavour string) {
		const file, timer = "/root/partition.yaml", "node-partition-trial.timer"
		document := "apiVersion: " + kubeletconfig.APIVersion + "\nkind: " + kubeletconfig.Kind + "\n" + partitionOf("512Mi", "0-1")
		n := lab.ForTest(t, lab.Options{Flavour: flavour, Restore: true})
		if err := n.CopyTo(t.Context(), slices.Concat(programs(), protectingNoPod(flavour), []lab.File{{Path: file, Data: []byte(document), Mode: 0o600}})...); err != nil {
			t.Fatal(err)
		}
		run(t, n, "systemctl daemon-reload")
		try := func(duration string) {
			t.Helper()
			t.Log(run(t, n, monitorPath+" try "+file+" --for "+duration))
			wantLimits(t, n, "536870912", "0-1")
		}
		wentBack := func() {
			t.Helper()
			becomes(t, n, "find "+cgroupRoot+" -name 'kubepods-system*'", "")
			inSlice(t, n, "kube-system", "system-agent", partition.Default, v1.PodQOSBurstable)
			becomes(t, n, "systemctl is-active "+monitorUnit+" || true", "inactive")
			want(t, n, "ls /run/node-partition/trial.* "+kubeletconfig.OverridePath+" 2>/dev/null || true", "/run/node-partition/trial.lock")
		}

		t.Run("placed and brought back", func(t *testing.T) {
			try("1h")
			inSlice(t, n, "kube-system", "system-agent", partition.System, v1.PodQOSBurstable)
			becomes(t, n, "systemctl is-active "+monitorUnit+" || true", "active")
			want(t, n, monitorPath+" status | grep -o '^Trial  *of "+file+" until'", "Trial         of "+file+" until")
			// A reload does not restart the timer.
			const elapse = "systemctl show -p NextElapseUSecMonotonic --value " + timer
			before := run(t, n, elapse)
			reload(t, n)
			want(t, n, elapse, before)
			// The unit that the timer starts, with members in the partition and no monitor to move them
			// back.
			run(t, n, "systemctl stop "+monitorUnit+" && systemctl start node-partition-trial.service")
			wentBack()
			run(t, n, monitorPath+" try --end") // the timer is left
			becomes(t, n, "systemctl is-active "+timer+" || true", "inactive")
		})
		t.Run("the time is over", func(t *testing.T) {
			try("20s")
			run(t, n, "systemctl kill -s KILL "+monitorUnit+" || true") // it may have ended already
			wentBack()
			becomes(t, n, "systemctl is-active "+timer+" || true", "inactive")
		})
		// Both stop the timer, which no target pulls in.
		t.Run("isolated", func(t *testing.T) {
			try("30s")
			run(t, n, "systemctl isolate multi-user.target")
			wentBack()
		})
		if flavour != "bookworm" { // systemd 252 has none
			t.Run("soft-reboot", func(t *testing.T) {
				try("30s")
				_, _ = n.Run(t.Context(), "systemctl soft-reboot") // which ends the connection
				becomes(t, n, "systemctl show --value -p SoftRebootsCount", "1")
				wentBack()
			})
		}
		t.Run("kept", func(t *testing.T) {
			try("1m")
			over, err := strconv.Atoi(run(t, n, "date +%s"))
			if err != nil {
				t.Fatal(err)
			}
			run(t, n, monitorPath+" keep")
			becomes(t, n, "test $(date +%s) -gt "+strconv.Itoa(over+60)+" && echo over", "over")
			want(t, n, "systemctl is-active "+timer+" || true", "inactive")
			want(t, n, "cat "+kubeletconfig.OverridePath, strings.TrimSpace(document))
			reload(t, n)
			wantLimits(t, n, "536870912", "0-1")
			inSlice(t, n, "kube-system", "system-agent", partition.System, v1.PodQOSBurstable)
			want(t, n, "systemctl show --value -p SourcePath "+systemSlice, kubeletconfig.OverridePath)
			want(t, n, "ls /run/node-partition/trial.*", "/run/node-partition/trial.lock")
		})
	})
}
