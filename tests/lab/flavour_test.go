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

// TestFlavoursWithC: only nodes with a program in C make the lab install a compiler for C.
func TestFlavoursWithC(t *testing.T) {
	var with []string
	for _, f := range AllFlavours() {
		if f.hasC() {
			with = append(with, f.Name)
		}
	}
	if want := []string{"trixie", "crio", "selinux"}; !slices.Equal(with, want) {
		t.Errorf("%q, want %q", with, want)
	}
	all, forC := missingPackages(true), []string{"gcc", "pkgconf", "libc6-dev", "libseccomp-dev"}
	for _, pkg := range missingPackages(false) {
		if !slices.Contains(all, pkg) || slices.Contains(forC, pkg) {
			t.Errorf("without C: %s is missing; with C: %q", pkg, all)
		}
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

func TestFlavourByName(t *testing.T) {
	for name, tc := range map[string]struct{ name, kubelet, fail string }{
		"":                        {name: "trixie", kubelet: "v1.37.0"},
		"forky":                   {name: "forky", kubelet: "v1.37.0"},
		"containerd-1.7":          {name: "containerd-1.7", kubelet: "v1.37.0"},
		"crio+kubelet-1.35":       {name: "crio+kubelet-1.35", kubelet: "v1.35.8"},
		"trixie+kubelet-1.2":      {fail: "kubelet 1.2: not known: use 1.35"},
		"buster+kubelet-1.35":     {fail: `flavour "buster": not known: use one of trixie,`},
		"trixie+containerd-1.6":   {fail: "not known"},
		"trixie+kubelet-1.35+nri": {fail: "not known"},
	} {
		f, err := FlavourByName(name)
		if tc.fail != "" {
			if err == nil || !strings.Contains(err.Error(), tc.fail) {
				t.Errorf("%q: error %v, want %q", name, err, tc.fail)
			}
			continue
		}
		if err != nil || f.Name != tc.name || f.Programs[0].Version != tc.kubelet || !strings.HasSuffix(f.Summary, "kubelet "+tc.kubelet) {
			t.Errorf("%q: %+v, %v", name, f, err)
		}
	}
}

// TestEverythingLeavesOutWhatIsOnRequest: flavours on request are not prepared by default, which
// would cost minutes.
func TestEverythingLeavesOutWhatIsOnRequest(t *testing.T) {
	w := Everything()
	if want := []string{"trixie", "bookworm", "crio", "forky"}; !w.ControlPlane || !slices.Equal(w.Flavours, want) {
		t.Errorf("%+v, want %q", w, want)
	}
}

// TestOlderKubeletIsTheOnlyDifference: an older kubelet makes another image of the same Debian and
// the same runtime.
func TestOlderKubeletIsTheOnlyDifference(t *testing.T) {
	current, err := FlavourByName("trixie")
	if err != nil {
		t.Fatal(err)
	}
	older, err := FlavourByName("trixie+kubelet-1.35")
	if err != nil {
		t.Fatal(err)
	}
	names := func(f Flavour) (names []string) {
		for _, p := range f.Programs {
			names = append(names, p.Name)
		}
		return names
	}
	if !slices.Equal(names(current), []string{"kubelet-1.37", "containerd-2.3", "runc-1.2"}) || !slices.Equal(names(older), []string{"kubelet-1.35", "containerd-2.3", "runc-1.2"}) {
		t.Errorf("%q, %q", names(current), names(older))
	}
	a, err := debianKey(current)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := debianKey(older); err != nil || a != b {
		t.Errorf("%s, %s, %v", a, b, err)
	}
}

// TestFlavoursShareDebian: both flavours of Debian 13 have one installation.
func TestFlavoursShareDebian(t *testing.T) {
	var keys []key
	for _, f := range Flavours() {
		key, err := debianKey(f)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	if len(keys) != 3 {
		t.Errorf("%d installations for %d flavours", len(keys), len(Flavours()))
	}
}
