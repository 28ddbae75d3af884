package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// machine is a folder that the scripts take for the root of a machine (dpkg's DPKG_ROOT). Its
// systemctl notes what it is called with.
type machine struct {
	*testing.T
	root, tools string
}

// newMachine returns a machine with systemd 252 and cgroup v2.
func newMachine(t *testing.T) machine {
	t.Helper()
	m := machine{t, t.TempDir(), t.TempDir()}
	m.write("run/systemd/system/x", "")
	m.write("sys/fs/cgroup/cgroup.controllers", "cpu memory\n")
	m.systemctl("252", "inactive")
	// Seconds of the scripts take no time.
	if err := os.WriteFile(filepath.Join(m.tools, "sleep"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return m
}

// systemctl replaces systemctl by one of a version, which reports a state of the monitor.
func (m machine) systemctl(version, monitor string) {
	m.Helper()
	text := fmt.Sprintf(`#!/bin/sh
case $* in
--version) echo "systemd %s (%s-1)"; exit ;;
"is-active partition-monitor.service") echo %s; exit ;;
*is-active*) exit ;;
esac
echo "$*" >>%s/called
`, version, version, monitor, m.tools)
	if err := os.WriteFile(filepath.Join(m.tools, "systemctl"), []byte(text), 0o755); err != nil {
		m.Fatal(err)
	}
}

func (m machine) write(path, text string) {
	m.Helper()
	path = filepath.Join(m.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		m.Fatal(err)
	}
}

func (m machine) exists(path string) bool {
	_, err := os.Lstat(filepath.Join(m.root, path))
	return err == nil
}

// run runs a script, and returns what it prints and the calls of systemctl.
func (m machine) run(script string, args ...string) (output string, calls []string) {
	m.Helper()
	path, err := compose("../..", script, m.tools)
	if err != nil {
		m.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", append([]string{path}, args...)...)
	cmd.Env = append(os.Environ(), "DPKG_ROOT="+m.root, "PATH="+m.tools+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		m.Errorf("%s %q: %v\n%s", script, args, err, out)
	}
	called := filepath.Join(m.tools, "called")
	text, err := os.ReadFile(called)
	if err == nil {
		err = os.Remove(called)
	}
	if err != nil && !os.IsNotExist(err) {
		m.Fatal(err)
	}
	return string(out), strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

// wants runs a script, and compares the calls of systemctl.
func (m machine) wants(calls []string, script string, args ...string) string {
	m.Helper()
	out, got := m.run(script, args...)
	if !slices.Equal(got, calls) {
		m.Errorf("%s %q calls systemctl with %q, want %q\n%s", script, args, got, calls, out)
	}
	return out
}

var (
	first   = []string{"daemon-reload", "start slices.target"}
	renewed = []string{"daemon-reload", "try-restart partition-monitor.service"}
)

// TestInstalledAndUpgraded: the first installation starts what waits, and another one over it
// restarts the monitor only if it runs. A package that comes back after its removal is a first one.
func TestInstalledAndUpgraded(t *testing.T) {
	t.Run("deb", func(t *testing.T) {
		m := newMachine(t)
		m.wants(nil, "deb-preinst", "install")
		m.wants(first, "deb-postinst", "configure", "")
		m.wants(nil, "deb-prerm", "upgrade", "0.2.0-1")
		m.wants(nil, "deb-preinst", "upgrade", "0.1.0-1", "0.2.0-1")
		m.wants(nil, "deb-postrm", "upgrade", "0.2.0-1")
		m.wants(renewed, "deb-postinst", "configure", "0.1.0-1")
		m.wants(nil, "deb-preinst", "install", "0.2.0-1", "0.2.0-1")
		m.wants(first, "deb-postinst", "configure", "0.2.0-1")
		m.wants(renewed, "deb-postinst", "configure", "0.2.0-1")
	})
	t.Run("rpm", func(t *testing.T) {
		m := newMachine(t)
		m.wants(nil, "rpm-pre", "1")
		m.wants(first, "rpm-post", "1")
		m.wants(nil, "rpm-pre", "2")
		m.wants(renewed, "rpm-post", "2")
		m.wants(nil, "rpm-preun", "1")
		m.wants(nil, "rpm-postun", "1")
	})
	t.Run("with a section", func(t *testing.T) {
		m := newMachine(t)
		m.write("run/systemd/generator/kubepods-system.slice", "")
		m.wants(append(slices.Clone(first), "start --no-block partition-monitor.service"), "rpm-post", "1")
	})
}

// TestUnfitMachine: a package installs on a machine that cannot have a partition, changes nothing
// there, and says why.
func TestUnfitMachine(t *testing.T) {
	for want, change := range map[string]func(m machine){
		"systemd does not run here":                                        func(m machine) { m.remove("run/systemd") },
		"systemd 247 is too old, so nothing is started; want 252 or later": func(m machine) { m.systemctl("247", "inactive") },
		"this machine has no cgroup v2":                                    func(m machine) { m.remove("sys/fs/cgroup") },
	} {
		m := newMachine(t)
		m.write("run/systemd/generator/kubepods-system.slice", "")
		change(m)
		before := m.tree()
		for _, step := range [][]string{
			{"deb-preinst", "install"}, {"deb-postinst", "configure", ""}, {"deb-postinst", "configure", "0.1.0-1"},
			{"rpm-pre", "1"}, {"rpm-post", "1"}, {"rpm-post", "2"},
		} {
			out := m.wants(nil, step[0], step[1:]...)
			if says := strings.Contains(out, want); says != strings.Contains(step[0], "post") {
				t.Errorf("%q prints %q, want %q", step, out, want)
			}
		}
		if after := m.tree(); !slices.Equal(after, before) {
			t.Errorf("%s: %q, was %q", want, after, before)
		}
	}
}

func (m machine) remove(path string) {
	m.Helper()
	if err := os.RemoveAll(filepath.Join(m.root, path)); err != nil {
		m.Fatal(err)
	}
}

func (m machine) tree() []string {
	m.Helper()
	var all []string
	err := filepath.WalkDir(m.root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			all = append(all, strings.TrimPrefix(path, m.root))
		}
		return err
	})
	if err != nil {
		m.Fatal(err)
	}
	return all
}

// TestRemoved: a removal switches the partition off while the programs are there, waits until the
// monitor has ended, and has each slice that stays written. It leaves nothing in /run.
func TestRemoved(t *testing.T) {
	for _, steps := range [][]string{{"deb-prerm", "remove", "deb-postrm", "remove"}, {"rpm-preun", "0", "rpm-postun", "0"}} {
		m := newMachine(t)
		m.write("run/systemd/generator/kubepods-system.slice", "")
		m.write("run/node-partition/trial.json", "{}")
		m.write("var/lib/node-partition/history/1", "")
		m.wants([]string{
			"--quiet stop node-partition-trial.timer", "daemon-reload", "--quiet start partition-monitor.service", "--quiet stop partition-monitor.service",
		}, steps[0], steps[1])
		trial, err := os.ReadFile(filepath.Join(m.root, "run/node-partition/trial.yaml"))
		if err != nil || !strings.Contains(string(trial), "\nsystemPartition: {}\nworkloadPartitions: {}\n") {
			t.Errorf("the generator reads %q, %v", trial, err)
		}
		if m.exists("run/node-partition/trial.json") {
			t.Error("the end of the trial is there: the generator goes back")
		}
		m.wants([]string{
			"daemon-reload", "--quiet stop partition-generator-*", "set-property --runtime kubepods-system.slice Markers=", "--quiet reset-failed partition-*",
		}, steps[2], steps[3])
		if m.exists("run/node-partition") {
			t.Error("/run/node-partition is left")
		}
		if !m.exists("var/lib/node-partition/history/1") {
			t.Error("the history is gone before a purge")
		}
	}
}

// TestRemovedInterrupts: interrupts that were kept off CPUs go where they went before, while the
// program is there that knows where.
func TestRemovedInterrupts(t *testing.T) {
	m := newMachine(t)
	m.write("run/systemd/generator/kubepods-system.slice", "")
	m.write("run/systemd/generator/partition-generator-interrupts.service", "")
	m.wants([]string{
		"--quiet stop node-partition-trial.timer", "daemon-reload", "restart partition-generator-interrupts.service",
		"--quiet start partition-monitor.service", "--quiet stop partition-monitor.service",
	}, "deb-prerm", "remove")
}

// TestRemovedWaits: pods that the monitor moves are waited for, and those that it does not move are
// named.
func TestRemovedWaits(t *testing.T) {
	m := newMachine(t)
	m.write("run/systemd/generator/kubepods-system.slice", "")
	const pod = "sys/fs/cgroup/kubepods.slice/kubepods-system.slice/kubepods-system-burstable.slice/kubepods-system-burstable-pod"
	m.write(pod+"1.slice/cgroup.procs", "")
	m.write(pod+"2.slice/cgroup.procs", "")
	m.systemctl("257", "active")
	// The first look sees one pod move, and removes it.
	m.write("usr/bin/partition-monitor", "#!/bin/sh\nrm -rf "+filepath.Join(m.root, pod+"1.slice")+"\necho '{\"reason\": \"next-start\"}'\n")
	if err := os.Chmod(filepath.Join(m.root, "usr/bin/partition-monitor"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, _ := m.run("deb-prerm", "remove")
	for _, want := range []string{"1 pods are left in the partition\n", "1 pods stay in the slice of a partition"} {
		if strings.Count(out, want) != 1 {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
}

// TestRemovedWithoutPartition: nothing is switched off where nothing is on. The link for the
// container runtime goes, because a runtime does not start with a plugin that is not there. One to
// another program stays.
func TestRemovedWithoutPartition(t *testing.T) {
	for target, stays := range map[string]bool{"/usr/bin/partition-monitor": false, "/usr/local/bin/partition-monitor": true} {
		m := newMachine(t)
		m.write("opt/nri/plugins/other", "")
		link := filepath.Join(m.root, "opt/nri/plugins/91-node-partition")
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		m.wants(nil, "deb-prerm", "remove")
		if _, err := os.Lstat(link); (err == nil) != stays {
			t.Errorf("the link to %s: %v", target, err)
		}
		m.wants([]string{"daemon-reload", "--quiet stop partition-generator-*", "--quiet reset-failed partition-*"}, "deb-postrm", "remove")
	}
}

// TestRemovalAborted: dpkg undoes a removal that fails, and the partition comes back.
func TestRemovalAborted(t *testing.T) {
	m := newMachine(t)
	m.write("run/systemd/generator/kubepods-system.slice", "")
	m.run("deb-prerm", "remove")
	m.wants(append(slices.Clone(first), "start --no-block partition-monitor.service"), "deb-postinst", "abort-remove")
	if m.exists("run/node-partition/trial.yaml") {
		t.Error("the partition is still switched off")
	}
}

// TestPurged: what the monitor has recorded goes. An operator's files stay, the section with them.
func TestPurged(t *testing.T) {
	m := newMachine(t)
	for _, path := range []string{"etc/kubernetes/node-partition.yaml", "etc/kubernetes/kubelet.conf", "var/lib/other/file"} {
		m.write(path, "")
	}
	before := m.tree()
	m.write("var/lib/node-partition/history/1", "")
	out := m.wants(nil, "deb-postrm", "purge")
	if after := m.tree(); !slices.Equal(after, before) || m.exists("var/lib/node-partition") {
		t.Errorf("%q, want %q", after, before)
	}
	if !strings.Contains(out, "node-partition.yaml stays") {
		t.Errorf("%q does not name the section that stays", out)
	}
	m.write("var/lib/node-partition/history/1", "")
	m.write("var/lib/node-partition/notes", "")
	m.wants(nil, "deb-postrm", "purge")
	if !m.exists("var/lib/node-partition/notes") || m.exists("var/lib/node-partition/history") {
		t.Errorf("%q", m.tree())
	}
}

// TestSettingsBeforeThePackage: settings that an operator wrote before the rpm are found where the
// rpm has them.
func TestSettingsBeforeThePackage(t *testing.T) {
	m := newMachine(t)
	m.write("etc/default/node-partition", "mine\n")
	m.wants(nil, "rpm-pre", "1")
	data, err := os.ReadFile(filepath.Join(m.root, "etc/sysconfig/node-partition"))
	if err != nil || string(data) != "mine\n" || m.exists("etc/default/node-partition") {
		t.Errorf("%q, %v", data, err)
	}
}
