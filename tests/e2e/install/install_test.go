// Package install tests make install and make uninstall.
package install

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/tests/lab/filelist"
	"node-partition.io/node-partition/tests/testkit"
)

// record lists an installation's files, below its prefix.
const record = "/share/doc/node-partition/installed"

// run runs make in the repository, with placeholders for the programs, which need not be built.
func run(t *testing.T, args ...string) (output string, err error) {
	t.Helper()
	programs := t.TempDir()
	for _, name := range []string{"partition-generator", "partition-monitor"} {
		if err := os.WriteFile(filepath.Join(programs, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(testkit.NeedProgram(t, "make", "make"), append([]string{"-C", "../../..", "--no-print-directory", "BIN=" + programs}, args...)...)
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// files lists the files below a folder, sorted.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			list = append(list, strings.TrimPrefix(path, dir))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestInstall: with any prefix systemd finds the unit and the generator, the unit finds its
// program, and uninstalling removes everything.
func TestInstall(t *testing.T) {
	t.Parallel()
	for prefix, systemd := range map[string]string{
		"/usr": "/usr/lib/systemd", "/usr/local": "/usr/local/lib/systemd", "/opt/node-partition": "/etc/systemd",
	} {
		t.Run(strings.ReplaceAll(prefix[1:], "/", "-"), func(t *testing.T) {
			t.Parallel()
			dest := t.TempDir()
			if text, err := run(t, "install", "DESTDIR="+dest, "PREFIX="+prefix); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			entries, err := filelist.Read("../../..", "deploy/installed", map[string]string{"BIN": "bin", "PREFIX": prefix, "SYSTEMD_DIR": systemd})
			if err != nil {
				t.Fatal(err)
			}
			want := append(make([]string, 0, len(entries)+1), prefix+record)
			for _, entry := range entries {
				want = append(want, entry.Path)
				if info, err := os.Stat(filepath.Join(dest, entry.Path)); err == nil && info.Mode() != entry.Mode {
					t.Errorf("%s has the mode %v, want %v", entry.Path, info.Mode(), entry.Mode)
				}
			}
			// Where systemd, journalctl, man and the documentation look for them.
			for _, path := range []string{
				systemd + "/system-generators/partition-generator", systemd + "/system/partition-monitor.service", prefix + "/bin/partition-monitor",
				prefix + "/lib/systemd/catalog/node-partition.catalog", prefix + "/share/doc/node-partition/node-partition.default",
				prefix + "/share/man/man1/partition-monitor-status.1", prefix + "/share/man/man5/node-partition.5",
				prefix + "/share/man/man8/partition-generator.8", prefix + "/share/man/man8/partition-monitor.8",
				prefix + "/share/doc/node-partition/grafana/node-partition.json", prefix + "/share/doc/node-partition/prometheus/alerts.yaml",
				prefix + "/share/doc/node-partition/prometheus/prometheusrule.yaml", prefix + "/share/doc/node-partition/prometheus/recording.yaml",
				prefix + "/share/doc/node-partition/troubleshooting/configuration.md",
			} {
				if !slices.Contains(want, path) {
					t.Errorf("deploy/installed does not have %s", path)
				}
			}
			slices.Sort(want)
			got := files(t, dest)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("installed %q\nwant %q", got, want)
			}
			unit, err := os.ReadFile(filepath.Join(dest, systemd, "system/partition-monitor.service"))
			if err != nil {
				t.Fatal(err)
			}
			if start := "\nExecStart=" + prefix + "/bin/partition-monitor run $PARTITION_MONITOR_ARGS\n"; strings.Count(string(unit), start) != 1 {
				t.Errorf("want %q in\n%s", start, unit)
			}
			if text, err := run(t, "uninstall", "DESTDIR="+dest, "PREFIX="+prefix); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			if left := files(t, dest); len(left) > 0 {
				t.Errorf("left over: %q", left)
			}
		})
	}
}

// TestInstallUpgrade: an installation over an older one leaves no file that only the older one has,
// and no file of others is lost. So does the end of an installation of another version.
func TestInstallUpgrade(t *testing.T) {
	t.Parallel()
	const docs = "/usr/share/doc/node-partition"
	for _, action := range []string{"install", "uninstall"} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			dest := t.TempDir()
			if text, err := run(t, "install", "DESTDIR="+dest); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			want := files(t, dest)
			if action == "uninstall" {
				want = nil
			}
			theirs := docs + "/notes"
			want = append(want, theirs)
			older := []string{"/usr/lib/systemd/system/partition-other.service", docs + "/old/page.md"}
			for _, path := range append(older, theirs) {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dest, path)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dest, path), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			list, err := os.OpenFile(filepath.Join(dest, "/usr"+record), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := list.WriteString(strings.Join(older, "\n") + "\n"); err != nil {
				t.Fatal(err)
			}
			if err := list.Close(); err != nil {
				t.Fatal(err)
			}
			if text, err := run(t, action, "DESTDIR="+dest); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			slices.Sort(want)
			got := files(t, dest)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("there are %q\nwant %q", got, want)
			}
			if _, err := os.Stat(filepath.Join(dest, docs, "old")); err == nil {
				t.Error("an empty folder is left")
			}
		})
	}
}

