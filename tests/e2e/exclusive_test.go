//go:build node

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/lab"
)

// exclusive is a configuration with two partitions, of which one has a list of CPUs.
type exclusive struct {
	partition partition.Name
	cpus      string
	on        bool
}

func (e exclusive) sections() string {
	fields := map[partition.Name]string{e.partition: fmt.Sprintf("cpuset: %q, exclusive: %t, ", e.cpus, e.on)}
	return fmt.Sprintf("systemPartition: {%smemoryLimit: 512Mi, namespaces: [kube-system]}\n"+
		"workloadPartitions:\n  telemetry: {%snamespaces: [telemetry]}\n", fields[partition.System], fields[telemetry])
}

// conmonBesideContainer has CRI-O put each conmon into the slice of the pod, as OpenShift does, and
// not into system.slice. So each of them has to be on the CPUs that the partition leaves the pod.
var conmonBesideContainer = lab.File{
	Path: "/etc/crio/crio.conf.d/50-conmon", Data: []byte("[crio.runtime]\nconmon_cgroup = \"pod\"\n"),
}

// TestExclusive: exclusive CPUs are taken from all other pods, given back, and changed, while they
// run. So it is with systemd 252, 257 and 262.
func TestExclusive(t *testing.T) {
	onEach(t, kinds(allFlavours(), "bookworm", "trixie", "forky"), func(t *testing.T, flavour string) {
		w := newWorkloads(t, flavour, exclusive{telemetry, "0", true}.sections(), conmonBesideContainer)
		n := w.Node
		if runtime := runtimeUnit(flavour); runtime == "crio.service" {
			run(t, n, "systemctl restart "+runtime)
			ready(t, n)
		}
		w.namespace(t, telemetry)
		for _, p := range []partition.Name{partition.System, telemetry, partition.Default} {
			w.threePods(t, p)
		}
		w.placedIn(t, partition.System, telemetry, partition.Default)
		w.before = w.containers(t)
		all := strings.TrimSpace(run(t, n, "cat /sys/devices/system/cpu/online"))
		for _, step := range []struct {
			name string
			exclusive
			others string
		}{
			{"at the start", exclusive{telemetry, "0", true}, "1"},
			{"another CPU", exclusive{telemetry, "1", true}, "0"},
			{"of another partition", exclusive{partition.System, "1", true}, "0"},
			{"no more", exclusive{partition.System, "1", false}, all},
			{"again", exclusive{telemetry, "0", true}, "1"},
			{"created during the reload", exclusive{telemetry, "1", true}, "0"},
			{"created during the last one", exclusive{telemetry, "1", false}, all},
		} {
			t.Run(step.name, func(t *testing.T) {
				if act := func() { configure(t, n, step.sections()) }; strings.HasPrefix(step.name, "created") {
					w.createDuring(t, act)
				} else {
					act()
				}
				w.runOn(t, step.partition, step.cpus, step.others)
			})
		}
		t.Run("untouched", func(t *testing.T) { w.untouched(t, partition.System, telemetry, partition.Default) })
		t.Run("section removed", func(t *testing.T) {
			configure(t, n, exclusive{telemetry, "1", true}.sections())
			w.runOn(t, telemetry, "1", "0")
			configure(t, n, partitionOf("512Mi", ""))
			w.inPartition(t, namespaceOf(telemetry), partition.Default)
			w.runOn(t, "", "", all)
			w.untouched(t, partition.System, partition.Default)
		})
	})
}

const (
	// reloadGate holds the next reload of systemd, once, and is reloadHeld while it does.
	reloadGate = "/run/lab-reload"
	reloadHeld = reloadGate + "-held"
)

// heldReload is a generator that waits at the gate. systemd waits for it, and does nothing else
// meanwhile. It ends a generator after 90 seconds.
var heldReload = lab.File{
	Path: "/etc/systemd/system-generators/lab-held", Mode: 0o755,
	Data: []byte("#!/bin/sh\nmv " + reloadGate + " " + reloadHeld + " 2>/dev/null || exit 0\nread -r _ <" + reloadHeld + "\n"),
}

