//go:build node

package e2e

import (
	"strings"
	"testing"

	"nodepartition/tests/lab"
)

const (
	defaultAffinity = "/proc/irq/default_smp_affinity"
	// irqbalanceHas prints the variables of its environment that name CPUs: a list, a mask or both. A
	// service counts as started before its program is executed.
	irqbalanceHas = "p=$(systemctl show --value -p MainPID irqbalance.service); if [ \"$(cat /proc/$p/comm)\" = irqbalance ]; then " +
		"tr '\\0' '\\n' </proc/$p/environ | sed -n 's/^IRQBALANCE_BANNED_//p' | sort | xargs; else echo it is being started; fi"
)

// exclusively is a section whose CPUs are for the partition alone. Without CPUs others run there.
func exclusively(cpus string) string {
	if cpus == "" {
		return partition("512Mi", "3")
	}
	return partition("512Mi", cpus) + "  exclusive: true\n"
}

// TestIRQCPUs: irqbalance, and the default for new interrupts, leave out exclusive CPUs beside the
// CPUs that they leave out already, from a reload and from the boot on. At the end both are as
// before.
func TestIRQCPUs(t *testing.T) {
	withIRQBalance := []string{"trixie", "bookworm"}
	onEach(t, kinds(withIRQBalance, "trixie"), func(t *testing.T, flavour string) {
		n := lab.ForTest(t, lab.Options{
			Flavour: flavour, CPUs: 4, KernelArgs: []string{"isolcpus=1"},
			Files: append(programs(), kubeletConfig(t, exclusively("2-3"))),
		})
		if err := n.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, n, "cat "+defaultAffinity, "f")
		// The image has it masked.
		run(t, n, "rm /etc/systemd/system/irqbalance.service && ln -sf /usr/lib/systemd/system/irqbalance.service /etc/systemd/system/multi-user.target.wants/ && "+
			"systemctl daemon-reload && systemctl start irqbalance.service")
		for _, part := range []struct {
			name string
			test func(*testing.T, *lab.Node)
		}{
			{"reloads", irqReloads},
			{"an unchanged list", irqUnchanged},
			{"a boot", irqBoot},
			{"written by something else", irqForeign},
			{"without irqbalance", irqWithout},
		} {
			if !t.Run(part.name, func(t *testing.T) { part.test(t, n) }) {
				return
			}
		}
		want(t, n, "systemctl --failed --plain --no-legend", "")
	})
}

// irqStep changes the setting, the CPUs, and the file of irqbalance, and compares.
type irqStep struct {
	name, settings, cpus string
	own                  string // the file of irqbalance
	affinity, has        string
}

const irqOn = "IRQ_CPUS=partition\n"

func (s irqStep) run(t *testing.T, n *lab.Node) {
	t.Helper()
	irqFiles(t, n, s.settings, s.own)
	// There may be more than five restarts in ten seconds: for each step, and for irqbalance's file.
	run(t, n, "systemctl reset-failed irqbalance.service")
	configure(t, n, exclusively(s.cpus))
	irqApplied(t, n)
	want(t, n, "cat "+defaultAffinity, s.affinity)
	becomes(t, n, irqbalanceHas, s.has)
}

// irqApplied waits until the service has run that the last reload has started.
func irqApplied(t *testing.T, n *lab.Node) {
	t.Helper()
	becomes(t, n, "systemctl list-jobs --no-legend --full | grep -F partition-generator-interrupts.service; "+
		"systemctl is-active partition-generator-interrupts.service || true", "inactive")
}

