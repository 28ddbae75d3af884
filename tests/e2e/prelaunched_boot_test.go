//go:build node

package e2e

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/lab"
)

// oneService returns a node's files that make runtime and kubelet one service, as those of k3s are:
// the unit starts the runtime and, as soon as that answers, the kubelet.
func oneService(flavour string) []lab.File {
	const units = "/etc/systemd/system/"
	runtime, socket, arguments := "/usr/bin/containerd", "/run/containerd/containerd.sock", ""
	if flavour == "crio" {
		runtime, socket = "/usr/bin/crio", "/run/crio/crio.sock"
		arguments = " --container-runtime-endpoint=unix://" + socket
	}
	// A kubelet that finds the runtime's socket and no runtime ends.
	script := fmt.Sprintf(`#!/bin/sh
modprobe overlay
%s &
until [ -S %s ]; do sleep 0.05; done
while :; do
	/usr/bin/kubelet --config=%s --hostname-override="$1"%s
	sleep 0.2
done
`, runtime, socket, lab.KubeletConfigPath, arguments)
	never := []byte("[Unit]\nConditionPathExists=/nonexistent\n")
	return []lab.File{
		{Path: "/usr/local/bin/node-services", Data: []byte(script), Mode: 0o755},
		{Path: units + "kubelet.service.d/90-never.conf", Data: never},
		{Path: units + runtimeUnit(flavour) + ".d/90-never.conf", Data: never},
		{Path: units + "k3s.service", Data: []byte(`[Unit]
Description=Runtime and kubelet in one service
After=network-online.target
Wants=network-online.target

[Service]
Type=exec
KillMode=process
Delegate=yes
LimitNOFILE=1048576
TasksMax=infinity
TimeoutStartSec=0
ExecStart=/usr/local/bin/node-services %H
`)},
		{Path: units + "multi-user.target.wants/k3s.service", Link: "../k3s.service"},
	}
}

// bootMembers are the members of a node that boots, beside system-agent.
const bootMembers = 4

// bootFiles returns the files of a node with one service and several members, where nothing moves a
// pod that runs in the wrong place. So a member that has started outside is seen outside.
func bootFiles(t *testing.T, flavour string) []lab.File {
	t.Helper()
	files := append(programs(), oneService(flavour)...)
	files = append(files, prelaunched(), kubeletConfig(t, partitionOf("512Mi", "0-1")),
		lab.File{Path: "/etc/default/node-partition", Data: []byte("PARTITION_MONITOR_ARGS=--move=never\n")})
	for i := range bootMembers {
		s := spec{namespace: "kube-system", name: fmt.Sprintf("member-%d", i)}
		files = append(files, lab.File{Path: path.Join(lab.ManifestDir, s.name+".yaml"), Data: s.manifest(t), Mode: 0o600})
	}
	return files
}

// allInside: each member runs in the partition, where the runtime has created it, and no other pod
// does.
func allInside(t *testing.T, n *lab.Node) {
	t.Helper()
	inSlice(t, n, "kube-system", "system-agent", partition.System, v1.PodQOSBurstable)
	inSlice(t, n, "default", "user-app", partition.Default, v1.PodQOSBurstable)
	for i := range bootMembers {
		inSlice(t, n, "kube-system", fmt.Sprintf("member-%d", i), partition.System, v1.PodQOSBestEffort)
	}
	want(t, n, "find "+cgroupRoot+"kubepods.slice -name 'partition-*.scope' | wc -l", "0")
}

