//go:build node

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/lab"
	"node-partition.io/node-partition/tests/testkit"
)

const (
	sysextUnit  = "systemd-sysext.service"
	confextUnit = "systemd-confext.service"
	// currentExtension is the link by whose name systemd-sysext knows the extension.
	currentExtension = "/var/lib/extensions/node-partition.raw"
	sectionImage     = "node-partition-section.raw"
	// mergedUnits lists the versions of the extension that have been started.
	mergedUnits = "systemctl list-units --plain --no-legend --state=active 'partition-merged@*' | awk '{print $1}'"
	// noPartition prints the cgroups of a partition.
	noPartition = "find " + cgroupRoot + " -name 'kubepods-system*'"
)

// The chapters of docs/support.md about the system extension.
const (
	mergeChapter   = "Hosts with a read-only `/usr`"
	sectionChapter = "The section in a configuration extension"
	removeChapter  = "To remove the extension"
)

// TestSysext: nothing but the system extension and the section give a node its partition, by the
// commands in docs/support.md: on a node that runs, and at a boot, before the kubelet. The section
// may come in a configuration extension. 252 is not among the kinds: there systemd-sysext does not
// have systemd reloaded.
func TestSysext(t *testing.T) {
	able := slices.DeleteFunc(debians(), func(name string) bool { return name == "bookworm" })
	onEach(t, kinds(able, "trixie", "forky"), func(t *testing.T, flavour string) {
		t.Run("sysext", func(t *testing.T) { mergedUsr(t, flavour) })
		t.Run("confext", func(t *testing.T) { mergedEtc(t, flavour) })
	})
}

// valuesOfAnyBoot lists settings of cgroups that do not change at a boot: the kubelet limits
// kubepods.slice by the memory that the kernel finds, which was 8 KiB more after one.
var valuesOfAnyBoot = values(ofSlices) + " | grep -v '^kubepods.slice/memory.max '"

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
	testkit.NeedProgram(t, "mksquashfs", "squashfs-tools")
	name, data := built(t, "sysext", "sysext/*-x86-64.raw", "", build)
	version := strings.TrimSuffix(strings.TrimPrefix(name, "node-partition-"), "-x86-64.raw")
	return extensionImage{
		file: lab.File{Path: "/var/lib/extensions.d/" + name, Data: data, Mode: 0o644},
		unit: "partition-merged@" + notInUnit.ReplaceAllString(version, "-") + ".service",
	}
}

// linked returns a command that makes a version the present one, as systemd-sysupdate does.
func (e extensionImage) linked() string {
	return "ln -sfn '" + e.file.Path + "' " + currentExtension
}

// downloaded returns the image where the reader of docs/support.md has it.
func (e extensionImage) downloaded() lab.File {
	return lab.File{Path: packagesFolder + "/" + path.Base(e.file.Path), Data: e.file.Data, Mode: e.file.Mode}
}

// chapters returns the commands of docs/support.md for an image, by their headings. The folder of
// the example is here, where the image with the section is made: the node has no mksquashfs.
func (e extensionImage) chapters(t *testing.T) map[string][]testkit.Step {
	t.Helper()
	example, err := filepath.Abs("../../deploy/confext")
	if err != nil {
		t.Fatal(err)
	}
	commands := map[string][]testkit.Step{}
	for _, title := range []string{mergeChapter, sectionChapter, removeChapter} {
		commands[title] = commandsBelow(t, "support.md", title)
	}
	fill(t, commands, map[string]string{
		"node-partition-0.1.0-x86-64.raw":       path.Base(e.file.Path),
		"/usr/share/doc/node-partition/confext": example,
	})
	return commands
}

