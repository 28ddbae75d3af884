package systemd

import (
	"errors"
	"slices"
	"testing"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// unitProperties has the properties of a unit.
type unitProperties map[string]dbus.Variant

// Get is the method of org.freedesktop.DBus.Properties.
func (u unitProperties) Get(_, name string) (dbus.Variant, *dbus.Error) {
	value, ok := u[name]
	if !ok {
		return dbus.Variant{}, dbus.NewError("org.freedesktop.DBus.Error.UnknownProperty", nil)
	}
	return value, nil
}

// TestUnitFiles: the file of a unit is before its drop-ins, and a unit that systemd does not find
// has none.
func TestUnitFiles(t *testing.T) {
	b := newBus(t)
	systemd := newFake(b)
	client := run(t, Options{BusAddress: b.address})
	const file, dropin, late = "/usr/lib/systemd/system/kubelet.service", "/usr/lib/systemd/system/kubelet.service.d/10.conf", "/etc/systemd/system/kubelet.service.d/20.conf"
	for name, test := range map[string]struct {
		unit unitProperties
		want []string
		err  bool
	}{
		"with drop-ins": {
			unitProperties{"FragmentPath": dbus.MakeVariant(file), "DropInPaths": dbus.MakeVariant([]string{dropin, late})},
			[]string{file, dropin, late}, false,
		},
		"drop-ins alone": {
			unitProperties{"FragmentPath": dbus.MakeVariant(""), "DropInPaths": dbus.MakeVariant([]string{late})}, []string{late}, false,
		},
		"not found": {unitProperties{"FragmentPath": dbus.MakeVariant(""), "DropInPaths": dbus.MakeVariant([]string{})}, nil, false},
		"of another type": {
			unitProperties{"FragmentPath": dbus.MakeVariant(file), "DropInPaths": dbus.MakeVariant(uint64(1))}, nil, true,
		},
		"no property": {unitProperties{}, nil, true},
	} {
		path := objectPath + dbus.ObjectPath("/unit/"+sd.PathBusEscape("kubelet.service"))
		if err := systemd.conn.Export(test.unit, path, "org.freedesktop.DBus.Properties"); err != nil {
			t.Fatal(err)
		}
		got, err := client.UnitFiles(t.Context(), "kubelet.service")
		if (err != nil) != test.err || !test.err && !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, %v; want %q", name, got, err, test.want)
		}
	}
	b.stop()
	short := New(Options{BusAddress: b.address, PrivateAddress: b.address, Timeout: 1})
	if _, err := short.UnitFiles(t.Context(), "kubelet.service"); !errors.Is(err, errNotConnected) {
		t.Errorf("without systemd: %v", err)
	}
}
