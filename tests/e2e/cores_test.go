//go:build node

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/internal/partition"
)

// allCores is the amount of each type: a node of the lab has two CPUs.
const allCores = "2k"

// cores returns the capacity and the allocatable of a type on the Node, empty for none.
func (w *workloads) cores(ctx context.Context, kind string) (capacity, allocatable string, err error) {
	node, err := w.control.Client().CoreV1().Nodes().Get(ctx, w.Hostname, metav1.GetOptions{})
	if err != nil {
		return "", "", err
	}
	text := func(list v1.ResourceList) string {
		if q, ok := list[v1.ResourceName(partition.WorkloadResource(kind))]; ok {
			return q.String()
		}
		return ""
	}
	return text(node.Status.Capacity), text(node.Status.Allocatable), nil
}

// hasCores waits until the Node has this amount of a type; empty for none. The monitor writes what
// others have overwritten within five minutes.
func (w *workloads) hasCores(t *testing.T, kind, amount string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	if err := w.Eventually(ctx, fmt.Sprintf("%q of %s on the Node", amount, kind), func(ctx context.Context) (bool, string, error) {
		capacity, allocatable, err := w.cores(ctx, kind)
		return capacity == amount && allocatable == amount, fmt.Sprintf("capacity %q, allocatable %q", capacity, allocatable), err
	}); err != nil {
		t.Fatal(err)
	}
}

// keepsCores: the Node has a type already, in the amount of all its CPUs.
func (w *workloads) keepsCores(t *testing.T, kind string) {
	t.Helper()
	capacity, allocatable, err := w.cores(t.Context(), kind)
	if err != nil || capacity != allCores || allocatable != allCores {
		t.Errorf("%s: capacity %q, allocatable %q, error %v; want %q", kind, capacity, allocatable, err, allCores)
	}
}

// setCores writes the amount of the type telemetry to the Node as another program would, as JSON:
// "null" removes it.
func (w *workloads) setCores(t *testing.T, amount string) {
	t.Helper()
	patch := coresPatch("telemetry", amount)
	if _, err := w.control.Client().CoreV1().Nodes().Patch(t.Context(), w.Hostname, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

func coresPatch(kind, amount string) []byte {
	return fmt.Appendf(nil, `{"status":{"capacity":{%[1]q:%[2]s},"allocatable":{%[1]q:%[2]s}}}`, partition.WorkloadResource(kind), amount)
}
