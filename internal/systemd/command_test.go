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
			"UnitFileState": dbus.MakeVariant("enabled"), "WantedBy": dbus.MakeVariant([]string{}),
			"RequiredBy": dbus.MakeVariant([]string{}), "TriggeredBy": dbus.MakeVariant([]string{}),
			"ExecStart": dbus.MakeVariant(starts), "Environment": dbus.MakeVariant(environment), "EnvironmentFiles": dbus.MakeVariant(files),
		}
	}
	with := func(u unitProperties, name string, value any) unitProperties {
		u[name] = dbus.MakeVariant(value)
		return u
	}
	kubelet := func() unitProperties {
		return with(properties([]start{{Path: "/usr/bin/kubelet", Args: []string{"kubelet"}}}, []string{}, []file{}), "UnitFileState", "disabled")
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
		"disabled":                  {kubelet(), Command{}, false},
		"disabled, and wanted":      {with(kubelet(), "WantedBy", []string{"a.target"}), Command{Args: []string{"kubelet"}}, false},
		"disabled, and required":    {with(kubelet(), "RequiredBy", []string{"a.service"}), Command{Args: []string{"kubelet"}}, false},
		"disabled, and with a path": {with(kubelet(), "TriggeredBy", []string{"a.path"}), Command{Args: []string{"kubelet"}}, false},
		"not found":                 {properties([]start{}, []string{}, []file{}), Command{}, false},
		"of another type":           {properties(nil, uint64(1), nil), Command{}, true},
		"no property":               {unitProperties{}, Command{}, true},
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
