//go:build node

package e2e

import (
	"strings"
	"testing"

	"node-partition.io/node-partition/tests/lab"
)

// TestConfigured gives a node a system partition and then changes it as an operator does. Debian 12
// boots with it. TestBoot shows the boot of Debian 13.
func TestConfigured(t *testing.T) {
	onEach(t, kinds(debians(), "trixie", "bookworm"), func(t *testing.T, flavour string) {
		boots := flavour == "bookworm" || everything()
		n := lab.ForTest(t, lab.Options{
			Flavour: flavour, Restore: !boots,
			Files: []lab.File{installed(), kubeletConfig(t, reserved+partitionOf("512Mi", "0-1"))},
		})
		if !boots {
			run(t, n, "systemctl start slices.target")
		}
		if err := n.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, step := range []step{
			{"configured", func(t *testing.T, n *lab.Node) {
				partitioned(t, n)
				if boots {
					startedBeforeKubelet(t, n)
				}
			}},
			{"verify", verify},
			{"changed limit", limited("640Mi", "1", "671088640")},
			{"ten reloads", tenReloads},
			{"broken file", brokenFile},
			{"kubelet restarted", kubeletRestarted},
			{"repaired file", limited("768Mi", "", "805306368")},
			{"killed generator", killedGenerator},
			{"section removed", sectionRemoved},
			{"configuration made later", madeLater},
		} {
			t.Run(step.name, func(t *testing.T) {
				step.test(t, n)
				kubeletUnharmed(t, n)
			})
		}
	})
}

// reserved is part of the configuration of TestConfigured: with a reservation, the kubelet's limit
// on kubepods.slice differs from that of a slice without one.
const reserved = "kubeReserved: {memory: 256Mi}\n"

// partitioned: the slices exist, with the limits of the configuration, and systemd starts them
// before the kubelet.
func partitioned(t *testing.T, n *lab.Node) {
	t.Helper()
	want(t, n, "systemctl is-active kubepods-system.slice kubepods-system-burstable.slice kubepods-system-besteffort.slice | uniq", "active")
	wantLimits(t, n, "536870912", "0-1")
	want(t, n, "cat "+systemCgroup+"/kubepods-system-besteffort.slice/cpu.weight", "1")
	// The kubelet of this node starts late in any case, because it waits for the network and the
	// runtime. So its start time proves nothing.
	want(t, n, "systemctl show --value -p After kubelet.service | grep -ow "+systemSlice, systemSlice)
	want(t, n, "systemctl show --value -p Wants kubelet.service | grep -ow "+systemSlice, systemSlice)
	want(t, n, "systemctl show --value -p Delegate kubelet.service "+runtimeUnit(n.Flavour)+" | sort -u | xargs", "yes")
	want(t, n, "systemctl show --value -p SourcePath "+systemSlice, lab.KubeletConfigPath)
	// There are no messages, neither from the generator nor from systemd about its units.
	want(t, n, "journalctl -b -o cat -t partition-generator", "")
	want(t, n, "journalctl -b -o cat -p warning _PID=1 | grep -E 'kubepods-system|50-node-partition|partition-generator' || true", "")
}

// verify: this systemd has no complaint about the units. Manual pages are not on the node.
func verify(t *testing.T, n *lab.Node) {
	t.Helper()
	want(t, n, "systemd-analyze --man=no verify kubepods-system.slice kubepods-system-burstable.slice kubepods-system-besteffort.slice "+
		"kubelet.service containerd.service slices.target 2>&1", "")
}

// configure writes the kubelet's configuration and reloads systemd.
func configure(t *testing.T, n *lab.Node, section string) {
	t.Helper()
	if err := n.CopyTo(t.Context(), kubeletConfig(t, section)); err != nil {
		t.Fatal(err)
	}
	reload(t, n)
}

// limited returns a part that configures limits of the partition and awaits them.
func limited(memory, cpus, bytes string) func(*testing.T, *lab.Node) {
	return func(t *testing.T, n *lab.Node) {
		t.Helper()
		configure(t, n, reserved+partitionOf(memory, cpus))
		wantLimits(t, n, bytes, cpus)
	}
}

// tenReloads: a script that reloads systemd again and again does not stop later changes from
// reaching the kernel.
func tenReloads(t *testing.T, n *lab.Node) {
	t.Helper()
	if everything() { // they take an emulated node a minute
		run(t, n, "for i in 1 2 3 4 5 6 7 8 9 10; do systemctl daemon-reload; done")
	}
	// An emulated node is too slow for systemd's rate limits. This does the work of ten reloads
	// without those limits.
	const flag = "/run/node-partition/units/.apply"
	run(t, n, "timeout 60 sh -c 'for i in 1 2 3 4 5 6 7 8 9 10; do touch "+flag+"; while test -e "+flag+"; do :; done; done'")
	want(t, n, "systemctl is-active partition-generator-apply.path", "active")
	for _, limit := range [][2]string{{"512Mi", "536870912"}, {"640Mi", "671088640"}} {
		limited(limit[0], "1", limit[1])(t, n)
	}
}

// brokenFile: the limits of the running partition stay, also at a second reload, and the journal
// has the reason.
func brokenFile(t *testing.T, n *lab.Node) {
	t.Helper()
	for range 2 {
		configure(t, n, reserved+partitionOf("640 MB", "1"))
		wantLimits(t, n, "671088640", "1")
	}
	wantReported(t, n, lab.KubeletConfigPath+`: systemPartition.memoryLimit: "640 MB": is not a quantity; want a quantity such as 512Mi or 4Gi`)
	wantReported(t, n, "keeping the units of the last good one")
	want(t, n, "journalctl -b -o json -t partition-generator -p err | grep -o '\"SYSLOG_FACILITY\":\"3\"' | sort -u", `"SYSLOG_FACILITY":"3"`)
}

