//go:build node

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/unitname"
	"nodepartition/tests/lab"
	"nodepartition/tests/needs"
)

const (
	sysextUnit  = "systemd-sysext.service"
	confextUnit = "systemd-confext.service"
	// currentExtension is the link by whose name systemd-sysext knows the extension.
	currentExtension = "/var/lib/extensions/node-partition.raw"
	sectionExtension = "/var/lib/confexts/node-partition-section.raw"
	// mergedUnits lists the versions of the extension that have been started.
	mergedUnits = "systemctl list-units --plain --no-legend --state=active 'partition-merged@*' | awk '{print $1}'"
	// noPartition prints the cgroups of a partition.
	noPartition = "find " + cgroupRoot + " -name 'kubepods-system*'"
)

// TestSysext: nothing but the system extension and the section give a node its partition: on a node
// that runs, and at a boot, before the kubelet. The section may come in a configuration extension.
// 252 is not among the kinds: there systemd-sysext does not have systemd reloaded.
func TestSysext(t *testing.T) {
	able := slices.DeleteFunc(debians(), func(name string) bool { return name == "bookworm" })
	onEach(t, kinds(able, "trixie", "forky"), func(t *testing.T, flavour string) {
		t.Run("sysext", func(t *testing.T) { mergedUsr(t, flavour) })
		t.Run("confext", func(t *testing.T) { mergedEtc(t, flavour) })
	})
}

// merging has extensions merged at each boot, as hosts with a read-only /usr do.
func merging(service string) lab.File {
	return lab.File{Path: "/etc/systemd/system/sysinit.target.wants/" + service, Link: "/usr/lib/systemd/system/" + service}
}

// extensionImage is a version of the system extension.
type extensionImage struct {
	file lab.File
	// unit has started it, once it is merged.
	unit string
}

// notInUnit matches what the name of a unit cannot have.
var notInUnit = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// extensionOf builds the system extension with a number.
func extensionOf(t *testing.T, build string) extensionImage {
	t.Helper()
	name, data := built(t, "sysext", "sysext/*-x86-64.raw", "", build)
	version := strings.TrimSuffix(strings.TrimPrefix(name, "node-partition-"), "-x86-64.raw")
	return extensionImage{
		file: lab.File{Path: "/var/lib/extensions.d/" + name, Data: data, Mode: 0o644},
		unit: "partition-merged@" + notInUnit.ReplaceAllString(version, "-") + ".service",
	}
}

// linked returns a command that makes a version the present one, as systemd-sysupdate does.
func (e extensionImage) linked() string {
	return "mkdir -p " + filepath.Dir(currentExtension) + " && ln -sfn '" + e.file.Path + "' " + currentExtension
}

