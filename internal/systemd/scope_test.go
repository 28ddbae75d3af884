package systemd

import (
	"errors"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"
)

const scope = "cri-containerd-0123.scope"

// asked answers requests for the properties of the scope, as systemd does.
type asked struct{ *fake }

func (a asked) GetAll(iface string) (map[string]dbus.Variant, *dbus.Error) {
	a.called("GetAll %s", strings.TrimPrefix(iface, busName+"."))
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.props[scope]), nil
}

// TestScopeProperties: one call returns all properties of a scope, each with the type that Property
// has for it. StartScope passes them on to another scope unchanged.
func TestScopeProperties(t *testing.T) {
	b := newBus(t)
	systemd := asked{newFake(b)}
	if err := systemd.conn.Export(systemd, unitPath(scope), "org.freedesktop.DBus.Properties"); err != nil {
		t.Fatal(err)
	}
	client := run(t, Options{BusAddress: b.address})
	systemd.keep(scope, []property{{"ControlGroup", dbus.MakeVariant("")}})
	if _, err := client.ScopeProperties(t.Context(), scope); !errors.Is(err, ErrNoUnit) {
		t.Errorf("of a scope that does not run: %v", err)
	}
	systemd.keep(scope, []property{{"ControlGroup", dbus.MakeVariant("/a/" + scope)}})
	settings := []struct {
		Property
		signature string
	}{
		{Property{"DevicePolicy", "strict"}, "s"},
		{Property{"DeviceAllow", []DeviceRule{{"/dev/null", "rwm"}, {"char-pts", "rw"}, {"block-*", "m"}}}, "a(ss)"},
		{Property{"MemoryMax", uint64(314572800)}, "t"},
		{Property{"MemorySwapMax", uint64(0)}, "t"},
		{Property{"CPUWeight", uint64(33)}, "t"},
		{Property{"CPUQuotaPerSecUSec", uint64(250_000)}, "t"},
		{Property{"CPUQuotaPeriodUSec", uint64(67_000)}, "t"},
		{Property{"TasksMax", uint64(math.MaxUint64)}, "t"},
		{Property{"AllowedCPUs", []byte{3, 2}}, "ay"},
		{Property{"IOReadBandwidthMax", []DeviceLimit{{"/dev/vda", 1 << 20}}}, "a(st)"},
		{Property{"IPAddressDeny", []AddressPrefix{{2, []byte{10, 1, 0, 0}, 16}}}, "a(iayu)"},
		{Property{"IPIngressFilterPath", []string{"/sys/fs/bpf/a"}}, "as"},
		{Property{"SocketBindDeny", []SocketRule{{2, 6, 10, 1000}}}, "a(iiqq)"},
		{Property{"RestrictNetworkInterfaces", InterfaceRule{true, []string{"eth0"}}}, "(bas)"},
		{Property{"ManagedOOMMemoryPressureLimit", uint32(5)}, "u"},
		{Property{"KillSignal", int32(9)}, "i"},
		{Property{"SendSIGKILL", false}, "b"},
		{Property{"TimeoutStopUSec", uint64(7_000_000)}, "t"},
	}
	for _, s := range settings {
		systemd.keep(scope, []property{{s.Name, dbus.MakeVariant(s.Value)}})
	}
	systemd.seen()
	all, err := client.ScopeProperties(t.Context(), scope)
	if err != nil {
		t.Fatal(err)
	}
	if calls := systemd.seen(); !slices.Equal(calls, []string{"GetAll Scope"}) {
		t.Errorf("systemd was called for %q; want one GetAll", calls)
	}
	var cgroup string
	if !all.Get("ControlGroup", &cgroup) || cgroup != "/a/"+scope {
		t.Errorf("ControlGroup is %q", cgroup)
	}
	var number uint64
	if all.Get("DevicePolicy", &number) || all.Get("NotThere", &number) {
		t.Error("a property of another type, or one that systemd does not know, is got")
	}
	given := make([]Property, 0, len(settings))
	for _, s := range settings {
		got := reflect.New(reflect.TypeOf(s.Value))
		if !all.Get(s.Name, got.Interface()) || !reflect.DeepEqual(got.Elem().Interface(), s.Value) {
			t.Errorf("%s is %v, want %v", s.Name, got.Elem(), s.Value)
		}
		given = append(given, Property{s.Name, got.Elem().Interface()})
	}
	const newScope = "partition-" + scope
	if err := client.StartScope(t.Context(), newScope, given, []uint32{1}); err != nil {
		t.Fatal(err)
	}
	systemd.mu.Lock()
	defer systemd.mu.Unlock()
	for _, s := range settings {
		variant, value := systemd.props[newScope][s.Name], reflect.New(reflect.TypeOf(s.Value))
		if got := variant.Signature().String(); got != s.signature {
			t.Errorf("%s is of type %s, want %s", s.Name, got, s.signature)
		}
		if err := variant.Store(value.Interface()); err != nil || !reflect.DeepEqual(value.Elem().Interface(), s.Value) {
			t.Errorf("%s of the new scope is %v, %v; want %v", s.Name, value.Elem(), err, s.Value)
		}
	}
}

