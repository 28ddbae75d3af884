package packaging

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// machine is a folder that the scripts take for the root of a machine. Its systemctl notes what it
// is called with.
type machine struct {
	*testing.T
	root, tools string
	// patience replaces the rounds in which a removal waits for a pod, if it is not 0.
	patience int
}

// newMachine returns a machine with systemd 252 and cgroup v2.
func newMachine(t *testing.T) machine {
	t.Helper()
	m := machine{T: t, root: t.TempDir(), tools: t.TempDir()}
	m.write("run/systemd/system/x", "")
	m.write("proc/1/comm", "systemd\n")
	m.write("sys/fs/cgroup/cgroup.controllers", "cpu memory\n")
	m.systemctl("252", "inactive")
	m.tool("systemd-detect-virt", "exit 1")
	m.tool("sleep", "") // seconds of the scripts take no time
	return m
}

// tool replaces a program by lines of shell.
func (m machine) tool(name, text string) {
	m.Helper()
	if err := os.WriteFile(filepath.Join(m.tools, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		m.Fatal(err)
	}
}

// program writes a program of the machine.
func (m machine) program(path, text string) {
	m.Helper()
	m.write(path, "#!/bin/sh\n"+text+"\n")
	if err := os.Chmod(filepath.Join(m.root, path), 0o755); err != nil {
		m.Fatal(err)
	}
}

// systemctl replaces systemctl by one of a version, which reports a state of the monitor.
func (m machine) systemctl(version, monitor string) {
	m.Helper()
	m.tool("systemctl", fmt.Sprintf(`case $* in
--version) echo "systemd %s (%s-1)"; exit ;;
"is-active partition-monitor.service") echo %s; exit ;;
*is-active*) exit ;;
esac
echo "$*" >>%s/called`, version, version, monitor, m.tools))
}

// atStop has systemctl note whether there is a trial when the monitor is stopped. With one the
// monitor leaves the Node then.
func (m machine) atStop() {
	m.Helper()
	file, err := os.OpenFile(filepath.Join(m.tools, "systemctl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		m.Fatal(err)
	}
	defer file.Close()
	if _, err := fmt.Fprintf(file, `case $* in *"stop partition-monitor.service")
	[ ! -e %s/run/node-partition/trial.yaml ] || echo "it sees the trial" >>%s/called
esac
`, m.root, m.tools); err != nil {
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

// compose writes a script as it is in a package, but for its root, and returns its path.
func (m machine) compose(script string) string {
	m.Helper()
	text := composed(m.T, script)
	set := func(name, from, to string) {
		if strings.Count(text, "\n"+name+"="+from+"\n") != 1 {
			m.Fatalf("%s does not set %s to %s in one place:\n%s", script, name, from, text)
		}
		text = strings.Replace(text, "\n"+name+"="+from+"\n", "\n"+name+"="+to+"\n", 1)
	}
	set("root", "${DPKG_ROOT-}", m.root)
	if m.patience != 0 {
		set("patience", "600", fmt.Sprint(m.patience))
	}
	path := filepath.Join(m.tools, script)
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		m.Fatal(err)
	}
	return path
}

// command returns a script with its arguments and the programs of the machine.
func (m machine) command(script string, args ...string) *exec.Cmd {
	m.Helper()
	cmd := exec.Command("/bin/sh", append([]string{m.compose(script)}, args...)...)
	cmd.Env = append(os.Environ(), "PATH="+m.tools+":"+os.Getenv("PATH"))
	return cmd
}

// run runs a script, and returns what it prints and the calls of systemctl.
func (m machine) run(script string, args ...string) (output string, calls []string) {
	m.Helper()
	out, err := m.command(script, args...).CombinedOutput()
	if err != nil {
		m.Errorf("%s %q: %v\n%s", script, args, err, out)
	}
	return string(out), m.called()
}

// called returns the calls of systemctl since it was asked last.
func (m machine) called() []string {
	m.Helper()
	called := filepath.Join(m.tools, "called")
	text, err := os.ReadFile(called)
	if err == nil {
		err = os.Remove(called)
	}
	if err != nil && !os.IsNotExist(err) {
		m.Fatal(err)
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
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
	// An installation that dpkg could not unpack is not taken for the first one by the next upgrade.
	t.Run("deb, aborted", func(t *testing.T) {
		m := newMachine(t)
		m.wants(nil, "deb-preinst", "install", "0.1.0-1", "0.2.0-1")
		m.wants(nil, "deb-postrm", "abort-install", "0.1.0-1", "0.2.0-1")
		m.wants(nil, "deb-preinst", "upgrade", "0.1.0-1", "0.2.0-1")
		m.wants(renewed, "deb-postinst", "configure", "0.1.0-1")
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
	t.Run("where SYSTEMD_OFFLINE denies a chroot", func(t *testing.T) {
		m := newMachine(t)
		m.tool("systemd-detect-virt", "")
		t.Setenv("SYSTEMD_OFFLINE", "0")
		m.wants(first, "rpm-post", "1")
	})
	t.Run("with a section", func(t *testing.T) {
		m := newMachine(t)
		m.write("run/systemd/generator/kubepods-system.slice", "")
		m.wants(append(slices.Clone(first), "start --no-block partition-generator-apply.path partition-monitor.service"), "rpm-post", "1")
	})
}

// TestUnfitMachine: a package installs on a machine that cannot have a partition, changes nothing
// there, and says why in one line. It is removed without a word.
func TestUnfitMachine(t *testing.T) {
	forgotten := []string{"daemon-reload", "--quiet stop partition-generator-* partition-monitor.service", "--quiet reset-failed partition-*"}
	for name, test := range map[string]struct {
		why    string
		change func(m machine)
		// removed lists the calls of systemctl in a removal.
		removed []string
	}{
		"without systemd": {"systemd does not run here", func(m machine) { m.remove("run/systemd") }, nil},
		"systemd 251":     {"systemd 251 is too old (want 252 or later)", func(m machine) { m.systemctl("251", "inactive") }, forgotten},
		"systemd 249~rc1": {"systemd 249 is too old (want 252 or later)", func(m machine) { m.systemctl("249~rc1", "inactive") }, forgotten},
		"a systemctl of another program": {
			"systemd of an unknown version is too old (want 252 or later)", func(m machine) { m.systemctl("-", "inactive") }, forgotten,
		},
		"cgroup v1": {
			"this machine has no cgroup v2 at /sys/fs/cgroup (boot with systemd.unified_cgroup_hierarchy=1)",
			func(m machine) {
				m.remove("sys/fs/cgroup/cgroup.controllers")
				m.write("sys/fs/cgroup/unified/cgroup.controllers", "") // as in systemd's hybrid mode
				m.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "")
			},
			forgotten,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			test.change(m)
			before := m.tree()
			for _, steps := range [][]string{
				{"deb-preinst install", "deb-postinst configure"},
				{"deb-preinst upgrade 0.1.0-1", "deb-postinst configure 0.1.0-1"},
				{"deb-preinst install", "deb-postrm abort-install"},
				{"deb-preinst install 0.1.0-1 0.2.0-1", "deb-postrm abort-install 0.1.0-1 0.2.0-1"},
				{"rpm-pre 1", "rpm-post 1"},
				{"rpm-pre 2", "rpm-post 2"},
				{"deb-prerm remove", "deb-postrm remove"},
				{"rpm-preun 0", "rpm-postun 0"},
			} {
				all := ""
				for _, step := range steps {
					words := strings.Fields(step)
					var calls []string
					if words[0] == "deb-postrm" && words[1] == "remove" || words[0] == "rpm-postun" {
						calls = test.removed
					}
					all += m.wants(calls, words[0], words[1:]...)
				}
				want := ""
				if last := steps[len(steps)-1]; strings.HasPrefix(last, "deb-postinst") || strings.HasPrefix(last, "rpm-post ") {
					want = "node-partition: " + test.why + ", so nothing is started\n"
				}
				if all != want {
					t.Errorf("%q prints %q, want %q", steps, all, want)
				}
				if after := m.tree(); !slices.Equal(after, before) {
					t.Fatalf("%q leaves %q, was %q", steps, after, before)
				}
			}
		})
	}
}

// TestAnotherSystem: where the packages of an image are changed, nothing is done to the running
// system, not even to its /run. One line says why.
func TestAnotherSystem(t *testing.T) {
	for name, test := range map[string]struct {
		why    string
		change func(m machine)
	}{
		"DPKG_ROOT":       {"the packages of another system are changed, at /image", func(m machine) { m.Setenv("DPKG_ROOT", "/image") }},
		"chroot":          {"this is a chroot", func(m machine) { m.tool("systemd-detect-virt", `[ "$*" = "--quiet --chroot" ]`) }},
		"without /proc":   {"this is a chroot", func(m machine) { m.remove("proc") }},
		"rpm-ostree":      {"SYSTEMD_OFFLINE is set", func(m machine) { m.Setenv("SYSTEMD_OFFLINE", "1") }},
		"without systemd": {"there is no systemctl here", machine.withoutSystemctl},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.write("run/systemd/generator/kubepods-system.slice", "")
			m.write("run/node-partition/trial.yaml", "an operator's\n")
			m.write("run/node-partition.new", "")
			test.change(m)
			before := m.tree()
			for _, step := range []struct{ says, script, args string }{
				{"", "deb-preinst", "install"},
				{"nothing is started", "deb-postinst", "configure"},
				{"nothing is started", "deb-postinst", "configure 0.1.0-1"},
				{"the partition is not switched off", "deb-prerm", "remove"},
				{"nothing is started", "deb-postinst", "abort-remove"},
				{"", "deb-postrm", "remove"},
				{"", "rpm-pre", "1"},
				{"nothing is started", "rpm-post", "1"},
				{"nothing is started", "rpm-post", "2"},
				{"the partition is not switched off", "rpm-preun", "0"},
				{"", "rpm-postun", "0"},
			} {
				want := ""
				if step.says != "" {
					want = "node-partition: " + test.why + ", so " + step.says + "\n"
				}
				if out := m.wants(nil, step.script, strings.Fields(step.args)...); out != want {
					t.Errorf("%s %s prints %q, want %q", step.script, step.args, out, want)
				}
				if after := m.tree(); !slices.Equal(after, before) {
					t.Fatalf("%s %s leaves %q, was %q", step.script, step.args, after, before)
				}
			}
		})
	}
}

// TestPolicy: the machine's policy is asked before something is started, restarted or stopped, as
// deb-systemd-invoke asks it. Status 101 forbids, and each other one allows.
func TestPolicy(t *testing.T) {
	for answer, forbidden := range map[string]bool{"0": false, "101": true, "104": false, "1": false} {
		m := newMachine(t)
		m.write("run/systemd/generator/kubepods-system.slice", "")
		asked := filepath.Join(m.tools, "asked")
		m.program("usr/sbin/policy-rc.d", "echo $* >"+asked+"; exit "+answer)
		for _, step := range []struct{ action, script, args string }{
			{"start", "deb-postinst", "configure"},
			{"restart", "deb-postinst", "configure 0.1.0-1"},
			{"stop", "deb-prerm", "remove"},
			{"stop", "deb-postrm", "remove"},
		} {
			before := m.tree()
			out, calls := m.run(step.script, strings.Fields(step.args)...)
			if got, err := os.ReadFile(asked); err != nil || string(got) != "partition-monitor.service "+step.action+"\n" {
				t.Errorf("%s asks the policy %q, %v", step.script, got, err)
			}
			if (len(calls) == 0) != forbidden || slices.Equal(m.tree(), before) != forbidden && step.action == "stop" {
				t.Errorf("answer %s: %s calls systemctl with %q, and leaves %q", answer, step.script, calls, m.tree())
			}
			says := "/usr/sbin/policy-rc.d does not allow to " + step.action + " partition-monitor.service, so "
			if strings.Contains(out, says) != (forbidden && step.script != "deb-postrm") {
				t.Errorf("answer %s: %s prints %q", answer, step.script, out)
			}
		}
	}
}

// withoutSystemctl leaves the machine with the programs that the scripts call, but systemctl.
func (m machine) withoutSystemctl() {
	m.Helper()
	if err := os.Remove(filepath.Join(m.tools, "systemctl")); err != nil {
		m.Fatal(err)
	}
	for _, name := range []string{"cat", "find", "grep", "mkdir", "mv", "readlink", "rm", "sed", "wc"} {
		path, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(path, filepath.Join(m.tools, name))
		}
		if err != nil {
			m.Fatal(err)
		}
	}
	m.Setenv("PATH", m.tools)
}

func (m machine) remove(path string) {
	m.Helper()
	if err := os.RemoveAll(filepath.Join(m.root, path)); err != nil {
		m.Fatal(err)
	}
}

// tree lists the files of the machine, with the beginning of what they contain.
func (m machine) tree() []string {
	m.Helper()
	var all []string
	err := filepath.WalkDir(m.root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if entry.Type() == fs.ModeSymlink {
			var target string
			target, err = os.Readlink(path)
			text = []byte("-> " + target)
		}
		all = append(all, fmt.Sprintf("%s %.20q", strings.TrimPrefix(path, m.root), text))
		return err
	})
	if err != nil {
		m.Fatal(err)
	}
	return all
}

