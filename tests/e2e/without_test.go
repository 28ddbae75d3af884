//go:build node

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"node-partition.io/node-partition/tests/lab"
)

// TestWithoutPartition: a node without a section, and one with node_partition=0, are like a node
// that never had the program: the same units, the same cgroups with the same limits.
func TestWithoutPartition(t *testing.T) {
	onEach(t, kinds(debians(), "trixie"), func(t *testing.T, flavour string) {
		never := lab.ForTest(t, lab.Options{Flavour: flavour})
		if err := never.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		plain := look(t, never)
		if kubepods := fmt.Sprint(plain.Cgroups["/kubepods.slice"]); len(plain.Units) < 50 || len(plain.Cgroups) < 20 ||
			!strings.Contains(kubepods, "memory.max=MemTotal") {
			t.Fatalf("%d units, %d cgroups, kubepods.slice %s: that is no node with a kubelet", len(plain.Units), len(plain.Cgroups), kubepods)
		}
		t.Run("no section", func(t *testing.T) {
			// The same node, with the program installed and after a reboot.
			if err := never.CopyTo(t.Context(), programs()...); err != nil {
				t.Fatal(err)
			}
			run(t, never, "systemctl daemon-reload")
			if err := never.Reboot(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := never.WaitReady(t.Context()); err != nil {
				t.Fatal(err)
			}
			// But for the path unit that waits for a section, and its service.
			now := look(t, never)
			for _, unit := range []string{"partition-generator-await-section.path", "partition-generator-await-section.service"} {
				delete(now.Units, unit)
				delete(now.Units, "file "+unit)
			}
			compare(t, plain, now)
			want(t, never, "systemctl is-active partition-generator-await-section.path", "active")
			want(t, never, "journalctl -b -o cat -p notice -t partition-generator", "")
			// The cause was the missing section: the program works.
			configure(t, never, partitionOf("512Mi", "0-1"))
			run(t, never, "systemctl start slices.target")
			wantLimits(t, never, "536870912", "0-1")
		})
		if err := never.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Run("node_partition=0", func(t *testing.T) {
			off := lab.ForTest(t, lab.Options{
				Flavour:    flavour,
				Files:      append(programs(), kubeletConfig(t, partitionOf("512Mi", "0-1"))),
				KernelArgs: []string{"node_partition=0"},
			})
			if err := off.WaitReady(t.Context()); err != nil {
				t.Fatal(err)
			}
			compare(t, plain, look(t, off))
			want(t, off, "grep -ow node_partition=0 /proc/cmdline", "node_partition=0")
			want(t, off, "grep -c '^systemPartition:' "+lab.KubeletConfigPath, "1")
			want(t, off, generatorPath+" --version", "partition-generator unknown")
			// A kubelet that limits reserved slices does not start without them.
			if err := off.CopyTo(t.Context(), kubeletConfig(t, enforced+partitionOf("512Mi", "0-1"))); err != nil {
				t.Fatal(err)
			}
			run(t, off, "systemctl daemon-reload && systemctl restart --no-block kubelet.service")
			reservedEnforced(t, off)
			want(t, off, "systemctl list-units --all --plain --no-legend 'kubepods-system*'", "")
		})
	})
}

// look returns the observable state of a node except its files: those that are installed and
// configured differ. The installed programs must not run.
func look(t *testing.T, n *lab.Node) lab.Look {
	t.Helper()
	seen, err := n.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen.Files = nil
	for line := range strings.Lines(run(t, n, "systemctl list-unit-files --plain --no-legend")) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[1] == "transient" || fields[0] == monitorUnit || lab.ComesAndGoes(fields[0]) {
			continue
		}
		seen.Units["file "+fields[0]] = fields[1:2]
	}
	return seen
}

// compare reports each difference.
func compare(t *testing.T, plain, other lab.Look) {
	t.Helper()
	for _, difference := range other.Differences(plain) {
		t.Error(difference)
	}
}
