//go:build node

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/sizing/sizefile"
	"node-partition.io/node-partition/tests/lab"
	"node-partition.io/node-partition/tests/testkit"
)

// packagesFolder is the folder in which the reader of docs/examples/one-node.md runs its commands.
const packagesFolder = "/root"

// TestDay: an operator takes a node with nothing but the package from the installation to the
// removal, by the commands of the page alone. Each has its effect, no other pod notices, and
// at the end the node is as before.
func TestDay(t *testing.T) {
	onEach(t, kinds(debians(), "trixie"), func(t *testing.T, flavour string) {
		commands := commandsOf(t)
		// Built before the node takes its place on the host.
		versions := []string{"0.1.0", "0.2.0"}
		files := make([]lab.File, 0, len(versions))
		for _, version := range versions {
			name := "node-partition_" + version + "-1_amd64.deb"
			files = append(files, lab.File{Path: packagesFolder + "/" + name, Data: packageOf(t, version, "1"), Mode: 0o644})
		}
		n := lab.ForTest(t, lab.Options{Flavour: flavour, Restore: true})
		if err := n.CopyTo(t.Context(), files...); err != nil {
			t.Fatal(err)
		}
		if err := n.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		run(t, n, withDocumentation)
		fill(t, commands, placeholders(n))
		if !placing(flavour) {
			for title := range commands { // as the page says
				commands[title] = slices.DeleteFunc(commands[title], func(s testkit.Step) bool {
					return strings.HasPrefix(s.Command, "partition-monitor move ")
				})
			}
		}
		d := &day{Node: n, live: !placing(flavour), before: bareNode(t, n), processes: run(t, n, podPIDs)}
		others := bystanders(t, n)
		untouched := run(t, n, others)
		for _, c := range walk {
			ok := t.Run(c.title, func(t *testing.T) {
				c.shows(d, t, func() { enter(t, n, commands[c.title]) })
				want(t, n, others, untouched)
				want(t, n, "systemctl --failed --plain --no-legend", "")
			})
			if !ok {
				return // each part begins where the one before it has ended
			}
		}
	})
}

// placeholders has what a reader replaces in the commands, and by what on this node.
func placeholders(n *lab.Node) map[string]string {
	return map[string]string{
		"etcd-NODE":    "system-agent-" + n.Hostname, // its static pod
		"LIMIT":        "512Mi",                      // more than is recommended
		"explain NAME": "explain eviction-api",       // a check that warns on this node
	}
}

// chapter is a heading of a page below docs. shows runs the commands below it by follow, and
// compares the node with what the page promises.
type chapter struct {
	page, title string
	shows       func(d *day, t *testing.T, follow func())
}

// walk has the chapters in the order of the page. The first commands of other pages are for
// a node that works.
var walk = []chapter{
	{"examples/one-node.md", "Install", (*day).installed},
	{"examples/one-node.md", "Observe", (*day).observed},
	{"examples/one-node.md", "Recommend", (*day).recommended},
	{"examples/one-node.md", "Try", (*day).tried},
	{"examples/one-node.md", "Keep", (*day).kept},
	{"examples/one-node.md", "Change", (*day).changed},
	{"troubleshooting.md", "Troubleshooting", (*day).looked},
	{"runbooks.md", "Runbooks", (*day).looked},
	{"examples/one-node.md", "Upgrade", (*day).upgraded},
	{"examples/one-node.md", "Go back", (*day).downgraded},
	{"examples/one-node.md", "Switch off", (*day).switchedOff},
	{"examples/one-node.md", "Remove", (*day).removed},
}

// commandsOf returns the commands of all chapters by their titles.
func commandsOf(t *testing.T) map[string][]testkit.Step {
	t.Helper()
	commands := map[string][]testkit.Step{}
	for _, c := range walk {
		commands[c.title] = commandsBelow(t, c.page, c.title)
	}
	return commands
}

// commandsBelow returns the commands below a heading of a page.
func commandsBelow(t *testing.T, file, title string) []testkit.Step {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + file)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := testkit.Steps(string(text), title)
	if err != nil || len(steps) == 0 {
		t.Fatalf("docs/%s: %q has %d commands, %v", file, title, len(steps), err)
	}
	return steps
}

// fill replaces placeholders in commands. Each has to be in one of them.
func fill(t *testing.T, commands map[string][]testkit.Step, by map[string]string) {
	t.Helper()
	for from, to := range by {
		found := false
		for _, list := range commands {
			for i := range list {
				found = found || strings.Contains(list[i].Command, from)
				list[i].Command, list[i].Shows = strings.ReplaceAll(list[i].Command, from, to), strings.ReplaceAll(list[i].Shows, from, to)
			}
		}
		if !found {
			t.Errorf("no command has %s: replace what it has now", from)
		}
	}
}