// TestRemoved: a removal switches the partition off while the programs are there, after the monitor
// has stopped, so that no pod is moved. It has each slice that stays written, and leaves nothing in
// /run.
func TestRemoved(t *testing.T) {
	for _, steps := range [][]string{{"deb-prerm", "remove", "deb-postrm", "remove"}, {"rpm-preun", "0", "rpm-postun", "0"}} {
		m := newMachine(t)
		m.write("run/systemd/generator/kubepods-system.slice", "")
		m.write("run/node-partition/trial.json", "{}")
		m.write("var/lib/node-partition/sizes/1", "")
		m.write(aPod+"1.slice/cgroup.procs", "")
		m.program("usr/bin/partition-monitor", "exit 9")
		m.atStop()
		out := m.wants([]string{
			"--quiet stop node-partition-trial.timer", "--quiet stop partition-monitor.service", "it sees the trial", "daemon-reload",
		}, steps[0], steps[1])
		if want := "no pod is restarted for this: 1 pods stay in the slice of a partition, without its limit, until they start again"; !strings.Contains(out, want) {
			t.Errorf("says %q, want %q", out, want)
		}
		trial, err := os.ReadFile(filepath.Join(m.root, "run/node-partition/trial.yaml"))
		if err != nil || !strings.Contains(string(trial), "\nsystemPartition: {}\nworkloadPartitions: {}\n") {
			t.Errorf("the generator reads %q, %v", trial, err)
		}
		if m.exists("run/node-partition/trial.json") {
			t.Error("the end of the trial is there: the generator goes back")
		}
		m.wants([]string{
			"daemon-reload", "--quiet stop partition-generator-* partition-monitor.service", "set-property --runtime kubepods-system.slice Markers=", "--quiet reset-failed partition-*",
		}, steps[2], steps[3])
		if m.exists("run/node-partition") {
			t.Error("/run/node-partition is left")
		}
		if !m.exists("var/lib/node-partition/sizes/1") {
			t.Error("what partitions have used is gone before a purge")
		}
	}
}

