//go:build node

package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/command/recommend"
	"node-partition.io/node-partition/internal/sizing/sizefile"
	"node-partition.io/node-partition/tests/lab"
)

// TestUsed: the service measures the partition in the sandbox of its unit, writes that when it
// stops, and goes on after a restart and after a reboot. status and recommend show it, and the
// section can be tried. Where /var cannot be written, it is in /run, and recommend says so.
func TestUsed(t *testing.T) {
	onEach(t, kinds([]string{"trixie", "crio"}, "crio"), func(t *testing.T, flavour string) {
		n := monitored(t, flavour, "256Mi")
		const file = sizefile.Dir + "/system.json"
		record := func(from string) (r sizefile.Record) {
			t.Helper()
			if err := json.Unmarshal([]byte(run(t, n, "cat "+from)), &r); err != nil {
				t.Fatal(err)
			}
			return r
		}
		minutes := func(r sizefile.Record) int {
			if day := r.Day(); day != nil {
				return day.Minutes
			}
			return 0
		}
		eventually(t, n, "a minute with a member", func(ctx context.Context) (bool, string, error) {
			out, err := n.Run(ctx, "systemctl restart "+monitorUnit+" && cat "+file)
			return strings.Contains(out, `"members":{"kube-system/`), out, err
		})
		first := record(file)
		if len(first.Hours) != 1 || first.Hours[0].Members == 0 || first.Hours[0].Largest == 0 || first.Lacks != "" {
			t.Errorf("%+v", first)
		}
		want(t, n, "stat -c '%a %U' "+file, "600 root")
		if out := run(t, n, monitorPath+" status"); !strings.Contains(out, "\n  Last day ") {
			t.Errorf("status:\n%s", out)
		}
		// Some minutes are no history to apply a limit by.
		if out := run(t, n, monitorPath+" recommend 2>&1 && echo applied || true"); !strings.Contains(out, "were measured, and a limit needs 6h00m") || strings.Contains(out, "applied") {
			t.Errorf("after some minutes: %s", out)
		}
		var a recommend.Advice
		if err := json.Unmarshal([]byte(run(t, n, monitorPath+" recommend --force -o json 2>/dev/null")), &a); err != nil {
			t.Fatal(err)
		}
		if a.LimitBytes < 64<<20 || a.Members == 0 || a.SystemPartition["memoryLimit"] == nil {
			t.Errorf("%+v", a)
		}
		run(t, n, monitorPath+" recommend --force | "+monitorPath+" try - --for=5m && "+monitorPath+" try --end")

		reboot(t, n)
		eventually(t, n, "the record goes on after a reboot", func(ctx context.Context) (bool, string, error) {
			out, err := n.Run(ctx, "systemctl restart "+monitorUnit+" && cat "+file)
			var r sizefile.Record
			if err == nil {
				err = json.Unmarshal([]byte(out), &r)
			}
			return minutes(r) > minutes(first), out, err
		})

		// A folder that cannot be made stands for a /var that is read-only.
		run(t, n, "systemctl stop "+monitorUnit+" && mv "+sizefile.Dir+" "+sizefile.Dir+".away && touch "+sizefile.Dir+" && systemctl start "+monitorUnit)
		eventually(t, n, "a record in /run", func(ctx context.Context) (bool, string, error) {
			out, err := n.Run(ctx, "systemctl restart "+monitorUnit+" && cat "+sizefile.Volatile+"/system.json")
			return err == nil && strings.Contains(out, `"version":1`), out, nil
		})
		if out := run(t, n, monitorPath+" recommend --force 2>&1"); !strings.Contains(out, "which a reboot empties") {
			t.Errorf("in /run: %s", out)
		}
		// The sandbox of a service that started without the folder does not let it write there: the next
		// one does.
		run(t, n, "rm "+sizefile.Dir+" && mv "+sizefile.Dir+".away "+sizefile.Dir+" && systemctl restart "+monitorUnit+" && systemctl restart "+monitorUnit)
		if both := record(file); minutes(both) <= minutes(first) {
			t.Errorf("with /var again: %d minutes, %d before", minutes(both), minutes(first))
		}
		want(t, n, "test -e "+sizefile.Volatile+"/system.json || echo none", "none")
		t.Logf("memory of the service: %s bytes", run(t, n, "systemctl show -P MemoryCurrent "+monitorUnit))
	})
}

// reboot restarts the node, and waits for the service.
func reboot(t *testing.T, n *lab.Node) {
	t.Helper()
	if err := n.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, n, "the service after the reboot", func(ctx context.Context) (bool, string, error) {
		out, err := n.Run(ctx, "systemctl is-active "+monitorUnit)
		return strings.TrimSpace(out) == "active", out, err
	})
}