// bystanders is a command that lists the processes of the pods that never become members.
func bystanders(t *testing.T, n *lab.Node) string {
	t.Helper()
	classes := map[string]v1.PodQOSClass{"user-app": v1.PodQOSBurstable, "user-besteffort": v1.PodQOSBestEffort}
	cgroups := make([]string, 0, len(classes))
	for name, class := range classes {
		slice := partition.PodSlice(partition.Default, class, uidOf(t, n, "default", name))
		cgroups = append(cgroups, partition.CgroupPath(slice))
	}
	return "cd " + cgroupRoot + " && find " + strings.Join(cgroups, " ") + " -name cgroup.procs -exec cat {} + | sort -n | xargs"
}

// day is the node, and its state before the package was installed.
type day struct {
	*lab.Node
	live      bool // the monitor moves pods without a restart
	before    bare
	processes string
}

// enter runs commands, one after the other, as somebody who types them, and compares what they
// print.
func enter(t *testing.T, n *lab.Node, commands []testkit.Step) {
	t.Helper()
	for _, s := range commands {
		out := run(t, n, atPrompt(s.Command))
		t.Logf("# %s\n%s", s.Command, out)
		if !s.Printed(out) {
			t.Errorf("%s: the page shows\n%s", s.Command, s.Shows)
		}
	}
}

// atPrompt is a command as somebody types it, who sees errors, too.
func atPrompt(command string) string { return "exec 2>&1\ncd " + packagesFolder + "\n" + command }

// stays checks that the static pod was not restarted. It waits in one place for its next start, or
// was moved live to another.
func (d *day) stays(t *testing.T, from, to partition.Name, processes string) {
	t.Helper()
	if d.live {
		inSlice(t, d.Node, "kube-system", "system-agent", to, v1.PodQOSBurstable)
	} else {
		waitsForItsStart(t, d.Node, from)
	}
	want(t, d.Node, podPIDs, processes)
}

// limit returns the recommended limit in bytes.
func (d *day) limit(t *testing.T) int64 {
	t.Helper()
	text := run(t, d.Node, "sed -n 's/^  memoryLimit: //p' "+packagesFolder+"/node-partition.yaml")
	limit, err := resource.ParseQuantity(text)
	if err != nil {
		t.Fatalf("memoryLimit %q: %v", text, err)
	}
	return limit.Value()
}

// inForce compares the limit of the partition.
func (d *day) inForce(t *testing.T, limit int64) {
	t.Helper()
	wantLimits(t, d.Node, strconv.FormatInt(limit, 10), "")
}

// installed: nothing runs but the unit that waits.
func (d *day) installed(t *testing.T, follow func()) {
	follow()
	want(t, d.Node, ourUnits, onlyWaits)
	want(t, d.Node, podPIDs, d.processes)
	want(t, d.Node, "test -e "+systemCgroup+" || echo none", "none")
}

// observed: the partition is there, without a limit. The static pod was not restarted for it. What
// was recorded until now is too little for a section.
func (d *day) observed(t *testing.T, follow func()) {
	follow()
	wantLimits(t, d.Node, "max", "")
	d.stays(t, partition.Default, partition.System, d.processes)
	run(t, d.Node, "! "+monitorPath+" recommend >/dev/null 2>&1")
}

// The week of the test: the largest usage of its members, and a limit that is too large for it.
const (
	weekPeak = 160 << 20
	tooLarge = 512 << 20
)

// recommended: a week of usage leads to a limit above it.
func (d *day) recommended(t *testing.T, follow func()) {
	// What it has measured is replaced.
	run(t, d.Node, "systemctl stop "+monitorUnit)
	if err := d.CopyTo(t.Context(), week(t)); err != nil {
		t.Fatal(err)
	}
	run(t, d.Node, "systemctl start "+monitorUnit)
	follow()
	if limit := d.limit(t); limit <= weekPeak || limit >= tooLarge {
		t.Errorf("%d bytes are recommended for a usage of %d", limit, weekPeak)
	}
	wantLimits(t, d.Node, "max", "")
}

// tried: the limit is in force, and the file that a boot reads is as before.
func (d *day) tried(t *testing.T, follow func()) {
	override := run(t, d.Node, "cat "+kubeletconfig.OverridePath)
	follow()
	d.inForce(t, d.limit(t))
	const trial = "Trial         of " + packagesFolder + "/node-partition.yaml until"
	want(t, d.Node, monitorPath+" status | grep -o '^"+trial+"'", trial)
	want(t, d.Node, "cat "+kubeletconfig.OverridePath, override)
}