// madeSection runs the commands that make an image with a section, and returns the image where the
// reader has it. A copy takes the place of the editor.
func madeSection(t *testing.T, commands []testkit.Step, document string) lab.File {
	t.Helper()
	testkit.NeedProgram(t, "mksquashfs", "squashfs-tools")
	dir := t.TempDir()
	edited := filepath.Join(dir, "edited.yaml")
	if err := os.WriteFile(edited, []byte(document), 0o644); err != nil {
		t.Fatal(err)
	}
	script := ""
	for _, s := range commands {
		script += s.Command + "\n"
	}
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "EDITOR=cp "+edited)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return lab.File{Path: packagesFolder + "/" + sectionImage, Source: filepath.Join(dir, sectionImage), Mode: 0o644}
}

// extendedNode is a node with two versions of the system extension.
type extendedNode struct {
	*lab.Node
	flavour       string
	first, second extensionImage
	commands      map[string][]testkit.Step // for the first one
	// values and units are read before the first merge.
	values, units string
}

// otherExtension is merged all the time beside ours. It does not ask for a reload of systemd.
var otherExtension = lab.File{
	Path: "/var/lib/extensions/other/usr/lib/extension-release.d/extension-release.other", Data: []byte("ID=_any\n"),
}

// mergedUsr shows the life of the system extension on a node.
func mergedUsr(t *testing.T, flavour string) {
	x := extendedNode{flavour: flavour, first: extensionOf(t, "1"), second: extensionOf(t, "2")}
	x.commands = x.first.chapters(t)
	x.Node = lab.ForTest(t, lab.Options{Flavour: flavour, Files: append(protectingNoPod(flavour),
		x.first.downloaded(), x.second.file, otherExtension,
		lab.File{Path: kubeletconfig.OverridePath, Data: []byte(arrivingDocument), Mode: 0o644},
	)})
	if err := x.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	x.values, x.units = run(t, x.Node, valuesOfAnyBoot), run(t, x.Node, ourUnits)
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
	enter(t, n, x.commands[mergeChapter])
	becomes(t, n, mergedUnits, x.first.unit)
	becomes(t, n, "systemctl is-active "+systemSlice+" "+monitorUnit+" || true", "active\nactive")
	wantLimits(t, n, "536870912", "0-1")
	inSlice(t, n, "kube-system", "system-agent", partition.System, v1.PodQOSBurstable)
	want(t, n, "systemd-analyze --man=no verify "+x.first.unit+" 2>&1", "")
	want(t, n, "findmnt -n -o FSTYPE /usr", "overlay")
	if now := property(t, n, "kubelet.service", "MainPID"); now != kubelet {
		t.Errorf("the kubelet was restarted: %s, was %s", now, kubelet)
	}
}

// booted: the generator is in no directory of a generator when PID 1 starts.
func (x extendedNode) booted(t *testing.T) {
	n := x.Node
	restarts := restartsOfMember(t, n) + 1 // the boot's
	if err := n.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := n.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, n, mergedUnits, x.first.unit)
	arrivedAtBoot(t, n, x.flavour, restarts)
}

