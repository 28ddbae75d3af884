//go:build node

package e2e

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/lab"
)

// TestLiveMove: on a runtime without NRI all processes of running containers are moved, and the
// device rules with them.
func TestLiveMove(t *testing.T) {
	// Other flavours move pods live only if configured to, and TestOnNode moves scopes there.
	withoutNRI := slices.DeleteFunc(allFlavours(), placing)
	onEach(t, kinds(withoutNRI, "bookworm"), func(t *testing.T, flavour string) {
		n := monitored(t, flavour, "1Gi")
		inSlice(t, n, "kube-system", "system-agent", partition.System, v1.PodQOSBurstable)
		t.Run("forks all the time", func(t *testing.T) { forksAreMoved(t, n) })
		t.Run("device rules", func(t *testing.T) { deviceRulesHold(t, n) })
		t.Run("host PID namespace", func(t *testing.T) { hostPIDIsKilled(t, n) })
		t.Run("limits", func(t *testing.T) { limitsAreCarried(t, n) })
		t.Run("back", func(t *testing.T) { movedBack(t, n) })
	})
}

// forksAreMoved: every process of the container's PID namespace is in the new scope, and the old
// one is gone.
func forksAreMoved(t *testing.T, n *lab.Node) {
	t.Helper()
	s := spec{namespace: "kube-system", name: "forks", command: []string{"/podtool", "forks"}}
	apply(t, n, s)
	inSlice(t, n, "kube-system", "forks", partition.System, v1.PodQOSBestEffort)
	scope := scopeOf(t, n, "kube-system", "forks")
	if name := path.Base(scope); !strings.HasPrefix(name, "partition-cri-containerd-") {
		t.Errorf("the scope is %s", name)
	}
	old := strings.TrimPrefix(path.Base(scope), "partition-")
	becomes(t, n, "systemctl is-active "+old+" || true", "inactive")
	// Checks all processes three times: those in the PID namespace of the scope's first process are in
	// the scope.
	outside := run(t, n, `first=$(head -n1 `+cgroupRoot+scope+`/cgroup.procs); ns=$(readlink /proc/$first/ns/pid)
for i in 1 2 3; do for p in /proc/[0-9]*; do
  [ "$(readlink $p/ns/pid 2>/dev/null)" = "$ns" ] || continue
  cgroup=$(cat $p/cgroup 2>/dev/null) || continue
  case "$cgroup" in *`+path.Base(scope)+`|"") ;; *) echo "$cgroup" ;; esac
done; done | sort | uniq -c`)
	if outside != "" {
		t.Errorf("processes of the container elsewhere:\n%s", outside)
	}
	remove(t, n, s)
	noSlicesLeft(t, n)
}

// deviceRulesHold: a container has the same access to devices before and after the move.
func deviceRulesHold(t *testing.T, n *lab.Node) {
	t.Helper()
	mknod := func(p *v1.Pod) {
		p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{Capabilities: &v1.Capabilities{Add: []v1.Capability{"MKNOD"}}}
	}
	// The node's memory, which no container may open, and /dev/null, which all may.
	denied := spec{namespace: "kube-system", name: "denied", command: []string{"/podtool", "device", "/kmsg", "c", "1", "11"}, change: mknod}
	allowed := spec{namespace: "kube-system", name: "allowed", command: []string{"/podtool", "device", "/null", "c", "1", "3"}, change: mknod}
	apply(t, n, denied, allowed)
	for _, s := range []struct {
		spec
		says, not string
	}{{denied, "denied: EPERM", "allowed"}, {allowed, "allowed", "denied"}} {
		inSlice(t, n, "kube-system", s.name, partition.System, v1.PodQOSBestEffort)
		before, err := n.Logs(t.Context(), "kube-system", s.name, "main")
		if err != nil {
			t.Fatal(err)
		}
		seen := strings.Count(before, s.says)
		eventually(t, n, s.name+" tries again after the move", func(ctx context.Context) (bool, string, error) {
			logs, err := n.Logs(ctx, "kube-system", s.name, "main")
			return strings.Count(logs, s.says) > seen+5 || strings.Contains(logs, s.not), logs, err
		})
		logs, err := n.Logs(t.Context(), "kube-system", s.name, "main")
		if err != nil || strings.Contains(logs, s.not) {
			t.Errorf("%s: %v, the log has %q:\n%s", s.name, err, s.not, logs)
		}
	}
	unit := path.Base(scopeOf(t, n, "kube-system", "denied"))
	want(t, n, "systemctl show --value -p DevicePolicy "+unit, "strict")
	remove(t, n, denied, allowed)
}