// aPod is the cgroup of a pod in the system partition, but for its number.
const aPod = "sys/fs/cgroup/kubepods.slice/kubepods-system.slice/kubepods-system-burstable.slice/kubepods-system-burstable-pod"

// busy returns a machine whose section was removed, with pods in its partition and a monitor that
// runs. For each look of a removal it runs lines of shell, which find the number of the look in
// $look, and may set $reason, the monitor's reason for a pod. Without one it knows no pods.
func busy(t *testing.T, pods int, lines, pod string) machine {
	t.Helper()
	m := newMachine(t)
	m.write("run/node-partition/units/kubepods-system.slice.d/50-node-partition.conf", "")
	for i := range pods {
		m.write(fmt.Sprint(aPod, i+1, ".slice/cgroup.procs"), "")
	}
	m.systemctl("257", fmt.Sprintf("$([ -e %s/ended ] && echo inactive || echo active)", m.tools))
	m.program("usr/bin/partition-monitor", fmt.Sprintf(`cd %s
case $* in
"status --wait --timeout=1s") [ "$(cat reason)" != moving ]; exit ;;
status) ;;
*) exit 2 ;;
esac
read -r look <look || look=0
look=$((look + 1)); echo $look >look
reason=moving
%s
echo $reason >reason
echo "kube-system %s $reason"
[ -n "$reason" ] || exit 1`, m.root, strings.ReplaceAll(lines, "TOOLS", m.tools), pod))
	return m
}