// restartsOfMember returns how often the container of the member was started again, by a move or a
// boot.
func restartsOfMember(t *testing.T, n *lab.Node) int32 {
	t.Helper()
	pod, err := n.Pod(t.Context(), "kube-system", "system-agent")
	if err != nil {
		t.Fatal(err)
	}
	return pod.Status.ContainerStatuses[0].RestartCount
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

// refreshed: another version restarts the monitor and touches no pod. So does the
// rollback to the version before. The same version once more restarts nothing.
func (x extendedNode) refreshed(t *testing.T) {
	n := x.Node
	x.loaded(t)
	kubelet, processes, all := property(t, n, "kubelet.service", "MainPID"), run(t, n, podPIDs), run(t, n, values(""))
	for _, version := range []extensionImage{x.second, x.first} {
		monitor := property(t, n, monitorUnit, "MainPID")
		scraped := scrapes(t, n)
		run(t, n, version.linked()+" && systemd-sysext refresh")
		becomes(t, n, mergedUnits, version.unit)
		ready(t, n)
		scraped()
		want(t, n, "systemctl is-active "+monitorUnit, "active")
		if now := property(t, n, monitorUnit, "MainPID"); now == monitor {
			t.Errorf("the monitor of the version before, %s, runs", monitor)
		}
		want(t, n, podPIDs, processes)
		wantLines(t, "cgroups", run(t, n, values("")), all)
	}
	monitor := property(t, n, monitorUnit, "MainPID")
	run(t, n, "systemd-sysext refresh") // with the same version
	want(t, n, mergedUnits, x.first.unit)
	ready(t, n)
	want(t, n, "systemctl show --value -p MainPID "+monitorUnit, monitor)
	want(t, n, podPIDs, processes)
	becomes(t, n, values(""), all) // the monitor writes weights at its next reconcile
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
	becomes(t, n, mergedUnits, x.first.unit)
	ready(t, n) // the unit may restart the monitor
	wantLimits(t, n, "536870912", "0-1")
	want(t, n, "systemctl is-active "+systemSlice+" "+monitorUnit, "active\nactive")
	want(t, n, podPIDs, processes)
	becomes(t, n, values(""), all) // the monitor writes weights at its next reconcile
}

// removed: the commands of docs/support.md leave the node as it was. The other extension stays.
func (x extendedNode) removed(t *testing.T) {
	n := x.Node
	kubelet := property(t, n, "kubelet.service", "MainPID")
	enter(t, n, x.commands[removeChapter])
	// What systemd upholds it starts again after a stop, and the list of units may miss that.
	want(t, n, "systemctl show --value -p Upholds local-fs.target", "")
	becomes(t, n, ourUnits, x.units)
	becomes(t, n, noPartition, "")
	inSlice(t, n, "kube-system", "system-agent", partition.Default, v1.PodQOSBurstable)
	wantLines(t, "cgroups", run(t, n, valuesOfAnyBoot), x.values)
	want(t, n, "ls -d /run/*partition* 2>/dev/null || true", "")
	want(t, n, "findmnt -n -o FSTYPE /usr; test -e "+generatorPath+" || echo none", "overlay\nnone")
	want(t, n, "systemctl --failed --plain --no-legend", "")
	if now := property(t, n, "kubelet.service", "MainPID"); now != kubelet {
		t.Errorf("the kubelet was restarted: %s, was %s", now, kubelet)
	}
}

// mergedEtc: the section comes in a configuration extension, to a node that runs. At a boot it is
// there when the kubelet starts. A refresh applies another section, and the end of it.
func mergedEtc(t *testing.T, flavour string) {
	first := extensionOf(t, "1")
	chapters := first.chapters(t)
	commands := chapters[sectionChapter]
	made := 1 + slices.IndexFunc(commands, func(s testkit.Step) bool { return strings.HasPrefix(s.Command, "mksquashfs ") })
	if made == 0 || made == len(commands) {
		t.Fatalf("docs/support.md: below %q: %+v; want mksquashfs, and what merges its image", sectionChapter, commands)
	}
	making, merging := commands[:made], commands[made:]
	n := lab.ForTest(t, lab.Options{Flavour: flavour, Files: append(protectingNoPod(flavour), first.downloaded())})
	if err := n.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	const runs = "systemctl is-active " + systemSlice + " " + monitorUnit + " || true"
	section := func(document string, merging ...testkit.Step) {
		t.Helper()
		if err := n.CopyTo(t.Context(), madeSection(t, making, document)); err != nil {
			t.Fatal(err)
		}
		enter(t, n, merging)
	}
	enter(t, n, chapters[mergeChapter])
	becomes(t, n, mergedUnits, first.unit)
	want(t, n, "ls /usr/share/doc/node-partition/confext/etc", "extension-release.d\nkubernetes")
	section(arrivingDocument, merging...)
	becomes(t, n, runs, "active\nactive")
	ready(t, n)
	inSlice(t, n, "kube-system", "system-agent", partition.System, v1.PodQOSBurstable)
	restarts := restartsOfMember(t, n) + 1 // the boot's
	if err := n.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := n.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, n, "systemctl is-active "+sysextUnit+" "+confextUnit, "active\nactive")
	want(t, n, "findmnt -n -o FSTYPE /etc", "overlay")
	want(t, n, mergedUnits, first.unit)
	arrivedAtBoot(t, n, flavour, restarts)
	processes := run(t, n, podPIDs)
	// A changed image is put in place of the other, and the last line applies it.
	changed := []testkit.Step{merging[0], merging[len(merging)-1]}
	section(strings.Replace(arrivingDocument, "512Mi", "600Mi", 1), changed...)
	becomes(t, n, "cat "+systemCgroup+"/memory.max", "629145600")
	want(t, n, podPIDs, processes)
	run(t, n, "rm /var/lib/confexts/"+sectionImage+" && systemd-confext refresh")
	becomes(t, n, noPartition, "")
	becomes(t, n, "systemctl is-active "+monitorUnit+" || true", "inactive")
	section(arrivingDocument, changed...)
	becomes(t, n, runs, "active\nactive")
	wantLimits(t, n, "536870912", "0-1")
	inSlice(t, n, "kube-system", "system-agent", partition.System, v1.PodQOSBurstable)
	want(t, n, "systemctl --failed --plain --no-legend", "")
}

