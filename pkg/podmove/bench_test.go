package podmove

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/internal/cri"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/partition"
)

// BenchmarkSteadyReconcile measures a reconcile with nothing to do, without other programs: the
// cgroups are files of a tmpfs or a disk, and the lists of runtime and kubelet are in memory.
func BenchmarkSteadyReconcile(b *testing.B) {
	for _, pods := range []int{50, 500} {
		b.Run(fmt.Sprint(pods), func(b *testing.B) { steadyReconcile(b, pods) })
	}
}

func steadyReconcile(b *testing.B, pods int) {
	b.Helper()
	r := made(b, idle(placedPods(b, pods).gatherer(), Working), members)
	if _, err := r.snapshot(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		snapshot, err := r.snapshot(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if d := Decide(snapshot); len(d.Ensure) > 0 || d.Move != nil || len(d.Pods) != pods {
			b.Fatalf("decided %+v", d)
		}
	}
}

// placedPods returns a node with pods of one container, each in its place.
func placedPods(b *testing.B, count int) *node {
	b.Helper()
	n := &node{root: b.TempDir(), pods: map[types.UID]*kubelet.Pod{}}
	files := map[string]string{
		"memory.max": "268435456", "memory.high": "max", "memory.min": "0", "memory.low": "0", "cpu.weight": "4", "cpu.max": "50000 100000", "pids.max": "max",
	}
	for i := range count {
		uid := fmt.Sprintf("bbbbbbbb-0000-4000-8000-%012d", i)
		sandbox, container := fmt.Sprintf("a%063x", i), fmt.Sprintf("c%063x", i)
		defaultSlice, partitionSlice := partition.CgroupPath(partition.PodSlice(partition.Default, v1.PodQOSBurstable, uid)), partition.CgroupPath(partition.PodSlice(partition.System, v1.PodQOSBurstable, uid))
		for _, dir := range []string{defaultSlice, defaultSlice + "/cri-containerd-" + sandbox + ".scope", partitionSlice, partitionSlice + "/cri-containerd-" + container + ".scope"} {
			dir = filepath.Join(n.root, dir)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				b.Fatal(err)
			}
			for name, content := range files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content+"\n"), 0o644); err != nil {
					b.Fatal(err)
				}
			}
		}
		n.sandboxes = append(n.sandboxes, cri.Sandbox{ID: sandbox, UID: uid, Namespace: "kube-system", Name: fmt.Sprint("pod-", i), Ready: true})
		n.containers = append(n.containers, cri.Container{ID: container, SandboxID: sandbox, Name: "main", State: cri.Running})
		n.pods[types.UID(uid)] = &kubelet.Pod{
			UID: uid, Namespace: "kube-system", Name: fmt.Sprint("pod-", i), QoS: "Burstable", RestartPolicy: "Always", MilliCPU: 100,
			Containers: map[string]kubelet.Container{"main": {}},
		}
	}
	return n
}
