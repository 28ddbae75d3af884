package systemd

import (
	"slices"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"
)

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
