//go:build node

package e2e

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/lab"
)

// TestSELinux: on a node that enforces the reference policy a generator may not read the kubelet's
// configuration. It says so, and no partition is made. With the module that the project has, the
// node boots with its partition, members are placed, and a leaking one is evicted. The node is made
// by name alone.
func TestSELinux(t *testing.T) {
	onEach(t, kinds([]string{"selinux"}), func(t *testing.T, flavour string) {
		control := lab.ControlPlaneForTest(t)
		n := lab.ForTest(t, lab.Options{Flavour: flavour, ControlPlane: control, Files: append(
			programs(), kubeletConfig(t, evictionSection), lab.File{Path: "/root/node-partition.cil", Source: "../../deploy/selinux/node-partition.cil"},
		)})
		want(t, n, "getenforce", "Enforcing")
		becomes(t, n, "journalctl -b -t partition-generator -o cat --no-pager | grep -o '^[^ ]*: permission denied$'", lab.KubeletConfigPath+": permission denied")
		want(t, n, "systemctl is-active "+systemSlice+" || true", "inactive")

		run(t, n, "semodule -i /root/node-partition.cil && restorecon -F /usr/lib/systemd/system-generators/partition-generator")
		if err := n.Reboot(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := n.WaitReady(ctx); err != nil {
			t.Fatal(err)
		}
		want(t, n, "getenforce", "Enforcing")
		partitioned(t, n)
		startedBeforeKubelet(t, n)
		inSlice(t, n, "kube-system", "system-agent", partition.System, v1.PodQOSBurstable)
		want(t, n, "systemctl status "+systemSlice+" | grep -o 'Active: active'", "Active: active")
		evictsLeaker(t, n, control)
	})
}
