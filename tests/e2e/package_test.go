//go:build node

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/unitname"
	"nodepartition/tests/lab"
)

// packageOf builds the package for Debian with a number, and returns its content.
func packageOf(t *testing.T, build string) []byte {
	t.Helper()
	_, data := built(t, "packages", "packages/*-"+build+"_amd64.deb", build)
	return data
}

// built makes a target of the Makefile with a number, and returns the name and the content of the
// one file that a pattern matches.
func built(t *testing.T, target, pattern, build string) (name string, data []byte) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("make", "-C", "../..", target, "ARCHES=amd64", "BIN="+dir, "BUILD="+build)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
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
	// installedFiles lists the files that a package may leave: not those that dpkg, systemd, the
	// kubelet and the runtime write all the time.
	installedFiles = `find /etc /usr /opt /var /run/systemd/system /run/systemd/system.control /run/systemd/generator /run/systemd/transient -xdev \( ` +
		`-path /var/lib/dpkg -o -path /var/lib/systemd -o -path /var/lib/kubelet -o -path /var/lib/containerd -o -path /var/lib/containers -o ` +
		`-path /var/log -o -path /var/cache -o -path /var/tmp \) -prune -o ! -type d ! -name '*.scope' ! -name 'session-*' -print 2>/dev/null | ` +
		`grep -v '/run/systemd/transient/.*scope' | sort`
	// ourUnits lists the units that systemd has of ours.
	ourUnits = `systemctl list-units --all --plain --no-legend 'partition-*' 'node-partition*' 'kubepods-system*' | awk '{print $1, $3}'`
	// podPIDs lists the processes of all pods.
	podPIDs = `find /sys/fs/cgroup/kubepods.slice -name cgroup.procs -exec cat {} + | sort -n | xargs`
)