// says compares what a removal says of pods. A line that begins with "shows" is of status.
func (m machine) says(want ...string) {
	m.Helper()
	out, _ := m.run("deb-prerm", "remove")
	text := ""
	for _, line := range want {
		if shown, ok := strings.CutPrefix(line, "shows "); ok {
			text += "node-partition: \"partition-monitor status\" says why:\n" + shown + "\n"
			continue
		}
		text += "node-partition: " + line + "\n"
	}
	if out != text {
		m.Errorf("prints\n%swant\n%s", out, text)
	}
}

// TestRemovedWaits: pods that the monitor moves are waited for, as long as it takes to move one.
// Those that it does not move are named, with its reason.
func TestRemovedWaits(t *testing.T) {
	const first, second = "rm -rf " + aPod + "1.slice", "rm -rf " + aPod + "2.slice"
	t.Run("a static pod stays", func(t *testing.T) {
		busy(t, 2, first+"; reason=next-start", "etcd-a").says(
			"1 pods are left in the partition",
			"1 pods stay in the slice of a partition, without its limit, until they start again",
			"shows kube-system etcd-a next-start",
		)
	})
	t.Run("a long grace period", func(t *testing.T) {
		busy(t, 1, "[ $look -lt 61 ] || "+first+"; [ $look -lt 62 ] || >TOOLS/ended", "dns").says(
			"no pod has left the partition for 60 seconds or more; the removal waits for them", "shows kube-system dns moving",
			"0 pods are left in the partition",
		)
	})
	t.Run("longer than the patience, pod by pod", func(t *testing.T) {
		m := busy(t, 2, "[ $look -lt 3 ] || "+first+"; [ $look -lt 6 ] || "+second+"; [ $look -lt 7 ] || >TOOLS/ended", "")
		m.patience = 4
		m.says("1 pods are left in the partition", "0 pods are left in the partition")
	})
	t.Run("a pod that does not end", func(t *testing.T) {
		// Pods that come are not progress.
		m := busy(t, 1, "if [ $((look % 2)) = 0 ]; then "+second+"; else mkdir "+aPod+"2.slice; fi", "dns")
		m.patience = 4
		m.says(
			"no pod has left the partition for 4 seconds or more, and the removal does not wait longer",
			"1 pods stay in the slice of a partition, without its limit, until they start again",
			"shows kube-system dns moving",
		)
	})
	t.Run("a monitor that ends", func(t *testing.T) {
		busy(t, 1, ">TOOLS/ended", "dns").says(
			`the monitor does not run, so it moves nothing; "journalctl -u partition-monitor" says why`,
			"1 pods stay in the slice of a partition, without its limit, until they start again",
			"shows kube-system dns moving",
		)
	})
	t.Run("a runtime that does not answer", func(t *testing.T) {
		busy(t, 1, "reason=", "").says(
			"1 pods stay in the slice of a partition, without its limit, until they start again",
			"shows kube-system  ",
		)
	})
}

