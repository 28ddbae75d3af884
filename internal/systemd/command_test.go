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

// TestCommand: the command line of a service is the last ExecStart=, with its environment. A
// service that systemd does not find has none.
func TestCommand(t *testing.T) {
	b := newBus(t)
	systemd := newFake(b)
	client := run(t, Options{BusAddress: b.address})
	type start struct {
		Path             string
		Args             []string
		Ignore           bool
		Begin, A, End, B uint64
		PID              uint32
		Code, Status     int32
	}
	type file struct {
		Path   string
		Ignore bool
	}
	properties := func(starts []start, environment any, files []file) unitProperties {
		return unitProperties{
			"UnitFileState": dbus.MakeVariant("enabled"),
			"ExecStart":     dbus.MakeVariant(starts), "Environment": dbus.MakeVariant(environment), "EnvironmentFiles": dbus.MakeVariant(files),
		}
	}
	with := func(u unitProperties, name, value string) unitProperties {
		u[name] = dbus.MakeVariant(value)
		return u
	}
	for name, test := range map[string]struct {
		unit unitProperties
		want Command
		err  bool
	}{
		"kubelet": {
			properties(
				[]start{{Path: "/bin/true", Args: []string{"true"}}, {Path: "/usr/bin/kubelet", Args: []string{"kubelet", "$A", "--b c"}, PID: 7}},
				[]string{"A=x y", "B=z"}, []file{{"/a", true}, {"/b", false}},
			),
			Command{[]string{"kubelet", "$A", "--b c"}, []string{"A=x y", "B=z"}, []string{"/a", "/b"}}, false,
		},
		"disabled": {
			with(properties([]start{{Path: "/usr/bin/kubelet", Args: []string{"kubelet"}}}, []string{"A=b"}, []file{{"/a", true}}), "UnitFileState", "disabled"), Command{}, false,
		},
		"not found":       {properties([]start{}, []string{}, []file{}), Command{}, false},
		"of another type": {properties(nil, uint64(1), nil), Command{}, true},
		"no property":     {unitProperties{}, Command{}, true},
	} {
		path := objectPath + dbus.ObjectPath("/unit/"+sd.PathBusEscape("kubelet.service"))
		if err := systemd.conn.Export(test.unit, path, "org.freedesktop.DBus.Properties"); err != nil {
			t.Fatal(err)
		}
		got, err := client.Command(t.Context(), "kubelet.service")
		same := slices.Equal(got.Args, test.want.Args) && slices.Equal(got.Environment, test.want.Environment) && slices.Equal(got.Files, test.want.Files)
		if (err != nil) != test.err || !test.err && !same {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, test.want)
		}
	}
	b.stop()
	short := New(Options{BusAddress: b.address, PrivateAddress: b.address, Timeout: 1})
	if _, err := short.Command(t.Context(), "kubelet.service"); !errors.Is(err, errNotConnected) {
		t.Errorf("without systemd: %v", err)
	}
}
