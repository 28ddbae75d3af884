package systemd

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

const stageUnit = "partition-install-apply-r1.service"

// serve gives a unit of the fake properties.
func (f *fake) serve(t *testing.T, unit string, properties unitProperties) {
	t.Helper()
	path := objectPath + dbus.ObjectPath("/unit/"+sd.PathBusEscape(unit))
	if err := f.conn.Export(properties, path, "org.freedesktop.DBus.Properties"); err != nil {
		t.Fatal(err)
	}
}

// TestRunService: a service runs to its end, its result is read, and systemd forgets it. One that
// an earlier client has started is waited for, and then removed.
func TestRunService(t *testing.T) {
	b := newBus(t)
	systemd := newFake(b)
	client := run(t, Options{BusAddress: b.address})
	properties := unitProperties{
		"ActiveState": dbus.MakeVariant("inactive"), "Result": dbus.MakeVariant("exit-code"), "ExecMainStatus": dbus.MakeVariant(int32(3)),
	}
	systemd.serve(t, stageUnit, properties)
	ended, err := client.RunService(t.Context(), stageUnit, []Property{{"Type", "oneshot"}}, time.Minute)
	if err != nil || ended != (Ended{"exit-code", 3}) {
		t.Errorf("%+v, %v", ended, err)
	}
	if calls := systemd.seen(); !slices.Contains(calls, "StartTransientUnit "+stageUnit+" fail") {
		t.Errorf("%v", calls)
	}

	const other = "partition-install-verify-r1.service"
	systemd.serve(t, other, unitProperties{
		"ActiveState": dbus.MakeVariant("active"), "Result": dbus.MakeVariant("success"), "ExecMainStatus": dbus.MakeVariant(int32(0)),
	})
	systemd.mu.Lock()
	systemd.exists[other] = true
	systemd.mu.Unlock()
	if _, err := client.RunService(t.Context(), other, nil, time.Minute); err != nil {
		t.Error(err)
	}
	var order []string
	for _, call := range systemd.seen() {
		if strings.Contains(call, other) {
			order = append(order, strings.Fields(call)[0])
		}
	}
	if want := []string{"StopUnit", "StartTransientUnit", "StopUnit"}; !slices.Equal(order, want) {
		t.Errorf("%v; want %v", order, want)
	}

	systemd.serve(t, stageUnit, unitProperties{"ActiveState": dbus.MakeVariant("activating")})
	if _, err := client.RunService(t.Context(), stageUnit, nil, 50*time.Millisecond); err == nil || !strings.Contains(err.Error(), stageUnit) {
		t.Errorf("a service that does not end: %v", err)
	}
	b.stop()
	short := New(Options{BusAddress: b.address, PrivateAddress: b.address, Timeout: 1})
	if _, err := short.RunService(t.Context(), stageUnit, nil, 1); !errors.Is(err, errNotConnected) {
		t.Errorf("without systemd: %v", err)
	}
	if _, err := short.Version(t.Context()); !errors.Is(err, errNotConnected) {
		t.Errorf("without systemd: %v", err)
	}
}