// TestInstallReplaces: an installation over another one replaces each file by a rename, so that
// there is a whole one at each moment. Where that fails, no half of the new one is left.
func TestInstallReplaces(t *testing.T) {
	t.Parallel()
	dest := t.TempDir()
	if text, err := run(t, "install", "DESTDIR="+dest); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	programs := map[string]string{
		"partition-generator":       "/usr/lib/systemd/system-generators",
		"partition-monitor":         "/usr/bin",
		"partition-monitor.service": "/usr/lib/systemd/system",
	}
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(watch) }()
	for _, folder := range programs {
		const changes = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_DELETE | unix.IN_MOVED_TO
		if _, err := unix.InotifyAddWatch(watch, dest+folder, changes); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := run(t, "install", "DESTDIR="+dest); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	events := make([]byte, 1<<16)
	n, err := unix.Read(watch, events)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string][]uint32{}
	for events = events[:n]; len(events) >= unix.SizeofInotifyEvent; {
		size := int(binary.NativeEndian.Uint32(events[12:]))
		name := strings.TrimRight(string(events[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+size]), "\x00")
		seen[name] = append(seen[name], binary.NativeEndian.Uint32(events[4:]))
		events = events[unix.SizeofInotifyEvent+size:]
	}
	for name := range programs {
		if !slices.Equal(seen[name], []uint32{unix.IN_MOVED_TO}) {
			t.Errorf("what happens to %s is %#x; want one rename, %#x", name, seen[name], unix.IN_MOVED_TO)
		}
	}

	monitor := filepath.Join(dest, "usr/bin/partition-monitor")
	if err := errors.Join(os.Remove(monitor), os.Mkdir(monitor, 0o755)); err != nil {
		t.Fatal(err)
	}
	text, err := run(t, "install", "DESTDIR="+dest)
	if entries, readErr := os.ReadDir(filepath.Dir(monitor)); err == nil || readErr != nil || len(entries) != 1 {
		t.Errorf("with a folder in the place of a program: %v, %s; then there are %v, %v", err, text, entries, readErr)
	}
}

// TestInstalledIsComplete: each program, unit, page of the manual and page of the documentation is
// in the list of the installed files.
func TestInstalledIsComplete(t *testing.T) {
	t.Parallel()
	entries, err := filelist.Read("../../..", "deploy/installed", map[string]string{"BIN": "cmd", "PREFIX": "/usr", "SYSTEMD_DIR": "/usr/lib/systemd"})
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, entry := range entries {
		if listed[entry.Source] {
			t.Errorf("%s twice", entry.Source)
		}
		listed[entry.Source] = true
	}
	for _, pattern := range []string{"cmd/*", "units/*", "man/*", "docs/*.md", "docs/troubleshooting/*.md", "deploy/grafana/*.json"} {
		sources, err := filepath.Glob("../../../" + pattern)
		if err != nil || len(sources) == 0 {
			t.Errorf("%s: %q, %v", pattern, sources, err)
		}
		for _, source := range sources {
			// The image alone has what a rollout runs.
			if !listed[source] && source != "../../../cmd/partition-installer" {
				t.Errorf("deploy/installed does not have %s", strings.TrimPrefix(source, "../../../"))
			}
		}
	}
}

