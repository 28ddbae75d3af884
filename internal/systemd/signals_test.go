package systemd

import (
	"fmt"
	"testing"

	"github.com/godbus/dbus/v5"
)

func TestSignals(t *testing.T) {
	b := newBus(t)
	systemd := newFake(b)
	heard := make(told, 10)
	run(t, heard.options(b))
	heard.want(t, "connected true", "reloaded", "wake")

	unit := objectPath + "/unit/x"
	systemd.emit("UnitNew", "kubepods-burstable-pod1.slice", unit)
	heard.want(t, "wake")
	systemd.emit("UnitRemoved", "cri-containerd-1.scope", unit)
	heard.want(t, "wake")
	// These signals cause no notification. The next one shows that they were ignored.
	systemd.emit("UnitNew", "system-getty.slice", unit)
	systemd.emit("UnitNew", "kubelet.service", unit)
	systemd.emit("UnitNew", "session-7.scope", unit)
	systemd.emit("UnitRemoved", "run-r0123.scope", unit)
	systemd.emit("UnitNew")
	systemd.emit("UnitNew", uint32(1))
	systemd.emit("Reloading", true)
	systemd.emit("Reloading")
	systemd.emit("Reloading", "false")
	systemd.emit("Reloading", false)
	heard.want(t, "reloaded")
}

// TestSignalsForged: signals from any other sender than systemd are dropped, by whatever route they
// come.
func TestSignalsForged(t *testing.T) {
	b := newBus(t)
	systemd := newFake(b)
	heard := make(told, 10)
	client := run(t, heard.options(b))
	heard.want(t, "connected true", "reloaded", "wake")

	forger := b.connect()
	to := client.conn.signals.Names()[0]
	forge := func(iface, member string, body ...any) {
		t.Helper()
		if err := forger.Emit(objectPath, iface+"."+member, body...); err != nil {
			t.Fatal(err)
		}
		m := &dbus.Message{Type: dbus.TypeSignal, Body: body, Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldDestination: dbus.MakeVariant(to),
			dbus.FieldPath:        dbus.MakeVariant(objectPath),
			dbus.FieldInterface:   dbus.MakeVariant(iface),
			dbus.FieldMember:      dbus.MakeVariant(member),
			dbus.FieldSignature:   dbus.MakeVariant(dbus.SignatureOf(body...)),
		}}
		if call := forger.Send(m, nil); call.Err != nil {
			t.Fatal(call.Err)
		}
	}
	for range 100 {
		forge(manager, "UnitNew", "kubepods-x.slice", objectPath)
		forge(manager, "Reloading", false)
		forge("org.freedesktop.DBus", "NameOwnerChanged", busName, "", forger.Names()[0])
	}
	// The bus has delivered all of them when it answers the forger, and delivers the next one after
	// that.
	if err := forger.BusObject().Call("org.freedesktop.DBus.GetId", 0).Err; err != nil {
		t.Fatal(err)
	}
	systemd.emit("UnitNew", "kubepods-real.slice", objectPath)
	heard.want(t, "wake")
	systemd.emit("Reloading", false)
	heard.want(t, "reloaded")
	systemd.emit("UnitNew", "kubepods-real.slice", objectPath)
	heard.want(t, "wake")
}

// TestJobForged: another client reports the end of a job that is not over.
func TestJobForged(t *testing.T) {
	b := newBus(t)
	systemd := newFake(b, "x.scope")
	forger := b.connect()
	asked := systemd.neverDone()
	client := run(t, Options{BusAddress: b.address})
	done := make(chan error, 1)
	go func() { done <- client.StartConfiguredSlice(t.Context(), "x.scope") }()
	<-asked
	job := dbus.ObjectPath(fmt.Sprint(objectPath, "/job/1"))
	if err := forger.Emit(objectPath, manager+".JobRemoved", uint32(1), job, "x.scope", "failed"); err != nil {
		t.Fatal(err)
	}
	systemd.emit("JobRemoved", uint32(1), job, "x.scope", "done")
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestRunSystemdReexecutes: when systemd re-executes, it leaves the bus, comes back, and has lost
// its subscribers.
func TestRunSystemdReexecutes(t *testing.T) {
	b := newBus(t)
	old := newFake(b)
	heard := make(told, 10)
	run(t, heard.options(b))
	heard.want(t, "connected true", "reloaded", "wake")
	if _, err := old.conn.ReleaseName(busName); err != nil {
		t.Fatal(err)
	}
	old.emit("UnitNew", "kubepods-x.slice", objectPath)
	systemd := newFake(b)
	heard.want(t, "reloaded", "wake")
	if calls := systemd.seen(); len(calls) != 1 || calls[0] != "Subscribe" {
		t.Errorf("the new one was asked %q", calls)
	}
	systemd.emit("UnitNew", "kubepods-x.slice", objectPath)
	heard.want(t, "wake")
}