// sectionOfEtc returns a configuration extension with a section, made from the example.
func sectionOfEtc(t *testing.T, document string) lab.File {
	t.Helper()
	const release = "etc/extension-release.d/extension-release.node-partition-section"
	text, err := os.ReadFile("../../deploy/confext/" + release)
	if err != nil {
		t.Fatal(err)
	}
	tree, raw := filepath.Join(t.TempDir(), "tree"), filepath.Join(t.TempDir(), "section.raw")
	for path, data := range map[string][]byte{release: text, kubeletconfig.OverridePath: []byte(document)} {
		path = filepath.Join(tree, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mksquashfs := needs.Program(t, "mksquashfs", "squashfs-tools")
	if out, err := exec.Command(mksquashfs, tree, raw, "-noappend", "-no-progress", "-all-root", "-no-xattrs").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(raw)
	if err != nil {
		t.Fatal(err)
	}
	return lab.File{Path: sectionExtension, Data: data, Mode: 0o644}
}

// extendedNode is a node with two versions of the system extension.
type extendedNode struct {
	*lab.Node
	flavour       string
	first, second extensionImage
	// values and units are read before the first merge.
	values, units string
}

// mergedUsr shows the life of the system extension on a node.
func mergedUsr(t *testing.T, flavour string) {
	x := extendedNode{flavour: flavour, first: extensionOf(t, "1"), second: extensionOf(t, "2")}
	x.Node = lab.ForTest(t, lab.Options{Flavour: flavour, Files: append(protectingNoPod(flavour),
		merging(sysextUnit), x.first.file, x.second.file,
		lab.File{Path: kubeletconfig.OverridePath, Data: []byte(arrivingDocument), Mode: 0o644},
	)})
	if err := x.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	x.values, x.units = run(t, x.Node, values(ofSlices)), run(t, x.Node, ourUnits)
	for _, part := range []struct {
		name string
		show func(extendedNode, *testing.T)
	}{
		{"merged", extendedNode.merged},
		{"booted", extendedNode.booted},
		{"refreshed under load", extendedNode.refreshed},
		{"unmerged under load, and merged again", extendedNode.unmerged},
		{"removed", extendedNode.removed},
	} {
		t.Run(part.name, func(t *testing.T) { part.show(x, t) })
	}
}

// merged: the first merge gives a node that runs its partition.
func (x extendedNode) merged(t *testing.T) {
	n := x.Node
	kubelet := property(t, n, "kubelet.service", "MainPID")
	run(t, n, x.first.linked()+" && systemctl start "+sysextUnit)
	becomes(t, n, mergedUnits, x.first.unit)
	becomes(t, n, "systemctl is-active "+systemSlice+" "+monitorUnit+" || true", "active\nactive")
	wantLimits(t, n, "536870912", "0-1")
	inSlice(t, n, "kube-system", "system-agent", unitname.System, v1.PodQOSBurstable)
	want(t, n, "systemd-analyze --man=no verify "+x.first.unit+" 2>&1", "")
	want(t, n, "findmnt -n -o FSTYPE /usr", "overlay")
	if now := property(t, n, "kubelet.service", "MainPID"); now != kubelet {
		t.Errorf("the kubelet was restarted: %s, was %s", now, kubelet)
	}
}

// booted: the generator is in no directory of a generator when PID 1 starts.
func (x extendedNode) booted(t *testing.T) {
	n := x.Node
	if err := n.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := n.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, n, mergedUnits, x.first.unit)
	arrivedAtBoot(t, n, x.flavour)
}

// loaded keeps the processors of the node busy until the test ends.
func (x extendedNode) loaded(t *testing.T) {
	t.Helper()
	run(t, x.Node, "for i in 1 2; do systemd-run --quiet --unit=load-$i sh -c 'while :; do :; done'; done")
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		if _, err := x.Run(ctx, "systemctl stop 'load-*'"); err != nil {
			t.Error(err)
		}
	})
}

// refreshed: another version restarts the monitor, touches no pod and loses no scrape. So does the
// way back to the version before.
func (x extendedNode) refreshed(t *testing.T) {
	n := x.Node
	x.loaded(t)
	kubelet, processes, all := property(t, n, "kubelet.service", "MainPID"), run(t, n, podPIDs), run(t, n, values(""))
	for _, version := range []extensionImage{x.second, x.first} {
		monitor := property(t, n, monitorUnit, "MainPID")
		scraped := scrapes(t, n)
		run(t, n, version.linked()+" && systemd-sysext refresh")
		becomes(t, n, mergedUnits, version.unit)
		run(t, n, waitReady)
		scraped()
		want(t, n, "systemctl is-active "+monitorUnit, "active")
		if now := property(t, n, monitorUnit, "MainPID"); now == monitor {
			t.Errorf("the monitor of the version before, %s, runs", monitor)
		}
		want(t, n, podPIDs, processes)
		wantLines(t, "cgroups", run(t, n, values("")), all)
	}
	if now := property(t, n, "kubelet.service", "MainPID"); now != kubelet {
		t.Errorf("the kubelet was restarted: %s, was %s", now, kubelet)
	}
}

