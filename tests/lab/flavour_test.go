package lab

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFlavours(t *testing.T) {
	sources, err := sourcesDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range AllFlavours() {
		t.Run(f.Name, func(t *testing.T) {
			if !nodeName.MatchString(f.hostName()) {
				t.Errorf("%q is no part of a host name", f.hostName())
			}
			for _, overlay := range append(f.Overlays, "common") {
				if files, err := guestFiles(overlay); err != nil || len(files) == 0 {
					t.Errorf("overlay %s: %d files, %v", overlay, len(files), err)
				}
			}
			for _, p := range f.allPrograms() {
				checkPinned(t, sources, p)
			}
			if !strings.Contains(f.Summary, "kubelet "+kubernetesVersion) {
				t.Errorf("its summary does not name its kubelet: %s", f.Summary)
			}
		})
	}
	checkPinned(t, sources, controlPlanePrograms())
	checkPinned(t, sources, schedulerProgram())
	for _, minor := range APIServers() {
		server, err := apiServer(minor)
		if err != nil {
			t.Fatal(err)
		}
		checkPinned(t, sources, server)
	}
	if _, err := apiServer("1.1"); err == nil {
		t.Error("no error for an API server that is not pinned")
	}
}

// checkPinned checks that a program's module pins the version in Program.Version, and lists its
// packages as tools: otherwise "go mod tidy" would drop their dependencies.
func checkPinned(t *testing.T, sources string, p Program) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(sources, p.Source, "go.mod"))
	if err != nil {
		t.Error(err)
		return
	}
	if p.Source == "pause" || p.Source == "podtool" {
		return // the lab's own
	}
	lines := strings.Split(string(data), "\n")
	for _, pkg := range p.Packages {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.TrimPrefix(strings.TrimSpace(line), "tool ") == pkg }) {
			t.Errorf("%s: go.mod has no tool %s", p.Source, pkg)
		}
		module, _, _ := strings.Cut(pkg, "/cmd/")
		required := module + " " + p.Version + " // indirect"
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.TrimPrefix(strings.TrimSpace(line), "require ") == required }) {
			t.Errorf("%s: go.mod does not require %s", p.Source, required)
		}
	}
}
