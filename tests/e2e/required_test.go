//go:build node

package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/lab"
)

const (
	// validated switches NRI's default validator on, and has containerd read it.
	validated = `cat >>/etc/containerd/config.toml <<'end'

[plugins.'io.containerd.nri.v1.nri'.default_validator]
  enable = true
end
systemctl restart containerd.service`
	// requiredPlugin is what the runtime says of a container that it does not create.
	requiredPlugin = `required plugin "node-partition" not present`
)

// noWatchdog keeps systemd from ending a monitor that the test has stopped.
var noWatchdog = lab.File{
	Path: "/etc/systemd/system/" + monitorUnit + ".d/60-watchdog.conf", Data: []byte("[Service]\nWatchdogSec=0\n"),
}

// TestRequired: while the monitor is away, a member with the annotation of render admission
// --require-monitor waits, and it starts in its place when the monitor is back. A member without
// the annotation starts outside, as do static pods and node-critical pods.
func TestRequired(t *testing.T) {
	onEach(t, kinds([]string{"trixie"}, "trixie"), func(t *testing.T, flavour string) {
		r := newRequired(t, flavour)
		for _, step := range []struct {
			name string
			run  func(*testing.T)
		}{
			{"without the annotation", r.without},
			{"dead", r.dead},
			{"stopped", r.stopped},
			{"stopped, and a container comes back", r.comesBack},
			{"stopped, and validates", r.validates},
		} {
			if !t.Run(step.name, step.run) {
				return
			}
		}
	})
}

// required is a node whose runtime has NRI's default validator.
type required struct{ *workloads }

func newRequired(t *testing.T, flavour string, files ...lab.File) required {
	t.Helper()
	r := required{newWorkloads(t, flavour, partitionOf("1Gi", "0-1"), append(files, noWatchdog)...)}
	run(t, r.Node, validated)
	if err := r.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.connected(t)
	return r
}

// require has the API server annotate members.
func (r required) require(t *testing.T) {
	t.Helper()
	if err := r.control.CreateAll(t.Context(), []byte(run(t, r.Node, monitorPath+" render admission --require-monitor"))); err != nil {
		t.Fatal(err)
	}
	r.await(t, "the API server follows the policy", func(ctx context.Context) (bool, string, error) {
		pod, err := r.control.Client().CoreV1().Pods(members).Create(ctx, spec{namespace: members, name: "tried"}.pod(),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && pod.Annotations["required-plugins.noderesource.dev"] != "", "no annotation", err
	})
}

// connected waits until the runtime asks the monitor.
func (r required) connected(t *testing.T) {
	t.Helper()
	wantMetric(t, r.Node, `nodepartition_source_connected{source="nri"}`, 1)
}

// refused waits until the runtime does not create the container of a member.
func (r required) refused(t *testing.T, name string) {
	t.Helper()
	r.await(t, name+" is refused", func(ctx context.Context) (bool, string, error) {
		pod, err := r.control.Client().CoreV1().Pods(members).Get(ctx, name, metav1.GetOptions{})
		if err != nil || len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].State.Waiting == nil {
			return false, "does not wait", err
		}
		message := pod.Status.ContainerStatuses[0].State.Waiting.Message
		return strings.Contains(message, requiredPlugin), message, nil
	})
}

// back has the monitor back, and a member start in its place. It has never run elsewhere, and its
// container is the first, or a later one.
func (r required) back(t *testing.T, name string, restarts int32, command string) {
	t.Helper()
	run(t, r.Node, command)
	began := time.Now()
	r.runsIn(t, members, name, partition.System, v1.PodQOSBestEffort)
	t.Logf("%s runs %.0f s after the monitor is back", name, time.Since(began).Seconds())
	pod, err := r.control.Client().CoreV1().Pods(members).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := pod.Status.ContainerStatuses[0].RestartCount; got != restarts {
		t.Errorf("%s was started again %d times; want %d", name, got, restarts)
	}
	r.connected(t)
}

