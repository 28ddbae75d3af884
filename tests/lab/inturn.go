package lab

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Part is a part of a test that needs a node, and leaves the node as it was.
type Part struct {
	// Name is the name of the subtest.
	Name string
	// Run runs the part.
	Run func(*testing.T, *Node)
	// Complaints lists patterns of the warnings and errors that the programs under test log meanwhile,
	// one for each line. Any other such line is a failure.
	Complaints []string
	// Spends means that other parts cannot use the node afterwards: the next part gets a fresh one.
	// Such a part comes last.
	Spends bool
}

// cleanTimeout bounds the time that a node takes to be as it was. The kubelet removes the volumes
// of a pod some seconds after the pod.
const cleanTimeout = 45 * time.Second

// InTurn runs parts of a test on one node, one after the other. After each part the node has to be
// as it was before the first: its units, its cgroups with their limits, and the files of its
// configuration. And the programs under test must have logged no warnings that the part does not
// list. A part that breaks either rule fails, by its name and with the differences, and the next
// part gets a fresh node from start. Parts that -run and -skip leave out need no node.
func InTurn(t *testing.T, start func(*testing.T) *Node, parts ...Part) {
	t.Helper()
	var n *Node
	var clean Look
	for _, p := range parts {
		test, ran := t, false
		ok := t.Run(p.Name, func(t *testing.T) {
			ran = true
			if n == nil {
				n = start(test)
				var err error
				if clean, err = n.Look(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			since, err := n.now(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			p.Run(t, n)
			if t.Failed() {
				return
			}
			if !p.Spends {
				if err := n.waitClean(t.Context(), clean); err != nil {
					t.Errorf("%s leaves its node dirty: %v", t.Name(), err)
				}
			}
			n.checkComplaints(t, p, since)
		})
		if n != nil && ran && (!ok || p.Spends) {
			n.finish()
			n = nil
		}
	}
}

// now returns the node's own time, in journalctl's format.
func (n *Node) now(ctx context.Context) (string, error) {
	out, err := n.Run(ctx, "date +%s.%6N")
	return strings.TrimSpace(out), err
}

// waitClean waits until the node is as it was when clean was taken.
func (n *Node) waitClean(ctx context.Context, clean Look) error {
	ctx, cancel := context.WithTimeoutCause(ctx, cleanTimeout, fmt.Errorf("not clean after %s", cleanTimeout))
	defer cancel()
	return n.Eventually(ctx, "the node as it was", func(ctx context.Context) (bool, string, error) {
		now, err := n.Look(ctx)
		if err != nil {
			return false, "", err
		}
		differences := now.settled().Differences(clean.settled())
		return len(differences) == 0, strings.Join(differences, "\n"), nil
	})
}

// settled returns the look without the state that recovers late or not at all. Controllers stay
// enabled. The kubelet weighs its QoS slices once a minute, and systemd keeps the weight in a file,
// whose size is compared: it differs between 79 and 109. The kubelet and the runtime unmount a
// pod's mounts at their garbage collection.
func (l Look) settled() Look {
	l.Controllers = nil
	l.Units = maps.Clone(l.Units)
	maps.DeleteFunc(l.Units, func(name string, _ []string) bool { return strings.HasSuffix(name, ".mount") })
	l.Cgroups, l.Files = maps.Clone(l.Cgroups), maps.Clone(l.Files)
	for _, slice := range []string{"kubepods-burstable.slice", "kubepods-besteffort.slice"} {
		delete(l.Cgroups, "/kubepods.slice/"+slice)
		delete(l.Files, "/run/systemd/transient/"+slice+".d/50-CPUWeight.conf")
	}
	return l
}

// slow matches the monitor's log line for a systemd that answers too late, on an emulated node. The
// monitor retries, and the check of the node shows that it succeeded.
var slow = regexp.MustCompile(`(systemd does not answer|reloading systemd): context deadline exceeded`)

// complaints prints the warnings in the journal: those of the programs under test, and systemd's
// about their units.
const complaints = "journalctl -o cat --no-pager -p warning --since=@%[1]s -t partition-generator -t partition-monitor; " +
	"journalctl -o cat --no-pager -p warning --since=@%[1]s _PID=1 | grep -e kubepods-system -e partition- -e node-partition; true"

func (n *Node) checkComplaints(t *testing.T, p Part, since string) {
	t.Helper()
	out, err := n.Run(t.Context(), fmt.Sprintf(complaints, since))
	if err != nil {
		t.Fatal(err)
	}
	expected := append(make([]*regexp.Regexp, 0, 1+len(p.Complaints)), slow)
	for _, pattern := range p.Complaints {
		expected = append(expected, regexp.MustCompile(pattern))
	}
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if line == "" || slices.ContainsFunc(expected, func(r *regexp.Regexp) bool { return r.MatchString(line) }) {
			continue
		}
		t.Errorf("%s: the journal has a complaint that the part does not name: %s", t.Name(), line)
	}
}