// hostPIDIsKilled: a container in the node's PID namespace, which its runtime finds by a cgroup
// that no longer exists.
func hostPIDIsKilled(t *testing.T, n *lab.Node) {
	t.Helper()
	s := spec{
		namespace: "kube-system", name: "hostpid", command: []string{"sh", "-c", "sleep 77701 & sleep 77702 & exec sleep 77703"},
		change: func(p *v1.Pod) { p.Spec.HostPID = true },
	}
	apply(t, n, s)
	inSlice(t, n, "kube-system", "hostpid", partition.System, v1.PodQOSBestEffort)
	want(t, n, "pgrep -fc '^sleep 7770[123]$'", "3")
	scope := path.Base(scopeOf(t, n, "kube-system", "hostpid"))
	remove(t, n, s)
	becomes(t, n, "pgrep -fc '^sleep 7770[123]$' || true", "0")
	becomes(t, n, "systemctl is-active "+scope+" || true", "inactive")
	noSlicesLeft(t, n)
}

// limitsAreCarried: the limits that the runtime set on its scope are set on ours.
func limitsAreCarried(t *testing.T, n *lab.Node) {
	t.Helper()
	const files = "memory.max memory.low memory.high memory.oom.group memory.swap.max cpu.max cpu.weight cpuset.cpus pids.max"
	read := func(cgroup string) string { return run(t, n, "cd "+cgroupRoot+cgroup+" && grep -H . "+files) }
	s := spec{namespace: "user", name: "limits", requests: resources("50m", "16Mi"), limits: resources("250m", "48Mi")}
	apply(t, n, s)
	plain := read(scopeOf(t, n, "user", "limits"))
	remove(t, n, s)
	s.namespace = "kube-system"
	apply(t, n, s)
	inSlice(t, n, "kube-system", "limits", partition.System, v1.PodQOSBurstable)
	if moved := read(scopeOf(t, n, "kube-system", "limits")); moved != plain {
		t.Errorf("after the move\n%s\nand the same container in the default partition\n%s", moved, plain)
	}
	remove(t, n, s)
}

// movedBack: when the partition is switched off, containers have their old names, and the runtime
// has their metrics.
func movedBack(t *testing.T, n *lab.Node) {
	t.Helper()
	id := containerID(t, n, "kube-system", "system-agent")
	eventually(t, n, "memory that stayed outside is shown", func(ctx context.Context) (bool, string, error) {
		bytes, err := metric(ctx, n, `nodepartition_memory_outside_bytes{partition="system"}`)
		return err == nil && bytes > 0, fmt.Sprint(bytes, err), nil
	})
	configure(t, n, "")
	becomes(t, n, "systemctl is-active "+monitorUnit+" || true", "inactive")
	inSlice(t, n, "kube-system", "system-agent", partition.Default, v1.PodQOSBurstable)
	if now := containerID(t, n, "kube-system", "system-agent"); now != id {
		t.Errorf("container %s was restarted, it is %s", id, now)
	}
	if name := path.Base(scopeOf(t, n, "kube-system", "system-agent")); name != "cri-containerd-"+id+".scope" {
		t.Errorf("back in the default partition the scope is %s", name)
	}
	want(t, n, "ctr -n k8s.io tasks metrics "+id+" >/dev/null && echo metrics", "metrics")
	want(t, n, "systemctl list-units --all --plain --no-legend 'partition-cri*' 'kubepods-system*'", "")
}
