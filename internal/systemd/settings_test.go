package systemd

import (
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"
)

const scope = "cri-containerd-0123.scope"

// fragment is the file of a scope of runc 1.3 as systemd 252 writes it.
const fragment = `# This is a transient unit file, created programmatically via the systemd API. Do not edit.
[Unit]
Description=libcontainer container 0123

[Scope]
Slice=kubepods-pod1.slice
Delegate=yes
MemoryAccounting=yes
CPUAccounting=yes
IOAccounting=yes
TasksAccounting=yes

[Unit]
DefaultDependencies=no

[Scope]
DevicePolicy=strict
DeviceAllow=

DeviceAllow=
DeviceAllow=/dev/null rwm
DeviceAllow=char-pts rw
DeviceAllow=block-* m

MemoryMax=314572800
MemorySwapMax=0
CPUWeight=33
CPUQuotaPeriodSec=67ms
CPUQuota=25%
TasksMax=infinity
AllowedCPUs=0-1 9
TimeoutStopSec=7000000us
`

var fragmentValues = map[string]any{
	"Delegate": true, "DevicePolicy": "strict", "DeviceAllow": []DeviceRule{{"/dev/null", "rwm"}, {"char-pts", "rw"}, {"block-*", "m"}},
	"MemoryMax": uint64(314572800), "MemorySwapMax": uint64(0), "CPUWeight": uint64(33), "CPUQuotaPeriodUSec": uint64(67_000),
	"CPUQuotaPerSecUSec": uint64(250_000), "TasksMax": uint64(math.MaxUint64), "AllowedCPUs": []byte{3, 2}, "TimeoutStopUSec": uint64(7_000_000),
}

func TestUnitFiles(t *testing.T) {
	var f unitFiles
	if err := f.add(fragment, false); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(f.values, fragmentValues) {
		t.Errorf("got  %v\nwant %v", f.values, fragmentValues)
	}
	// Each setting has a drop-in of its own, and replaces what was there.
	const head = "# This is a drop-in unit file extension, created via \"systemctl set-property\"\n# or an equivalent operation. Do not edit.\n[Scope]\n"
	for _, dropIn := range []string{"MemoryMax=infinity\n", "CPUQuota=\n", "DeviceAllow=\nDeviceAllow=/dev/zero r\n\n", "AllowedCPUs=\nAllowedCPUs=4\n", "CPUWeight=idle\n"} {
		if err := f.add(head+dropIn, true); err != nil {
			t.Error(err)
		}
	}
	for name, want := range map[string]any{
		"MemoryMax": uint64(math.MaxUint64), "CPUQuotaPerSecUSec": uint64(math.MaxUint64), "DeviceAllow": []DeviceRule{{"/dev/zero", "r"}},
		"AllowedCPUs": []byte{16}, "CPUWeight": uint64(0), "TasksMax": uint64(math.MaxUint64), "DevicePolicy": "strict",
	} {
		if !reflect.DeepEqual(f.values[name], want) {
			t.Errorf("%s is %v, want %v", name, f.values[name], want)
		}
	}
}

