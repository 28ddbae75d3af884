//go:build node

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/lab"
)

// spoiled is a node on which an installation fails.
type spoiled struct {
	name string
	// spoil and mend are shell commands.
	spoil, mend  string
	reason, says string
}

func spoiledNodes() []spoiled {
	const (
		dropIn = "/etc/systemd/system/partition-monitor.service.d/60-spoiled.conf"
		wants  = "/etc/systemd/system/timers.target.wants"
	)
	return []spoiled{
		{
			// The unit files of the rollback can be written, and the link to one cannot.
			name: "half a way back", reason: "error", says: wants,
			spoil: "mkdir -p " + wants + " && chattr +i " + wants, mend: "chattr -i " + wants + " && rmdir --ignore-fail-on-non-empty " + wants,
		},
		{
			name: "no timer for the trial", reason: "section", says: "node-partition-trial",
			spoil: "ln -s /dev/null /etc/systemd/system/node-partition-trial.timer", mend: "rm /etc/systemd/system/node-partition-trial.timer",
		},
		{
			name: "the monitor does not start", reason: "verify", says: "partition-monitor.service",
			spoil: "printf '[Service]\nExecStartPre=/bin/false\n' >" + dropIn, mend: "rm " + dropIn,
		},
	}
}

// TestRolloutFailures: the second of three nodes fails at each stage, loses the container or the
// process on the host, or its network. It is as before each time, and the third node is not begun.
// A removal waits for a node that is off, and ends when the Node is deleted.
func TestRolloutFailures(t *testing.T) {
	onOne(t, func(t *testing.T, flavour string) {
		c := newRolloutCluster(t, flavour, "fleet-a", "fleet-b", "fleet-c")
		defer c.logged(t)
		first, second, third := c.nodes[0], c.nodes[1], c.nodes[2]
		half := wanted{memory: "512Mi", trial: "3m"} // no failed node is allowed
		c.install(t)
		// begin has the second node tried, after the first one has the partition.
		begin := func(t *testing.T) {
			t.Helper()
			c.wants(t, half)
			c.label(t, second.Name, `{"`+stateLabel+`": null}`)
		}
		// failed: the try of the second node has failed, and the rollout has stopped.
		failed := func(t *testing.T, reason, says string) {
			t.Helper()
			c.becomes(t, second.Name+" has failed", func(ctx context.Context) (string, error) {
				n, err := c.node(ctx, second.Name)
				if err != nil || n.Labels[stateLabel] == "failed" {
					return "", err
				}
				return fmt.Sprintf("state %q", n.Labels[stateLabel]), nil
			})
			c.condition(t, "Progressing", metav1.ConditionFalse, "Stopped")
			said := c.said(t, second.Name)
			t.Log(said)
			if reason != "" {
				c.wantState(t, second.Name, "", "failed", reason)
			}
			if !strings.Contains(said, says) {
				t.Errorf("%s says %q; want %q", second.Name, said, says)
			}
			second.wentBack(t)
			second.asBefore(t)
			first.active(t, "536870912")
			c.wantState(t, first.Name, "v0.1.0", "kept", "")
			c.wantState(t, third.Name, "", "", "")
			third.asBefore(t)
		}
		for _, s := range spoiledNodes() {
			t.Run("fails: "+s.name, func(t *testing.T) {
				members := second.members(t)
				run(t, second.Node, s.spoil+" && systemctl daemon-reload")
				begin(t)
				second.mended(t, c, s)
				failed(t, s.reason, s.says)
				if after := second.members(t); after != members {
					t.Errorf("processes of members %s; were %s", after, members)
				}
			})
		}
		for what, kill := range map[string]string{
			"the container is killed":           "pkill -KILL -f '^/partition-installer apply'",
			"the process on the host is killed": "systemctl kill --signal=KILL 'partition-install-????????????.service'",
		} {
			t.Run(what, func(t *testing.T) {
				begin(t)
				second.tries(t)
				run(t, second.Node, kill)
				failed(t, "", "")
			})
		}
		t.Run("the network of the node dies", func(t *testing.T) {
			// Both ends of the line see nothing but silence.
			cut := fmt.Sprintf("rule add to %s ipproto tcp dport %d blackhole", lab.HostAddress, c.Port)
			begin(t)
			second.tries(t)
			run(t, second.Node, "ip "+cut)
			second.until(t, "[ ! -e "+kubeletconfig.TrialPath+" ]") // its time is over
			second.wentBack(t)
			second.asBefore(t)
			run(t, second.Node, "ip "+strings.Replace(cut, " add ", " del ", 1))
			failed(t, "", "")
		})
		t.Run("a node is off while the partition is removed", func(t *testing.T) {
			begin(t)
			c.current(t)
			if err := third.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			c.becomes(t, third.Name+" is not Ready", func(ctx context.Context) (string, error) {
				n, err := c.node(ctx, third.Name)
				if err != nil || !conditionOf(n, v1.NodeReady) {
					return "", err
				}
				return "Ready", nil
			})
			c.delete(t)
			c.condition(t, "Progressing", metav1.ConditionFalse, "Waiting")
			second.asBefore(t)
			c.wantState(t, second.Name, "", "", "")
			c.wantState(t, third.Name, "v0.1.0", "kept", "")
			// The node never comes back.
			if err := c.Client().CoreV1().Nodes().Delete(t.Context(), third.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			c.gone(t)
			c.nodes = c.nodes[:2]
			c.uninstall(t)
			first.asBefore(t)
		})
	})
}

// mended mends a node when its try has ended.
func (f *fleetNode) mended(t *testing.T, c *rolloutCluster, s spoiled) {
	t.Helper()
	c.becomes(t, "the try of "+f.Name+" has ended", func(ctx context.Context) (string, error) {
		n, err := c.node(ctx, f.Name)
		if err != nil || n.Labels[stateLabel] != "" {
			return "", err
		}
		return "no state", nil
	})
	run(t, f.Node, s.mend+" && systemctl daemon-reload")
}

// tries waits until the section is on trial.
func (f *fleetNode) tries(t *testing.T) {
	t.Helper()
	f.until(t, "[ -e "+kubeletconfig.TrialPath+" ]")
}

// until waits until a command of the shell succeeds on the node.
func (f *fleetNode) until(t *testing.T, succeeds string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience) // the first node comes before
	defer cancel()
	if _, err := f.Run(ctx, "until "+succeeds+"; do sleep 0.1; done"); err != nil {
		t.Fatal(err)
	}
}

// members lists the processes of the member that the node has by itself, where ever they are.
func (f *fleetNode) members(t *testing.T) string {
	t.Helper()
	uid := partition.EscapeUID(uidOf(t, f.Node, "kube-system", "system-agent"))
	return run(t, f.Node, "find "+cgroupRoot+"kubepods.slice -path '*"+uid+"*' -name cgroup.procs -exec cat {} + | sort -n | xargs")
}
