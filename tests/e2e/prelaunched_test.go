//go:build node

package e2e

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/lab"
)

const prelaunchedPath = "/opt/nri/plugins/91-node-partition"

// prelaunched is the link of "make install PRELAUNCHED=1".
func prelaunched() lab.File { return lab.File{Path: prelaunchedPath, Link: monitorPath} }

// pluginProcesses is a shell command that lists the processes of the pre-launched plugin.
const pluginProcesses = `grep -lz '^` + prelaunchedPath + `' /proc/[0-9]*/cmdline 2>/dev/null | cut -d/ -f3`

// plugins waits until so many pre-launched plugins run.
func plugins(t *testing.T, n *lab.Node, count string) {
	t.Helper()
	becomes(t, n, pluginProcesses+" | wc -l", count)
}

// monitorHeld keeps the service from starting until releaseMonitor. It waits without processes: one
// each tenth of a second took a quarter of the CPU time of a node that boots.
var monitorHeld = lab.File{
	Path: "/etc/systemd/system/" + monitorUnit + ".d/90-held.conf",
	Data: []byte("[Service]\nTimeoutStartSec=infinity\n" +
		"ExecStartPre=+/bin/sh -c '[ -e /run/lab-released ] || { [ -p /run/lab-held ] || mkfifo /run/lab-held; read -r _ </run/lab-held; }'\n"),
}

// releaseMonitor lets the service start, and waits until it is ready and the plugin has ended.
func releaseMonitor(t *testing.T, n *lab.Node) {
	t.Helper()
	run(t, n, "touch /run/lab-released && echo >/run/lab-held")
	becomes(t, n, "systemctl is-active "+monitorUnit+" || true", "active")
	plugins(t, n, "0")
}

// runtimeWithoutMonitor restarts the runtime while the monitor does not run.
func runtimeWithoutMonitor(t *testing.T, n *lab.Node, flavour string) {
	t.Helper()
	run(t, n, "systemctl stop "+monitorUnit)
	run(t, n, "systemctl restart "+runtimeUnit(flavour))
	if err := n.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// startsIn creates a member while the monitor does not run, and checks where it starts. Then it
// starts the monitor, which finds the member in its place or moves it there.
func startsIn(t *testing.T, n *lab.Node, name string, p partition.Name) {
	t.Helper()
	s := spec{namespace: "kube-system", name: name}
	apply(t, n, s)
	inSlice(t, n, "kube-system", name, p, v1.PodQOSBestEffort)
	want(t, n, "systemctl is-active "+monitorUnit+" || true", "inactive")
	before := containerID(t, n, "kube-system", name)
	run(t, n, "systemctl start "+monitorUnit)
	inSlice(t, n, "kube-system", name, partition.System, v1.PodQOSBestEffort)
	if same := containerID(t, n, "kube-system", name) == before; same != (p == partition.System) {
		t.Errorf("%s: the container is the one from before the monitor: %t", name, same)
	}
	wantMetric(t, n, `nodepartition_misplaced_pods{partition="system",reason="pending"}`, 0)
	plugins(t, n, "0")
	remove(t, n, s)
	noSlicesLeft(t, n)
}

// TestPrelaunched: the plugin that the runtime starts places members while the monitor does not
// run, and ends when it does. A plugin that is killed, that hangs, or that starts before the
// members are known costs a restart of what was missed, and nothing else.
func TestPrelaunched(t *testing.T) {
	onEach(t, kinds([]string{"trixie", "crio"}, "trixie"), func(t *testing.T, flavour string) {
		n := monitored(t, flavour, "1Gi")
		part := func(name string, test func(t *testing.T)) {
			if !t.Failed() { // a later part would fail for the same reason
				t.Run(name, test)
			}
		}
		part("not installed", func(t *testing.T) {
			runtimeWithoutMonitor(t, n, flavour)
			plugins(t, n, "0")
			startsIn(t, n, "without", partition.Default)
		})
		if err := n.CopyTo(t.Context(), prelaunched()); err != nil {
			t.Fatal(err)
		}
		part("placed", func(t *testing.T) {
			runtimeWithoutMonitor(t, n, flavour)
			plugins(t, n, "1")
			startsIn(t, n, "placed", partition.System)
			want(t, n, "journalctl -b -o cat -t 91-node-partition | grep -c 'is connected; the pre-launched plugin ends placed=1$'", "1")
		})
		part("killed", func(t *testing.T) {
			runtimeWithoutMonitor(t, n, flavour)
			plugins(t, n, "1")
			run(t, n, "kill -KILL $("+pluginProcesses+")")
			startsIn(t, n, "killed", partition.Default)
		})
		part("hung", func(t *testing.T) {
			runtimeWithoutMonitor(t, n, flavour)
			plugins(t, n, "1")
			run(t, n, "kill -STOP $("+pluginProcesses+")")
			startsIn(t, n, "hung", partition.Default)
		})
		part("hung at its start", func(t *testing.T) {
			hangs := lab.File{Path: prelaunchedPath, Data: []byte("#!/bin/sh\n: >/run/lab-hangs\nexec sleep 2147483641\n"), Mode: 0o755}
			if err := n.CopyTo(t.Context(), hangs); err != nil {
				t.Fatal(err)
			}
			runtimeWithoutMonitor(t, n, flavour)
			startsIn(t, n, "registers-not", partition.Default)
			want(t, n, "ls /run/lab-hangs", "/run/lab-hangs") // the runtime has started it
			want(t, n, "grep -lzx '214748364[1]' /proc/[0-9]*/cmdline 2>/dev/null | wc -l", "0")
			if err := n.CopyTo(t.Context(), prelaunched()); err != nil {
				t.Fatal(err)
			}
		})
		part("before the members", func(t *testing.T) { beforeMembers(t, n, flavour) })
	})
}

// beforeMembers: the runtime starts on a node without a partition, which gets one later. The
// plugin, which has started before, places what is created then. The monitor moves what was created
// earlier.
func beforeMembers(t *testing.T, n *lab.Node, flavour string) {
	t.Helper()
	configure(t, n, "")
	becomes(t, n, "systemctl is-active "+systemSlice+" || true", "inactive")
	becomes(t, n, "systemctl is-active "+monitorUnit+" || true", "inactive")
	if err := n.CopyTo(t.Context(), monitorHeld); err != nil {
		t.Fatal(err)
	}
	runtimeWithoutMonitor(t, n, flavour)
	plugins(t, n, "1")
	early, late := spec{namespace: "kube-system", name: "early"}, spec{namespace: "kube-system", name: "late"}
	apply(t, n, early)
	inSlice(t, n, "kube-system", "early", partition.Default, v1.PodQOSBestEffort)
	configure(t, n, partitionOf("1Gi", "0-1"))
	run(t, n, "systemctl start --no-block slices.target")
	becomes(t, n, "systemctl is-active "+systemSlice+" || true", "active")
	apply(t, n, late)
	inSlice(t, n, "kube-system", "late", partition.System, v1.PodQOSBestEffort)
	inSlice(t, n, "kube-system", "early", partition.Default, v1.PodQOSBestEffort)
	becomes(t, n, "systemctl is-active "+monitorUnit+" || true", "activating")
	before := containerID(t, n, "kube-system", "late")
	releaseMonitor(t, n)
	inSlice(t, n, "kube-system", "early", partition.System, v1.PodQOSBestEffort)
	inSlice(t, n, "kube-system", "late", partition.System, v1.PodQOSBestEffort)
	if containerID(t, n, "kube-system", "late") != before {
		t.Error("the container that the plugin had placed was restarted")
	}
	remove(t, n, early, late)
}
