package livemove

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/systemd"
	"node-partition.io/node-partition/tests/testkit"
)

// Tests that need a kernel's cgroups and a systemd are in tests/e2e/onnode.

// propertiesOf returns properties as systemd does.
func propertiesOf(values ...systemd.Property) systemd.Properties {
	all := systemd.Properties{}
	for _, v := range values {
		all[v.Name] = dbus.MakeVariant(v.Value)
	}
	return all
}

func TestProperties(t *testing.T) {
	rules := []systemd.DeviceRule{{Node: "/dev/null", Access: "rwm"}, {Node: "char-pts", Access: "rw"}}
	old := propertiesOf(
		systemd.Property{Name: "DevicePolicy", Value: "strict"},
		systemd.Property{Name: "DeviceAllow", Value: rules},
		systemd.Property{Name: "MemoryMax", Value: uint64(1 << 20)},
		systemd.Property{Name: "MemoryHigh", Value: uint64(math.MaxUint64)},
		systemd.Property{Name: "MemoryLow", Value: uint64(0)},
		systemd.Property{Name: "CPUWeight", Value: uint64(0)}, // cpu.idle
		systemd.Property{Name: "AllowedCPUs", Value: []byte{3}},
		systemd.Property{Name: "AllowedMemoryNodes", Value: []byte{}},
		systemd.Property{Name: "TasksMax", Value: uint64(math.MaxUint64)},
		systemd.Property{Name: "IPAddressDeny", Value: []systemd.AddressPrefix{}},
		systemd.Property{Name: "RestrictNetworkInterfaces", Value: systemd.InterfaceRule{}},
		systemd.Property{Name: "OOMPolicy", Value: "kill"},
		systemd.Property{Name: "KillMode", Value: "control-group"},
		systemd.Property{Name: "MemoryCurrent", Value: uint64(4711)},
		systemd.Property{Name: "IOWeight", Value: "not a number"},
	)
	got := map[string]any{}
	for _, p := range Properties(old, "a.slice", "text") {
		if _, twice := got[p.Name]; twice {
			t.Errorf("%s is there twice", p.Name)
		}
		got[p.Name] = p.Value
	}
	want := map[string]any{
		"Description": "text", "Slice": "a.slice", "Delegate": true, "CollectMode": "inactive-or-failed", "DefaultDependencies": false,
		"MemoryAccounting": true, "CPUAccounting": true, "IOAccounting": true, "TasksAccounting": true,
		"DevicePolicy": "strict", "DeviceAllow": rules, "MemoryMax": uint64(1 << 20), "CPUWeight": uint64(0), "AllowedCPUs": []byte{3},
		"TasksMax": uint64(math.MaxUint64), "OOMPolicy": "kill",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// TestPropertiesCarried: each carried property with a value other than its default is given to the
// new scope.
func TestPropertiesCarried(t *testing.T) {
	for _, c := range carried {
		var value any
		switch standard := c.standard.(type) {
		case string:
			value = standard + "x"
		case bool:
			value = !standard
		case uint64:
			value = standard ^ 1
		case uint32:
			value = standard ^ 1
		case int32:
			value = standard ^ 1
		case systemd.InterfaceRule:
			value = systemd.InterfaceRule{Allow: true, Names: []string{"eth0"}}
		default: // a list
			one := reflect.MakeSlice(reflect.TypeOf(standard), 1, 1)
			value = one.Interface()
		}
		want := systemd.Property{Name: c.name, Value: value}
		got := Properties(propertiesOf(want), "a.slice", "")
		if !slices.ContainsFunc(got, func(p systemd.Property) bool { return reflect.DeepEqual(p, want) }) {
			t.Errorf("%v is lost: %v", want, got)
		}
	}
	// Container runtimes set these. Delegate is always set.
	for name := range strings.FieldsSeq(`MemoryMax MemoryHigh MemoryLow MemoryMin MemorySwapMax MemoryZSwapMax TasksMax CPUWeight IOWeight
		CPUQuotaPerSecUSec CPUQuotaPeriodUSec TimeoutStopUSec AllowedCPUs AllowedMemoryNodes DevicePolicy DeviceAllow KillMode`) {
		if !slices.ContainsFunc(carried, func(c struct {
			name     string
			standard any
		}) bool {
			return c.name == name
		}) {
			t.Errorf("%s is not carried", name)
		}
	}
}

// TestReadControls reads all control files, of which one may be larger than the buffer.
func TestReadControls(t *testing.T) {
	dir := t.TempDir()
	var want []control
	for _, name := range controlFiles {
		text := "7"
		switch {
		case strings.Contains(name, "*"):
			write(t, filepath.Join(dir, strings.Replace(name, "*", "1GB", 1)), "1")
			want = append(want, control{strings.Replace(name, "*", "1GB", 1), "1"})
			name = strings.Replace(name, "*", "2MB", 1)
		case name == "io.max":
			text = strings.TrimSpace(strings.Repeat("8:0 rbps=1 wbps=max riops=max wiops=max\n", 1000))
		}
		write(t, filepath.Join(dir, name), text)
		want = append(want, control{name, text})
	}
	write(t, filepath.Join(dir, "hugetlb.2MB.current"), "1")
	write(t, filepath.Join(dir, "memory.current"), "1")
	m := Mover{Cgroups: cgroups.FS(dir)}
	if got, err := m.readControls("."); err != nil || !slices.Equal(got, want) {
		t.Errorf("got  %.500v, %v\nwant %.500v", got, err, want)
	}
	write(t, filepath.Join(dir, "cpu.weight"), "0") // cpu.idle
	if err := os.Remove(filepath.Join(dir, "pids.max")); err != nil {
		t.Fatal(err)
	}
	got, err := m.readNamed(".", []string{"cpu.weight", "pids.max", "rdma.max"})
	if err != nil || !slices.Equal(got, []control{{"rdma.max", "7"}}) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := m.readControls("none"); !absent(err) {
		t.Errorf("of a cgroup that is gone: %v", err)
	}
}

func TestDifference(t *testing.T) {
	want := []control{
		{"cpu.max", "12345 67000"}, {"memory.oom.group", "1"}, {"memory.max", "max"}, {"pids.max", "5"}, {"cpuset.cpus", ""},
		{"io.max", "8:0 rbps=max wbps=5 riops=max wiops=max\n9:0 rbps=1 wbps=max riops=max wiops=max"}, {"hugetlb.2MB.max", "0"},
	}
	have := []control{
		{"cpu.max", "13000 67000"}, {"memory.oom.group", "0"}, {"memory.max", "max"}, {"pids.max", "5"}, {"cpuset.cpus", "0-1"},
		{"io.max", "8:0 rbps=max wbps=5 riops=max wiops=max"},
	}
	got := difference(want, have)
	expected := []control{
		{"cpu.max", "12345 67000"}, {"memory.oom.group", "1"}, {"cpuset.cpus", ""}, {"io.max", "9:0 rbps=1 wbps=max riops=max wiops=max"},
	}
	if !slices.Equal(got, expected) {
		t.Errorf("got  %v\nwant %v", got, expected)
	}
	if got := lackingControllers(want, have); !slices.Equal(got, []string{"hugetlb"}) {
		t.Errorf("controllers %v", got)
	}
}

// fake is a systemd with one scope, in a folder.
type fake struct {
	properties systemd.Properties
	calls      []string
	started    []systemd.Property
	start      func()
	// there are the properties of the new scope, and startErr is the answer to the first start of it.
	there    systemd.Properties
	startErr error
	thaw     func() error
}

func (f *fake) call(name string) error {
	f.calls = append(f.calls, name)
	return nil
}

func (f *fake) ScopeProperties(_ context.Context, name string) (systemd.Properties, error) {
	if name != scope && f.there != nil {
		return f.there, f.call("ScopeProperties")
	}
	if f.properties == nil {
		return nil, systemd.ErrNoUnit
	}
	return f.properties, f.call("ScopeProperties")
}

func (f *fake) StartScope(_ context.Context, _ string, properties []systemd.Property, _ []uint32) error {
	f.started = properties
	if err := f.startErr; err != nil {
		f.startErr = nil
		return errors.Join(f.call("StartScope"), err)
	}
	if f.start != nil {
		f.start()
	}
	return f.call("StartScope")
}
func (f *fake) ResetFailed(context.Context, string) error { return f.call("ResetFailed") }
func (f *fake) Freeze(context.Context, string) error      { return f.call("Freeze") }
func (f *fake) Thaw(context.Context, string) error {
	if f.thaw != nil {
		return f.thaw()
	}
	return f.call("Thaw")
}

const scope = "cri-containerd-0123.scope"

// node returns a folder with a scope, and a request to move the scope.
func node(t *testing.T) (*fake, Mover, Request, string) {
	t.Helper()
	root := t.TempDir()
	r := Request{Scope: scope, Cgroup: "kubepods.slice/" + scope, TargetSlice: "kubepods-system.slice", NewName: "partition-" + scope}
	dir := filepath.Join(root, r.Cgroup)
	for name, text := range map[string]string{
		"cgroup.freeze": "0", "cgroup.procs": "", "cgroup.events": "populated 0", "memory.oom.group": "1",
	} {
		write(t, filepath.Join(dir, name), text)
	}
	f := &fake{properties: propertiesOf(systemd.Property{Name: "ControlGroup", Value: "/" + r.Cgroup})}
	return f, Mover{Systemd: f, Cgroups: cgroups.FS(root), StateDir: filepath.Join(t.TempDir(), "moving")}, r, dir
}

func write(t *testing.T, name, text string) {
	t.Helper()
	testkit.WriteFile(t, name, text+"\n")
}

func TestMoveRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *fake, r *Request, dir string) error
		want   error
	}{
		"no unit":   {func(f *fake, _ *Request, _ string) error { f.properties = nil; return nil }, systemd.ErrNoUnit},
		"ended":     {func(f *fake, _ *Request, dir string) error { f.properties = nil; return os.RemoveAll(dir) }, ErrGone},
		"no cgroup": {func(_ *fake, _ *Request, dir string) error { return os.RemoveAll(dir) }, ErrGone},
		"empty":     {func(*fake, *Request, string) error { return nil }, ErrGone},
		"own cgroups": {func(_ *fake, _ *Request, dir string) error {
			return os.Mkdir(filepath.Join(dir, "init"), 0o755)
		}, ErrOwnCgroups},
		"paused": {func(_ *fake, _ *Request, dir string) error {
			return os.WriteFile(filepath.Join(dir, "cgroup.freeze"), []byte("1\n"), 0o644)
		}, ErrPaused},
		"elsewhere": {func(_ *fake, r *Request, _ string) error { r.Cgroup = "other.slice/" + scope; return nil }, nil},
		"same name": {func(_ *fake, r *Request, _ string) error { r.NewName = r.Scope; return nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f, m, r, dir := node(t)
			if err := c.change(f, &r, dir); err != nil {
				t.Fatal(err)
			}
			err := m.Move(t.Context(), r)
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if name != "empty" && slices.Contains(f.calls, "StartScope") {
				t.Errorf("calls %v", f.calls)
			}
			if left, _ := filepath.Glob(filepath.Join(m.StateDir, "*")); len(left) > 0 {
				t.Errorf("records stay: %v", left)
			}
		})
	}
}

