package livemove

import (
	"math"
	"reflect"

	"node-partition.io/node-partition/internal/systemd"
)

const infinity = uint64(math.MaxUint64)

// carried lists the properties of a scope that the new scope gets if they differ from the default
// of a scope. A systemd that does not know a property does not return it. Not listed are the
// properties of cgroup v1 (CPUShares, BlockIO*), those that affect only the children of a cgroup
// (DefaultMemory*) or count while the node boots (Startup*), RuntimeMaxUSec, whose clock would
// start again, and mere counters.
var carried = []struct {
	name string
	// standard has the property's type and the default value, which is not passed on.
	standard any
}{
	{"DevicePolicy", "auto"},
	{"DeviceAllow", []systemd.DeviceRule{}},

	{"MemoryMax", infinity},
	{"MemoryHigh", infinity},
	{"MemoryLow", uint64(0)},
	{"MemoryMin", uint64(0)},
	{"MemorySwapMax", infinity},
	{"MemoryZSwapMax", infinity},
	{"MemoryZSwapWriteback", true},

	{"CPUWeight", infinity},
	{"CPUQuotaPerSecUSec", infinity},
	{"CPUQuotaPeriodUSec", infinity},
	{"AllowedCPUs", []byte{}},
	{"AllowedMemoryNodes", []byte{}},

	// Its default is the manager's DefaultTasksMax=, a share of the machine, and not infinity.
	{"TasksMax", uint64(0)},

	{"IOWeight", infinity},
	{"IODeviceWeight", []systemd.DeviceLimit{}},
	{"IODeviceLatencyTargetUSec", []systemd.DeviceLimit{}},
	{"IOReadBandwidthMax", []systemd.DeviceLimit{}},
	{"IOWriteBandwidthMax", []systemd.DeviceLimit{}},
	{"IOReadIOPSMax", []systemd.DeviceLimit{}},
	{"IOWriteIOPSMax", []systemd.DeviceLimit{}},

	{"IPAccounting", false},
	{"IPAddressAllow", []systemd.AddressPrefix{}},
	{"IPAddressDeny", []systemd.AddressPrefix{}},
	{"IPIngressFilterPath", []string{}},
	{"IPEgressFilterPath", []string{}},
	{"SocketBindAllow", []systemd.SocketRule{}},
	{"SocketBindDeny", []systemd.SocketRule{}},
	{"RestrictNetworkInterfaces", systemd.InterfaceRule{}},

	{"ManagedOOMSwap", "auto"},
	{"ManagedOOMMemoryPressure", "auto"},
	{"ManagedOOMMemoryPressureLimit", uint32(0)},
	{"ManagedOOMPreference", "none"},

	{"KillMode", "control-group"},
	{"KillSignal", int32(15)},
	{"FinalKillSignal", int32(9)},
	{"SendSIGKILL", true},
	{"SendSIGHUP", false},
	{"TimeoutStopUSec", uint64(90_000_000)},
}

// Properties returns the properties of the new scope.
func Properties(old systemd.Properties, slice, description string) []systemd.Property {
	properties := []systemd.Property{
		{Name: "Description", Value: description},
		{Name: "Slice", Value: slice},
		// The runtime sets it too. Without delegation we must not write what systemd has no property for.
		{Name: "Delegate", Value: true},
		// No program asks for a scope of ours after its container is gone, even if the kernel killed it.
		{Name: "CollectMode", Value: "inactive-or-failed"},
		// As the runtime's (UnifiedManager.Apply, opencontainers/cgroups systemd/v2.go).
		{Name: "DefaultDependencies", Value: false},
		{Name: "MemoryAccounting", Value: true},
		{Name: "CPUAccounting", Value: true},
		{Name: "IOAccounting", Value: true},
		{Name: "TasksAccounting", Value: true},
	}
	for _, c := range carried {
		value := reflect.New(reflect.TypeOf(c.standard))
		if !old.Get(c.name, value.Interface()) || same(value.Elem().Interface(), c.standard) {
			continue
		}
		properties = append(properties, systemd.Property{Name: c.name, Value: value.Elem().Interface()})
	}
	// A delegated scope has "continue" by default, and systemd 252 does not let it be set. "kill"
	// means memory.oom.group, which the kubelet sets.
	var policy string
	if old.Get("OOMPolicy", &policy) && policy == "kill" {
		properties = append(properties, systemd.Property{Name: "OOMPolicy", Value: policy})
	}
	return properties
}

// same compares values. Slices without elements are equal, nil or not.
func same(a, b any) bool {
	if v := reflect.ValueOf(a); v.Kind() == reflect.Slice && v.Len() == 0 {
		return reflect.ValueOf(b).Len() == 0
	}
	if rule, ok := a.(systemd.InterfaceRule); ok {
		return !rule.Allow && len(rule.Names) == 0
	}
	return reflect.DeepEqual(a, b)
}