// scrapes scrapes the metrics of the monitor, one scrape after the other,
// until end is called. A scrape is refused while the monitor restarts. No series of the first may
// be missing for longer than the interval of a Prometheus: it would miss two scrapes.
func scrapes(t *testing.T, n *lab.Node) (end func()) {
	t.Helper()
	// A scrape has its own time, also the last one. Prometheus gives up after 10 s, and an emulated
	// node is slow.
	const patience = 30 * time.Second
	ended, done := make(chan error, 1), make(chan struct{})
	stop := sync.OnceFunc(func() { close(done) })
	t.Cleanup(stop)
	ctx := context.WithoutCancel(t.Context())
	answered := 0
	const interval = 30 * time.Second
	var first map[string]bool
	missing := map[string]time.Time{} // since when
	go func() {
		for {
			select {
			case <-done:
				ended <- nil
				return
			default:
			}
			scrape, cancel := context.WithTimeout(ctx, patience)
			body, refused := n.Get(scrape, monitorURL+"/metrics")
			cancel()
			has := map[string]bool{}
			if refused == nil {
				answered++
				has = series(string(body))
			}
			if first == nil && refused == nil {
				first = has
			}
			var err error
			if refused == nil && len(has) == 0 {
				err = fmt.Errorf("none of our metrics in %d bytes", len(body))
			}
			for one := range first {
				switch since, is := missing[one]; {
				case has[one]:
					delete(missing, one)
				case !is:
					missing[one] = time.Now()
				case time.Since(since) > interval:
					err = fmt.Errorf("series %s is missing for more than %s: %w", one, interval, refused)
				}
			}
			if err != nil {
				ended <- fmt.Errorf("after %d scrapes: %w", answered, err)
				return
			}
		}
	}()
	return func() {
		t.Helper()
		stop()
		if err := <-ended; err != nil || answered < 2 {
			t.Errorf("%d scrapes had an answer; then %v", answered, err)
		}
		t.Logf("%d scrapes", answered)
	}
}

// series returns the series of ours in a scrape, without those that name the version of a program.
func series(scraped string) map[string]bool {
	all := map[string]bool{}
	for line := range strings.Lines(scraped) {
		ours := strings.HasPrefix(line, "nodepartition_") || strings.HasPrefix(line, "kubelet_partition_")
		if end := strings.LastIndex(line, " "); ours && end > 0 && !strings.Contains(line, "version=") {
			all[line[:end]] = true
		}
	}
	return all
}