// TestMove: the new scope has the properties and the files of the old one.
func TestMove(t *testing.T) {
	f, m, r, dir := node(t)
	f.properties = propertiesOf(systemd.Property{Name: "ControlGroup", Value: "/" + r.Cgroup},
		systemd.Property{Name: "MemoryMax", Value: uint64(1 << 30)}, systemd.Property{Name: "DevicePolicy", Value: "strict"})
	limits := map[string]string{
		"memory.max": "1073741824", "cpu.max": "12345 67000", "hugetlb.2MB.max": "4194304", "cpu.weight": "33", "pids.max": "max", "memory.oom.group": "1",
		"io.max": "8:0 rbps=1 wbps=max riops=max wiops=max",
	}
	for name, text := range limits {
		write(t, filepath.Join(dir, name), text)
	}
	to := filepath.Join(string(m.Cgroups), "kubepods.slice/kubepods-system.slice", r.NewName)
	f.start = func() {
		if _, err := os.Stat(filepath.Join(m.StateDir, scope+recordSuffix)); err != nil {
			t.Errorf("no record before the scope is started: %v", err)
		}
		for name := range limits {
			write(t, filepath.Join(to, name), "")
		}
	}
	// There are no processes that could be moved.
	if err := m.Move(t.Context(), r); !errors.Is(err, ErrGone) {
		t.Errorf("error %v", err)
	}
	if !slices.Equal(f.calls, []string{"ScopeProperties", "StartScope"}) {
		t.Errorf("systemd was called for %q", f.calls)
	}
	for _, want := range []systemd.Property{{Name: "MemoryMax", Value: uint64(1 << 30)}, {Name: "DevicePolicy", Value: "strict"}, {Name: "Slice", Value: r.TargetSlice}} {
		if !slices.ContainsFunc(f.started, func(p systemd.Property) bool { return reflect.DeepEqual(p, want) }) {
			t.Errorf("the new scope was not given %v, but %v", want, f.started)
		}
	}
	for name, want := range limits {
		data, err := os.ReadFile(filepath.Join(to, name))
		if err != nil || strings.TrimSpace(string(data)) != want {
			t.Errorf("%s is %q, %v; want %s", name, data, err, want)
		}
	}
}

