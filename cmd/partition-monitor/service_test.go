package main

import (
	"os"
	"strings"
	"testing"

	"github.com/coreos/go-systemd/v22/unit"
)

// TestService: the service has the rights that SECURITY.md names, and no others.
func TestService(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../units/partition-monitor.service")
	if err != nil {
		t.Fatal(err)
	}
	options, err := unit.DeserializeOptions(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	words := map[string][]string{}
	for _, o := range options {
		words[o.Name] = append(words[o.Name], strings.Fields(o.Value)...)
	}
	for name, want := range map[string]string{
		"CapabilityBoundingSet": "CAP_CHOWN CAP_DAC_OVERRIDE CAP_SYS_NICE",
		"AmbientCapabilities":   "", "NoNewPrivileges": "yes", "ProtectSystem": "strict", "ReadOnlyPaths": "/run",
		"ProtectHome": "read-only", "ProtectKernelTunables": "yes", "PrivateTmp": "yes", "BindPaths": "",
	} {
		if got := strings.Join(words[name], " "); got != want {
			t.Errorf("%s=%s; want %s", name, got, want)
		}
	}
	page, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, security, _ := strings.Cut(string(page), "\n## Rights\n")
	security, _, _ = strings.Cut(security, "\n## ")
	for _, path := range words["ReadWritePaths"] {
		if path = strings.TrimPrefix(path, "-"); !strings.Contains(security, "`"+path+"`") {
			t.Errorf("ReadWritePaths=%s is not in SECURITY.md, Rights", path)
		}
	}
}
