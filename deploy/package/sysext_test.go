package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// extension returns the path of the system extension that once builds.
func extension(t *testing.T, a architecture) string {
	t.Helper()
	packages(t, a)
	return filepath.Join(shared, "release", "node-partition-0.1.0~rc.1-"+a.systemd+".raw")
}

// TestSysext: the extension has the installed files and what starts the partition after a merge.
// All of it is below /usr and belongs to root, and folders can be entered.
func TestSysext(t *testing.T) {
	onEach(t, sysext)
}

func sysext(t *testing.T, a architecture) {
	t.Helper()
	raw := extension(t, a)
	tree := filepath.Join(t.TempDir(), "tree")
	command(t, "unsquashfs", "-no-progress", "-no-xattrs", "-dest", tree, raw)
	listed := installed(t, a)
	want := append(make([]string, 0, 3+len(listed)), unitDir+mergedUnit, upholding, extensionRelease)
	modes := map[string]fs.FileMode{}
	for _, f := range listed {
		want = append(want, f.path)
		modes[f.path] = f.mode
	}
	var got []string
	err := filepath.WalkDir(tree, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		path := strings.TrimPrefix(file, tree)
		got = append(got, path)
		info, err := entry.Info()
		if mode, ok := modes[path]; err == nil && ok && info.Mode() != mode {
			t.Errorf("%s has the mode %v, want %v", path, info.Mode(), mode)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the extension has %q\nwant %q", got, want)
	}
	for line := range strings.Lines(command(t, "unsquashfs", "-lls", raw)) {
		if !strings.Contains(line, "squashfs-root") { // what unsquashfs says before the list
			continue
		}
		if !strings.Contains(line, " root/root ") || line[0] == 'd' && !strings.HasPrefix(line, "drwxr-xr-x ") {
			t.Errorf("the extension has %s", line)
		}
	}
	for path, text := range map[string]string{
		extensionRelease: "ID=_any\nARCHITECTURE=" + a.systemd + "\nEXTENSION_RELOAD_MANAGER=1\n",
		upholding:        "\n[Unit]\nUpholds=partition-merged@0.1.0-rc.1.service\n",
	} {
		if data, err := os.ReadFile(filepath.Join(tree, path)); err != nil || !strings.HasSuffix(string(data), text) {
			t.Errorf("%s is %q, %v; want %q at its end", path, data, err, text)
		}
	}
}

// TestMergedInstance: each version has an instance of its name, and the name is one of a unit.
func TestMergedInstance(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"0.1.0":               "partition-merged@0.1.0.service",
		"0.1.0-2":             "partition-merged@0.1.0-2.service",
		"0.1.0~rc.1":          "partition-merged@0.1.0-rc.1.service",
		"0.1.0+5.g3f1fd6b":    "partition-merged@0.1.0-5.g3f1fd6b.service",
		"0.0.0~git2026.3f1fd": "partition-merged@0.0.0-git2026.3f1fd.service",
	} {
		if got := mergedInstance(version); got != want {
			t.Errorf("%s: %s, want %s", version, got, want)
		}
	}
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
	for described, release := range map[string]bool{
		"v0.1.0": true, "v0.1.0-5-g3f1fd6b": true, "v0.1.0-rc.1": false, "3f1fd6b": false,
	} {
		v, err := parseVersion(described, time.Unix(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		for _, build := range []string{"1", "2"} {
			if got := sysextVersion(request{version: v, build: build}); takenVersion.MatchString(got) != release {
				t.Errorf("%s: the image has the version %s, taken: %t, want %t", described, got, !release, release)
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
	t.Setenv("SOURCE_DATE_EPOCH", "1")
	list := strings.NewReader("0644 LICENSE /usr/share/doc/node-partition/LICENSE\n")
	err := run([]string{"-version", "v0.1.0", "-formats", "sysetx", "-out", t.TempDir()}, list)
	if err == nil || !strings.Contains(err.Error(), "sysetx: this format is not known") {
		t.Error(err)
	}
}
