package systemd

import (
	"os"
	"path/filepath"
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

// TestForgetScope removes what was set, and leaves what others have set.
func TestForgetScope(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := New(Options{ControlDir: dir})
	for name, files := range map[string][]string{
		"a.scope": {"50-CPUWeight.conf", "50-CPUQuota.conf"}, "b.scope": {"50-CPUWeight.conf", "50-MemoryMax.conf"},
	} {
		if err := os.Mkdir(filepath.Join(dir, name+".d"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if err := os.WriteFile(filepath.Join(dir, name+".d", f), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{"a.scope", "b.scope", "none.scope"} {
		if err := c.ForgetScope(name); err != nil {
			t.Fatal(err)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if folders, _ := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(folders) != 1 || len(left) != 1 || filepath.Base(left[0]) != "50-MemoryMax.conf" {
		t.Errorf("left: %q, %q, %v", folders, left, err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "c.scope.d", "50-CPUWeight.conf", "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := c.ForgetScope("c.scope"); err == nil {
		t.Error("a file that cannot be removed is no error")
	}
}
