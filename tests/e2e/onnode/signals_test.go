//go:build node

package onnode

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/systemd"
)

// told counts the notifications of a client.
type told struct{ wakes, reloads, ups, downs atomic.Int64 }

func (n *told) options() systemd.Options {
	return systemd.Options{
		Wake:       func() { n.wakes.Add(1) },
		OnReloaded: func() { n.reloads.Add(1) },
		OnConnected: func(up bool) {
			if up {
				n.ups.Add(1)
			} else {
				n.downs.Add(1)
			}
		},
	}
}

func TestSignals(t *testing.T) {
	var n told
	c := connect(t, n.options())
	eventually(t, "notified of the connection", func() bool { return n.wakes.Load() == 1 && n.reloads.Load() == 1 && n.ups.Load() == 1 })

	// kubepods-busprobe.slice belongs to no pod.
	if err := c.EnsureSlice(t.Context(), "kubepods-busprobe.slice", "", cgroups.NoLimits); err != nil {
		t.Fatal(err)
	}
	eventually(t, "notified of a new slice", func() bool { return n.wakes.Load() > 1 })
	before := n.wakes.Load()
	if err := c.StopSlice(t.Context(), "kubepods-busprobe.slice"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "notified of a removed slice", func() bool { return n.wakes.Load() > before })
	shell(t, "systemctl daemon-reload")
	eventually(t, "notified of a reload", func() bool { return n.reloads.Load() >= 2 })
	shell(t, "systemctl daemon-reexec")
	eventually(t, "notified of a re-execution", func() bool { return n.reloads.Load() > 2 })
	seen := n.reloads.Load()
	shell(t, "systemctl daemon-reload")
	eventually(t, "notified of a reload after a re-execution", func() bool { return n.reloads.Load() > seen })
	if n.downs.Load() != 0 {
		t.Error("systemd's re-execution cost the connection to the bus")
	}
}

// TestWithoutBus: without a bus the client continues over systemd's own socket, and returns to the
// bus later.
func TestWithoutBus(t *testing.T) {
	var n told
	c := connect(t, n.options())
	t.Cleanup(func() { _ = exec.Command("systemctl", "start", "dbus.socket", "dbus.service").Run() })
	shell(t, "systemctl stop dbus.socket dbus.service")
	slice, cgroup := pod("bus")
	if err := c.EnsureSlice(t.Context(), slice, "Pod", limits); err != nil {
		t.Fatal(err)
	}
	wantLimits(t, cgroup, limits)
	reloads := n.reloads.Load()
	shell(t, "systemctl daemon-reload")
	eventually(t, "notified of a reload without the bus", func() bool { return n.reloads.Load() > reloads })
	shell(t, "systemctl daemon-reexec")
	if err := c.SetCPUWeight(t.Context(), slice, 44); err != nil {
		t.Errorf("after a re-execution: %v", err)
	}
	shell(t, "systemctl start dbus.socket dbus.service")
	eventually(t, "back on the bus", func() bool { return connections(t) == 2 })
	if err := c.StopSlice(t.Context(), slice); err != nil {
		t.Fatal(err)
	}
	wantNothingLeft(t, slice)
}

// connections counts our connections on the bus.
func connections(t *testing.T) int {
	t.Helper()
	out, err := exec.Command("busctl", "list", "--unique", "--no-legend").Output()
	if err != nil {
		return 0
	}
	count := 0
	for scanner := bufio.NewScanner(strings.NewReader(string(out))); scanner.Scan(); {
		if f := strings.Fields(scanner.Text()); len(f) > 1 && f[1] == strconv.Itoa(os.Getpid()) {
			count++
		}
	}
	return count
}
