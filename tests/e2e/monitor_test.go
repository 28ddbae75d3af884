//go:build node

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove/report"
	"node-partition.io/node-partition/tests/lab"
)

const (
	monitorPath = "/usr/bin/partition-monitor"
	monitorUnit = "partition-monitor.service"
	monitorURL  = "http://127.0.0.1:9948"
	cgroupRoot  = "/sys/fs/cgroup/"
)

// programs returns the generator, the monitor and its unit in the places of make install.
func programs() []lab.File { return slices.Clone(toInstall) }

// protectingNoPod makes the monitor restart static pods too, because the node's member is one. Most
// tests switch the partition on and off and do not test which pods are restarted for it. If
// containers cannot be restarted into the partition, pods are moved live, as by default.
func protectingNoPod(flavour string) []lab.File {
	if !placing(flavour) {
		return nil
	}
	return []lab.File{{
		Path: "/etc/systemd/system/" + monitorUnit + ".d/50-move.conf",
		Data: []byte("[Service]\nExecStart=\nExecStart=" + monitorPath + " run --move=restart $PARTITION_MONITOR_ARGS\n"),
		Mode: 0o644,
	}}
}

// placing reports whether a flavour's runtime places containers when it creates them.
func placing(flavour string) bool { return flavour != "bookworm" }

// runtimeUnit returns the service of a flavour's runtime.
func runtimeUnit(flavour string) string {
	if flavour == "crio" {
		return "crio.service"
	}
	return "containerd.service"
}

// monitored restores a node, gives it a partition of that much memory and starts the monitor, as
// the README describes it for a running node. It waits until both are active. The node's members
// run outside and are moved in: TestLateVar and TestBoot show the case of a boot.
func monitored(t *testing.T, flavour, memory string) *lab.Node {
	t.Helper()
	n := lab.ForTest(t, lab.Options{Flavour: flavour, Restore: true})
	if err := n.CopyTo(t.Context(), slices.Concat(programs(), protectingNoPod(flavour), []lab.File{kubeletConfig(t, partitionOf(memory, "0-1"))})...); err != nil {
		t.Fatal(err)
	}
	run(t, n, "systemctl daemon-reload")
	switchedOn(t, n)
	return n
}

// joined is monitored with an API server, with a section and with more files. Its kubelet is
// restarted, because it has to join.
func joined(t *testing.T, flavour, section string, files ...lab.File) (*lab.Node, *lab.ControlPlane) {
	t.Helper()
	n, control := lab.JoinedForTest(t, lab.Options{Flavour: flavour, Files: slices.Concat(files, programs(), protectingNoPod(flavour), []lab.File{kubeletConfig(t, section)})})
	switchedOn(t, n)
	return n, control
}

// switchedOn starts the partition of a node whose systemd has loaded it, and waits until the node's
// member is in it.
func switchedOn(t *testing.T, n *lab.Node) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			// The test's own context has ended.
			out, err := n.Run(context.WithoutCancel(t.Context()), "journalctl -b -o short-precise --no-pager -u "+monitorUnit+" | tail -60; "+monitorPath+" status || true")
			t.Logf("the monitor (%v):\n%s", err, out)
		}
	})
	run(t, n, "systemctl start slices.target")
	if err := n.WaitReady(t.Context()); err != nil { // a kubelet that joins was started a moment ago
		t.Fatal(err)
	}
	becomes(t, n, "systemctl is-active "+monitorUnit+" || true", "active")
	inSlice(t, n, "kube-system", "system-agent", partition.System, v1.PodQOSBurstable)
	if err := n.WaitReady(t.Context()); err != nil { // the monitor may have restarted the member
		t.Fatal(err)
	}
}

// spec is a pod of one container that runs until it is stopped.
type spec struct {
	namespace, name string
	uid             types.UID // empty: the kubelet generates one
	command         []string  // nil: sleep
	requests        v1.ResourceList
	limits          v1.ResourceList
	change          func(*v1.Pod)
}

func resources(cpu, memory string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
}

func (s spec) pod() *v1.Pod {
	grace := int64(1)
	command := s.command
	if command == nil {
		command = []string{"sh", "-c", "trap 'exit 0' TERM; sleep 2147483647 & wait"}
	}
	image := "lab.local/busybox:1"
	if command[0] == "/podtool" {
		image = "lab.local/podtool:1"
	}
	pod := &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name, UID: s.uid},
		Spec: v1.PodSpec{
			HostNetwork: true, TerminationGracePeriodSeconds: &grace,
			Containers: []v1.Container{{
				Name: "main", Image: image, ImagePullPolicy: v1.PullNever, Command: command,
				Resources: v1.ResourceRequirements{Requests: s.requests, Limits: s.limits},
			}},
		},
	}
	if s.change != nil {
		s.change(pod)
	}
	return pod
}

