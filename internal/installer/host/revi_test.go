package host

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nodepartition/internal/installer/outcome"
	"nodepartition/internal/installer/sandbox"
)

// TestReviInstallAgain: install is killed, a person changes a file, and install is called again.
func TestReviInstallAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		o := n.order("r1", "v1", section)
		for at := 1; ; at++ {
			n.killAt = len(n.steps) + at
			if survives(func() { n.do(sandbox.Install, o) }) {
				t.Fatal("was not killed")
			}
			if n.read(servicePath) != "" {
				break
			}
		}
		n.killAt = 0
		n.write(servicePath, "[Service] mine")
		got := n.do(sandbox.Install, o)
		if n.read(servicePath) != "[Service] mine" {
			t.Errorf("the file that somebody has changed during the roll is overwritten: %+v", got)
		}
	})
}

// TestReviSlowMonitor: the monitor takes 15 s to stop and to start (TimeoutStopSec=30s).
func TestReviSlowMonitor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.mustRoll("old", "v1", section)
		o := n.order("new", "v2", section)
		n.notReady = "gone"
		n.h.Programs = around{n, func(_ context.Context, line string) (*Ran, error) {
			if line != "systemctl restart --no-block partition-monitor.service" {
				return nil, nil
			}
			n.active["partition-monitor.service"] = false
			time.AfterFunc(15*time.Second, func() { n.active["partition-monitor.service"] = true })
			return &Ran{}, nil
		}}
		got := n.roll(o)
		if got.Status != outcome.WentBack {
			t.Errorf("a restart that is under way: %+v", got)
		}
		time.Sleep(time.Minute)
	})
}

// TestReviMonitorFailed: a monitor that had failed before the roll is reported as a difference.
func TestReviMonitorFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.mustRoll("old", "v1", section)
		state := "failed"
		n.h.Programs = around{n, func(_ context.Context, line string) (*Ran, error) {
			switch {
			case strings.HasPrefix(line, "systemctl reset-failed partition-monitor"):
				state = "inactive"
			case strings.HasPrefix(line, "systemctl show --property=Id,ActiveState -- partition-monitor.service"):
				return &Ran{Stdout: "Id=partition-monitor.service\nActiveState=" + state + "\n\nId=kubepods-system.slice\nActiveState=active\n"}, nil
			}
			return nil, nil
		}}
		n.notReady = "gone"
		got := n.roll(n.order("new", "v2", section))
		if got.Status != outcome.WentBack {
			t.Errorf("%+v", got)
		}
	})
}
