//go:build node

package e2e

import (
	"context"
	"strings"
	"testing"

	"node-partition.io/node-partition/tests/lab"
)

// TestSystemCPUs: services, sessions and systemd itself go to the CPUs of the partition at a
// reload, follow them, and get all CPUs back, while they run. Pods of users keep all CPUs.
func TestSystemCPUs(t *testing.T) {
	onEach(t, kinds(debians(), "trixie"), func(t *testing.T, flavour string) {
		n := lab.ForTest(t, lab.Options{
			Flavour: flavour, Restore: true, Files: []lab.File{installed(), kubeletConfig(t, partitionOf("512Mi", "0"))},
		})
		run(t, n, "systemctl start slices.target")
		if err := n.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		user := "$(find " + cgroupRoot + scopeOf(t, n, "default", "user-app") + " -name cgroup.procs)"
		for _, step := range []struct{ name, settings, cpus, host string }{
			{"on", "SYSTEM_CPUS=partition\n", "0", "0"},
			{"other CPUs", "SYSTEM_CPUS=partition\n", "1", "1"},
			{"off", "", "1", "0-1"},
			{"on again", "SYSTEM_CPUS=partition\n", "1", "1"},
			{"without a list", "SYSTEM_CPUS=partition\n", "", "0-1"},
		} {
			t.Run(step.name, func(t *testing.T) {
				if err := n.WriteFile(t.Context(), "/etc/default/node-partition", []byte(step.settings), 0o644); err != nil {
					t.Fatal(err)
				}
				configure(t, n, partitionOf("512Mi", step.cpus))
				hostRunsOn(t, n, step.host)
				want(t, n, "sed -n 's/^Cpus_allowed_list:\t//p' /proc/$(head -qn1 "+user+")/status", "0-1")
			})
		}
		want(t, n, "systemctl --failed --plain --no-legend", "")
	})
}

// hostRunsOn waits until every process of a service, of a session, and systemd itself may run on
// these CPUs.
func hostRunsOn(t *testing.T, n *lab.Node, cpus string) {
	t.Helper()
	const each = "for f in $(find " + cgroupRoot + "system.slice " + cgroupRoot + "user.slice " + cgroupRoot + "init.scope -name cgroup.procs); do " +
		"for p in $(cat $f 2>/dev/null); do sed -n 's/^Cpus_allowed_list:\t//p' /proc/$p/status 2>/dev/null; done; done | sort | uniq -c | awk '{print $2}' | xargs"
	eventually(t, n, "the processes of the node run on "+cpus, func(ctx context.Context) (bool, string, error) {
		out, err := n.Run(ctx, each)
		return strings.TrimSpace(out) == cpus, strings.TrimSpace(out), err
	})
}
