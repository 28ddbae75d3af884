// Package sandbox says what each stage of the fleet installer may do on the host, as properties of
// systemd's units. It is pure: docs/fleet-installer.md lists the same, with the reasons.
package sandbox

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"nodepartition/internal/systemd"
)

// Stage is a stage that runs on the host as a unit of systemd.
type Stage string

// The stages.
const (
	Preflight Stage = "preflight"
	// Same compares the files of a kept node. It writes nothing at all.
	Same      Stage = "same"
	Install   Stage = "install"
	Apply     Stage = "apply"
	Verify    Stage = "verify"
	Keep      Stage = "keep"
	Uninstall Stage = "uninstall"
	// Back is the way back. It also runs without a pod, from a unit file.
	Back Stage = "back"
)

// Follows reports whether a stage comes after the installation: its roll is under way on the node.
func (s Stage) Follows() bool { return s == Apply || s == Verify || s == Keep }

// Places holds the folders that a stage may write beside those that are the same on each node.
type Places struct {
	// Folder is the folder of the installer.
	Folder string
	// Files lists the folders of the files that a roll installs.
	Files []string
}

// The folders that are the same on each node.
const (
	// units has the unit files of the way back.
	units = "/etc/systemd/system"
	// section has node-partition.yaml.
	section = "/etc/kubernetes"
	// running has the state of the programs, and the section on trial.
	running = "/run/node-partition"
)

// writes returns the paths that a stage may write, and nothing else on the host.
func writes(s Stage, p Places) []string {
	var all []string
	switch s {
	case Same:
		return nil
	case Preflight, Verify:
		return []string{p.Folder}
	case Install:
		all = slices.Concat([]string{p.Folder, units}, p.Files)
	case Apply:
		all = []string{p.Folder, running}
	case Keep:
		all = []string{p.Folder, units, section, running}
	case Uninstall, Back:
		all = slices.Concat([]string{p.Folder, units, section, running}, p.Files)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// asksServer lists the stages that ask the API server or the kubelet. install asks which members
// are Ready, before it writes.
var asksServer = []Stage{
	Preflight, Verify,
	//guard: install may reach the API server, which it asks for the members that are Ready
	Install,
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

// The capabilities by which root reads and writes files of other users. No stage has another: what
// systemd is asked for, it does itself.
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

// minutes bounds each stage. The pods of a partition may take long to leave it.
func minutes(s Stage) uint64 {
	switch s {
	case Back, Uninstall:
		return 60
	case Verify, Apply, Install, Keep: // a failed one waits for the way back
		return 90
	}
	return 5
}

func yes(name string) setting { return setting{name, true, "yes"} }

func settings(s Stage, p Places) []setting {
	families := []string{"AF_UNIX"}
	if slices.Contains(asksServer, s) {
		families = append(families, "AF_INET", "AF_INET6")
	}
	all := []setting{
		{"Type", "oneshot", "oneshot"},
		// All of the host is read-only, except for what writes lists.
		{"ProtectSystem", "strict", "strict"},
		{"ReadWritePaths", optional(writes(s, p)), strings.Join(optional(writes(s, p)), " ")},
		// Beside ProtectKernelTunables=, ProtectSystem=strict left the host's /run writable (257).
		{"ReadOnlyPaths", []string{"/run"}, "/run"},
		// A kubelet's configuration may be in /home (Google's COS).
		{"ProtectHome", "read-only", "read-only"},
		yes("PrivateTmp"),
		// A private /dev without devices, which systemd mounts read-only. It binds three folders of
		// the host into it, which stay writable (mount_private_dev, src/core/namespace.c, 252).
		yes("PrivateDevices"),
		//guard: a stage cannot write the folders of the host that a private /dev has
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
		// The programs of a stage write files that everybody may read, such as node-partition.yaml.
		{"UMask", uint32(0o022), "0022"},
		// No stage writes a larger file than the programs.
		{"LimitFSIZE", uint64(256 * mebi), "256M"},
		{"TasksMax", uint64(256), "256"},
		{"TimeoutStartUSec", minutes(s) * minute, ""},
		{"", nil, fmt.Sprintf("TimeoutStartSec=%dmin", minutes(s))},
	}
	if slices.Contains(writes(s, p), running) {
		// The folder need not exist, and /run is read-only for the stage.
		all = append(all,
			setting{"RuntimeDirectory", []string{path.Base(running)}, path.Base(running)},
			setting{"RuntimeDirectoryPreserve", "yes", "yes"},
			setting{"RuntimeDirectoryMode", uint32(0o755), "0755"},
		)
	}
	if s == Keep {
		// The same for /etc/kubernetes, which k3s has not.
		all = append(all,
			setting{"ConfigurationDirectory", []string{path.Base(section)}, path.Base(section)},
			setting{"ConfigurationDirectoryMode", uint32(0o755), "0755"},
		)
	}
	return all
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

// Properties returns the properties of the transient service that runs a program with arguments as
// a stage. The service stays after its end while the pod that has started it is connected to
// systemd, as one of systemd-run --wait does, so that the pod can read its result. A pod that was
// killed leaves no service behind.
func Properties(s Stage, p Places, program string, args ...string) []systemd.Property {
	all := []systemd.Property{
		{Name: "Description", Value: "Fleet Installer of the System Partition: " + string(s)},
		{Name: "AddRef", Value: true},
		{Name: "CollectMode", Value: "inactive-or-failed"},
		{Name: "ExecStart", Value: []command{{program, append([]string{program}, args...), false}}},
	}
	for _, set := range settings(s, p) {
		if set.name != "" {
			all = append(all, systemd.Property{Name: set.name, Value: set.value})
		}
	}
	return all
}

// Lines returns the same as lines of a section [Service], for the unit file of the way back.
func Lines(s Stage, p Places, program string, args ...string) []string {
	lines := []string{"ExecStart=" + strings.Join(append([]string{program}, args...), " ")}
	for _, set := range settings(s, p) {
		switch {
		case set.name == "":
			lines = append(lines, set.text)
		case set.text != "":
			lines = append(lines, set.name+"="+set.text)
		}
	}
	return lines
}
