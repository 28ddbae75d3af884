package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	// mergedUnit is the template of the service that starts the partition after a merge.
	mergedUnit = "/usr/lib/systemd/system/partition-merged@.service"
	// upholding is the drop-in that has an instance of it started.
	upholding = "/usr/lib/systemd/system/local-fs.target.d/50-node-partition.conf"
	// extensionRelease has to end in the name of the extension: the name under which the image is in
	// /var/lib/extensions, without .raw.
	extensionRelease = "/usr/lib/extension-release.d/extension-release.node-partition"
)

// build returns the command that builds formats for amd64.
func build(described, number, programs, out string, formats ...string) *exec.Cmd {
	cmd := exec.Command("./build", append([]string{"amd64", programs, out}, formats...)...)
	cmd.Env = append(os.Environ(), "VERSION="+described, "BUILD="+number, "MAINTAINER=a <a@b.example>", "SOURCE_DATE_EPOCH=1")
	return cmd
}

// built runs it.
func built(t *testing.T, described, number, programs, out string, formats ...string) {
	t.Helper()
	if text, err := build(described, number, programs, out, formats...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// extension returns the path of the system extension that once builds.
func extension(t *testing.T, a architecture) string {
	t.Helper()
	packages(t, a)
	return filepath.Join(shared, "release", "node-partition-0.1.0~rc.1-"+a.systemd+".raw")
}

// takenVersion matches the versions that systemd-sysupdate takes (version_is_valid,
// src/basic/string-util.c, 257).
var takenVersion = regexp.MustCompile(`^[A-Za-z0-9.,_+-]+$`)

// TestSysupdate: the file for systemd-sysupdate takes the extension of a release, and has the link
// by whose name systemd-sysext knows it. It does not take what comes before a release.
func TestSysupdate(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../sysupdate/node-partition.transfer")
	if err != nil {
		t.Fatal(err)
	}
	taken := strings.NewReplacer("@v", "0.1.0~rc.1", "%a", "x86-64").Replace(string(text))
	if line := "\nMatchPattern=" + filepath.Base(extension(t, amd64)) + "\n"; strings.Count(taken, line) != 2 {
		t.Errorf("want %q twice, as source and target, in\n%s", line, taken)
	}
	for described, version := range map[string]string{
		"v0.1.0": "0.1.0", "v0.1.0-5-g3f1fd6b": "0.1.0+5.g3f1fd6b", "v0.1.0-rc.1": "0.1.0~rc.1", "3f1fd6b": "0.0.0~git19700101000001.3f1fd6b",
	} {
		for build, number := range map[string]string{"1": "", "2": "-2"} {
			programs, out := t.TempDir(), t.TempDir()
			if err := os.MkdirAll(filepath.Join(programs, "stage/usr/lib"), 0o755); err != nil {
				t.Fatal(err)
			}
			built(t, described, build, programs, out, "sysext")
			name := "node-partition-" + version + number + "-x86-64.raw"
			if takenVersion.MatchString(version+number) == strings.Contains(version, "~") {
				t.Errorf("%s: systemd-sysupdate takes %s before the release, or not at all", described, version+number)
			}
			text := command(t, "unsquashfs", "-cat", filepath.Join(out, name), strings.TrimPrefix(upholding, "/"))
			instance := "\nUpholds=partition-merged@" + strings.NewReplacer("~", "-", "+", "-").Replace(version+number) + ".service\n"
			if !strings.HasSuffix(text, instance) {
				t.Errorf("%s, build %s: the extension has %s, want %s", described, build, text, instance)
			}
		}
	}
	known := strings.TrimPrefix(filepath.Ext(filepath.Base(extensionRelease)), ".")
	if line := "\nCurrentSymlink=/var/lib/extensions/" + known + ".raw\n"; !strings.Contains(taken, line) {
		t.Errorf("want %q in\n%s", line, taken)
	}
}

// TestFormats: a format that is not known is an error, and not a release without it.
func TestFormats(t *testing.T) {
	t.Parallel()
	packages(t, amd64)
	out, err := build("v0.1.0", "1", filepath.Join(shared, "linux-amd64"), t.TempDir(), "sysetx").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "sysetx: this format is not known") {
		t.Errorf("%s, %v", out, err)
	}
}
