package systemd

import (
	"context"
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

// TestRunService: a service runs to its end, and its result is read. One that was started before
// the connection was lost is waited for.
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

// slowProperties answers when wait is over.
type slowProperties struct {
	unitProperties
	wait time.Duration
}

// Get is the method of org.freedesktop.DBus.Properties.
func (s slowProperties) Get(of, name string) (dbus.Variant, *dbus.Error) {
	<-time.After(s.wait)
	return s.unitProperties.Get(of, name)
}

// TestVersion: the version is asked for within the time of each method, also while systemd hangs.
func TestVersion(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	systemd := newFake(b)
	client := run(t, Options{BusAddress: b.address})
	ask := func(wait, timeout time.Duration) (string, error) {
		properties := slowProperties{unitProperties{"Version": dbus.MakeVariant("257.13-1")}, wait}
		if err := systemd.conn.Export(properties, objectPath, "org.freedesktop.DBus.Properties"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		return client.Version(ctx)
	}
	if version, err := ask(0, time.Minute); version != "257.13-1" || err != nil {
		t.Errorf("%q, %v", version, err)
	}
	if version, err := ask(10*time.Second, 100*time.Millisecond); err == nil {
		t.Errorf("while systemd hangs: %q; want an error in time", version)
	}
}
