// Package sandbox says what the installer may do on the host, as properties of systemd's units. It
// is pure: docs/fleet-node.md lists the same, with the reasons.
package sandbox

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"node-partition.io/node-partition/internal/installer/record"
	"node-partition.io/node-partition/internal/systemd"
)

// Folder is the installer's folder on the host.
const Folder = "/var/lib/node-partition/installer"

const (
	// etc has the unit files of the rollback, and of the programs where /usr is read-only.
	etc = "/etc/systemd"
	// section has node-partition.yaml.
	section = "/etc/kubernetes"
	// running has the state of the programs, and the section on trial.
	running = "/run/node-partition"
)

// writes returns the paths that a unit may write, and nothing else on the host. survey means that
// it changes nothing.
func writes(survey bool) []string {
	if survey {
		return []string{Folder}
	}
	return []string{etc, section, running, "/usr/bin", "/usr/lib/systemd", "/usr/libexec", Folder}
}

// setting is a property in both of its forms.
type setting struct {
	name  string
	value any    // on D-Bus (org.freedesktop.systemd1(5))
	text  string // in a unit file (systemd.exec(5))
}

// list is (bas), a list of allowed values.
type list struct {
	Allow bool
	Names []string
}

// The capabilities by which root reads and writes files of other users. What systemd is asked for,
// it does itself.
const (
	capChown       = 1 << 0
	capDACOverride = 1 << 1
	capFOwner      = 1 << 3
)

// minute and mebi are units of the bounds below.
const (
	minute = 60 * 1000 * 1000 // in microseconds, as systemd counts
	mebi   = 1 << 20
)

func yes(name string) setting { return setting{name, true, "yes"} }

func settings(survey bool) []setting {
	minutes := uint64(record.Life.Minutes())
	if survey {
		minutes = 5
	}
	families := []string{"AF_UNIX", "AF_INET", "AF_INET6"} // it asks the API server
	all := []setting{
		{"Type", "oneshot", "oneshot"},
		// All of the host is read-only, except for what writes lists.
		{"ProtectSystem", "strict", "strict"},
		{"ReadWritePaths", optional(writes(survey)), strings.Join(optional(writes(survey)), " ")},
		// Beside ProtectKernelTunables=, ProtectSystem=strict left the host's /run writable (257).
		{"ReadOnlyPaths", []string{"/run"}, "/run"},
		// A kubelet's configuration may be in /home (Google's COS).
		{"ProtectHome", "read-only", "read-only"},
		yes("PrivateTmp"),
		// A private /dev without devices, which systemd mounts read-only. It binds three folders of
		// the host into it, which stay writable (mount_private_dev, src/core/namespace.c, 252).
		yes("PrivateDevices"),
		//guard: the installer cannot write the folders of the host that a private /dev has
		{"InaccessiblePaths", devFolders(), strings.Join(devFolders(), " ")},
		yes("NoNewPrivileges"),
		yes("ProtectKernelTunables"), yes("ProtectKernelModules"), yes("ProtectKernelLogs"),
		yes("ProtectControlGroups"), yes("ProtectClock"), yes("ProtectHostname"),
		yes("LockPersonality"), yes("MemoryDenyWriteExecute"), yes("RestrictRealtime"), yes("RestrictSUIDSGID"),
		{"RestrictNamespaces", uint64(0), "yes"},
		{"RestrictAddressFamilies", list{true, families}, strings.Join(families, " ")},
		{"SystemCallArchitectures", []string{"native"}, "native"},
		{"SystemCallFilter", list{true, []string{"@system-service"}}, "@system-service"},
		{"CapabilityBoundingSet", uint64(capChown | capDACOverride | capFOwner), "CAP_CHOWN CAP_DAC_OVERRIDE CAP_FOWNER"},
		// Its programs write files that everybody may read, such as node-partition.yaml.
		{"UMask", uint32(0o022), "0022"},
		// It writes no larger file than the programs.
		{"LimitFSIZE", uint64(256 * mebi), "256M"},
		{"TasksMax", uint64(256), "256"},
		{"TimeoutStartUSec", minutes * minute, ""},
		{"", nil, fmt.Sprintf("TimeoutStartSec=%dmin", minutes)},
	}
	if survey {
		return all
	}
	// These folders need not exist, and the one above is read-only.
	return slices.Concat(all, []setting{
		{"RuntimeDirectory", []string{path.Base(running)}, path.Base(running)},
		{"RuntimeDirectoryPreserve", "yes", "yes"},
		{"RuntimeDirectoryMode", uint32(0o755), "0755"},
		// k3s has none.
		{"ConfigurationDirectory", []string{path.Base(section)}, path.Base(section)},
		{"ConfigurationDirectoryMode", uint32(0o755), "0755"},
	})
}

// devFolders returns the folders of the host that systemd binds into a private /dev.
func devFolders() []string { return optional([]string{"/dev/shm", "/dev/mqueue", "/dev/hugepages"}) }

// optional marks paths that need not exist.
func optional(paths []string) []string {
	all := make([]string, 0, len(paths))
	for _, p := range paths {
		all = append(all, "-"+p)
	}
	return all
}

// command is an element of ExecStart, (sasb).
type command struct {
	Path          string
	Args          []string
	IgnoreFailure bool
}

// Properties returns the properties of the transient service that runs a program with arguments. A
// survey changes nothing. The service stays after its end while who has started it is connected to
// systemd, as one of systemd-run --wait does, so that its result can be read. A caller that was
// killed leaves no service behind.
func Properties(survey bool, program string, args ...string) []systemd.Property {
	all := []systemd.Property{
		{Name: "Description", Value: "Installer of the System Partition"},
		{Name: "AddRef", Value: true},
		{Name: "CollectMode", Value: "inactive-or-failed"},
		{Name: "ExecStart", Value: []command{{program, append([]string{program}, args...), false}}},
	}
	for _, set := range settings(survey) {
		if set.name != "" {
			all = append(all, systemd.Property{Name: set.name, Value: set.value})
		}
	}
	return all
}

// Lines returns the same as lines of a section [Service], for the unit file of the rollback.
func Lines(survey bool, program string, args ...string) []string {
	lines := []string{"ExecStart=" + strings.Join(append([]string{program}, args...), " ")}
	for _, set := range settings(survey) {
		switch {
		case set.name == "":
			lines = append(lines, set.text)
		case set.text != "":
			lines = append(lines, set.name+"="+set.text)
		}
	}
	return lines
}