// TestSettings: what a line means, and what is left to systemd, which is nil here.
func TestSettings(t *testing.T) {
	for line, want := range map[string]any{
		"MemoryHigh=1": uint64(1), "MemoryLow=infinity": uint64(math.MaxUint64), "MemoryMin=0": uint64(0), "MemoryZSwapMax=5": uint64(5),
		"MemoryMax=1G": nil, "MemoryMax=10%": nil, "MemoryMax=": nil, "MemoryMax=0": nil, "MemoryMax=-1": nil, "TasksMax=0": nil, "TasksMax=10%": nil,
		"CPUWeight=": uint64(math.MaxUint64), "IOWeight=50": uint64(50), "IOWeight=idle": nil, "CPUWeight=0": nil, "CPUWeight=10001": nil,
		"CPUQuota=250%": uint64(2_500_000), "CPUQuota=25.50%": uint64(255_000), "CPUQuota=0.09%": uint64(900),
		"CPUQuota=25": nil, "CPUQuota=25.5%": nil, "CPUQuota=25.%": nil, "CPUQuota=0%": nil, "CPUQuota=-1%": nil,
		"CPUQuotaPeriodSec=": uint64(math.MaxUint64), "CPUQuotaPeriodSec=100ms": uint64(100_000), "CPUQuotaPeriodSec=1.500ms": uint64(1500),
		"CPUQuotaPeriodSec=0": nil, "CPUQuotaPeriodSec=5": nil,
		"TimeoutStopSec=1min 30s": uint64(90_000_000), "TimeoutStopSec=infinity": nil, "TimeoutStopSec=1d": nil, "TimeoutStopSec=": nil,
		"TimeoutStopSec=-1s": nil, "TimeoutStopSec=18446744073709551615us": nil, "TimeoutStopSec=1ns": nil,
		"AllowedMemoryNodes=0": []byte{1}, "AllowedCPUs=": []byte{}, "AllowedCPUs=7,8-9": []byte{128, 3}, "AllowedCPUs=3-1": nil, "AllowedCPUs=9999": nil, "AllowedCPUs=x": nil,
		"DevicePolicy=closed": "closed", "DevicePolicy=": nil, "OOMPolicy=kill": "kill", "OOMPolicy=x": nil, "KillMode=mixed": "mixed", "KillMode=": nil,
		"DeviceAllow=/dev/null": nil, "DeviceAllow=/dev/null x": nil, `DeviceAllow="/dev/a b" r`: nil, "DeviceAllow=/dev/%i r": nil,
		"Delegate=yes": true, "Delegate=no": nil, "Delegate=cpu memory": nil, "Delegate=": nil,
		"no setting": nil,
	} {
		var f unitFiles
		err := f.add("[Scope]\n"+line+"\n", false)
		if want == nil {
			if !errors.Is(err, errNotUnderstood) {
				t.Errorf("%s: error %v", line, err)
			}
			continue
		}
		if err != nil || len(f.values) != 1 {
			t.Errorf("%s: %v, error %v", line, f.values, err)
		}
		for name, got := range f.values {
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %s is %v, want %v", line, name, got, want)
			}
		}
	}
	for what, texts := range map[string][]string{
		"a line that goes on":      {"[Unit]\nDescription=a\\\n[Scope]\nMemoryMax=1\n"},
		"two drop-ins":             {"[Scope]\nMemoryMax=1\n", "[Scope]\nMemoryMax=2\n", "[Scope]\nMemoryMax=3\n"},
		"CPUs added or replaced":   {"[Scope]\nAllowedCPUs=0\n", "[Scope]\nAllowedCPUs=1\n"},
		"two accesses of a device": {"[Scope]\nDeviceAllow=/dev/null r\nDeviceAllow=/dev/null w\n"},
	} {
		var f unitFiles
		var err error
		for i, text := range texts {
			err = errors.Join(err, f.add(text, i > 0))
		}
		if !errors.Is(err, errNotUnderstood) {
			t.Errorf("%s: error %v", what, err)
		}
	}
}

// TestNothingIsLeftOut: whatever can be set of a scope is a property, or has systemd be asked. The names are those of
// systemd.scope(5), systemd.resource-control(5) and systemd.kill(5) of 257.
func TestNothingIsLeftOut(t *testing.T) {
	// Always set by us.
	ours := []string{"Slice", "CPUAccounting", "MemoryAccounting", "IOAccounting", "TasksAccounting"}
	want := append(slices.Clone(ours), "TimeoutStopSec", "OOMPolicy", "Delegate", "CPUWeight", "CPUQuota", "CPUQuotaPeriodSec",
		"AllowedCPUs", "AllowedMemoryNodes", "MemoryMin", "MemoryLow", "MemoryHigh", "MemoryMax", "MemorySwapMax", "MemoryZSwapMax",
		"TasksMax", "IOWeight", "DeviceAllow", "DevicePolicy", "KillMode")
	var understood []string
	for name := range strings.FieldsSeq(`OOMPolicy RuntimeMaxSec RuntimeRandomizedExtraSec TimeoutStopSec User Group
		Slice Delegate DelegateSubgroup DisableControllers CPUAccounting CPUWeight StartupCPUWeight CPUQuota CPUQuotaPeriodSec AllowedCPUs
		StartupAllowedCPUs AllowedMemoryNodes StartupAllowedMemoryNodes MemoryAccounting MemoryMin MemoryLow StartupMemoryLow
		DefaultMemoryMin DefaultMemoryLow DefaultStartupMemoryLow MemoryHigh StartupMemoryHigh MemoryMax StartupMemoryMax MemorySwapMax
		StartupMemorySwapMax MemoryZSwapMax StartupMemoryZSwapMax MemoryZSwapWriteback TasksAccounting TasksMax IOAccounting IOWeight
		StartupIOWeight IODeviceWeight IOReadBandwidthMax IOWriteBandwidthMax IOReadIOPSMax IOWriteIOPSMax IODeviceLatencyTargetSec
		IPAccounting IPAddressAllow IPAddressDeny SocketBindAllow SocketBindDeny RestrictNetworkInterfaces NFTSet IPIngressFilterPath
		IPEgressFilterPath BPFProgram DeviceAllow DevicePolicy ManagedOOMSwap ManagedOOMMemoryPressure ManagedOOMMemoryPressureLimit
		ManagedOOMMemoryPressureDurationSec ManagedOOMPreference MemoryPressureWatch MemoryPressureThresholdSec CoredumpReceive
		KillMode KillSignal RestartKillSignal SendSIGHUP SendSIGKILL FinalKillSignal WatchdogSignal
		MemoryLimit CPUShares StartupCPUShares BlockIOAccounting BlockIOWeight AnythingNew`) {
		for _, value := range []string{"", "yes", "no", "1", "10%", "1s", "1-2", "/dev/null r", "strict", "kill", "mixed", "idle", "infinity", "eth0"} {
			var f unitFiles
			err := f.add("[Scope]\n"+name+"="+value+"\n", false)
			if err == nil && len(f.values) == 0 && !slices.Contains(ours, name) {
				t.Errorf("%s=%s is left out in silence", name, value)
			}
			if err == nil && !slices.Contains(understood, name) {
				understood = append(understood, name)
			}
		}
	}
	slices.Sort(understood)
	slices.Sort(want)
	if !slices.Equal(understood, want) {
		t.Errorf("understood %q, want %q", understood, want)
	}
}