// TestRemovedAfterSwitchOff: a section that was removed a moment ago has no units, and its pods are
// waited for all the same. The kubelet's slices are not a partition, nor are somebody else's.
func TestRemovedAfterSwitchOff(t *testing.T) {
	m := newMachine(t)
	const pods = "sys/fs/cgroup/kubepods.slice/"
	m.write(pods+"kubepods-system.slice/kubepods-system-burstable.slice/kubepods-system-burstable-pod1.slice/cgroup.procs", "")
	m.write(pods+"kubepods-burstable.slice/kubepods-burstable-pod2.slice/cgroup.procs", "")
	m.write(pods+"kubepods-pod3.slice/cgroup.procs", "")
	m.write(pods+"kubepods-other.slice/kubepods-other-pod4.slice/cgroup.procs", "")
	m.write(pods+"kubepods-my_batch.slice/cgroup.procs", "")
	for _, slice := range []string{"kubepods-system.slice", "kubepods-my_batch.slice", "kubepods-burstable-.slice"} {
		m.write("run/node-partition/units/"+slice+".d/50-node-partition.conf", "")
	}
	rounds, slice := filepath.Join(m.tools, "rounds"), filepath.Join(m.root, pods+"kubepods-system.slice")
	m.systemctl("257", fmt.Sprintf("$([ ! -e %s ] || echo active)", slice))
	m.program("usr/bin/partition-monitor", fmt.Sprintf(`echo >>%[1]s
[ $(wc -l <%[1]s) -lt 3 ] || rm -rf %[2]s
[ "$*" = status ]`, rounds, slice))
	out := m.wants([]string{"--quiet stop node-partition-trial.timer", "daemon-reload", "--quiet stop partition-monitor.service"}, "deb-prerm", "remove")
	if m.exists(pods+"kubepods-system.slice") || strings.Contains(out, "stay") {
		t.Errorf("the removal does not wait for the pod:\n%s", out)
	}
	m.wants([]string{
		"daemon-reload", "--quiet stop partition-generator-* partition-monitor.service", "set-property --runtime kubepods-my_batch.slice Markers=",
		"set-property --runtime kubepods-system.slice Markers=", "--quiet reset-failed partition-*",
	}, "deb-postrm", "remove")
}