func TestRecover(t *testing.T) {
	f, m, r, dir := node(t)
	rec := record{Scope: r.Scope, Cgroup: r.Cgroup, NewCgroup: "kubepods.slice/kubepods-system.slice/" + r.NewName, Controls: []control{{"memory.oom.group", "1"}}}
	if err := rec.write(m.StateDir); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "cgroup.freeze"), "1")
	oomGroup := filepath.Join(string(m.Cgroups), rec.NewCgroup, "memory.oom.group")
	write(t, oomGroup, "0")
	// systemd does not do it, for instance because it has forgotten that it froze the unit.
	f.thaw = func() error { return errors.New("cannot") }
	if err := m.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{filepath.Join(dir, "cgroup.freeze"): "0", oomGroup: "1"} {
		data, err := os.ReadFile(file)
		if err != nil || strings.TrimSpace(string(data)) != want {
			t.Errorf("%s is %q, %v; want %s", file, data, err, want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(m.StateDir, "*")); len(left) > 0 {
		t.Errorf("records stay: %v", left)
	}

	t.Run("all gone", func(t *testing.T) {
		gone := record{Scope: "gone.scope", Cgroup: "kubepods.slice/gone.scope", NewCgroup: "kubepods.slice/new.scope"}
		if err := gone.write(m.StateDir); err != nil {
			t.Fatal(err)
		}
		if err := m.Recover(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("broken", func(t *testing.T) {
		broken := filepath.Join(m.StateDir, "x.scope.json")
		write(t, broken, "{")
		if err := rec.write(m.StateDir); err != nil {
			t.Fatal(err)
		}
		if err := m.Recover(t.Context()); err == nil || !strings.Contains(err.Error(), broken) {
			t.Errorf("error %v, want one about %s", err, broken)
		}
		if _, err := os.Stat(filepath.Join(m.StateDir, r.Scope+".json")); !errors.Is(err, os.ErrNotExist) {
			t.Error("a broken record keeps the others from being dealt with")
		}
	})
	t.Run("nothing to do", func(t *testing.T) {
		if err := (Mover{Systemd: f, Cgroups: m.Cgroups, StateDir: filepath.Join(t.TempDir(), "none")}).Recover(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
