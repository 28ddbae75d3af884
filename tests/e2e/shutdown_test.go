//go:build node

package e2e

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/lab"
)

// beforeKubelet is a service that records the slices' properties when they exist and the kubelet
// does not run yet.
const beforeKubelet = `[Unit]
After=kubepods-system.slice
Before=kubelet.service

[Service]
Type=oneshot
ExecStart=/bin/sh -c '` + conflicts + ` >/run/before-kubelet'
`

// conflicts shows which units stop the slices of the partition, the slice above them and the scopes
// of containers. The kubelet's other slices are not included: a shutdown stops those too, until
// systemd is reloaded for the first time (see docs/generator.md#shutdown).
const conflicts = `systemctl show -p Id -p Conflicts kubepods.slice "kubepods-system*.slice" "cri*.scope"`

// TestShutdown: the members of the partition are shut down like the pods beside them: by their
// runtime, or by systemd where CRI-O asks for that. PID 1 of these pods ignores SIGTERM: where
// systemd has a job to stop them, it waits for each.
func TestShutdown(t *testing.T) {
	onEach(t, kinds(allFlavours(), "trixie"), func(t *testing.T, flavour string) {
		n := lab.ForTest(t, lab.Options{Flavour: flavour, Files: append(programs(), kubeletConfig(t, partitionOf("512Mi", "")),
			lab.File{Path: "/etc/systemd/system/before-kubelet.service", Data: []byte(beforeKubelet)},
			lab.File{Path: "/etc/systemd/system/kubelet.service.d/before.conf", Data: []byte("[Unit]\nRequires=before-kubelet.service\n")},
			// The time that systemd-shutdown gives processes at the very end. It waits for these pods as for
			// any others.
			lab.File{Path: "/etc/systemd/system.conf.d/short.conf", Data: []byte("[Manager]\nDefaultTimeoutStopSec=10s\n")},
		)})
		if err := n.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		deaf := func(namespace string) spec {
			return spec{namespace: namespace, name: "deaf-" + namespace, command: []string{"sleep", "2147483647"}}
		}
		member, other := deaf("kube-system"), deaf("default")
		apply(t, n, member, other)
		inSlice(t, n, member.namespace, member.name, partition.System, v1.PodQOSBestEffort)
		inSlice(t, n, other.namespace, other.name, partition.Default, v1.PodQOSBestEffort)

		before := run(t, n, "cat /run/before-kubelet")
		if !strings.Contains(before, "Id=kubepods.slice") || !strings.Contains(before, "Id=kubepods-system.slice") {
			t.Errorf("there were %q before the kubelet, want the slices of the partition", before)
		}
		notStopped(t, "before the kubelet's start", before)
		notStopped(t, "with pods", run(t, n, conflicts))
		// The runtime is faster than the monitor: systemd creates the slice of the pod implicitly.
		run(t, n, "systemd-run -q --unit=first -p DefaultDependencies=no --slice=kubepods-system-burstable-podfirst.slice sleep 2147483647")
		made := run(t, n, conflicts)
		if !strings.Contains(made, "podfirst.slice") {
			t.Errorf("there are %q, want the slice that systemd has made up", made)
		}
		notStopped(t, "with a slice that was made up", made)
		run(t, n, "systemctl stop first.service kubepods-system-burstable-podfirst.slice")
		reload(t, n)
		notStopped(t, "after a reload", run(t, n, conflicts))
		// The pods stay in the partition, because the monitor does not run.
		run(t, n, "systemctl stop "+monitorUnit)
		configure(t, n, "")
		notStopped(t, "without the section", run(t, n, conflicts))
		configure(t, n, partitionOf("512Mi", ""))
		run(t, n, "systemctl start "+monitorUnit)

		scopes := map[string]string{}
		for _, s := range []spec{member, other} {
			path := scopeOf(t, n, s.namespace, s.name)
			scopes[s.name] = path[strings.LastIndex(path, "/")+1:]
		}
		if err := n.Reboot(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, n, "journalctl -b -1 -o cat _PID=1 | grep -c 'Stopping kubelet.service'", "1")
		// Without a message containers ran until systemd-shutdown ended all remaining processes.
		for name, scope := range scopes {
			said := run(t, n, "journalctl -b -1 -o cat _PID=1 UNIT="+scope+" | grep -v '^Started ' || true")
			if stopped := said != ""; stopped != (flavour == "crio") {
				t.Errorf("%s: systemd says %q of its container", name, said)
			}
		}
		want(t, n, "journalctl -b -1 -o cat _PID=1 | grep -E '(Removed|Stopping|Stopped) (slice )?kubepods' | grep -v podfirst || true", "")
	})
}

// notStopped: a shutdown stops none of these units.
func notStopped(t *testing.T, when, units string) {
	t.Helper()
	for unit := range strings.SplitSeq(units, "\n\n") {
		// CRI-O asks systemd to stop each container (org.systemd.property.DefaultDependencies).
		if strings.Contains(unit, "shutdown.target") && !strings.Contains(unit, "Id=crio-") {
			t.Errorf("%s: a shutdown begins with stopping this one: %q", when, unit)
		}
	}
}