// TestRemovedWithoutPartition: nothing is switched off where nothing is on.
func TestRemovedWithoutPartition(t *testing.T) {
	m := newMachine(t)
	m.wants(nil, "deb-prerm", "remove")
	m.wants([]string{"daemon-reload", "--quiet stop partition-generator-* partition-monitor.service", "--quiet reset-failed partition-*"}, "deb-postrm", "remove")
}

// TestPrelaunched: the link for the container runtime is there as long as the program, because an
// old runtime does not start with a plugin that is not there. So a removal that fails leaves it. A
// link to another program stays.
func TestPrelaunched(t *testing.T) {
	for target, stays := range map[string]bool{"/usr/bin/partition-monitor": false, "/usr/local/bin/partition-monitor": true} {
		for _, steps := range [][]string{{"deb-prerm remove", "deb-postinst abort-remove", "deb-postrm remove"}, {"rpm-preun 0", "rpm-postun 0"}} {
			m := newMachine(t)
			m.write("opt/nri/plugins/other", "")
			link := filepath.Join(m.root, "opt/nri/plugins/91-node-partition")
			if err := os.Symlink(target, link); err != nil {
				t.Fatal(err)
			}
			for i, step := range steps {
				words := strings.Fields(step)
				m.run(words[0], words[1:]...)
				if _, err := os.Lstat(link); (err == nil) != (stays || i < len(steps)-1) {
					t.Errorf("%s: the link to %s: %v", step, target, err)
				}
			}
			if !m.exists("opt/nri/plugins/other") {
				t.Error("another plugin has gone")
			}
		}
	}
}

// again lists the calls of systemctl that switch a partition on.
var again = append(slices.Clone(first), "start --no-block partition-generator-apply.path partition-monitor.service")

// TestRemovalAborted: dpkg undoes a removal that fails, and the partition comes back. An operator's
// trial, which the removal has not replaced, goes on.
func TestRemovalAborted(t *testing.T) {
	m := newMachine(t)
	m.write("run/systemd/generator/kubepods-system.slice", "")
	m.run("deb-prerm", "remove")
	m.wants(again, "deb-postinst", "abort-remove")
	if m.exists("run/node-partition/trial.yaml") {
		t.Error("the partition is still switched off")
	}
	m.write("run/node-partition/trial.yaml", "# mine\n")
	m.wants(again, "deb-postinst", "abort-remove")
	if !m.exists("run/node-partition/trial.yaml") {
		t.Error("the operator's trial has ended")
	}
}

// TestRemovalInterrupted: a removal that is ended by a signal, or by an error, switches the
// partition on again. rpm has no script that would.
func TestRemovalInterrupted(t *testing.T) {
	for name, test := range map[string]struct {
		tool, does string
		status     int
	}{
		"Ctrl-C":       {"mv", `/bin/mv "$@"; kill -INT $PPID`, 130},
		"SIGTERM":      {"mv", `/bin/mv "$@"; kill -TERM $PPID`, 143},
		"SIGHUP":       {"mv", `/bin/mv "$@"; kill -HUP $PPID`, 129},
		"a full disk":  {"mv", "echo no space left >&2; exit 1", 1},
		"of a command": {"wc", "exit 7", 7},
	} {
		t.Run(name, func(t *testing.T) {
			// A shell does not trap a signal that it was started to ignore, as with nohup.
			signals := make(chan os.Signal, 1)
			signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
			defer signal.Stop(signals)
			m := newMachine(t)
			m.systemctl("257", "active")
			m.write("run/systemd/generator/kubepods-system.slice", "")
			if name == "a full disk" {
				m.write("run/node-partition/trial.yaml", "# an operator's\n")
				m.write("run/node-partition/trial.json", "its end\n")
			}
			before := m.tree()
			m.tool(test.tool, test.does)
			cmd := m.command("rpm-preun", "0")
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != test.status {
				t.Errorf("the removal goes on: %v\n%s", err, out)
			}
			if calls := m.called(); len(calls) < len(again) || !slices.Equal(calls[len(calls)-len(again):], again) {
				t.Errorf("calls systemctl with %q, want %q last", calls, again)
			}
			if after := m.tree(); !slices.Equal(after, before) {
				t.Errorf("leaves %q, was %q\n%s", after, before, out)
			}
		})
	}
}

