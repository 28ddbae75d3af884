//go:build node

package lab

import (
	"context"
	"path"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestNodeControlPlane: a node joins, runs pods of the API, and applies a change of a running pod
// to its cgroup, also after a reboot. The kubelet's own server answers as on a node without a
// control plane.
func TestNodeControlPlane(t *testing.T) {
	ctx := t.Context()
	p := ControlPlaneForTest(t)
	n := ForTest(t, Options{ControlPlane: p})
	if err := n.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	pods := p.Client().CoreV1().Pods(v1.NamespaceDefault)
	grace := int64(1)
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "resized"},
		Spec: v1.PodSpec{
			NodeName:                      n.Name,
			TerminationGracePeriodSeconds: &grace,
			Containers: []v1.Container{{
				Name: "main", Image: PodtoolImage, ImagePullPolicy: v1.PullNever, Args: []string{"echo", "7777"},
				Resources: v1.ResourceRequirements{
					Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("50m")},
					Limits:   v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")},
				},
			}},
		},
	}
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	running, err := p.WaitPod(ctx, v1.NamespaceDefault, "resized")
	if err != nil {
		t.Fatal(err)
	}
	if err := n.waitCPUMax(ctx, running, "10000 100000"); err != nil {
		t.Error(err)
	}
	began := time.Now()
	resize := `{"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "200m"}}}]}}`
	if _, err := pods.Patch(ctx, "resized", types.StrategicMergePatchType, []byte(resize), metav1.PatchOptions{}, "resize"); err != nil {
		t.Fatal(err)
	}
	if err := n.waitCPUMax(ctx, running, "20000 100000"); err != nil {
		t.Error(err)
	}
	t.Logf("resized in %.1f s", time.Since(began).Seconds())
	if err := n.waitLogs(ctx, "resized", "ready\n"); err != nil {
		t.Error(err)
	}

	if err := n.Reboot(ctx); err != nil {
		t.Fatal(err)
	}
	if err := n.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	if err := n.waitCPUMax(ctx, running, "20000 100000"); err != nil {
		t.Errorf("after a reboot: %v", err)
	}
	if err := pods.Delete(ctx, "resized", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := n.waitCPUMax(ctx, running, ""); err != nil {
		t.Errorf("after its deletion: %v", err)
	}
}

// waitCPUMax waits until the only container of a pod has this limit. An empty limit means that
// there is no container.
func (n *Node) waitCPUMax(ctx context.Context, pod *v1.Pod, want string) error {
	uid := strings.ReplaceAll(string(pod.UID), "-", "_")
	return n.Eventually(ctx, "cpu.max "+want, func(ctx context.Context) (bool, string, error) {
		tree, err := n.CgroupTree(ctx, "cpu.max")
		if err != nil {
			return false, "", err
		}
		var seen []string
		for _, c := range tree {
			limit := c.Values["cpu.max"]
			if strings.Contains(c.Path, uid) && strings.HasSuffix(c.Path, ".scope") && !strings.HasPrefix(limit, "max") {
				seen = append(seen, path.Base(c.Path)+": "+limit)
				if limit == want {
					return true, "", nil
				}
			}
		}
		return want == "" && len(seen) == 0, orNone(seen), nil
	})
}