// kept: the trial has ended, its section stays, and the static pod is in the partition.
func (d *day) kept(t *testing.T, follow func()) {
	follow()
	d.inForce(t, d.limit(t))
	want(t, d.Node, "cmp "+packagesFolder+"/node-partition.yaml "+kubeletconfig.OverridePath+" && echo equal", "equal")
	want(t, d.Node, "systemctl is-active node-partition-trial.timer || true", "inactive")
	want(t, d.Node, monitorPath+" status | grep -c ^Trial || true", "0")
	inSlice(t, d.Node, "kube-system", "system-agent", partition.System, v1.PodQOSBurstable)
}

// changed: an edit applies when it is saved.
func (d *day) changed(t *testing.T, follow func()) {
	follow()
	becomes(t, d.Node, "cat "+systemCgroup+"/memory.max", strconv.Itoa(512<<20))
	becomes(t, d.Node, stillRead, noneRead)
	d.inForce(t, 512<<20)
}

// looked: the first commands that a page names work.
func (*day) looked(_ *testing.T, follow func()) { follow() }

func (d *day) upgraded(t *testing.T, follow func()) { d.exchanged(t, "0.2.0", follow) }

// downgraded: the earlier version runs. Without the package pods stay where they are, and the limit
// is lifted. Another installation takes the partition over.
func (d *day) downgraded(t *testing.T, follow func()) {
	d.exchanged(t, "0.1.0", follow)
	processes := run(t, d.Node, podPIDs)
	run(t, d.Node, "dpkg -r node-partition")
	want(t, d.Node, podPIDs, processes)
	want(t, d.Node, "cat "+systemCgroup+"/memory.max", "max")
	inSlice(t, d.Node, "kube-system", "system-agent", partition.System, v1.PodQOSBurstable)
	run(t, d.Node, "dpkg -i "+packagesFolder+"/node-partition_0.1.0-1_amd64.deb")
	becomes(t, d.Node, "cat "+systemCgroup+"/memory.max", strconv.Itoa(512<<20))
	ready(t, d.Node)
	want(t, d.Node, podPIDs, processes)
}

// exchanged: another version runs, and has the settings, the section and what was used.
func (d *day) exchanged(t *testing.T, version string, follow func()) {
	t.Helper()
	const state = "cat " + kubeletconfig.OverridePath + " " + monitorDefaults + "; " +
		`grep -o '"kube-system/dns":{"minutes":[0-9]*,"first":[0-9]*' ` + sizefile.Dir + "/system.json"
	before := run(t, d.Node, state)
	replaced(t, d.Node, version+"-1", follow)
	want(t, d.Node, monitorPath+" version", "partition-monitor v"+version)
	want(t, d.Node, state, before)
	d.inForce(t, 512<<20)
}

// switchedOff: the limit is lifted, and the static pod is not restarted.
func (d *day) switchedOff(t *testing.T, follow func()) {
	processes := run(t, d.Node, podPIDs)
	follow()
	// A partition without pods ends with its limit.
	becomes(t, d.Node, "cat "+systemCgroup+"/memory.max || echo max", "max")
	d.stays(t, partition.System, partition.Default, processes)
}

// removed: the node is as before the installation.
func (d *day) removed(t *testing.T, follow func()) {
	follow()
	d.before.removed(t, d.Node)
	d.before.purged(t, d.Node)
}

// week returns the file of eight days that end now, in place of a week of waiting. Two members use
// weekPeak together.
func week(t *testing.T) lab.File {
	t.Helper()
	const length, mebi = 8 * 24 * time.Hour, 1 << 20
	root := t.TempDir()
	file, err := sizefile.Open(host.Root(root), partition.System)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now().UTC().Add(-length)
	for since := time.Minute; since <= length; since += time.Minute {
		file.Add(begin.Add(since), time.Minute, sizefile.Minute{
			Used: weekPeak, Members: 2, RequestBytes: 180 * mebi,
			Usage: map[string]uint64{"kube-system/dns": 60 * mebi, "kube-system/proxy": weekPeak - 60*mebi},
		})
	}
	if err := file.Write(host.Root(root)); err != nil {
		t.Fatal(err)
	}
	const path = sizefile.Dir + "/system.json"
	return lab.File{Path: path, Source: filepath.Join(root, path), Mode: 0o600}
}
