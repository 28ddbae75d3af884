//go:build node

package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/tests/lab"
)

const (
	readUnit = "partition-generator-read.service"
	// appliedEdits counts the edits for which systemd was reloaded.
	appliedEdits   = "journalctl -b -o cat -t partition-generator --no-pager | grep -c 'reloading systemd to apply it' || true"
	refusedProblem = `nodepartition_configuration_problem{problem="refused"}`
	// noneRead is the output of stillRead once nothing reads an edit any more.
	stillRead = "systemctl is-active " + readUnit + " partition-generator-watch.service; systemctl list-jobs --no-legend --plain"
	noneRead  = "inactive\ninactive"
)

// TestWatched: an operator edits the file of a node that runs, with no reload by hand. What is in
// force is the last good content.
func TestWatched(t *testing.T) {
	onEach(t, kinds([]string{"trixie", "bookworm"}, "trixie"), func(t *testing.T, flavour string) {
		n := lab.ForTest(t, lab.Options{Flavour: flavour, Restore: true})
		err := n.CopyTo(t.Context(), slices.Concat(programs(), protectingNoPod(flavour), []lab.File{
			{Path: kubeletconfig.OverridePath, Data: []byte(sectionOf("512Mi")), Mode: 0o644},
		})...)
		if err != nil {
			t.Fatal(err)
		}
		run(t, n, "systemctl daemon-reload && systemctl start slices.target") // in place of a boot
		w := watchedNode{n}
		w.inForce(t, 512)
		wantMetric(t, n, refusedProblem, 0)
		for _, part := range []struct {
			name string
			show func(watchedNode, *testing.T)
		}{
			{"editors", watchedNode.editors},
			{"refused", watchedNode.refused},
			{"ten changes a second", watchedNode.quickly},
			{"random edits", watchedNode.random},
			{"stopped, and a reload", watchedNode.stopped},
			{"removed and written again", watchedNode.removed},
			{"switched off", watchedNode.switchedOff},
		} {
			t.Run(part.name, func(t *testing.T) { part.show(w, t) })
		}
		want(t, n, "systemctl --failed --plain --no-legend", "")
	})
}

// document returns the file of the node with a limit.
func sectionOf(limit string) string {
	return "apiVersion: " + kubeletconfig.APIVersion + "\nkind: " + kubeletconfig.Kind + "\n" + partitionOf(limit, "")
}

// watchedNode is a node whose file is edited.
type watchedNode struct{ *lab.Node }

// inForce waits until the kernel has a limit in MiB.
func (w watchedNode) inForce(t *testing.T, mebi int) {
	t.Helper()
	becomes(t, w.Node, "cat "+systemCgroup+"/memory.max", strconv.Itoa(mebi<<20))
}

// shell returns a command that writes a text to standard output.
func shell(text string) string { return "printf '%s' '" + text + "'" }

// edits are ways in which an editor or a program replaces the content of the file $f.
var edits = map[string]string{
	"in place":              "%s > $f",
	"truncated and written": ": > $f; sleep 0.2; %s > $f",
	"in two steps":          "%[1]s | head -c 90 > $f; sleep 0.2; %[1]s | tail -c +91 >> $f",
	"by a rename":           "%s > $f.new; mv $f.new $f",
	"with a backup":         "mv $f $f~; %s > $f; rm $f~", // as vim does
	"removed and made":      "rm -f $f; sleep 0.2; %s > $f",
}

// edit returns a command that edits the file.
func edit(how, text string) string {
	return "f=" + kubeletconfig.OverridePath + "; " + fmt.Sprintf(edits[how], shell(text))
}

// editors: one edit is one application, however the editor writes.
func (w watchedNode) editors(t *testing.T) {
	limit := 513
	for _, how := range slices.Sorted(maps.Keys(edits)) {
		before := run(t, w.Node, appliedEdits)
		run(t, w.Node, edit(how, sectionOf(fmt.Sprintf("%dMi", limit))))
		w.inForce(t, limit)
		becomes(t, w.Node, stillRead, noneRead)
		if got := run(t, w.Node, appliedEdits); got != plusOne(before) {
			t.Errorf("%s: systemd was reloaded %s times, and %s before", how, got, before)
		}
		limit++
	}
}