// values lists the settings of the cgroups below kubepods.slice that find selects, and of two
// beside them.
func values(selected string) string {
	return `cd /sys/fs/cgroup && for d in system.slice user.slice $(find kubepods.slice -type d ` + selected + ` | sort); do ` +
		`for f in memory.max memory.high memory.min memory.low cpu.weight cpu.max cpuset.cpus pids.max; do echo "$d/$f $(cat "$d/$f" 2>/dev/null)"; done; done`
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

// scrapes scrapes the metrics of the monitor, one scrape after the other, until end is called. Each
// scrape has to have an answer.
func scrapes(t *testing.T, n *lab.Node) (end func()) {
	t.Helper()
	// A scrape has its own time, also the last one. Prometheus gives up after 10 s, and an emulated
	// node is slow.
	const patience = 30 * time.Second
	ended, done := make(chan error, 1), make(chan struct{})
	stop := sync.OnceFunc(func() { close(done) })
	t.Cleanup(stop)
	ctx := context.WithoutCancel(t.Context())
	answered := 0
	go func() {
		for {
			select {
			case <-done:
				ended <- nil
				return
			default:
			}
			scrape, cancel := context.WithTimeout(ctx, patience)
			body, err := n.Get(scrape, monitorURL+"/metrics")
			cancel()
			if err == nil && !strings.Contains(string(body), "\nnodepartition_") {
				err = fmt.Errorf("none of our metrics in %d bytes", len(body))
			}
			if err != nil {
				ended <- fmt.Errorf("scrape %d: %w", answered+1, err)
				return
			}
			answered++
		}
	}()
	return func() {
		t.Helper()
		stop()
		if err := <-ended; err != nil || answered < 2 {
			t.Errorf("%d scrapes had an answer; then %v", answered, err)
		}
		t.Logf("%d scrapes", answered)
	}
}

// TestPackage: nothing but the package and the section give a node its partition. Another package
// over it, under load, restarts the monitor, touches no pod and loses no scrape. Its removal leaves
// the node as it was, and a purge leaves no file but the section.
func TestPackage(t *testing.T) {
	onEach(t, kinds(debians(), "trixie"), func(t *testing.T, flavour string) {
		// Built before the node takes its place on the host.
		files := append(
			protectingNoPod(flavour),
			lab.File{Path: "/root/1.deb", Data: packageOf(t, "1"), Mode: 0o644},
			lab.File{Path: "/root/2.deb", Data: packageOf(t, "2"), Mode: 0o644},
		)
		n := lab.ForTest(t, lab.Options{Flavour: flavour, Restore: true})
		if err := n.CopyTo(t.Context(), files...); err != nil {
			t.Fatal(err)
		}
		run(t, n, "systemctl daemon-reload")
		filesBefore, valuesBefore := run(t, n, installedFiles), run(t, n, values("! -name '*.scope'"))
		units := run(t, n, ourUnits)
		processes, kubelet := run(t, n, podPIDs), property(t, n, "kubelet.service", "MainPID")

		t.Run("installed", func(t *testing.T) {
			t.Log(run(t, n, "dpkg -i /root/1.deb 2>&1"))
			want(t, n, ourUnits, "partition-generator-await-section.path active\npartition-generator-await-section.service inactive")
			want(t, n, podPIDs, processes)
			want(t, n, "test -e "+systemCgroup+" || echo none", "none")
		})
		t.Run("section written", func(t *testing.T) {
			document := "apiVersion: " + kubeletconfig.APIVersion + "\nkind: " + kubeletconfig.Kind + "\n" + partition("512Mi", "0-1")
			if err := n.WriteFile(t.Context(), kubeletconfig.OverridePath, []byte(document), 0o644); err != nil {
				t.Fatal(err)
			}
			becomes(t, n, "systemctl is-active "+systemSlice+" || true", "active")
			wantLimits(t, n, "536870912", "0-1")
			inSlice(t, n, "kube-system", "system-agent", unitname.System, v1.PodQOSBurstable)
			run(t, n, waitReady)
		})
		t.Run("upgraded under load", func(t *testing.T) {
			run(t, n, "for i in 1 2; do systemd-run --quiet --unit=load-$i sh -c 'while :; do :; done'; done")
			processes, all := run(t, n, podPIDs), run(t, n, values(""))
			monitor := property(t, n, monitorUnit, "MainPID")
			scraped := scrapes(t, n)
			t.Log(run(t, n, "dpkg -i /root/2.deb 2>&1"))
			run(t, n, waitReady)
			scraped()
			want(t, n, "dpkg-query -f '${Version}' -W node-partition | sed 's/.*-//'", "2")
			want(t, n, "systemctl is-active "+monitorUnit, "active")
			if now := property(t, n, monitorUnit, "MainPID"); now == monitor {
				t.Errorf("the monitor of the version before, %s, runs", monitor)
			}
			want(t, n, podPIDs, processes)
			wantLines(t, "cgroups", run(t, n, values("")), all)
			// The disk of the lab has no documentation of packages.
			want(t, n, "dpkg -V node-partition | grep -v ' /usr/share/' || true", "")
			run(t, n, "systemctl stop 'load-*'")
			run(t, n, "sed -i s/512Mi/520Mi/ "+kubeletconfig.OverridePath)
			becomes(t, n, "cat "+systemCgroup+"/memory.max", "545259520")
		})
		t.Run("removed", func(t *testing.T) {
			t.Log(run(t, n, "dpkg -r node-partition 2>&1"))
			want(t, n, "find "+cgroupRoot+" -name 'kubepods-system*'", "")
			inSlice(t, n, "kube-system", "system-agent", unitname.Default, v1.PodQOSBurstable)
			want(t, n, ourUnits, units)
			wantLines(t, "cgroups", run(t, n, values("! -name '*.scope'")), valuesBefore)
			want(t, n, "ls -d /run/*partition* 2>/dev/null || true", "")
			if now := property(t, n, "kubelet.service", "MainPID"); now != kubelet {
				t.Errorf("the kubelet was restarted: %s, was %s", now, kubelet)
			}
		})
		t.Run("purged", func(t *testing.T) {
			run(t, n, "mkdir -p /var/lib/node-partition/history && touch /var/lib/node-partition/history/1 /var/lib/node-partition/mine")
			t.Log(run(t, n, "dpkg -P node-partition 2>&1"))
			want(t, n, "find /var/lib/node-partition", "/var/lib/node-partition\n/var/lib/node-partition/mine")
			run(t, n, "rm -r /var/lib/node-partition "+kubeletconfig.OverridePath)
			wantLines(t, "files", run(t, n, installedFiles), filesBefore)
		})
	})
}
