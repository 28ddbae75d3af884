//go:build node

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodepartition/internal/unitname"
	"nodepartition/tests/lab"
)

// spoiled is a node on which a stage fails.
type spoiled struct {
	// stage is the one that fails, of which there may be several, as name says.
	stage, name string
	// spoil and mend are shell commands.
	spoil, mend string
	reason      string
	says        string
	refused     bool
	// moves means that members were restarted, to come into the partition and out of it.
	moves bool
}

func spoiledNodes() []spoiled {
	const (
		dropIn = "/etc/systemd/system/partition-monitor.service.d/60-spoiled.conf"
		wants  = "/etc/systemd/system/timers.target.wants"
	)
	return []spoiled{
		{
			stage: "preflight", name: "a foreign file", reason: "foreign-file", says: "/usr/bin/partition-monitor", refused: true,
			spoil: "printf x >/usr/bin/partition-monitor", mend: "rm /usr/bin/partition-monitor",
		},
		{
			// A folder that cannot be written, although its file system can.
			stage: "install", name: "an immutable folder", reason: "error", says: "/usr/lib/systemd/catalog cannot be written", refused: true,
			spoil: "chattr +i /usr/lib/systemd/catalog", mend: "chattr -i /usr/lib/systemd/catalog",
		},
		{
			// The first unit file of the way back can be written, and the link to it cannot.
			stage: "install", name: "half a way back", reason: "error", says: wants,
			spoil: "mkdir -p " + wants + " && chattr +i " + wants, mend: "chattr -i " + wants + " && rmdir --ignore-fail-on-non-empty " + wants,
		},
		{
			stage: "apply", name: "no timer for the trial", reason: "section", says: "node-partition-trial",
			spoil: "ln -s /dev/null /etc/systemd/system/node-partition-trial.timer", mend: "rm /etc/systemd/system/node-partition-trial.timer",
		},
		{
			stage: "verify", name: "the monitor does not start", reason: "verify", says: "partition-monitor.service",
			spoil: "printf '[Service]\nExecStartPre=/bin/false\n' >" + dropIn, mend: "rm " + dropIn,
		},
		{
			stage: "keep", name: "an immutable folder", moves: true, reason: "error", says: "/etc/kubernetes",
			spoil: "chattr +i /etc/kubernetes", mend: "chattr -i /etc/kubernetes",
		},
	}
}

// TestFleetFailures: the second of three nodes fails at each stage, loses the container or the
// process on the host at each stage, loses its network, or the API server for five minutes. It is
// as before each time, and the third node is not begun. A dispatcher whose pod is deleted is
// continued.
func TestFleetFailures(t *testing.T) {
	onEach(t, kinds([]string{"trixie"}, "trixie"), func(t *testing.T, flavour string) {
		c := newFleetCluster(t, flavour, []string{"0.1.0"}, []string{"fleet-a", "fleet-b", "fleet-c"})
		section := partition("512Mi", "0-1")
		second, third := c.nodes[1], c.nodes[2]

		// The dispatcher runs on the first node: its pod is on no node that is to be as before.
		onFirst := `dispatcher.nodeSelector.kubernetes\.io/hostname=` + c.nodes[0].Name
		roll := func(ctx context.Context, t *testing.T, set ...string) error {
			t.Helper()
			return c.roll(ctx, t, "0.1.0", section, append(set, onFirst)...)
		}
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
			t.Run(s.stage+" fails: "+s.name, func(t *testing.T) {
				members := second.members(t)
				run(t, second.Node, s.spoil+" && systemctl daemon-reload")
				if err := roll(t.Context(), t, "roll.trial=3m"); err == nil {
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
				if stage, message := c.failedIn(t, second.Name); stage != s.stage || !strings.Contains(message, s.says) {
					t.Errorf("%s has failed: %s; want %s, and %q", stage, message, s.stage, s.says)
				}
				if after := second.members(t); after != members && !s.moves {
					t.Errorf("processes of members %s; were %s", after, members)
				}
			})
		}
		t.Run("the API server is away", func(t *testing.T) {
			const away = 5 * time.Minute
			ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- roll(ctx, t, "roll.trial=2m") }()
			second.begins(t, "apply")
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
		t.Run("the network of the node dies", func(t *testing.T) {
			// The rule is gone when the unit ends. Both ends of the line see nothing but silence.
			cut := fmt.Sprintf("rule add to %s ipproto tcp dport %d blackhole", lab.HostAddress, c.Port)
			ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- roll(ctx, t, "roll.trial=2m") }()
			second.begins(t, "apply")
			run(t, second.Node, "ip "+cut)
			second.wentBack(t)
			second.asBefore(t)
			run(t, second.Node, "ip "+strings.Replace(cut, " add ", " del ", 1))
			if err := <-ended; err == nil {
				t.Error("the roll has succeeded")
			}
			if report := stopped(t); !strings.Contains(report, second.Name) {
				t.Errorf("the report does not name %s: %s", second.Name, report)
			}
			c.wantFailed(t, second.Name)
		})
		for _, stage := range stagesOfRoll() {
			for _, k := range []struct{ what, kill string }{
				// The stage goes on, on the host.
				{"the container", "pkill -KILL -f '^/partition-installer " + stage + "'"},
				{"the host's process", "systemctl kill --signal=KILL 'partition-install-" + stage + "-*.service'"},
			} {
				t.Run(k.what+" is killed in "+stage, func(t *testing.T) {
					killed := make(chan error, 1)
					ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
					defer cancel()
					go func() {
						_, err := second.Run(ctx, "until pgrep -f '"+installerFolder+"/[p]artition-installer host "+stage+"'; do sleep 0.05; done; "+k.kill)
						killed <- err
					}()
					trial := "2m"
					if stage == "keep" { // a member that was restarted often is Ready after five minutes
						trial = "7m"
					}
					if err := roll(t.Context(), t, "roll.trial="+trial); err == nil {
						t.Error("the roll has succeeded")
					}
					if err := <-killed; err != nil {
						t.Fatal(err)
					}
					second.wentBack(t)
					// A stage whose container was killed goes on.
					becomes(t, second.Node, "systemctl list-units --all --plain --no-legend 'partition-install-*'", "")
					c.wantFailed(t, second.Name)
					if stage == "keep" && run(t, second.Node, "test -e /etc/kubernetes/node-partition.yaml && echo kept || true") == "kept" {
						// The rename came before the kill.
						second.active(t)
						if out, err := c.helmed(t.Context(), "uninstall", releaseName, "--timeout=40m"); err != nil {
							t.Fatal(out, err)
						}
						return
					}
					stopped(t)
				})
			}
		}
		t.Run("the pod of the dispatcher is deleted", func(t *testing.T) {
			ended := make(chan error, 1)
			go func() { ended <- roll(t.Context(), t) }()
			second.begins(t, "apply")
			c.deleteDispatcher(t)
			if err := <-ended; err != nil {
				t.Fatal(err, c.report(t, "node-partition-roll"))
			}
			for _, f := range c.nodes {
				f.active(t)
				c.wantState(t, f.Name, "v0.1.0", "kept", "")
				if pods := c.podsOf(t, f.Name); len(pods) != 1 {
					t.Errorf("%s had %d pods of the roll; want one", f.Name, len(pods))
				}
			}
		})
	})
}