// nothingMisplaced: the monitor reports each pod in its place, and has moved none.
func nothingMisplaced(t *testing.T, n *lab.Node) {
	t.Helper()
	report, err := reportOf(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	members := 0
	for _, pod := range report.Pods {
		if pod.Member {
			members++
		}
		if pod.Misplaced > 0 {
			t.Errorf("%s/%s: %d containers are misplaced: %s", pod.Namespace, pod.Name, pod.Misplaced, pod.Reason)
		}
	}
	if members != bootMembers+1 {
		t.Errorf("%d members, want %d", members, bootMembers+1)
	}
	for _, method := range []string{"restart", "live"} {
		wantMetric(t, n, `nodepartition_placements_total{method="`+method+`",partition="system",result="success"}`, 0)
	}
}

// TestPrelaunchedBoot: a node boots whose runtime and kubelet are one service. Its members start
// before the monitor, which is held back, and all of them start in the partition. Nothing waits for
// the monitor. Then it takes over.
func TestPrelaunchedBoot(t *testing.T) {
	onOne(t, func(t *testing.T, flavour string) {
		n := lab.ForTest(t, lab.Options{Flavour: flavour, Files: append(bootFiles(t, flavour), monitorHeld)})
		if err := n.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, n, "systemctl is-active "+monitorUnit+" || true", "activating")
		want(t, n, "systemctl is-active k3s.service", "active")
		plugins(t, n, "1")
		allInside(t, n)
		for _, name := range []string{"system-agent", "member-0"} {
			pod, err := n.Pod(t.Context(), "kube-system", name)
			if err != nil {
				t.Fatal(err)
			}
			if restarts := pod.Status.ContainerStatuses[0].RestartCount; restarts != 0 {
				t.Errorf("the container of %s was restarted %d times", name, restarts)
			}
		}
		t.Logf("memory of the plugin: %s", run(t, n, "grep VmRSS /proc/$("+pluginProcesses+")/status"))
		t.Logf("the runtime on its plugins:\n%s", run(t, n, "journalctl -b -o short-monotonic -u k3s.service | grep -iE 'nri|plugin.*(pre-|sync)' | tail -20"))
		releaseMonitor(t, n)
		allInside(t, n)
		nothingMisplaced(t, n)
		ends := run(t, n, "journalctl -b -o cat -t 91-node-partition")
		if wanted := fmt.Sprintf("the pre-launched plugin ends placed=%d", bootMembers+1); !strings.Contains(ends, wanted) {
			t.Errorf("the plugin has logged %q, want %q", ends, wanted)
		}
		// The slices that systemd created implicitly have the limits of the kubelet's now.
		defaultSlice := partition.PodSlice(partition.Default, v1.PodQOSBurstable, uidOf(t, n, "kube-system", "system-agent"))
		slice := partition.PodSlice(partition.System, v1.PodQOSBurstable, uidOf(t, n, "kube-system", "system-agent"))
		becomes(t, n, "cat "+cgroupRoot+partition.CgroupPath(slice)+"/cpu.weight", run(t, n, "cat "+cgroupRoot+partition.CgroupPath(defaultSlice)+"/cpu.weight"))
		late := spec{namespace: "kube-system", name: "late"}
		apply(t, n, late)
		inSlice(t, n, "kube-system", "late", partition.System, v1.PodQOSBestEffort)
		wantMetric(t, n, `nodepartition_placements_total{method="creation",partition="system",result="success"}`, 1)
		want(t, n, "systemctl --failed --plain --no-legend", "")
	})
}

// heldFor keeps the service from starting until as many containers as /etc/lab-hold says have been
// created in the partition. The runtime serves NRI from the moment at which its socket is there, so
// with none to wait for the service connects at once. If nothing places containers, it starts after
// a minute.
var heldFor = []lab.File{
	{Path: "/usr/local/bin/lab-hold", Mode: 0o755, Data: []byte(`#!/bin/sh
until [ -S /run/nri/nri.sock ]; do sleep 0.2; done
read -r wanted </etc/lab-hold
tries=300
while [ $tries -gt 0 ]; do
	set -- ` + systemCgroup + `/*/*/*.scope
	[ -d "$1" ] || shift
	[ $# -ge "$wanted" ] && exit
	sleep 0.2 # the node boots meanwhile, and each process costs tens of milliseconds of its CPUs
	tries=$((tries - 1))
done
`)},
	{Path: "/etc/systemd/system/" + monitorUnit + ".d/90-held.conf",
		Data: []byte("[Service]\nTimeoutStartSec=infinity\nExecStartPre=/usr/local/bin/lab-hold\n")},
	{Path: "/etc/lab-hold", Data: []byte("0\n")},
}

// placedByPlugin waits for the last message of the plugin of this boot, and returns how many
// containers the plugin has placed.
func placedByPlugin(t *testing.T, n *lab.Node) int {
	t.Helper()
	placed := 0
	eventually(t, n, "the plugin has handed over", func(ctx context.Context) (bool, string, error) {
		out, err := n.Run(ctx, "journalctl -b -o cat -t 91-node-partition")
		_, number, found := strings.Cut(out, "the pre-launched plugin ends placed=")
		if err == nil && found {
			placed, err = strconv.Atoi(strings.TrimSpace(number))
		}
		return found, out, err
	})
	return placed
}

// TestPrelaunchedBoots: such a node boots with a monitor that connects after none, one, and up to
// all of the members. None starts outside the partition.
func TestPrelaunchedBoots(t *testing.T) {
	onOne(t, func(t *testing.T, flavour string) {
		const members = bootMembers + 1
		n := lab.ForTest(t, lab.Options{Flavour: flavour, Files: append(bootFiles(t, flavour), heldFor...)})
		for held := range members + 1 {
			if held > 0 {
				run(t, n, fmt.Sprintf("echo %d > /etc/lab-hold && sync", held))
				if err := n.Reboot(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := n.WaitReady(t.Context()); err != nil {
				t.Fatal(err)
			}
			becomes(t, n, "systemctl is-active "+monitorUnit+" || true", "active")
			plugins(t, n, "0")
			allInside(t, n)
			nothingMisplaced(t, n)
			placed := placedByPlugin(t, n)
			t.Logf("the monitor started after %d members; the plugin has placed %d of %d", held, placed, members)
			if placed < held {
				t.Errorf("the plugin has placed %d containers, want %d or more", placed, held)
			}
			if t.Failed() {
				return
			}
		}
	})
}