// TestInstalledLinks: each link of a page leads to the same file on a node as in the repository.
func TestInstalledLinks(t *testing.T) {
	t.Parallel()
	const root = "../../.."
	entries, err := filelist.Read(root, "deploy/installed", map[string]string{"BIN": "bin", "PREFIX": "/usr", "SYSTEMD_DIR": "/usr/lib/systemd"})
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]string{} // by the path on a node
	for _, entry := range entries {
		switch filepath.Base(entry.Path) {
		case "LICENSE", "third-party-licenses", "CHANGELOG.md": // packages have them elsewhere
		default:
			sources[entry.Path] = entry.Source
		}
	}
	links := 0
	for _, entry := range entries {
		if filepath.Ext(entry.Path) != ".md" {
			continue
		}
		text, err := os.ReadFile(entry.Source)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range testkit.Links(string(text)) {
			links++
			file, _, _ := strings.Cut(link, "#")
			if file == "" {
				continue
			}
			target := filepath.Join(filepath.Dir(entry.Path), file)
			if sources[target] != filepath.Join(filepath.Dir(entry.Source), file) {
				t.Errorf("%s has a link to %s, which is not on a node as %s: name it without a link",
					strings.TrimPrefix(entry.Source, root+"/"), link, target)
			}
		}
	}
	if links == 0 {
		t.Error("no links: this test does not find them any more")
	}
}

// TestInstallPrelaunched: the link for the container runtime is installed only on request, leads to
// the program, and is removed with it.
func TestInstallPrelaunched(t *testing.T) {
	t.Parallel()
	const link = "/opt/nri/plugins/91-node-partition"
	dest := t.TempDir()
	if text, err := run(t, "install", "DESTDIR="+dest, "PREFIX=/usr/local", "PRELAUNCHED=1"); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if target, err := os.Readlink(filepath.Join(dest, link)); err != nil || target != "/usr/local/bin/partition-monitor" {
		t.Errorf("the link leads to %q, %v", target, err)
	}
	if text, err := run(t, "uninstall", "DESTDIR="+dest, "PREFIX=/usr/local"); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if left := files(t, dest); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
	for _, value := range []string{"0", "no", ""} {
		if text, err := run(t, "install", "DESTDIR="+dest, "PREFIX=/usr/local", "PRELAUNCHED="+value); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if _, err := os.Lstat(filepath.Join(dest, link)); err == nil {
			t.Errorf("PRELAUNCHED=%s: the link is installed", value)
		}
	}
}

// TestUninstallLeavesOtherPrelaunched: to remove an installation leaves the link of one below
// another PREFIX.
func TestUninstallLeavesOtherPrelaunched(t *testing.T) {
	t.Parallel()
	dest := t.TempDir()
	for _, prefix := range []string{"/usr/local", "/usr"} {
		if text, err := run(t, "install", "DESTDIR="+dest, "PREFIX="+prefix, "PRELAUNCHED=1"); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	if text, err := run(t, "uninstall", "DESTDIR="+dest, "PREFIX=/usr/local"); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if target, err := os.Readlink(filepath.Join(dest, "/opt/nri/plugins/91-node-partition")); err != nil || target != "/usr/bin/partition-monitor" {
		t.Errorf("the link leads to %q, %v", target, err)
	}
}

// TestPrefixIsChecked: a path that is not valid in the unit is refused before anything is written.
func TestPrefixIsChecked(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"opt", "", "/opt/my programs", "/opt/100%", "/opt/", "/opt/a|b"} {
		dest := t.TempDir()
		text, err := run(t, "install", "DESTDIR="+dest, "PREFIX="+prefix)
		if err == nil || !strings.Contains(text, "want an absolute path") || len(files(t, dest)) > 0 {
			t.Errorf("%q: %v, %s", prefix, err, text)
		}
	}
}

// TestOnlyTheKubeletWaits: services whose runtime comes with the kubelet do not wait for the
// monitor: k3s and RKE2 would start ten seconds later at each boot.
func TestOnlyTheKubeletWaits(t *testing.T) {
	t.Parallel()
	unit, err := os.ReadFile("../../../units/partition-monitor.service")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(unit), "\nBefore=kubelet.service\n") || strings.Count(string(unit), "\nBefore=") != 1 {
		t.Errorf("%s", unit)
	}
	if !strings.Contains(string(unit), "\nProtectHome=read-only\n") {
		t.Error("a kubelet's configuration in /home is not seen")
	}
}