func (s spec) manifest(t *testing.T) []byte {
	t.Helper()
	data, err := json.Marshal(s.pod())
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// apply runs static pods and waits until they do.
func apply(t *testing.T, n *lab.Node, specs ...spec) {
	t.Helper()
	for _, s := range specs {
		if _, err := n.ApplyPod(t.Context(), s.manifest(t)); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range specs {
		if _, err := n.WaitPod(t.Context(), s.namespace, s.name); err != nil {
			t.Fatal(err)
		}
	}
}

// remove deletes static pods and waits until they are gone.
func remove(t *testing.T, n *lab.Node, specs ...spec) {
	t.Helper()
	for _, s := range specs {
		if err := n.DeletePod(t.Context(), s.name); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range specs {
		if err := n.WaitNoPod(t.Context(), s.namespace, s.name); err != nil {
			t.Fatal(err)
		}
	}
}

// eventually waits for a condition on the node.
func eventually(t *testing.T, n *lab.Node, what string, cond func(context.Context) (bool, string, error)) {
	t.Helper()
	if err := n.Eventually(t.Context(), what, cond); err != nil {
		t.Fatal(err)
	}
}

// becomes waits until a command has this output.
func becomes(t *testing.T, n *lab.Node, command, expected string) {
	t.Helper()
	eventually(t, n, fmt.Sprintf("%s says %q", command, expected), func(ctx context.Context) (bool, string, error) {
		out, err := n.Run(ctx, command)
		return strings.TrimSpace(out) == expected, strings.TrimSpace(out), err
	})
}

// reportOf returns the report of the monitor's command.
func reportOf(ctx context.Context, n *lab.Node) (report.Report, error) {
	var found report.Report
	out, err := n.Run(ctx, monitorPath+" status -o json")
	if err != nil {
		return found, err
	}
	return found, json.Unmarshal([]byte(out), &found)
}

// scopeOf returns the cgroup of the running container of a static pod, below the mount. It reads
// the cgroup file system, and trusts no report.
func scopeOf(t *testing.T, n *lab.Node, namespace, pod string) string {
	t.Helper()
	p, err := n.Pod(t.Context(), namespace, pod)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Status.ContainerStatuses) != 1 {
		t.Fatalf("pod %s/%s has %d containers", namespace, pod, len(p.Status.ContainerStatuses))
	}
	_, id, _ := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")
	found := run(t, n, "cd "+cgroupRoot+" && find kubepods.slice -type d -name '*-"+id+".scope' -not -name 'crio-conmon-*'")
	if found == "" || strings.Contains(found, "\n") {
		t.Fatalf("container of %s/%s: cgroups %q, want one", namespace, pod, found)
	}
	return found
}

// uidOf returns the UID of a static pod, once the kubelet, which may have just started, lists it.
func uidOf(t *testing.T, n *lab.Node, namespace, pod string) string {
	t.Helper()
	var uid string
	eventually(t, n, fmt.Sprintf("the kubelet has pod %s/%s", namespace, pod), func(ctx context.Context) (bool, string, error) {
		p, err := n.Pod(ctx, namespace, pod)
		if err != nil {
			return false, "", err
		}
		uid = string(p.UID)
		return true, "", nil
	})
	return uid
}

// inSlice waits until the container of a static pod is in the slice that it belongs in.
func inSlice(t *testing.T, n *lab.Node, namespace, pod string, p partition.Name, q v1.PodQOSClass) {
	t.Helper()
	wanted := partition.PodSlice(p, q, uidOf(t, n, namespace, pod))
	eventually(t, n, fmt.Sprintf("%s/%s in %s", namespace, pod, wanted), func(ctx context.Context) (bool, string, error) {
		out, err := n.Run(ctx, "cd "+cgroupRoot+partition.CgroupPath(wanted)+" && ls -d *.scope")
		if err != nil {
			return false, "", err
		}
		live, err := n.Pod(ctx, namespace, pod)
		if err != nil {
			return false, "", err
		}
		if len(live.Status.ContainerStatuses) == 0 || live.Status.ContainerStatuses[0].State.Running == nil {
			return false, "container does not run", nil
		}
		_, id, _ := strings.Cut(live.Status.ContainerStatuses[0].ContainerID, "://")
		return strings.Contains(out, "-"+id+".scope"), out, nil
	})
}

// file reads a number from a cgroup.
func file(t *testing.T, n *lab.Node, cgroup, name string) uint64 {
	t.Helper()
	text := run(t, n, "cat "+cgroupRoot+cgroup+"/"+name)
	value, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s of %s is %q", name, cgroup, text)
	}
	return value
}

// metric returns a sample of the monitor's metrics, by its name and labels in the text format.
func metric(ctx context.Context, n *lab.Node, series string) (float64, error) {
	body, err := n.Get(ctx, monitorURL+"/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(body)) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("no series %s", series)
}

func wantMetric(t *testing.T, n *lab.Node, series string, expected float64) {
	t.Helper()
	eventually(t, n, fmt.Sprintf("%s is %v", series, expected), func(ctx context.Context) (bool, string, error) {
		value, err := metric(ctx, n, series)
		return err == nil && value == expected, fmt.Sprint(value, err), nil
	})
}
