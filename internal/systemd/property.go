package systemd

import (
	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"node-partition.io/node-partition/internal/cgroups"
)

// Property is a setting of a unit, with its name on D-Bus (org.freedesktop.systemd1(5)). The type
// of Value decides the type on the wire: string, bool, uint64, []string, []uint32, []byte, and the
// structs of this package and slices of them.
type Property struct {
	Name  string
	Value any
}

// DeviceRule is an element of DeviceAllow, (ss).
type DeviceRule struct{ Node, Access string }

// DeviceLimit is an element of IOReadBandwidthMax and its like, (st).
type DeviceLimit struct {
	Path  string
	Limit uint64
}

// AddressPrefix is an element of IPAddressAllow and IPAddressDeny, (iayu).
type AddressPrefix struct {
	Family  int32
	Address []byte
	Length  uint32
}

// SocketRule is an element of SocketBindAllow and SocketBindDeny, (iiqq).
type SocketRule struct {
	Family, Protocol int32
	Ports, FirstPort uint16
}

// InterfaceRule is RestrictNetworkInterfaces, (bas).
type InterfaceRule struct {
	Allow bool
	Names []string
}

func variants(properties []Property) []sd.Property {
	out := make([]sd.Property, len(properties))
	for i, p := range properties {
		out[i] = sd.Property{Name: p.Name, Value: dbus.MakeVariant(p.Value)}
	}
	return out
}

// limitProperties returns the limits as properties, which the kubelet's systemd driver sets too
// (genV2ResourcesProperties, opencontainers/cgroups systemd/v2.go). It always returns all of them,
// because setting a limit to infinity lifts it.
func limitProperties(l cgroups.Limits) []Property {
	return []Property{
		{"MemoryMax", l.MemoryMax},
		{"MemoryHigh", l.MemoryHigh},
		{"CPUWeight", l.CPUWeight},
		{"CPUQuotaPerSecUSec", l.CPUQuotaPerSec},
		{"CPUQuotaPeriodUSec", l.CPUQuotaPeriod},
		{"TasksMax", l.TasksMax},
		{"MemoryMin", l.Protection.Min},
		{"MemoryLow", l.Protection.Low},
	}
}
