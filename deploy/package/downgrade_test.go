package packaging

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// anImage is a machine whose packages dpkg and rpm change from outside, as for an image.
func anImage(t *testing.T) machine {
	t.Helper()
	if os.Getuid() != 0 {
		if os.Getenv("CI") != "" { // go test counts no skips
			t.Fatal("dpkg and rpm give files to root: CI has to run it as root")
		}
		t.Skip("dpkg and rpm give files to root: run it as root")
	}
	m := machine{T: t, root: t.TempDir()}
	for path, text := range map[string]string{
		"sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n", "proc/cmdline": "quiet\n", "proc/meminfo": "MemTotal: 16777216 kB\n",
		"sys/devices/system/cpu/present": "0-3\n", "sys/devices/system/cpu/online": "0-3\n",
		"var/lib/kubelet/config.yaml": "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupDriver: systemd\n",
		"var/lib/dpkg/status":         "", "var/lib/dpkg/info/format": "1\n", "var/lib/dpkg/updates/.keep": "", "run/systemd/generator/.keep": "",
		"run/systemd/system/.keep": "",
	} {
		m.write(path, text)
	}
	return m
}

// dpkg changes the packages of the image.
func (m machine) dpkg(args ...string) string {
	m.Helper()
	return command(m.T, "dpkg", append([]string{"--root=" + m.root, "--log=/dev/null", "--force-script-chrootless"}, args...)...)
}

// rpm changes the packages of the image. The image has no shell for scripts.
func (m machine) rpm(args ...string) {
	m.Helper()
	command(m.T, "rpm", append([]string{"--root=" + m.root, "--nodeps", "--noscripts"}, args...)...)
}

// read returns the content of a file.
func (m machine) read(path string) string {
	m.Helper()
	text, err := os.ReadFile(filepath.Join(m.root, path))
	if err != nil {
		m.Fatal(err)
	}
	return string(text)
}

// next builds the packages of the same version with a number above, and returns their paths.
func next(t *testing.T) (deb, rpm string) {
	t.Helper()
	packages(t, amd64)
	dir := t.TempDir()
	built(t, "v0.1.0-rc.1", "2", filepath.Join(shared, "linux-amd64"), dir, "deb", "rpm")
	return filepath.Join(dir, "node-partition_0.1.0~rc.1-2_amd64.deb"), filepath.Join(dir, "node-partition-0.1.0~rc.1-2.x86_64.rpm")
}

const (
	settings = "/etc/default/node-partition"
	section  = "etc/kubernetes/node-partition.yaml"
	edited   = "PARTITION_WATCH=no\n"
	history  = "var/lib/node-partition/sizes/system.json"
	decided  = "run/node-partition/units/.decision.json"
)

