//go:build node

package kubeapi

import (
	"fmt"
	"maps"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/partition"
)

// cores returns the capacity and the allocatable of a type on the node, empty without it.
func (c *cluster) cores(kind string) (capacity, allocatable string) {
	c.t.Helper()
	now, err := c.admin.CoreV1().Nodes().Get(c.t.Context(), node, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	name := v1.ResourceName(partition.WorkloadResource(kind))
	if value, ok := now.Status.Capacity[name]; ok {
		capacity = value.String()
	}
	if value, ok := now.Status.Allocatable[name]; ok {
		allocatable = value.String()
	}
	return capacity, allocatable
}

// wantCores checks the capacity and the allocatable of a type.
func (c *cluster) wantCores(kind, want string) {
	c.t.Helper()
	if capacity, allocatable := c.cores(kind); capacity != want || allocatable != want {
		c.t.Errorf("%s: capacity %q, allocatable %q; want %q", kind, capacity, allocatable, want)
	}
}

// kubeletWrites patches the capacity of a type as the node's kubelet does.
func (c *cluster) kubeletWrites(kind, value string) {
	c.t.Helper()
	patch := fmt.Appendf(nil, `{"status":{"capacity":{%[1]q:%[2]q},"allocatable":{%[1]q:%[2]q}}}`, partition.WorkloadResource(kind), value)
	if _, err := c.kubelet.CoreV1().Nodes().Patch(
		c.t.Context(), node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status",
	); err != nil {
		c.t.Fatal(err)
	}
}

// setCores: the kubelet's user applies resources of this node, and of no other. A value that the
// kubelet has changed is a conflict. What is not applied any more goes.
func setCores(c *cluster) {
	c.node()
	const value = 4000
	apply := func(force bool, cores map[string]int64) (kubeapi.Node, error) {
		return c.monitor.ApplyNode(c.t.Context(), node, kubeapi.CoresManager, kubeapi.Node{Cores: cores}, force)
	}
	both := map[string]int64{"a": value, "b": value}
	for range 2 { // the second time it is no conflict with our own value in another form
		if n, err := apply(false, both); err != nil || !maps.Equal(n.Cores, both) {
			c.t.Errorf("%+v, %v", n, err)
		}
	}
	c.wantCores("a", "4k")
	c.kubeletWrites("b", "0")
	_, err := apply(false, both)
	if !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) ||
		!strings.Contains(err.Error(), "b.workload") || strings.Contains(err.Error(), "a.workload") {
		c.t.Errorf("%v; want a conflict about b", err)
	}
	c.wantCores("b", "0")
	if n, err := apply(true, both); err != nil || !maps.Equal(n.Cores, both) {
		c.t.Errorf("%+v, %v", n, err)
	}
	if n, err := apply(false, map[string]int64{"b": value}); err != nil || n.Cores["b"] != value {
		c.t.Errorf("%+v, %v", n, err)
	}
	c.wantCores("a", "")
	c.wantCores("b", "4k")
	c.kubeletWrites("b", "0") // it owns the resource
	n, err := apply(false, nil)
	if c.want(err, nil); n.Cores["b"] != 0 {
		c.t.Errorf("%+v; want what the kubelet has written", n)
	}
	c.wantCores("b", "0")
	_, err = c.monitor.RemoveFromNode(c.t.Context(), node, nil, []string{"b"})
	c.want(err, nil)
	c.wantCores("b", "")
	c.other()
	c.want(applied(c.monitor, "two", kubeapi.Node{Cores: both}), kubeapi.ErrForbidden)
}
