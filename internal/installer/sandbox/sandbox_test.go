package sandbox

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"nodepartition/internal/systemd"
)

var all = []Stage{Preflight, Same, Install, Apply, Verify, Keep, Uninstall, Back}

var places = Places{Folder: "/var/lib/node-partition/installer", Files: []string{"/usr/bin", "/usr/share/doc"}}

func value(t *testing.T, s Stage, name string) any {
	t.Helper()
	var values []any
	for _, p := range Properties(s, places, "/x/partition-installer", "host", string(s)) {
		if p.Name == name {
			values = append(values, p.Value)
		}
	}
	if len(values) != 1 {
		t.Fatalf("%s: %d times %s", s, len(values), name)
	}
	return values[0]
}

// TestProperties: each stage sees the host read-only but for the paths that it is for, and nothing
// of the host's devices.
func TestProperties(t *testing.T) {
	t.Parallel()
	for _, s := range all {
		for name, want := range map[string]any{
			"Type": "oneshot", "AddRef": true, "CollectMode": "inactive-or-failed", "ProtectSystem": "strict", "ProtectHome": "read-only", "PrivateDevices": true,
			"PrivateTmp": true, "NoNewPrivileges": true, "ProtectKernelTunables": true, "ProtectControlGroups": true,
			"CapabilityBoundingSet": uint64(0b1011), "RestrictNamespaces": uint64(0),
		} {
			if got := value(t, s, name); got != want {
				t.Errorf("%s: %s is %v; want %v", s, name, got, want)
			}
		}
		// systemd binds these of the host into a private /dev, writable.
		if got, want := value(t, s, "InaccessiblePaths"), []string{"-/dev/shm", "-/dev/mqueue", "-/dev/hugepages"}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: InaccessiblePaths is %v; want %v", s, got, want)
		}
		families := value(t, s, "RestrictAddressFamilies").(list)
		if inet := slices.Contains(families.Names, "AF_INET"); !families.Allow || inet != (s == Preflight || s == Install || s == Verify) {
			t.Errorf("%s: %v", s, families)
		}
	}
}

// TestWrites: the paths of each stage, and no others.
func TestWrites(t *testing.T) {
	t.Parallel()
	for stage, want := range map[Stage]string{
		Same:      "",
		Preflight: "/var/lib/node-partition/installer",
		Verify:    "/var/lib/node-partition/installer",
		Install:   "/etc/systemd/system /usr/bin /usr/share/doc /var/lib/node-partition/installer",
		Apply:     "/run/node-partition /var/lib/node-partition/installer",
		Keep:      "/etc/kubernetes /etc/systemd/system /run/node-partition /var/lib/node-partition/installer",
		Uninstall: "/etc/kubernetes /etc/systemd/system /run/node-partition /usr/bin /usr/share/doc /var/lib/node-partition/installer",
		Back:      "/etc/kubernetes /etc/systemd/system /run/node-partition /usr/bin /usr/share/doc /var/lib/node-partition/installer",
	} {
		if got := strings.Join(writes(stage, places), " "); got != want {
			t.Errorf("%s: %q; want %q", stage, got, want)
		}
		if got := value(t, stage, "ReadOnlyPaths").([]string); len(got) != 1 || got[0] != "/run" {
			t.Errorf("%s: ReadOnlyPaths is %q; want /run", stage, got)
		}
		paths := value(t, stage, "ReadWritePaths").([]string)
		if got := strings.ReplaceAll(strings.Join(paths, " "), "-/", "/"); got != want {
			t.Errorf("%s: ReadWritePaths is %q; want %q", stage, got, want)
		}
	}
}

// TestSignatures: systemd refuses a property of another type
// (bus_exec_context_set_transient_property and bus_service_set_transient_property, src/core, 252).
func TestSignatures(t *testing.T) {
	t.Parallel()
	types := map[string]string{
		"Description": "s", "AddRef": "b", "CollectMode": "s", "ExecStart": "a(sasb)", "Type": "s", "ProtectSystem": "s", "ReadWritePaths": "as",
		"ReadOnlyPaths": "as",
		"ProtectHome":   "s", "PrivateTmp": "b", "PrivateDevices": "b", "InaccessiblePaths": "as", "NoNewPrivileges": "b",
		"ProtectKernelTunables": "b", "ProtectKernelModules": "b", "ProtectKernelLogs": "b", "ProtectControlGroups": "b",
		"ProtectClock": "b", "ProtectHostname": "b", "LockPersonality": "b", "MemoryDenyWriteExecute": "b", "RestrictRealtime": "b",
		"RestrictSUIDSGID": "b", "RestrictNamespaces": "t", "RestrictAddressFamilies": "(bas)", "SystemCallArchitectures": "as",
		"SystemCallFilter": "(bas)", "CapabilityBoundingSet": "t", "UMask": "u", "LimitFSIZE": "t", "TasksMax": "t",
		"TimeoutStartUSec": "t", "RuntimeDirectory": "as", "RuntimeDirectoryPreserve": "s", "RuntimeDirectoryMode": "u",
		"ConfigurationDirectory": "as", "ConfigurationDirectoryMode": "u",
	}
	for _, s := range all {
		for _, p := range Properties(s, places, "/x/partition-installer", "same") {
			if got := systemd.Signature(p); got != types[p.Name] {
				t.Errorf("%s: %s has the type %q; want %q", s, p.Name, got, types[p.Name])
			}
		}
	}
}

// TestLines: the unit file of the way back has the same sandbox as the transient unit.
func TestLines(t *testing.T) {
	t.Parallel()
	lines := Lines(Back, places, "/x/partition-installer", "back")
	text := strings.Join(lines, "\n")
	for _, p := range Properties(Back, places, "/x/partition-installer", "back") {
		name := p.Name
		switch name {
		case "Description", "AddRef", "CollectMode":
			continue
		case "TimeoutStartUSec":
			name = "TimeoutStartSec"
		}
		if strings.Count("\n"+text, "\n"+name+"=") != 1 {
			t.Errorf("%s is not in the unit file once", name)
		}
	}
	for _, want := range []string{
		"ExecStart=/x/partition-installer back", "TimeoutStartSec=60min", "ReadWritePaths=-/etc/kubernetes -/etc/systemd/system",
		"CapabilityBoundingSet=CAP_CHOWN CAP_DAC_OVERRIDE CAP_FOWNER",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// TestDocumented: docs/fleet-installer.md has each stage with the paths that it may write.
func TestDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/fleet-installer.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		row := ""
		for line := range strings.Lines(string(page)) {
			if row == "" && strings.HasPrefix(line, "| `"+string(s)+"` |") {
				row = line
			}
		}
		if row == "" {
			t.Errorf("no row for the stage %s", s)
		}
		for _, path := range writes(s, Places{Folder: "the folder"}) {
			if !strings.Contains(row, path) {
				t.Errorf("the row of %s lacks %s", s, path)
			}
		}
	}
}