// unit answers what is asked of the scope, as systemd does.
type unit struct{ *fake }

// answer sets what it answers.
func (u unit) answer(cgroup string, dropIns []string) {
	u.keep(scope, []property{
		{"ControlGroup", dbus.MakeVariant(cgroup)}, {"DropInPaths", dbus.MakeVariant(dropIns)}, {"MemoryMax", dbus.MakeVariant(uint64(1))},
	})
}

func (u unit) Get(iface, name string) (dbus.Variant, *dbus.Error) {
	u.called("Get %s.%s", strings.TrimPrefix(iface, busName+"."), name)
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.props[scope][name], nil
}

func (u unit) GetAll(iface string) (map[string]dbus.Variant, *dbus.Error) {
	u.called("GetAll %s", strings.TrimPrefix(iface, busName+"."))
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.props[scope]), nil
}

func TestScopeSettings(t *testing.T) {
	b := newBus(t)
	dir := t.TempDir()
	file := filepath.Join(dir, scope)
	dropIn := filepath.Join(dir, scope+".d", "50-MemoryMax.conf")
	u := unit{newFake(b)}
	if err := u.conn.Export(u, unitPath(scope), "org.freedesktop.DBus.Properties"); err != nil {
		t.Fatal(err)
	}
	client := run(t, Options{BusAddress: b.address, TransientDir: dir})
	u.answer("", nil)
	if _, err := client.ScopeSettings(t.Context(), scope); !errors.Is(err, ErrNoUnit) {
		t.Errorf("of what is not there: %v", err)
	}
	asks := []string{"Get Scope.ControlGroup", "Get Unit.DropInPaths"}
	all := append(slices.Clone(asks), "GetAll Scope")
	for what, c := range map[string]struct {
		file, dropIn string
		dropIns      []string
		memoryMax    uint64
		want         []string
	}{
		"a file":                 {fragment, "", nil, 314572800, asks},
		"a drop-in":              {fragment, "[Scope]\nMemoryMax=7\n", []string{dropIn}, 7, asks},
		"a drop-in not loaded":   {fragment, "[Scope]\nMemoryMax=7\n", nil, 314572800, asks},
		"an address that is out": {fragment + "IPAddressDeny=10.1.0.0/16\n", "", nil, 1, all},
		"the same in a drop-in":  {fragment, "[Scope]\nIPAddressDeny=10.1.0.0/16\n", []string{dropIn}, 1, all},
		"a drop-in that is gone": {fragment, "", []string{dropIn}, 1, all},
		"no file":                {"", "", nil, 1, all},
		"not delegated":          {strings.Replace(fragment, "Delegate=yes\n", "", 1), "", nil, 1, all},
	} {
		t.Run(what, func(t *testing.T) {
			for name, text := range map[string]string{file: c.file, dropIn: c.dropIn} {
				if err := os.RemoveAll(name); err != nil {
					t.Fatal(err)
				}
				if text == "" {
					continue
				}
				if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			u.answer("/a/"+scope, c.dropIns)
			u.seen()
			before := client.Calls()
			got, err := client.ScopeSettings(t.Context(), scope)
			if err != nil {
				t.Fatal(err)
			}
			calls := u.seen()
			slices.Sort(calls[:2]) // asked at once, and answered by a goroutine each
			if !slices.Equal(calls, c.want) || client.Calls()-before != uint64(len(c.want)) {
				t.Errorf("it was asked %q, %d calls; want %q", calls, client.Calls()-before, c.want)
			}
			var cgroup string
			var memoryMax uint64
			if !got.Get("ControlGroup", &cgroup) || cgroup != "/a/"+scope || !got.Get("MemoryMax", &memoryMax) || memoryMax != c.memoryMax {
				t.Errorf("got %v", got)
			}
			var rules []DeviceRule
			if len(c.want) == 2 && (!got.Get("DeviceAllow", &rules) || len(rules) != 3) {
				t.Errorf("DeviceAllow is %v", got["DeviceAllow"])
			}
		})
	}
}
