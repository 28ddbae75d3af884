package lab

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// ownVersions lists modules of which the kubelet keeps the versions of its release, and why. Few
// packages are compiled twice for them.
func ownVersions() map[string]string {
	const cgroups = "tests compare what the kubelet of this release does to cgroups"
	return map[string]string{
		"github.com/containerd/ttrpc":           "the kubelet's is the newer one",
		"github.com/cyphar/filepath-securejoin": "the kubelet's is the newer one",
		"github.com/godbus/dbus/v5":             cgroups,
		"github.com/moby/sys/mountinfo":         cgroups,
		"github.com/opencontainers/cgroups":     cgroups,
	}
}

// TestCommonVersions: the lab and the kubelet have the programs' versions. A module that differs is
// compiled twice for a first demo, with all packages that import it: golang.org/x/sys takes nearly
// all of Kubernetes with it.
func TestCommonVersions(t *testing.T) {
	ours := required(t, "../../go.mod")
	for module, version := range required(t, "go.mod") {
		if programs, ok := ours[module]; ok && programs != version {
			t.Errorf("%s is %s in go.mod and %s in ../../go.mod: run \"go get\" here for the newer one", module, version, programs)
		}
	}
	theirs := required(t, "sources/"+kubelet().Source+"/go.mod")
	own := ownVersions()
	common := 0
	for module, version := range ours {
		other, ok := theirs[module]
		if !ok {
			continue
		}
		common++
		why, differs := own[module]
		delete(own, module)
		switch {
		case version == other && differs:
			t.Errorf("%s is %s in both: remove it from ownVersions", module, version)
		case version != other && !differs:
			t.Errorf(
				"%s is %s in ../../go.mod and %s in sources/%s: run \"go get\" there for the newer one, or name a reason in ownVersions",
				module, version, other, kubelet().Source,
			)
		case differs:
			t.Logf("%s is %s, and %s in sources/%s: %s", module, version, other, kubelet().Source, why)
		}
	}
	for module := range own {
		t.Errorf("%s of ownVersions is not in both: remove it", module)
	}
	if common < 50 {
		t.Errorf("%d modules are in both: want at least 50", common)
	}
}

var (
	requirement = regexp.MustCompile(`(?m)^\t(\S+) (v\S+)(?: // indirect)?$`)
	replacement = regexp.MustCompile(`(?m)^\t(\S+) => \S+ (v\S+)$`)
)

// required returns the versions of the modules that a go.mod requires. A replacement by another
// version is part of the text: go build names an object by both.
func required(t *testing.T, path string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, m := range requirement.FindAllStringSubmatch(string(data), -1) {
		versions[m[1]] = m[2]
	}
	for _, m := range replacement.FindAllStringSubmatch(string(data), -1) {
		if version, ok := versions[m[1]]; ok && version != m[2] {
			versions[m[1]] += " => " + m[2]
		}
	}
	return versions
}

// TestCommonFlags: make demo and the script lab compile as the lab does, and with the same limits
// on garbage collection. Other flags compile all that is common twice.
func TestCommonFlags(t *testing.T) {
	for _, path := range []string{"lab", "../../Makefile"} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want := memoryEnv()
		for _, flag := range buildFlags(kubelet()) {
			if strings.HasPrefix(flag, "-gcflags") || flag == "-trimpath" {
				want = append(want, flag)
			}
		}
		for _, text := range append(want, "CGO_ENABLED=0") {
			if !strings.Contains(string(data), text) {
				t.Errorf("%s lacks %s", path, text)
			}
		}
	}
}

// TestDemoBuilds: the command that make demo hands to the lab builds both programs.
func TestDemoBuilds(t *testing.T) {
	said, err := exec.Command("make", "--no-print-directory", "-C", "../..", "-n", "demo").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, command, _ := strings.Cut(string(said), `--build "`)
	command, _, _ = strings.Cut(command, `"`)
	build := exec.Command("sh", "-c", strings.Replace(command, " build ", " build -n ", 1))
	build.Dir = "../.."
	steps, err := build.CombinedOutput()
	for _, program := range []string{"generator", "monitor"} {
		if want := "bin/partition-" + program + "\n"; err != nil || !strings.Contains(string(steps), want) {
			t.Errorf("%s: %v; want a step to %s, got:\n%s", command, err, want, steps[max(0, len(steps)-2000):])
		}
	}
}
