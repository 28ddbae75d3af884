//go:build node

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"nodepartition/internal/unitname"
	"nodepartition/tests/lab"
)

const (
	manyPods, manyChanges = 200, 100
	// manyAtOnce is the number of pods that start at a time. A hundred take an emulated node longer
	// than the timeouts of kubelet and runtime.
	manyAtOnce = 10
	// manyPatience bounds each step. Such a node is slow.
	manyPatience = 30 * time.Minute
	poolsDir     = "/run/pools/"
)

// TestSoakMembers changes the CPUs of a partition of 200 pods a hundred times in a row. At the end
// each process has the last ones, and the monitor has lived through it.
func TestSoakMembers(t *testing.T) {
	onEach(t, kinds(allFlavours(), "trixie"), func(t *testing.T, flavour string) {
		pools := []exclusive{
			{telemetry, "0", true}, {telemetry, "1", true}, {telemetry, "1-2", true}, {telemetry, "0-3", false}, {telemetry, "3", true}, {telemetry, "2", false},
		}
		files := append(programs(), kubeletConfig(t, "maxPods: 250\n"+pools[0].sections()))
		for i, pool := range pools {
			file := kubeletConfig(t, "maxPods: 250\n"+pool.sections())
			file.Path = fmt.Sprintf("%s%d", poolsDir, i)
			files = append(files, file)
		}
		n := lab.ForTest(t, lab.Options{Flavour: flavour, NoPods: true, MemoryMiB: 6144, CPUs: 4, Files: files})
		if err := n.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		becomes(t, n, "systemctl is-active "+monitorUnit+" || true", "active")
		ctx, cancel := context.WithTimeout(t.Context(), manyPatience)
		defer cancel()
		startMany(ctx, t, n)
		monitor := property(t, n, monitorUnit, "MainPID")

		ctx, cancel = context.WithTimeout(t.Context(), manyPatience)
		defer cancel()
		run(t, n, "systemd-run --quiet --unit=calls -p StandardOutput=file:/run/calls busctl monitor --match=type=method_call,destination=org.freedesktop.systemd1")
		before, begin := cpuTimes(t, n), time.Now()
		if _, err := n.Run(ctx, fmt.Sprintf("for i in $(seq %d); do cp %s$((i %% %d)) %s.new && mv %s.new %s && systemctl daemon-reload || exit; done",
			manyChanges, poolsDir, len(pools), lab.KubeletConfigPath, lab.KubeletConfigPath, lab.KubeletConfigPath)); err != nil {
			t.Fatal(err)
		}
		changed := time.Now()
		// The last pool has CPU 3 for itself. Of the other pods there are only the sandboxes of members.
		last, others := pools[manyChanges%len(pools)], "0-2"
		err := n.Eventually(ctx, "each process on the last CPUs", func(ctx context.Context) (bool, string, error) {
			all, err := podProcesses(ctx, n)
			members, wrong := map[string]bool{}, 0
			for _, p := range all {
				on := others
				if p.partition == telemetry {
					on, members[p.uid] = last.cpus, true
				}
				if p.cpus != on {
					wrong++
				}
			}
			return wrong == 0 && len(members) == manyPods, fmt.Sprintf("%d pods, %d processes, %d of them elsewhere", len(members), len(all), wrong), err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d changes in %.0f s, and all processes followed %.0f s later", manyChanges, changed.Sub(begin).Seconds(), time.Since(changed).Seconds())
		t.Logf("CPU time: before %s; after %s", before, cpuTimes(t, n))
		t.Logf("calls to systemd over the bus:\n%s", calls(t, n))
		want(t, n, "systemctl show --value -p ActiveState -p MainPID -p NRestarts "+monitorUnit+" | sort | xargs", strings.Join(sorted("active", monitor, "0"), " "))
		becomes(t, n, "curl -s "+monitorURL+"/readyz", "ok")
		eventually(t, n, "all are members, in their places", func(ctx context.Context) (bool, string, error) {
			report, err := reportOf(ctx, n)
			there := 0
			for _, p := range report.Pods {
				if p.Partition() == telemetry && p.Misplaced == 0 && p.Containers == 1 {
					there++
				}
			}
			return there == manyPods, fmt.Sprintf("%d of %d", there, manyPods), err
		})
	})
}

// sorted returns words in the order of sort(1).
func sorted(words ...string) []string { return slices.Sorted(slices.Values(words)) }

// startMany creates the pods, some at a time, and waits until each has a container in the
// partition.
func startMany(ctx context.Context, t *testing.T, n *lab.Node) {
	t.Helper()
	begin := time.Now()
	for first := 0; first < manyPods; first += manyAtOnce {
		files := make([]lab.File, 0, manyAtOnce)
		for i := range manyAtOnce {
			s := spec{
				namespace: string(telemetry), name: fmt.Sprintf("member-%d", first+i), requests: resources("10m", "8Mi"),
				command: []string{"sleep", "2147483647"},
			}
			files = append(files, lab.File{Path: lab.ManifestDir + "/" + s.name + ".yaml", Data: s.manifest(t)})
		}
		if err := n.CopyTo(ctx, files...); err != nil {
			t.Fatal(err)
		}
		if err := n.Eventually(ctx, fmt.Sprintf("%d members", first+manyAtOnce), func(ctx context.Context) (bool, string, error) {
			out, err := n.Run(ctx, "pgrep -cxf 'sleep 2147483647' || true; find "+cgroupRoot+unitname.CgroupPath(telemetry.Slice())+" -name '*.scope' -not -name 'crio-conmon-*' | wc -l")
			count := fmt.Sprint(first + manyAtOnce)
			return slices.Equal(strings.Fields(out), []string{count, count}), out, err
		}); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d members in %.0f s", manyPods, time.Since(begin).Seconds())
}

// cpuTimes returns the CPU time of services in milliseconds.
func cpuTimes(t *testing.T, n *lab.Node) string {
	t.Helper()
	return run(t, n, "cd "+cgroupRoot+" && for s in init.scope system.slice/"+monitorUnit+" system.slice/kubelet.service; do "+
		"echo $s $(awk '/^usage_usec/ {print int($2 / 1000)}' $s/cpu.stat) ms; done | xargs")
}

// calls counts the calls of systemd's methods over the bus, by the calling program.
func calls(t *testing.T, n *lab.Node) string {
	t.Helper()
	run(t, n, "systemctl stop calls.service")
	return run(t, n, "busctl --no-legend list | awk '{print $1, $3}' >/run/callers; "+
		"sed -n 's/.*Sender=\\([^ ]*\\) .*Member=\\([A-Za-z]*\\).*/\\1 \\2/p' /run/calls | "+
		"awk 'NR == FNR {program[$1] = $2; next} {count[program[$1] \" \" $2]++} END {for (c in count) print count[c], c}' /run/callers - | sort -rn")
}