// begins waits until a stage runs in a container of the node.
func (f *fleetNode) begins(t *testing.T, stage string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience) // the first node comes before
	defer cancel()
	if _, err := f.Run(ctx, "until pgrep -f ^/partition-installer."+stage+"; do sleep 0.1; done"); err != nil {
		t.Fatal(err)
	}
}

// members lists the processes of the member that the node has by itself, where ever they are.
func (f *fleetNode) members(t *testing.T) string {
	t.Helper()
	uid := unitname.EscapeUID(uidOf(t, f.Node, "kube-system", "system-agent"))
	return run(t, f.Node, "find "+cgroupRoot+"kubepods.slice -path '*"+uid+"*' -name cgroup.procs -exec cat {} + | sort -n | xargs")
}

// podsOf returns the pods of a roll on a node, the newest one last.
func (c *fleetCluster) podsOf(t *testing.T, node string) []v1.Pod {
	t.Helper()
	pods, err := c.Client().CoreV1().Pods(releaseName).List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		t.Fatal(err)
	}
	ofRoll := slices.DeleteFunc(pods.Items, func(p v1.Pod) bool { return len(p.Spec.InitContainers) == 0 })
	slices.SortFunc(ofRoll, func(a, b v1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return ofRoll
}

// failedIn returns the stage that failed last on a node, with its message.
func (c *fleetCluster) failedIn(t *testing.T, node string) (stage, message string) {
	t.Helper()
	pods := c.podsOf(t, node)
	if len(pods) == 0 {
		return "no pod", ""
	}
	status := pods[len(pods)-1].Status
	for _, s := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses) {
		if end := s.State.Terminated; end != nil && end.ExitCode != 0 {
			return s.Name, end.Message
		}
	}
	return "no container", ""
}

// wantFailed checks that a node is labelled as one on which a roll has failed, with some reason.
func (c *fleetCluster) wantFailed(t *testing.T, name string) {
	t.Helper()
	got := c.rolled(t, name)
	if (got.state != "failed" && got.state != "refused") || got.reason == "" {
		t.Errorf("node %s has the labels %q; want a failure with a reason", name, got)
	}
	stage, message := c.failedIn(t, name)
	t.Logf("%s: %q; %s: %s", name, got, stage, message)
}

// deleteDispatcher deletes the pod of the dispatcher at once, as a drain without mercy does.
func (c *fleetCluster) deleteDispatcher(t *testing.T) {
	t.Helper()
	pods := c.podsOfJob(t, "node-partition-roll")
	if len(pods) != 1 {
		t.Fatalf("%d pods of the dispatcher; want one", len(pods))
	}
	now := int64(0)
	if err := c.Client().CoreV1().Pods(releaseName).Delete(t.Context(), pods[0].Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
}
