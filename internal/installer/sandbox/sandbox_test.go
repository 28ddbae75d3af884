package sandbox

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const program = Folder + "/partition-installer"

func value(t *testing.T, survey bool, name string) any {
	t.Helper()
	var values []any
	for _, p := range Properties(survey, program, "host", "x") {
		if p.Name == name {
			values = append(values, p.Value)
		}
	}
	if len(values) != 1 {
		t.Fatalf("%d times %s", len(values), name)
	}
	return values[0]
}

// TestProperties: the installer sees the host read-only but for a few paths, and nothing of the
// host's devices.
func TestProperties(t *testing.T) {
	t.Parallel()
	for _, survey := range []bool{false, true} {
		for name, want := range map[string]any{
			"Type": "oneshot", "AddRef": true, "CollectMode": "inactive-or-failed", "ProtectSystem": "strict", "ProtectHome": "read-only", "PrivateDevices": true,
			"PrivateTmp": true, "NoNewPrivileges": true, "ProtectKernelTunables": true, "ProtectControlGroups": true,
			"CapabilityBoundingSet": uint64(0b1011), "RestrictNamespaces": uint64(0),
		} {
			if got := value(t, survey, name); got != want {
				t.Errorf("%s is %v; want %v", name, got, want)
			}
		}
		// systemd binds these of the host into a private /dev, writable.
		if got, want := value(t, survey, "InaccessiblePaths"), []string{"-/dev/shm", "-/dev/mqueue", "-/dev/hugepages"}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("InaccessiblePaths is %v; want %v", got, want)
		}
		if got := fmt.Sprint(value(t, survey, "ReadOnlyPaths")); got != "[/run]" {
			t.Errorf("ReadOnlyPaths is %s; want /run", got)
		}
		want := "[-/etc/systemd -/etc/kubernetes -/run/node-partition -/usr/bin -/usr/lib/systemd -/usr/libexec -/var/lib/node-partition/installer]"
		if survey {
			want = "[-/var/lib/node-partition/installer]"
		}
		if got := fmt.Sprint(value(t, survey, "ReadWritePaths")); got != want {
			t.Errorf("ReadWritePaths is %s; want %s", got, want)
		}
	}
}

// TestLines: the unit file of the rollback has the same sandbox as the transient unit.
func TestLines(t *testing.T) {
	t.Parallel()
	lines := Lines(false, program, "back")
	text := strings.Join(lines, "\n")
	for _, p := range Properties(false, program, "back") {
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
		"ExecStart=" + program + " back", "TimeoutStartSec=90min", "ReadWritePaths=-/etc/systemd -/etc/kubernetes",
		"CapabilityBoundingSet=CAP_CHOWN CAP_DAC_OVERRIDE CAP_FOWNER",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// TestDocumented: docs/fleet-node.md has each path that the installer may write.
func TestDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/fleet-node.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range writes(false) {
		if !strings.Contains(string(page), "| `"+path+"` |") {
			t.Errorf("no row for %s", path)
		}
	}
}
