//go:build node

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/partition"
)

// leftSection is a partition of 1 GiB, of which 700 MiB are left by somebody. more lists further
// namespaces.
func leftSection(more string) string {
	return fmt.Sprintf(`systemPartition:
  memoryLimit: 1Gi
  cpuset: "0-1"
  namespaces: [kube-system%s]
  evictionHard: {memory.available: 128Mi}
`, more)
}

// leftMiB is the amount that stays, in MiB.
const leftMiB = 700

// ownerless is the metric of memory that belongs to no pod.
const ownerless = `nodepartition_memory_ownerless_bytes{partition="system"}`

// TestEvictionLeft: 700 MiB of 1 GiB belong to no pod that runs in the partition. No pod within its
// request is evicted for them, and the amount is named. A pod that leaks beside them is evicted.
func TestEvictionLeft(t *testing.T) {
	onOne(t, func(t *testing.T, flavour string) {
		n, control := joined(t, flavour, leftSection(", default"))
		e := &evictor{Node: n, control: control, leakers: map[string]bool{}}
		t.Run("by a Job", e.leftByJob)
		t.Run("by a live move out", e.leftByMove)
	})
}

// leftByJob: a pod writes to a tmpfs of the node and ends.
func (e *evictor) leftByJob(t *testing.T) {
	s := spec{
		namespace: members, name: "leaker-writes", requests: resources("10m", "800Mi"),
		command: []string{"dd", "if=/dev/zero", "of=/shm/left", "bs=1M", "count=" + strconv.Itoa(leftMiB)},
	}
	s.change = func(p *v1.Pod) {
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		p.Spec.Volumes = []v1.Volume{{Name: "shm", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/dev/shm"}}}}
		p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "shm", MountPath: "/shm"}}
	}
	e.submit(t, s)
	becomes(t, e.Node, fmt.Sprintf("stat -c %%s /dev/shm/left || true"), strconv.Itoa(leftMiB<<20))
	e.remove(t, members, s.name)
	e.spared(t)
	run(t, e.Node, "rm /dev/shm/left")
	e.roomAgain(t)
}

// leftByMove: a pod is moved in alive, takes much memory, and is moved out alive. Its memory stays
// charged where it was.
func (e *evictor) leftByMove(t *testing.T) {
	const name = "leaves"
	configure(t, e.Node, leftSection(""))
	e.restarted(t, "--move=live")
	pod := e.create(t, spec{
		namespace: "default", name: name, requests: resources("10m", "800Mi"),
		command: []string{"/podtool", "leak", "60s", "8Mi", "100Mi", strconv.Itoa(leftMiB+16) + "Mi"},
	})
	configure(t, e.Node, leftSection(", default"))
	e.comesTo(t, name, partition.System)
	slice := partition.CgroupPath(partition.PodSlice(partition.System, v1.PodQOSBurstable, string(pod.UID)))
	e.await(t, "700 MiB in its slice", func(context.Context) (bool, string, error) {
		used := file(t, e.Node, slice, "memory.current")
		return used >= leftMiB<<20, strconv.FormatUint(used, 10), nil
	})
	configure(t, e.Node, leftSection(""))
	e.comesTo(t, name, partition.Default)
	e.spared(t)
	e.remove(t, "default", name)
	e.roomAgain(t)
}

// comesTo waits until the container of a pod is in a partition.
func (e *evictor) comesTo(t *testing.T, name string, partition partition.Name) {
	t.Helper()
	e.await(t, fmt.Sprintf("%s in partition %s", name, partition), func(ctx context.Context) (bool, string, error) {
		report, err := reportOf(ctx, e.Node)
		if err != nil {
			return false, "", err
		}
		for i := range report.Pods {
			if p := &report.Pods[i]; p.Name == name && p.Containers > 0 && p.Partition() == partition {
				return true, "", nil
			}
		}
		return false, fmt.Sprintf("%+v", report.Pods), nil
	})
}

// spared has pods within their requests take what is left of the partition.
func (e *evictor) spared(t *testing.T) {
	t.Helper()
	for i := range 3 {
		e.create(t, spec{namespace: members, name: fmt.Sprint("within-", i), requests: resources("10m", "64Mi"), command: []string{"/podtool", "alloc", "37Mi"}})
	}
	e.create(t, spec{namespace: members, name: "within-3", requests: resources("10m", "140Mi"), command: []string{"/podtool", "alloc", "130Mi"}})
	e.before = e.containers(t)
	wantMetric(t, e.Node, `nodepartition_eviction_without_candidate{partition="system"}`, 1)
	of := func(what string, bytes float64) {
		t.Helper()
		if t.Logf("%s: %.1f MiB", what, bytes/(1<<20)); bytes < leftMiB<<20 || bytes > (leftMiB+64)<<20 {
			t.Errorf("%s has %.0f MiB; want %d and what the kernel needs", what, bytes/(1<<20), leftMiB)
		}
	}
	bytes, err := metric(t.Context(), e.Node, ownerless)
	if err != nil {
		t.Fatal(err)
	}
	of("the metric", bytes)
	bytes, err = strconv.ParseFloat(run(t, e.Node, monitorPath+` status -o json | sed -n 's/.*"ownerlessBytes": *\([0-9]*\).*/\1/p' | head -1`), 64)
	if err != nil {
		t.Fatal(err)
	}
	of("status", bytes)
	becomes(t, e.Node, "journalctl -b -u "+monitorUnit+" -o cat | grep -c 'belongs to no pod that runs in it' | sed 's/[1-9][0-9]*/named/'", "named")
	e.leaks(t, leaker("leaker-beside", "20Mi"))
	e.evicted(t, "leaker-beside")
	e.remove(t, members, "leaker-beside")
	e.unharmed(t)
	for i := range 4 {
		e.remove(t, members, fmt.Sprint("within-", i))
	}
}

// roomAgain: nothing is named any more.
func (e *evictor) roomAgain(t *testing.T) {
	t.Helper()
	wantMetric(t, e.Node, `nodepartition_eviction_without_candidate{partition="system"}`, 0)
	eventually(t, e.Node, "room", func(ctx context.Context) (bool, string, error) {
		bytes, err := metric(ctx, e.Node, `nodepartition_memory_available_bytes{partition="system"}`)
		return bytes > 512<<20, fmt.Sprint(bytes), err
	})
}