// refused: an edit that is not valid changes nothing in force, and is found where people look.
func (w watchedNode) refused(t *testing.T) {
	run(t, w.Node, edit("in place", sectionOf("600Mi")))
	w.inForce(t, 600)
	reloads := run(t, w.Node, appliedEdits)
	run(t, w.Node, edit("in place", sectionOf("700Mb")))
	wantMetric(t, w.Node, refusedProblem, 1)
	w.inForce(t, 600)
	// The value follows, which the monitor quotes.
	const message = kubeletconfig.OverridePath + ": systemPartition.memoryLimit: "
	for _, look := range []string{
		"journalctl -b -o cat -u " + readUnit, "journalctl -b -o cat -u " + monitorUnit,
		monitorPath + " check", monitorPath + " status",
	} {
		becomes(t, w.Node, "("+look+" || true) | grep -Foc -m 1 -e '"+message+"' || true", "1")
	}
	run(t, w.Node, edit("in place", sectionOf("600Mi"))) // as it was
	wantMetric(t, w.Node, refusedProblem, 0)
	want(t, w.Node, appliedEdits, reloads) // systemd was not reloaded for any of these
	run(t, w.Node, edit("in place", sectionOf("601Mb")))
	wantMetric(t, w.Node, refusedProblem, 1)
	run(t, w.Node, edit("in place", sectionOf("601Mi")))
	w.inForce(t, 601)
	wantMetric(t, w.Node, refusedProblem, 0)
}

// quickly: of ten changes a second, the last whole one is applied, once.
func (w watchedNode) quickly(t *testing.T) {
	before := run(t, w.Node, appliedEdits)
	run(t, w.Node, "for i in $(seq 30); do "+edit("by a rename", sectionOf("'$((700 + i))'Mi"))+"; sleep 0.1; done")
	w.inForce(t, 730)
	becomes(t, w.Node, stillRead, noneRead)
	if got := run(t, w.Node, appliedEdits); got != plusOne(before) {
		t.Errorf("systemd was reloaded %s times, and %s before", got, before)
	}
}

// random: a hundred edits in a minute, good and bad, one in each of the ways.
func (w watchedNode) random(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	ways := slices.Sorted(maps.Keys(edits))
	var script strings.Builder
	last := 0
	for i := range 100 {
		text := sectionOf(fmt.Sprintf("%dMi", 800+i))
		if i != 60 && (i > 60 || r.IntN(2) == 0) { // the last good one is followed by bad ones
			text = []string{sectionOf("many"), "", text[:len(text)/2], "{", strings.Replace(text, "namespaces", "namespace", 1)}[r.IntN(5)]
		} else {
			last = 800 + i
		}
		pause := float64(r.IntN(900)) / 1000
		if i == 60 {
			pause = 8 // for a node that is slow
		}
		fmt.Fprintf(&script, "%s; sleep %.1f\n", edit(ways[r.IntN(len(ways))], text), pause)
	}
	run(t, w.Node, script.String())
	w.inForce(t, last)
	becomes(t, w.Node, stillRead, noneRead)
	w.inForce(t, last)
	if t.Failed() {
		t.Logf("seed %d", seed)
	}
	wantMetric(t, w.Node, refusedProblem, 1)
	run(t, w.Node, edit("in place", sectionOf("1000Mi")))
	w.inForce(t, 1000)
	wantMetric(t, w.Node, refusedProblem, 0)
}

// stopped: a reload starts the watch where it does not run, as after an upgrade from a version
// without it.
func (w watchedNode) stopped(t *testing.T) {
	const watch = "partition-generator-watch.path"
	run(t, w.Node, "systemctl stop "+watch)
	reload(t, w.Node)
	becomes(t, w.Node, "systemctl is-active "+watch+" || true", "active")
	run(t, w.Node, edit("in place", sectionOf("1010Mi")))
	w.inForce(t, 1010)
}

// removed: without the file the partition is lifted, as after a reload, and it comes back with it.
func (w watchedNode) removed(t *testing.T) {
	run(t, w.Node, "rm "+kubeletconfig.OverridePath)
	becomes(t, w.Node, "find "+cgroupRoot+" -name 'kubepods-system*'", "")
	becomes(t, w.Node, "systemctl is-active "+monitorUnit+" || true", "inactive")
	run(t, w.Node, edit("in place", sectionOf("1001Mb"))) // nothing to go back to
	becomes(t, w.Node, stillRead, noneRead)
	run(t, w.Node, edit("in place", sectionOf("1001Mi")))
	w.inForce(t, 1001)
	becomes(t, w.Node, "systemctl is-active "+monitorUnit, "active")
}

// switchedOff: the reload is the word.
func (w watchedNode) switchedOff(t *testing.T) {
	becomes(t, w.Node, stillRead, noneRead)
	run(t, w.Node, "echo "+kubeletconfig.WatchKey+"=no >> "+kubeletconfig.SettingsPath)
	const invocation = "systemctl show --value -p InvocationID " + readUnit
	before := run(t, w.Node, invocation)
	run(t, w.Node, edit("in place", sectionOf("1100Mi")))
	becomes(t, w.Node, "test $("+invocation+") != "+before+" && echo read", "read")
	becomes(t, w.Node, stillRead, noneRead)
	w.inForce(t, 1001)
	reload(t, w.Node)
	w.inForce(t, 1100)
}

func plusOne(number string) string {
	n, _ := strconv.Atoi(number)
	return strconv.Itoa(n + 1)
}