// TestDowngrade: an earlier package over a later one keeps the settings, the section and the
// history, and its programs work with the state that a later version leaves in /run. A removal then
// leaves what an operator wrote.
func TestDowngrade(t *testing.T) {
	laterDeb, laterRPM := next(t)
	earlierDeb, earlierRPM := packages(t, amd64)
	t.Run("deb", func(t *testing.T) {
		m := anImage(t)
		before := m.tree()
		m.dpkg("-i", laterDeb)
		m.write(settings, m.read(settings)+edited)
		m.write(history, "0 {}\n")
		m.write(section, "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+
			"systemPartition: {memoryLimit: 64Mi, namespaces: [kube-system], fieldOfALaterVersion: [1]}\n")
		m.generate()
		decision := m.read(decided)
		// A field of another type is why a version is raised.
		m.write(decided, `{"version":99,"identity":["a"],"partitions":{"system":1}}`)
		for _, name := range []string{"members", "namespaces", "evictions", "raised", "cpu", "nri"} {
			m.write("run/node-partition/monitor/"+name+".json", `{"version":99,"partitions":"all","written":1,"namespaces":[2],"since":3}`)
		}
		m.write("run/node-partition/memory.json", `{"version":99,"totalBytes":"16Gi"}`)
		m.write("run/node-partition/watch.json", `{"version":99,"refused":["a"]}`)
		state := m.below("/run/")

		out := m.dpkg("-i", earlierDeb)
		if !strings.Contains(out, "downgrading node-partition from 0.1.0~rc.1-2 to 0.1.0~rc.1-1") {
			t.Errorf("dpkg says %s", out)
		}
		if got := m.read(settings); !strings.HasSuffix(got, "\n"+edited) || m.exists(settings+".dpkg-dist") {
			t.Errorf("the settings are %q", got)
		}
		if after := m.below("/run/"); after != state {
			t.Errorf("a package of an image changes the state: %s, was %s", after, state)
		}
		if got := m.status(); !strings.Contains(got, decided+": another version of the program has written it: it has version 99, and this program reads version 1") {
			t.Errorf("status shows %s", got)
		}
		m.generate() // as the reload of an installation
		if got := m.read(decided); got != decision {
			t.Errorf("the decision is %q, want %q", got, decision)
		}
		if got := m.status(); strings.Contains(got, decided) {
			t.Errorf("status shows %s", got)
		}
		m.dpkg("-r", "node-partition")
		if m.read(history) == "" || !strings.Contains(m.read(settings), edited) {
			t.Error("a removal leaves neither settings nor history")
		}
		m.dpkg("-P", "node-partition")
		m.remove(section)
		m.remove("run/node-partition")
		m.remove("run/systemd/generator")
		m.remove("var/lib/dpkg")
		left := strings.Join(m.tree(), "\n")
		for _, file := range before {
			left = strings.Replace(left, file, "", 1)
		}
		if strings.TrimSpace(left) != "" {
			t.Errorf("a purge leaves %s", left)
		}
	})
	t.Run("rpm", func(t *testing.T) {
		m := anImage(t)
		m.rpm("-i", laterRPM)
		m.write(settings, m.read(settings)+edited)
		m.write(history, "0 {}\n")
		m.rpm("-U", "--oldpackage", earlierRPM)
		if got := command(t, "rpm", "--root="+m.root, "-q", "node-partition"); !strings.Contains(got, "0.1.0~rc.1-1.") {
			t.Errorf("installed is %s", got)
		}
		if got := m.read("etc/sysconfig/node-partition"); !strings.HasSuffix(got, "\n"+edited) {
			t.Errorf("the settings are %q", got)
		}
		if target, err := os.Readlink(filepath.Join(m.root, settings)); target != "../sysconfig/node-partition" {
			t.Errorf("%s leads to %q, %v", settings, target, err)
		}
		m.rpm("-e", "node-partition")
		if !strings.Contains(m.read("etc/sysconfig/node-partition.rpmsave"), edited) || m.read(history) == "" || m.exists(settings) {
			t.Errorf("a removal leaves %q", m.below("/etc/"))
		}
	})
}

// generate runs the generator of the image, as a reload of systemd does.
func (m machine) generate() {
	m.Helper()
	m.remove("run/systemd/generator")
	args := make([]string, 0, 3)
	for _, suffix := range []string{"", ".early", ".late"} {
		args = append(args, filepath.Join(m.root, "run/systemd/generator"+suffix))
		if err := os.MkdirAll(args[len(args)-1], 0o755); err != nil {
			m.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(m.root, "usr/lib/systemd/system-generators/partition-generator"), args...)
	cmd.Env = append(os.Environ(), "PARTITION_ROOT="+m.root)
	if out, err := cmd.CombinedOutput(); err != nil {
		m.Fatalf("partition-generator: %v\n%s", err, out)
	}
}

// status returns what partition-monitor shows of the image.
func (m machine) status() string {
	m.Helper()
	return command(m.T, filepath.Join(m.root, "usr/bin/partition-monitor"), "status", "--root", m.root)
}

// below lists the files of the machine in a folder.
func (m machine) below(folder string) string {
	m.Helper()
	text := ""
	for _, file := range m.tree() {
		if strings.HasPrefix(file, folder) {
			text += fmt.Sprintln(file)
		}
	}
	return text
}
