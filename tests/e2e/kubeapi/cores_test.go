//go:build node

package kubeapi

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
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

// setCores: the kubelet's user writes and removes resources of this node, and of no other. The
// API server knows which of them are ours.
func setCores(c *cluster) {
	made := c.node()
	value := int64(4000)
	set := func(uid string, cores map[string]*int64) kubeapi.Node {
		c.t.Helper()
		n, err := c.monitor.PatchNode(c.t.Context(), node, kubeapi.NodePatch{UID: uid, Cores: cores})
		c.want(err, nil)
		return n
	}
	uid := string(made.UID)
	n := set(uid, map[string]*int64{"a": &value, "b": &value})
	slices.Sort(n.Ours)
	if n.UID != uid || n.Cores["a"] != value || !slices.Equal(n.Ours, []string{"a", "b"}) {
		c.t.Errorf("%+v", n)
	}
	c.wantCores("a", "4k")
	c.kubeletWrites("b", "0")
	if again := set(uid, map[string]*int64{"a": &value}); !slices.Equal(again.Ours, []string{"a"}) || again.Cores["b"] != 0 {
		c.t.Errorf("after the kubelet: %+v", again)
	}
	c.want(patched(c.monitor, node, kubeapi.NodePatch{UID: "another", Cores: map[string]*int64{"a": nil}}), kubeapi.ErrGone)
	c.wantCores("a", "4k")
	set(uid, map[string]*int64{"a": nil, "b": nil, "never": nil})
	c.wantCores("a", "")
	c.wantCores("b", "")
	c.other()
	c.want(patched(c.monitor, "two", kubeapi.NodePatch{UID: uid, Cores: map[string]*int64{"a": &value}}), kubeapi.ErrForbidden)
}