// createDuring creates pods of each class while act runs, and a member. The slices of Guaranteed
// pods are directly below kubepods.slice, and there are two of them, begun at other moments. Of the
// last pods it is proven that the kubelet makes them during the reload of act.
func (w *workloads) createDuring(t *testing.T, act func()) {
	t.Helper()
	w.late++
	small := resources("10m", "16Mi")
	specs := []spec{
		guaranteed(v1.NamespaceDefault, "guaranteed", "200m"),
		{namespace: v1.NamespaceDefault, name: "burstable", requests: small},
		{namespace: namespaceOf(telemetry), name: "member", requests: small},
		{namespace: v1.NamespaceDefault, name: "besteffort"},
		guaranteed(v1.NamespaceDefault, "guaranteed-2", "200m"),
	}
	for i := range specs {
		specs[i].name = fmt.Sprintf("late-%d-%s", w.late, specs[i].name)
	}
	if err := w.CopyTo(t.Context(), heldReload); err != nil {
		t.Fatal(err)
	}
	run(t, w.Node, "mkfifo "+reloadGate)
	begun := make(chan error, 1)
	go func() { begun <- w.beginDuring(t.Context(), specs[:2], specs[2:]) }()
	act()
	if err := <-begun; err != nil {
		t.Fatal(err)
	}
	for _, s := range specs {
		if _, err := w.control.WaitPod(t.Context(), s.namespace, s.name); err != nil {
			t.Fatal(err)
		}
		if s.namespace == namespaceOf(telemetry) {
			w.runsIn(t, s.namespace, s.name, telemetry, v1.PodQOSBurstable)
		}
	}
	w.untouched(t, partition.System, telemetry, partition.Default)
}

// beginDuring creates pods at once, and others while a reload is held. That goes on when the
// kubelet is at work on all of the others. It is an error if one of them has a slice by then, or if
// the reload was over.
func (w *workloads) beginDuring(ctx context.Context, first, during []spec) (err error) {
	defer func() {
		// A reader has to be there: the generator.
		_, endErr := w.Run(ctx, "timeout 10 sh -c 'echo >"+reloadHeld+"' && rm "+reloadHeld)
		err = errors.Join(err, endErr)
	}()
	if err := w.beginAll(ctx, first); err != nil {
		return err
	}
	if err := w.Eventually(ctx, "a reload is held", func(ctx context.Context) (bool, string, error) {
		_, err := w.Run(ctx, "test -p "+reloadHeld)
		return err == nil, "none", err
	}); err != nil {
		return err
	}
	if err := w.beginAll(ctx, during); err != nil {
		return err
	}
	return w.atWork(ctx, during)
}

// beginAll creates pods and does not wait for them.
func (w *workloads) beginAll(ctx context.Context, specs []spec) error {
	for _, s := range specs {
		if err := w.begin(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// atWork waits until the kubelet has begun to make these pods. It is an error if one has a slice:
// the kubelet asks systemd for it, and all else comes later.
func (w *workloads) atWork(ctx context.Context, specs []spec) error {
	for _, s := range specs {
		uid := ""
		if err := w.Eventually(ctx, "the kubelet makes "+s.name, func(ctx context.Context) (bool, string, error) {
			pod, err := w.control.Client().CoreV1().Pods(s.namespace).Get(ctx, s.name, metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			uid = string(pod.UID)
			return pod.Status.StartTime != nil, string(pod.Status.Phase), nil
		}); err != nil {
			return err
		}
		found, err := w.Run(ctx, "find "+kubepodsCgroup+" -name '*"+partition.EscapeUID(uid)+"*'")
		if err != nil {
			return err
		}
		if found != "" {
			return fmt.Errorf("%s has a slice while systemd reloads: %s", s.name, found)
		}
	}
	return nil
}

// runOn waits until every process of a partition may run on these CPUs, and every other one, the
// sandboxes of members too, on those. There is at least one of each class, in and out of the
// partition. No name stands for no partition.
func (w *workloads) runOn(t *testing.T, p partition.Name, members, others string) {
	t.Helper()
	classes := 3
	if p != "" {
		classes *= 2
	}
	what := fmt.Sprintf("processes of %q run on %q, and others on %q", p, members, others)
	eventually(t, w.Node, what, func(ctx context.Context) (bool, string, error) {
		all, err := podProcesses(ctx, w.Node)
		seen, wrong := map[string]int{}, []string{}
		for _, process := range all {
			on, kind := others, "other "
			if process.partition == p {
				on, kind = members, "member "
			}
			if seen[kind+process.class]++; process.cpus != on {
				wrong = append(wrong, process.String())
			}
		}
		return len(wrong) == 0 && len(seen) == classes, fmt.Sprintf("%v; not there: %s", seen, strings.Join(wrong, "; ")), err
	})
}
