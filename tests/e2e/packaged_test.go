//go:build node

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/lab"
)

// packageOf builds the package for Debian with a number, and returns its content. Without a version
// it has the version of the tree.
func packageOf(t *testing.T, version, build string) []byte {
	t.Helper()
	_, data := built(t, "packages", "packages/*-"+build+"_amd64.deb", version, build)
	return data
}

// builtIn makes a target of the Makefile in a folder.
func builtIn(t *testing.T, dir, target, version, build string, more ...string) {
	t.Helper()
	args := []string{"-C", "../..", target, "ARCHES=amd64", "BIN=" + dir, "BUILD=" + build}
	if version != "" {
		args = append(args, "VERSION=v"+version)
	}
	args = append(args, more...)
	if out, err := exec.Command("make", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// built makes a target of the Makefile with a version, a number and more variables, and returns the
// name and the content of the one file that a pattern matches.
func built(t *testing.T, target, pattern, version, build string, more ...string) (name string, data []byte) {
	t.Helper()
	dir := t.TempDir()
	builtIn(t, dir, target, version, build, more...)
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s makes %q, %v", target, found, err)
	}
	data, err = os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Base(found[0]), data
}

const (
	// withDocumentation makes dpkg install it, as on other nodes. The disk of the lab has none.
	withDocumentation = "rm /etc/dpkg/dpkg.cfg.d/lab"
	// servicePIDs lists the processes of the kubelet and of the runtime.
	servicePIDs = `systemctl show --value -p MainPID kubelet.service containerd.service crio.service | xargs`
	// installedFiles lists the files and folders that a package may leave, with type, mode and link:
	// not those that dpkg, systemd, the kubelet and the runtime write all the time. A file in /usr has
	// its size and time, and a file in /etc the digest of its content.
	installedFiles = `{ find /etc /usr /opt /var /run/systemd/system /run/systemd/system.control /run/systemd/generator /run/systemd/transient -xdev \( ` +
		`-path /var/lib/dpkg -o -path /var/lib/systemd -o -path /var/lib/kubelet -o -path /var/lib/containerd -o -path /var/lib/containers -o -path /var/lib/cni -o ` +
		`-path /var/log -o -path /var/cache -o -path /var/tmp \) -prune -o -path '/run/*' -type d -o ` +
		`! -name '*.scope' ! -name 'session-*' \( -path '/usr/*' -type f -printf '%p %m %s %T@\n' -o -printf '%p %y %m %l\n' \) 2>/dev/null | ` +
		`grep -v '/run/systemd/transient/.*scope'; find /etc -xdev -type f -exec sha256sum {} + ; } | sort`
	// ourUnits lists the units that systemd has of ours.
	ourUnits = `systemctl list-units --all --plain --no-legend 'partition-*' 'node-partition*' 'kubepods-system*' | awk '{print $1, $3}'`
	// onlyWaits is the output of ourUnits on a node without a section.
	onlyWaits = "partition-generator-await-section.path active\npartition-generator-await-section.service inactive"
	// podPIDs lists the processes of all pods.
	podPIDs = `find /sys/fs/cgroup/kubepods.slice -name cgroup.procs -exec cat {} + | sort -n | xargs`
)

// values lists the settings of the cgroups below kubepods.slice that find selects, and of two
// beside them.
func values(selected string) string {
	return `cd /sys/fs/cgroup && for d in system.slice user.slice $(find kubepods.slice -type d ` + selected + ` | sort); do ` +
		`for f in memory.max memory.high memory.min memory.low cpu.weight cpu.max cpuset.cpus pids.max; do echo "$d/$f $(cat "$d/$f" 2>/dev/null)"; done; done`
}

// ofSlices leaves out the containers, which come and go when pods are restarted.
const ofSlices = "! -name '*.scope'"

// bare is the state of a node before the package was installed.
type bare struct{ files, cgroups, units, services string }

// bareNode reads the state of a node.
func bareNode(t *testing.T, n *lab.Node) bare {
	t.Helper()
	return bare{
		files: run(t, n, installedFiles), cgroups: run(t, n, values(ofSlices)), units: run(t, n, ourUnits),
		services: run(t, n, servicePIDs),
	}
}

// removed: without the package the node runs as before, and the kubelet and the runtime have run
// all the time.
func (b bare) removed(t *testing.T, n *lab.Node) {
	t.Helper()
	want(t, n, "find "+cgroupRoot+" -name 'kubepods-system*'", "")
	inSlice(t, n, "kube-system", "system-agent", partition.Default, v1.PodQOSBurstable)
	want(t, n, ourUnits, b.units)
	wantLines(t, "cgroups", run(t, n, values(ofSlices)), b.cgroups)
	want(t, n, "ls -d /run/*partition* 2>/dev/null || true", "")
	want(t, n, servicePIDs, b.services)
}

// purged: each file is as before.
func (b bare) purged(t *testing.T, n *lab.Node) {
	t.Helper()
	wantLines(t, "files", run(t, n, installedFiles), b.files)
}

// replaced installs another version, whose number ends in end, over the one that runs. The monitor
// is restarted, and neither a process of a pod nor a setting of a cgroup changes.
func replaced(t *testing.T, n *lab.Node, end string, install func()) {
	t.Helper()
	processes, all := run(t, n, podPIDs), run(t, n, values(""))
	monitor := property(t, n, monitorUnit, "MainPID")
	install()
	want(t, n, "dpkg-query -f '${Version}' -W node-partition | grep -oe '"+end+"$'", end)
	want(t, n, "systemctl is-active "+monitorUnit, "active")
	if now := property(t, n, monitorUnit, "MainPID"); now == monitor {
		t.Errorf("the monitor of the version before, %s, runs", monitor)
	}
	want(t, n, podPIDs, processes)
	wantLines(t, "cgroups", run(t, n, values("")), all)
}

// wantLines compares two lists of lines, and reports those that only one has.
func wantLines(t *testing.T, what, got, want string) {
	t.Helper()
	for _, side := range []struct{ name, in, notIn string }{{"more", got, want}, {"missing", want, got}} {
		has := map[string]bool{}
		for line := range strings.Lines(side.notIn + "\n") {
			has[strings.TrimSpace(line)] = true
		}
		for line := range strings.Lines(side.in) {
			if !has[strings.TrimSpace(line)] {
				t.Errorf("%s, %s: %s", what, side.name, strings.TrimSpace(line))
			}
		}
	}
}