// unmerged: without the extension, pods and monitor run on. The next merge puts back what was in
// force.
func (x extendedNode) unmerged(t *testing.T) {
	n := x.Node
	x.loaded(t)
	processes, all, monitor := run(t, n, podPIDs), run(t, n, values("")), property(t, n, monitorUnit, "MainPID")
	run(t, n, "systemd-sysext unmerge")
	want(t, n, "test -e "+generatorPath+" || echo none", "none")
	want(t, n, podPIDs, processes)
	want(t, n, "systemctl show --value -p MainPID "+monitorUnit, monitor)
	run(t, n, "systemd-sysext merge")
	becomes(t, n, "cat "+systemCgroup+"/memory.max", "536870912")
	becomes(t, n, "cat "+systemCgroup+"/cpuset.cpus", "0-1")
	wantLimits(t, n, "536870912", "0-1")
	want(t, n, "systemctl is-active "+systemSlice+" "+monitorUnit, "active\nactive")
	want(t, n, podPIDs, processes)
	becomes(t, n, values(""), all) // the monitor writes weights at its next pass
}

// removed: the commands of docs/install.md leave the node as it was.
func (x extendedNode) removed(t *testing.T) {
	n := x.Node
	kubelet := property(t, n, "kubelet.service", "MainPID")
	run(t, n, "rm "+kubeletconfig.OverridePath)
	becomes(t, n, noPartition, "")
	becomes(t, n, "systemctl is-active "+monitorUnit+" || true", "inactive")
	run(t, n, "rm "+currentExtension+" && systemd-sysext refresh")
	run(t, n, "systemctl stop 'partition-*'; systemctl reset-failed 'partition-*'; rm -rf /run/node-partition")
	becomes(t, n, ourUnits, x.units)
	inSlice(t, n, "kube-system", "system-agent", unitname.Default, v1.PodQOSBurstable)
	wantLines(t, "cgroups", run(t, n, values(ofSlices)), x.values)
	want(t, n, "ls -d /run/*partition* 2>/dev/null || true", "")
	want(t, n, "findmnt -n -o FSTYPE /usr || true", "")
	want(t, n, "systemctl --failed --plain --no-legend", "")
	if now := property(t, n, "kubelet.service", "MainPID"); now != kubelet {
		t.Errorf("the kubelet was restarted: %s, was %s", now, kubelet)
	}
}

// mergedEtc: the section comes in a configuration extension. It is there when the kubelet starts. A
// refresh applies another section, and the end of it.
func mergedEtc(t *testing.T, flavour string) {
	first := extensionOf(t, "1")
	n := lab.ForTest(t, lab.Options{Flavour: flavour, Files: append(protectingNoPod(flavour),
		merging(sysextUnit), merging(confextUnit), first.file,
		lab.File{Path: currentExtension, Link: first.file.Path},
		sectionOfEtc(t, arrivingDocument),
	)})
	if err := n.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, n, "systemctl is-active "+sysextUnit+" "+confextUnit, "active\nactive")
	want(t, n, "findmnt -n -o FSTYPE /etc", "overlay")
	want(t, n, mergedUnits, first.unit)
	arrivedAtBoot(t, n, flavour)
	processes := run(t, n, podPIDs)
	refresh := func(document string) {
		t.Helper()
		if err := n.CopyTo(t.Context(), sectionOfEtc(t, document)); err != nil {
			t.Fatal(err)
		}
		run(t, n, "systemd-confext refresh && systemctl start slices.target")
	}
	refresh(strings.Replace(arrivingDocument, "512Mi", "600Mi", 1))
	becomes(t, n, "cat "+systemCgroup+"/memory.max", "629145600")
	want(t, n, podPIDs, processes)
	run(t, n, "rm "+sectionExtension+" && systemd-confext refresh")
	becomes(t, n, noPartition, "")
	becomes(t, n, "systemctl is-active "+monitorUnit+" || true", "inactive")
	refresh(arrivingDocument)
	becomes(t, n, "systemctl is-active "+systemSlice+" "+monitorUnit+" || true", "active\nactive")
	wantLimits(t, n, "536870912", "0-1")
	inSlice(t, n, "kube-system", "system-agent", unitname.System, v1.PodQOSBurstable)
	want(t, n, "systemctl --failed --plain --no-legend", "")
}
