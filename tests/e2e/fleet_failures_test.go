//go:build node

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// spoiled is a node on which a stage fails.
type spoiled struct {
	stage string
	// spoil and mend are shell commands.
	spoil, mend string
	reason      string
	says        string
	refused     bool
}

func spoiledNodes() []spoiled {
	const (
		dropIn = "/etc/systemd/system/partition-monitor.service.d/60-spoiled.conf"
		wants  = "/etc/systemd/system/timers.target.wants"
	)
	return []spoiled{
		{
			stage: "preflight", reason: "foreign-file", says: "/usr/bin/partition-monitor", refused: true,
			spoil: "printf x >/usr/bin/partition-monitor", mend: "rm /usr/bin/partition-monitor",
		},
		{
			// A folder that cannot be written, although its file system can.
			stage: "install", reason: "error", says: "/usr/lib/systemd/catalog cannot be written", refused: true,
			spoil: "chattr +i /usr/lib/systemd/catalog", mend: "chattr -i /usr/lib/systemd/catalog",
		},
		{
			// The first unit file of the way back can be written, and the link to it cannot.
			stage: "install", reason: "error", says: wants,
			spoil: "mkdir -p " + wants + " && chattr +i " + wants, mend: "chattr -i " + wants + " && rmdir --ignore-fail-on-non-empty " + wants,
		},
		{
			stage: "apply", reason: "section", says: "node-partition-trial",
			spoil: "ln -s /dev/null /etc/systemd/system/node-partition-trial.timer", mend: "rm /etc/systemd/system/node-partition-trial.timer",
		},
		{
			stage: "verify", reason: "verify", says: "partition-monitor.service",
			spoil: "printf '[Service]\nExecStartPre=/bin/false\n' >" + dropIn, mend: "rm " + dropIn,
		},
		{
			stage: "keep", reason: "error", says: "/etc/kubernetes",
			spoil: "chattr +i /etc/kubernetes", mend: "chattr -i /etc/kubernetes",
		},
	}
}

// TestFleetFailures: the second of three nodes fails at each stage, loses the roll's pod at each
// stage, or loses the API server for five minutes. It is as before each time, and the third node is
// never begun.
func TestFleetFailures(t *testing.T) {
	onEach(t, kinds([]string{"trixie"}, "trixie"), func(t *testing.T, flavour string) {
		c := newFleetCluster(t, flavour, []string{"0.1.0"}, []string{"fleet-a", "fleet-b", "fleet-c"})
		section := partition("512Mi", "0-1")
		second, third := c.nodes[1], c.nodes[2]

		// stopped: the roll has stopped at the second node.
		stopped := func(t *testing.T) string {
			t.Helper()
			want(t, second.Node, wayBackUnits, "")
			second.asBefore(t)
			c.nodes[0].active(t)
			c.wantState(t, third.Name, "", "", "")
			third.asBefore(t)
			return c.report(t, "node-partition-roll")
		}
		for _, s := range spoiledNodes() {
			t.Run(s.stage+" fails", func(t *testing.T) {
				run(t, second.Node, s.spoil+" && systemctl daemon-reload")
				if err := c.roll(t.Context(), t, "0.1.0", section, "roll.trial=3m"); err == nil {
					t.Error("the roll has succeeded")
				}
				run(t, second.Node, s.mend+" && systemctl daemon-reload")
				report := stopped(t)
				t.Log(report)
				if !strings.Contains(report, second.Name) || !strings.Contains(report, s.says) {
					t.Errorf("the report does not say %q: %s", s.says, report)
				}
				state := "failed"
				if s.refused {
					state = "refused"
				}
				c.wantState(t, second.Name, "", state, s.reason)
			})
		}
		t.Run("the API server is away", func(t *testing.T) {
			const away = 5 * time.Minute
			ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- c.roll(ctx, t, "0.1.0", section, "roll.trial=2m") }()
			run(t, second.Node, "timeout 1000 sh -c 'until pgrep -f ^/partition-installer.apply; do sleep 0.1; done'")
			began := time.Now()
			if err := c.Interrupt(); err != nil {
				t.Fatal(err)
			}
			second.wentBack(t)
			second.asBefore(t)
			select {
			case <-time.After(time.Until(began.Add(away))):
			case <-ctx.Done():
				t.Fatal("not in time")
			}
			if err := c.Restore(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Log(<-ended)
			c.becomes(t, "the dispatcher has ended", func(ctx context.Context) (string, error) {
				job, err := c.Client().BatchV1().Jobs(releaseName).Get(ctx, "node-partition-roll", metav1.GetOptions{})
				if err != nil {
					return "", err
				}
				if len(job.Status.Conditions) == 0 {
					return fmt.Sprintf("%+v", job.Status), nil
				}
				return "", nil
			})
			if report := stopped(t); !strings.Contains(report, second.Name) {
				t.Errorf("the report does not name %s: %s", second.Name, report)
			}
		})
		for _, stage := range stagesOfRoll() {
			t.Run("killed in "+stage, func(t *testing.T) {
				// The stage goes on, on the host.
				killed := make(chan error, 1)
				ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
				defer cancel()
				go func() {
					_, err := second.Run(ctx, "until pgrep -f '"+installerFolder+"/[p]artition-installer host "+stage+"'; do sleep 0.05; done; pkill -KILL -f '^/partition-installer "+stage+"'")
					killed <- err
				}()
				if err := c.roll(t.Context(), t, "0.1.0", section, "roll.trial=90s"); err == nil {
					t.Error("the roll has succeeded")
				}
				if err := <-killed; err != nil {
					t.Fatal(err)
				}
				second.wentBack(t)
				if stage == "keep" && run(t, second.Node, "test -e /etc/kubernetes/node-partition.yaml && echo kept || true") == "kept" {
					// The rename came before the kill.
					second.active(t)
					return
				}
				stopped(t)
			})
		}
	})
}
