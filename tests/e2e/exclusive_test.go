//go:build node

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"nodepartition/internal/unitname"
)

// exclusiveOf returns a configuration in which telemetry has a CPU.
func exclusiveOf(cpu string, exclusive bool) string {
	return fmt.Sprintf("systemPartition: {memoryLimit: 512Mi, namespaces: [kube-system]}\n"+
		"workloadPartitions:\n  telemetry: {cpuset: %q, exclusive: %t, namespaces: [telemetry]}\n", cpu, exclusive)
}

// TestExclusive: exclusive CPUs are taken from all other pods, given back, and changed, while they
// run. So it is with systemd 252, 257 and 262.
func TestExclusive(t *testing.T) {
	onEach(t, kinds(allFlavours(), "bookworm", "forky"), func(t *testing.T, flavour string) {
		w := newWorkloads(t, flavour, exclusiveOf("0", true))
		n := w.Node
		w.namespace(t, telemetry)
		for _, p := range []unitname.PartitionName{unitname.System, telemetry, unitname.Default} {
			w.threePods(t, p)
		}
		w.placedIn(t, unitname.System, telemetry, unitname.Default)
		w.before = w.containers(t)
		all := strings.TrimSpace(run(t, n, "cat /sys/devices/system/cpu/online"))
		for _, step := range []struct {
			name, cpu string
			exclusive bool
			others    string
		}{
			{"at the start", "0", true, "1"},
			{"another CPU", "1", true, "0"},
			{"no more", "1", false, all},
			{"again", "0", true, "1"},
			{"created during the reload", "1", true, "0"},
		} {
			t.Run(step.name, func(t *testing.T) {
				if strings.HasPrefix(step.name, "created") {
					w.createDuring(t, func() { w.exclusive(t, step.cpu, step.exclusive) })
				} else {
					w.exclusive(t, step.cpu, step.exclusive)
				}
				w.runOn(t, step.cpu, step.others)
			})
		}
		t.Run("section removed", func(t *testing.T) {
			configure(t, n, partition("512Mi", ""))
			w.inPartition(t, namespaceOf(telemetry), unitname.Default)
			w.runOn(t, all, all)
		})
		t.Run("untouched", func(t *testing.T) { w.untouched(t, unitname.System, unitname.Default) })
	})
}

// exclusive gives the node another configuration.
func (w *workloads) exclusive(t *testing.T, cpu string, exclusive bool) {
	t.Helper()
	configure(t, w.Node, exclusiveOf(cpu, exclusive))
}

// createDuring creates Guaranteed pods, whose slices are directly below kubepods.slice, while act
// runs.
func (w *workloads) createDuring(t *testing.T, act func()) {
	t.Helper()
	created := make(chan string, 4)
	go func() {
		defer close(created)
		for i := range 4 {
			small := resources("100m", "16Mi")
			s := spec{namespace: v1.NamespaceDefault, name: fmt.Sprintf("late-%d", i), requests: small, limits: small}
			if err := w.begin(t.Context(), s); err != nil {
				t.Error(err)
				return
			}
			created <- s.name
		}
	}()
	act()
	for name := range created {
		if _, err := w.control.WaitPod(t.Context(), v1.NamespaceDefault, name); err != nil {
			t.Fatal(err)
		}
	}
	w.before = w.containers(t)
}

// processCPUs lists the CPUs that processes below kubepods.slice may run on: in the slices of
// telemetry, or in all others.
func processCPUs(inTelemetry bool) string {
	not := "-not "
	if inTelemetry {
		not = ""
	}
	return "cd " + cgroupRoot + "kubepods.slice && for f in $(find . -name cgroup.procs " + not + "-path '*kubepods-telemetry*'); do " +
		"for p in $(cat $f 2>/dev/null); do sed -n 's/^Cpus_allowed_list:\\t//p' /proc/$p/status 2>/dev/null; done; done | sort -u | xargs"
}

// runOn waits until every process of a member may run on these CPUs, and every other one on those.
func (w *workloads) runOn(t *testing.T, members, others string) {
	t.Helper()
	for _, of := range []struct {
		command, want string
	}{{processCPUs(true), members}, {processCPUs(false), others}} {
		if members == others && of.command == processCPUs(true) {
			of.want = "" // there are no members
		}
		eventually(t, w.Node, fmt.Sprintf("processes run on %q", of.want), func(ctx context.Context) (bool, string, error) {
			out, err := w.Run(ctx, of.command)
			return strings.TrimSpace(out) == of.want, strings.TrimSpace(out), err
		})
	}
}