// TestInstalledAfterInterruption: a removal that was killed leaves the partition switched off. The
// next installation, or another version, switches it on.
func TestInstalledAfterInterruption(t *testing.T) {
	for _, step := range [][]string{
		{"deb-postinst", "configure", ""}, {"deb-postinst", "configure", "0.1.0-1"}, {"rpm-post", "1"}, {"rpm-post", "2"},
	} {
		m := newMachine(t)
		m.systemctl("257", "active")
		m.write("run/systemd/generator/kubepods-system.slice", "")
		before := m.tree()
		m.tool("mv", `/bin/mv "$@"; kill -KILL $PPID`)
		if out, err := m.command("deb-prerm", "remove").CombinedOutput(); err == nil || !m.exists("run/node-partition/trial.yaml") {
			t.Fatalf("the removal was not killed: %v\n%s", err, out)
		}
		m.called()
		out := m.wants(again, step[0], step[1:]...)
		if after := m.tree(); !slices.Equal(after, before) {
			t.Errorf("%q leaves %q, was %q", step, after, before)
		}
		if want := "a removal was interrupted: the partition is switched on again"; strings.Count(out, want) != 1 {
			t.Errorf("%q prints %q, want %q", step, out, want)
		}
	}
}

// TestMakeInstall: files of "make install" below another PREFIX, which systemd takes before the
// package's, are named. The partition is the work of that generator: the removal of the package
// leaves it and its state. Masks and units of an operator are not such files.
func TestMakeInstall(t *testing.T) {
	const generator, unit = "/system-generators/partition-generator", "/system/partition-monitor.service"
	for name, test := range map[string]struct {
		files map[string]string
		hides []string
	}{
		"below /usr/local": {
			map[string]string{"usr/local/lib/systemd" + generator: "ELF", "usr/local/lib/systemd" + unit: "ExecStart=/usr/local/bin/partition-monitor run\n"},
			[]string{"usr/local/lib/systemd" + generator, "usr/local/lib/systemd" + unit},
		},
		"below /opt": {
			map[string]string{"etc/systemd" + generator: "ELF", "etc/systemd" + unit: "ExecStart=/opt/bin/partition-monitor run\n"},
			[]string{"etc/systemd" + generator, "etc/systemd" + unit},
		},
		"a unit alone": {
			map[string]string{"etc/systemd" + unit: "ExecStart=/opt/bin/partition-monitor run\n"}, []string{"etc/systemd" + unit},
		},
		"an operator's unit": {map[string]string{"etc/systemd" + unit: "ExecStart=/usr/bin/partition-monitor run --events\n"}, nil},
		"masks":              {map[string]string{"etc/systemd" + generator: "", "usr/local/lib/systemd" + unit: ""}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.write("run/systemd/generator/kubepods-system.slice", "")
			for path, text := range test.files {
				m.write(path, text)
			}
			want := ""
			for _, path := range test.hides {
				want += " " + filepath.Join(m.root, path)
			}
			if want != "" {
				want = "node-partition: systemd uses these files of \"make install\" in place of the package's, " +
					"until \"make uninstall\" with their PREFIX:" + want + "\n"
			}
			for step, calls := range map[string][]string{
				"deb-postinst configure": again, "deb-postinst configure 0.1.0-1": renewed, "rpm-post 1": again, "rpm-post 2": renewed,
			} {
				words := strings.Fields(step)
				if out := m.wants(calls, words[0], words[1:]...); out != want {
					t.Errorf("%s prints %q, want %q", step, out, want)
				}
			}
			if len(test.hides) < 2 {
				if _, calls := m.run("deb-prerm", "remove"); len(calls) == 0 {
					t.Error("the removal leaves the partition of the package")
				}
				return
			}
			before := m.tree()
			if out := m.wants(nil, "deb-prerm", "remove"); out != want {
				t.Errorf("the removal prints %q, want %q", out, want)
			}
			m.wants([]string{"daemon-reload"}, "deb-postrm", "remove")
			if after := m.tree(); !slices.Equal(after, before) {
				t.Errorf("the removal leaves %q, was %q", after, before)
			}
		})
	}
}