// irqFiles writes the settings, and the file of irqbalance. As without this, a change of the latter
// needs a restart of irqbalance.
func irqFiles(t *testing.T, n *lab.Node, settings, own string) {
	t.Helper()
	if err := n.WriteFile(t.Context(), "/etc/default/node-partition", []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	if run(t, n, "cat /etc/default/irqbalance") == strings.TrimSpace(own) {
		return
	}
	if err := n.WriteFile(t.Context(), "/etc/default/irqbalance", []byte(own), 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, n, "systemctl restart irqbalance.service")
}

// irqReloads: a reload applies the setting, other CPUs, and their end. CPU 1 is isolated, and
// irqbalance leaves it out by itself unless its file has a list.
func irqReloads(t *testing.T, n *lab.Node) {
	t.Helper()
	for _, s := range []irqStep{
		{"off", "", "2-3", "", "f", ""},
		{"on", irqOn, "2-3", "", "3", "CPULIST=1-3"},
		{"other CPUs", irqOn, "3", "", "7", "CPULIST=1,3"},
		{"an operator's list", irqOn, "3", "IRQBALANCE_BANNED_CPULIST=0\n", "7", "CPULIST=0,3"},
		{"CRI-O's mask", irqOn, "3", "IRQBALANCE_BANNED_CPUS=\"00000002\"\n", "7", "CPULIST=1,3 CPUS=0000000a"},
		{"off with a mask", "", "3", "IRQBALANCE_BANNED_CPUS=\"00000002\"\n", "f", "CPUS=00000002"},
		{"on with a list", irqOn, "3", "IRQBALANCE_BANNED_CPULIST=0\n", "7", "CPULIST=0,3"},
		{"no exclusive partition", irqOn, "", "IRQBALANCE_BANNED_CPULIST=0\n", "f", "CPULIST=0"},
		{"no CPU left for irqbalance", irqOn, "2-3", "IRQBALANCE_BANNED_CPULIST=0-1\n", "3", "CPULIST=0-1"},
		{"on again", irqOn, "2-3", "", "3", "CPULIST=1-3"},
	} {
		if !t.Run(s.name, func(t *testing.T) { s.run(t, n) }) {
			return
		}
	}
	want(t, n, monitorPath+" check --listen= | grep -o '^ok *interrupts' | xargs", "ok interrupts")
}

// irqUnchanged: a reload that changes nothing does not restart irqbalance.
func irqUnchanged(t *testing.T, n *lab.Node) {
	t.Helper()
	const pid = "systemctl show --value -p MainPID irqbalance.service"
	before := run(t, n, pid)
	for range 2 {
		reload(t, n)
		irqApplied(t, n)
	}
	want(t, n, pid, before)
}

// irqBoot: after a boot everything is in force, and irqbalance was started once.
func irqBoot(t *testing.T, n *lab.Node) {
	t.Helper()
	if err := n.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	becomes(t, n, "systemctl is-active irqbalance.service || true", "active")
	becomes(t, n, "cat "+defaultAffinity, "3")
	becomes(t, n, irqbalanceHas, "CPULIST=1-3")
	want(t, n, "journalctl -b -o cat -u irqbalance.service | grep -c '^Started '", "1")
	if err := n.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// irqForeign: a value that something else has written since stays, and the journal names both.
func irqForeign(t *testing.T, n *lab.Node) {
	t.Helper()
	run(t, n, "echo 1 >"+defaultAffinity)
	irqStep{"", irqOn, "2-3", "", "1", "CPULIST=1-3"}.run(t, n)
	irqStep{"", "", "2-3", "", "1", ""}.run(t, n)
	wantSaid(t, n, defaultAffinity+": is 1, which something else has written since; leaving it. It was f before IRQ_CPUS")
	run(t, n, "echo f >"+defaultAffinity)
}

// irqWithout: without irqbalance the interrupts that are there stay where they are, and the default
// changes all the same.
func irqWithout(t *testing.T, n *lab.Node) {
	t.Helper()
	run(t, n, "systemctl stop irqbalance.service")
	const each = "cat /proc/irq/[0-9]*/smp_affinity"
	before := run(t, n, each)
	for _, step := range []struct{ settings, affinity string }{{irqOn, "3"}, {"", "f"}} {
		irqFiles(t, n, step.settings, "")
		configure(t, n, exclusively("2-3"))
		irqApplied(t, n)
		want(t, n, "cat "+defaultAffinity, step.affinity)
		want(t, n, each, before)
		want(t, n, "systemctl is-active irqbalance.service || true", "inactive")
	}
	want(t, n, "ls /run/node-partition | grep -E 'interrupts|irqbalance' || true", "")
}
