//go:build node

package onnode

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/godbus/dbus/v5"

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

// TestForgedSignals: a user without rights sends us the signals of systemd.
func TestForgedSignals(t *testing.T) {
	var n told
	connect(t, n.options())
	// A connection that accepts every signal shows that the forged ones arrive.
	gullible, err := dbus.ConnectSystemBus()
	if err != nil {
		t.Fatal(err)
	}
	defer gullible.Close()
	heard := make(chan *dbus.Signal, 100_000)
	gullible.Signal(heard)
	eventually(t, "notified of the connection", func() bool { return n.wakes.Load() == 1 && n.reloads.Load() == 1 })

	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	shell(t, "cp "+exe+" /tmp/forge && chmod 755 /tmp/forge")
	forge := exec.Command("/tmp/forge", "forge", strconv.Itoa(os.Getpid()))
	forge.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := forge.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	forged := 0
	eventually(t, "forged signals arrive", func() bool {
		for {
			select {
			case s := <-heard:
				if strings.HasPrefix(s.Name, "org.freedesktop.systemd1.") {
					forged++
				}
			default:
				return forged >= 4*rounds
			}
		}
	})
	if wakes, reloads := n.wakes.Load(), n.reloads.Load(); wakes != 1 || reloads != 1 {
		t.Errorf("forged signals woke it %d times and reported %d reloads", wakes-1, reloads-1)
	}
	// The client still takes only systemd for systemd.
	shell(t, "systemctl daemon-reload")
	eventually(t, "notified of a real reload", func() bool { return n.reloads.Load() >= 2 })
}

const rounds = 500

// forgeSignals sends signals to all connections of a process.
func forgeSignals() {
	conn, err := dbus.ConnectSystemBus()
	if err != nil {
		fatal(err)
	}
	var names []string
	if err := conn.BusObject().Call("org.freedesktop.DBus.ListNames", 0).Store(&names); err != nil {
		fatal(err)
	}
	victims := 0
	for _, name := range names {
		var pid uint32
		err := conn.BusObject().Call("org.freedesktop.DBus.GetConnectionUnixProcessID", 0, name).Store(&pid)
		if err != nil || !strings.HasPrefix(name, ":") || strconv.Itoa(int(pid)) != os.Args[2] {
			continue
		}
		victims++
		for range rounds {
			const manager = "org.freedesktop.systemd1.Manager"
			send(conn, name, manager, "UnitNew", "kubepods-x.slice", dbus.ObjectPath("/org/freedesktop/systemd1/unit/x"))
			send(conn, name, manager, "Reloading", false)
			send(conn, name, manager, "JobRemoved", uint32(1), dbus.ObjectPath("/org/freedesktop/systemd1/job/1"), "x.slice", "done")
			send(conn, name, manager, "Reloading")
			send(conn, name, "org.freedesktop.DBus", "NameOwnerChanged", "org.freedesktop.systemd1", "", conn.Names()[0])
		}
	}
	var id string
	if err := conn.BusObject().Call("org.freedesktop.DBus.GetId", 0).Store(&id); err != nil {
		fatal(err)
	}
	if victims == 0 {
		fatal(fmt.Errorf("process %s has no connections", os.Args[2]))
	}
	fmt.Printf("as user %d: %d signals to %d connections", os.Getuid(), 5*rounds*victims, victims)
}

func send(conn *dbus.Conn, to, iface, member string, body ...any) {
	m := &dbus.Message{Type: dbus.TypeSignal, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldDestination: dbus.MakeVariant(to),
		dbus.FieldPath:        dbus.MakeVariant(dbus.ObjectPath("/org/freedesktop/systemd1")),
		dbus.FieldInterface:   dbus.MakeVariant(iface),
		dbus.FieldMember:      dbus.MakeVariant(member),
		dbus.FieldSignature:   dbus.MakeVariant(dbus.SignatureOf(body...)),
	}, Body: body}
	if call := conn.Send(m, nil); call.Err != nil {
		fatal(call.Err)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// TestWithoutBus: without a bus the client continues over systemd's own socket.
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
	if err := c.StopSlice(t.Context(), slice); err != nil {
		t.Fatal(err)
	}
	wantNothingLeft(t, slice)
}
