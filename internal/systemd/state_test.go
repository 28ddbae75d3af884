package systemd

import (
	"testing"

	"github.com/godbus/dbus/v5"
)

// TestStopping: the node is being shut down in one state of systemd. Without an answer it is not
// known.
func TestStopping(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	systemd := newFake(b)
	client := run(t, Options{BusAddress: b.address})
	for _, test := range []struct {
		properties unitProperties
		want, err  bool
	}{
		{unitProperties{"SystemState": dbus.MakeVariant("running")}, false, false},
		{unitProperties{"SystemState": dbus.MakeVariant("degraded")}, false, false},
		{unitProperties{"SystemState": dbus.MakeVariant("stopping")}, true, false},
		{unitProperties{"SystemState": dbus.MakeVariant([]string{"stopping"})}, false, true},
		{unitProperties{}, false, true},
	} {
		if err := systemd.conn.Export(test.properties, objectPath, "org.freedesktop.DBus.Properties"); err != nil {
			t.Fatal(err)
		}
		if got, err := client.Stopping(t.Context()); got != test.want || (err != nil) != test.err {
			t.Errorf("%v: %t, %v; want %t", test.properties, got, err, test.want)
		}
	}
}