// TestPurged: what the monitor has recorded goes. An operator's files stay, the section with them.
func TestPurged(t *testing.T) {
	m := newMachine(t)
	for _, path := range []string{"etc/kubernetes/node-partition.yaml", "etc/kubernetes/kubelet.conf", "var/lib/other/file"} {
		m.write(path, "")
	}
	before := m.tree()
	m.write("var/lib/node-partition/sizes/1", "")
	out := m.wants(nil, "deb-postrm", "purge")
	if after := m.tree(); !slices.Equal(after, before) || m.exists("var/lib/node-partition") {
		t.Errorf("%q, want %q", after, before)
	}
	if !strings.Contains(out, "node-partition.yaml stays") {
		t.Errorf("%q does not name the section that stays", out)
	}
	m.write("var/lib/node-partition/sizes/1", "")
	m.write("var/lib/node-partition/notes", "")
	m.wants(nil, "deb-postrm", "purge")
	if !m.exists("var/lib/node-partition/notes") || m.exists("var/lib/node-partition/sizes") {
		t.Errorf("%q", m.tree())
	}
}

// TestSettingsBeforeThePackage: the settings in force when an rpm is installed are found where the
// rpm has them, whatever links there are. rpm then replaces /etc/default/node-partition by a link
// to /etc/sysconfig/node-partition, and leaves that if it is there.
func TestSettingsBeforeThePackage(t *testing.T) {
	const def, sys = "etc/default/node-partition", "etc/sysconfig/node-partition"
	for name, test := range map[string]struct {
		// files have a content, or the target of a link after "-> ".
		files map[string]string
		want  string
		saved string
	}{
		"none":                             {nil, "", ""},
		"a file":                           {map[string]string{def: "mine"}, "mine", ""},
		"the rpm's":                        {map[string]string{def: "-> ../sysconfig/node-partition", sys: "mine"}, "mine", ""},
		"a file for each":                  {map[string]string{def: "mine", sys: "not in force"}, "mine", "not in force"},
		"a link to the other":              {map[string]string{def: "mine", sys: "-> ../default/node-partition"}, "mine", ""},
		"a link elsewhere":                 {map[string]string{def: "-> node/settings", "etc/default/node/settings": "mine"}, "mine", ""},
		"both links to one file":           {map[string]string{def: "-> ../mine", sys: "-> ../mine", "etc/mine": "mine"}, "mine", ""},
		"a link that leads nowhere":        {map[string]string{def: "-> ../mine", sys: "not in force"}, "not in force", ""},
		"a file, and a link that does too": {map[string]string{def: "mine", sys: "-> ../mine"}, "mine", "-> ../mine"},
		"a link elsewhere, and a file":     {map[string]string{def: "-> ../mine", "etc/mine": "mine", sys: "not in force"}, "mine", "not in force"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			for path, text := range test.files {
				m.write(path, text)
				if target, ok := strings.CutPrefix(text, "-> "); ok {
					m.link(target, path)
				}
			}
			for range 2 { // an upgrade does it again
				m.wants(nil, "rpm-pre", "1")
				if m.exists("etc/default") { // as rpm does
					m.link("../sysconfig/node-partition", def)
				}
			}
			data, err := os.ReadFile(filepath.Join(m.root, def))
			if string(data) != test.want || err != nil && test.want != "" {
				t.Errorf("the settings are %q, %v; want %q", data, err, test.want)
			}
			saved, err := os.ReadFile(filepath.Join(m.root, sys+".rpmsave"))
			if target, linkErr := os.Readlink(filepath.Join(m.root, sys+".rpmsave")); linkErr == nil {
				saved, err = []byte("-> "+target), nil
			}
			if string(saved) != test.saved || err != nil && test.saved != "" {
				t.Errorf("saved is %q, %v; want %q", saved, err, test.saved)
			}
			if test.files["etc/mine"] != "" && !m.exists("etc/mine") {
				t.Error("the file that a link leads to has gone")
			}
		})
	}
}

// link makes a link in place of a file.
func (m machine) link(target, path string) {
	m.Helper()
	path = filepath.Join(m.root, path)
	err := os.RemoveAll(path)
	if err == nil {
		err = os.Symlink(target, path)
	}
	if err != nil {
		m.Fatal(err)
	}
}