// wantReported searches the journal for a message of the generator.
func wantReported(t *testing.T, n *lab.Node, part string) {
	t.Helper()
	if said := run(t, n, "journalctl -b -o cat -t partition-generator"); !strings.Contains(said, part) {
		t.Errorf("the journal says\n%s\nwant %q", said, part)
	}
}

// killedGenerator: a run that is killed before its last step leaves dangling links. From them
// systemd loads no unit and no setting, not even half of them. The next run repairs it.
func killedGenerator(t *testing.T, n *lab.Node) {
	t.Helper()
	if err := n.CopyTo(t.Context(), kubeletConfig(t, reserved+partitionOf("768Mi", ""))); err != nil {
		t.Fatal(err)
	}
	wrapper := "#!/bin/sh\n/usr/lib/systemd/partition-generator.real \"$@\"\nmv /run/node-partition/units /run/node-partition/units.old\n"
	run(t, n, "mv "+generatorPath+" /usr/lib/systemd/partition-generator.real")
	if err := n.WriteFile(t.Context(), generatorPath, []byte(wrapper), 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, n, "systemctl daemon-reload")
	want(t, n, "test -L /run/systemd/generator/kubepods-system.slice && test ! -e /run/systemd/generator/kubepods-system.slice && echo dangling", "dangling")
	for _, wanted := range [][3]string{
		{"kubepods-system.slice", "MemoryMax", "infinity"},
		{"kubepods-system.slice", "AllowedCPUs", ""},
		{"kubepods-system.slice", "FragmentPath", ""},
		{"kubepods-system-besteffort.slice", "CPUWeight", "[not set]"},
	} {
		if got := property(t, n, wanted[0], wanted[1]); got != wanted[2] {
			t.Errorf("%s of %s is %q, want %q", wanted[1], wanted[0], got, wanted[2])
		}
	}
	want(t, n, "systemctl show -p Wants -p After slices.target kubelet.service | grep -E 'kubepods|partition' || true", "")
	run(t, n, "mv /usr/lib/systemd/partition-generator.real "+generatorPath)
	reload(t, n)
	wantLimits(t, n, "805306368", "")
	want(t, n, "systemctl show --value -p Delegate kubelet.service", "yes")
}

// sectionRemoved: the units are gone and the limits with them. The empty slice stays until it is
// stopped. So does the drop-in that keeps a shutdown from stopping slices first. A slice with
// processes gets all CPUs, and has no list when they have ended.
func sectionRemoved(t *testing.T, n *lab.Node) {
	t.Helper()
	configure(t, n, reserved)
	wantLimits(t, n, "max", "")
	want(t, n, "systemctl show --value -p FragmentPath "+systemSlice, "")
	want(t, n, "cd /run/systemd/generator && find . ../generator.*/ ! -type d | grep -e node-partition -e kubepods | sort",
		"./kubepods-system-.slice.d/50-node-partition.conf\n./kubepods-system.slice.d/50-node-partition.conf\n./kubepods.slice.d/50-node-partition.conf\n"+
			"./slices.target.d/50-node-partition.conf") // which waits for a section
	want(t, n, "systemctl show --value -p DropInPaths kubelet.service | grep node-partition || true", "")
	run(t, n, "systemctl stop "+systemSlice)
	want(t, n, "ls -d "+systemCgroup+" 2>/dev/null || echo gone", "gone")
	// And back again.
	configure(t, n, reserved+partitionOf("512Mi", "0"))
	run(t, n, "systemctl start slices.target")
	wantLimits(t, n, "536870912", "0")
	run(t, n, "systemd-run --quiet --unit=stays --slice="+systemSlice+" sleep infinity")
	configure(t, n, reserved)
	wantLimits(t, n, "max", "0-1")
	run(t, n, "systemctl stop stays.service")
	reload(t, n)
	wantLimits(t, n, "max", "")
	configure(t, n, reserved+partitionOf("512Mi", "0"))
	run(t, n, "systemctl start slices.target")
	wantLimits(t, n, "536870912", "0")
}

// madeLater: a node without a configuration of the kubelet gets one, as by kubeadm join, which
// creates the file, writes it and starts the kubelet. Nothing reloads systemd.
func madeLater(t *testing.T, n *lab.Node) {
	t.Helper()
	const config, later = lab.KubeletConfigPath, lab.KubeletConfigPath + ".later"
	const path, service = "partition-generator-await.path", "partition-generator-await.service"
	file := kubeletConfig(t, reserved+partitionOf("512Mi", "0"))
	file.Path = later
	if err := n.CopyTo(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	run(t, n, "rm "+config)
	reload(t, n)
	run(t, n, "systemctl stop kubelet.service "+systemSlice+" && systemctl start slices.target")
	want(t, n, "systemctl is-active "+path, "active")
	want(t, n, "ls -d "+systemCgroup+" 2>/dev/null || echo none", "none")
	run(t, n, ": >"+config+"; sleep 0.2; cat "+later+" >"+config+"; rm "+later+"; systemctl start kubelet.service")
	if err := n.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantLimits(t, n, "536870912", "0")
	startedBeforeKubelet(t, n)
	// This happens only once: the file exists, and stays.
	for range 2 {
		want(t, n, "systemctl is-active "+path+" || true", "inactive")
		want(t, n, "systemctl show --value -p ActiveState,Result "+service+" | sort | xargs", "active success")
		want(t, n, "journalctl -b -o cat -u "+service+" | grep -c ^Finished", "1")
		reload(t, n)
	}
}