// TestStopScope: all processes of a scope are killed before it is stopped. One that is gone is no
// error.
func TestStopScope(t *testing.T) {
	b := newBus(t)
	systemd := newFake(b, scope)
	client := run(t, Options{BusAddress: b.address})
	for range 2 { // the second time it is gone
		if err := client.StopScope(t.Context(), scope); err != nil {
			t.Error(err)
		}
	}
	kill, stop := "KillUnit "+scope+" all 9", "StopUnit "+scope+" replace"
	if calls := systemd.seen(); !slices.Equal(calls, []string{"Subscribe", kill, stop, kill, stop}) {
		t.Errorf("systemd was called for %q", calls)
	}
}

// without answers as a systemd that has no such unit.
type without struct{ *fake }

func (w without) SetUnitProperties(name string, _ bool, _ []property) *dbus.Error {
	return dbus.NewError("org.freedesktop.systemd1.NoSuchUnit", []any{"Unit " + name + " not loaded."})
}

// TestSetScopeCPU: one call sets weight and quota. A quota of 0 is not set. A scope may be
// gone.
func TestSetScopeCPU(t *testing.T) {
	b := newBus(t)
	systemd := newFake(b)
	client := run(t, Options{BusAddress: b.address})
	value := func(name string) any {
		systemd.mu.Lock()
		defer systemd.mu.Unlock()
		return systemd.props[scope][name].Value()
	}
	if err := client.SetScopeCPU(t.Context(), scope, 16, 0); err != nil || value("CPUWeight") != uint64(16) || value("CPUQuotaPerSecUSec") != nil {
		t.Errorf("weight %v, quota %v, %v", value("CPUWeight"), value("CPUQuotaPerSecUSec"), err)
	}
	if err := client.SetScopeCPU(t.Context(), scope, 39, 500_000); err != nil || value("CPUWeight") != uint64(39) || value("CPUQuotaPerSecUSec") != uint64(500_000) {
		t.Errorf("weight %v, quota %v, %v", value("CPUWeight"), value("CPUQuotaPerSecUSec"), err)
	}
	calls := slices.DeleteFunc(systemd.seen(), func(call string) bool { return !strings.HasPrefix(call, "Set") })
	if want := "SetUnitProperties " + scope + " true"; !slices.Equal(calls, []string{want, want}) {
		t.Errorf("systemd was called for %q; want one call each, until the next boot", calls)
	}
	if err := systemd.conn.Export(without{systemd}, objectPath, manager); err != nil {
		t.Fatal(err)
	}
	if err := client.SetScopeCPU(t.Context(), scope, 16, 0); err != nil {
		t.Errorf("of a scope that is gone: %v", err)
	}
}