// kill ends the container of a pod. The kubelet starts it again in the sandbox that is there.
func (r required) kill(t *testing.T, name string) {
	t.Helper()
	pod, err := r.control.Client().CoreV1().Pods(members).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	run(t, r.Node, "kill -KILL $(cat $(find "+cgroupRoot+" -name '*"+id+".scope')/cgroup.procs)")
}

// without: a member starts outside, although the runtime has the validator.
func (r required) without(t *testing.T) {
	run(t, r.Node, "systemctl stop "+monitorUnit)
	r.create(t, spec{namespace: members, name: "free"})
	r.runsIn(t, members, "free", partition.Default, v1.PodQOSBestEffort)
	run(t, r.Node, "systemctl start "+monitorUnit)
	r.runsIn(t, members, "free", partition.System, v1.PodQOSBestEffort)
	r.connected(t)
}

// dead: with the policy a member waits, and nobody else does.
func (r required) dead(t *testing.T) {
	r.require(t)
	run(t, r.Node, "systemctl stop "+monitorUnit)
	r.submit(t, spec{namespace: members, name: "waits"})
	r.refused(t, "waits")
	r.create(t, spec{namespace: metav1.NamespaceDefault, name: "user"})
	r.create(t, spec{namespace: members, name: "critical", change: func(pod *v1.Pod) { pod.Spec.PriorityClassName = "system-node-critical" }})
	r.runsIn(t, members, "critical", partition.Default, v1.PodQOSBestEffort)
	apply(t, r.Node, spec{namespace: members, name: "static"})
	inSlice(t, r.Node, members, "static", partition.Default, v1.PodQOSBestEffort)
	r.refused(t, "waits")
	r.back(t, "waits", 0, "systemctl start "+monitorUnit)
	run(t, r.Node, "systemctl stop "+monitorUnit)
	r.kill(t, "waits")
	r.refused(t, "waits")
	r.back(t, "waits", 1, "systemctl start "+monitorUnit)
}

// stopped: the runtime gives up a monitor that does not answer when the sandbox of a pod begins. So
// the pod's containers wait, too.
func (r required) stopped(t *testing.T) {
	run(t, r.Node, "systemctl kill --kill-whom=main --signal=STOP "+monitorUnit)
	r.submit(t, spec{namespace: members, name: "late"})
	r.refused(t, "late")
	r.create(t, spec{namespace: metav1.NamespaceDefault, name: "another-user"})
	r.back(t, "late", 0, "systemctl kill --kill-whom=main --signal=CONT "+monitorUnit)
}

// comesBack: the sandbox is there, so a container is the first that a stopped monitor is asked
// about. It counts as answered when the time is over (containerd/nri#316), and starts outside. The
// next container waits.
func (r required) comesBack(t *testing.T) {
	// Nobody else may be moved meanwhile: the runtime would ask about that one first.
	r.runsIn(t, members, "critical", partition.System, v1.PodQOSBestEffort)
	inSlice(t, r.Node, members, "static", partition.System, v1.PodQOSBestEffort)
	run(t, r.Node, "systemctl kill --kill-whom=main --signal=STOP "+monitorUnit)
	r.kill(t, "late")
	r.runsIn(t, members, "late", partition.Default, v1.PodQOSBestEffort)
	r.kill(t, "late")
	r.refused(t, "late")
	r.back(t, "late", 2, "systemctl kill --kill-whom=main --signal=CONT "+monitorUnit)
}

// validates: with --nri-validate that container waits, too.
func (r required) validates(t *testing.T) {
	run(t, r.Node, "echo PARTITION_MONITOR_ARGS=--nri-validate >/etc/default/node-partition; systemctl restart "+monitorUnit)
	r.connected(t)
	run(t, r.Node, "systemctl kill --kill-whom=main --signal=STOP "+monitorUnit)
	r.kill(t, "late")
	r.refused(t, "late")
	r.back(t, "late", 3, "systemctl kill --kill-whom=main --signal=CONT "+monitorUnit)
}
