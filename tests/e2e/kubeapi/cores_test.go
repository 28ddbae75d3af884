//go:build node

package kubeapi

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	ours "node-partition.io/node-partition/internal/cluster"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/testkit"
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

// TestResources: the resources of types come back on the Node when a kubelet that starts overwrites
// them, and when it makes the Node again. A type that is removed takes its resource with it.
func TestResources(t *testing.T) {
	c := newCluster(t)
	on := host.Below(t.TempDir())
	for _, name := range []string{"/sys/devices/system/cpu", "/run/node-partition/monitor"} {
		if err := os.MkdirAll(on.Path(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(on.Path("/sys/devices/system/cpu"), "online"), []byte("0-3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var log testkit.Buffer
	started := func(kinds ...string) (*ours.Keeper, func()) {
		r := ours.NewKeeper(ours.KeeperOptions{
			API: asNode{c.monitor.Background()}, Node: on, Log: log.Logger(),
			Stopping: func(context.Context) bool { return false }, Count: func(bool) {},
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		r.Follow(kinds)
		go func() { ended <- r.Run(ctx) }()
		return r, func() {
			cancel()
			<-ended
		}
	}
	has := func(what, kind, want string) {
		t.Helper()
		c.eventually(what, func(context.Context) (bool, error) {
			capacity, allocatable := c.cores(kind)
			return capacity == want && allocatable == want, nil
		})
	}
	register := func() {
		t.Helper()
		if _, err := c.register(); err != nil {
			t.Fatal(err)
		}
	}
	r, stop := started("a", "b") // before there is a Node
	register()
	has("the Node has a", "a", "4k")
	has("the Node has b", "b", "4k")
	c.kubeletWrites("a", "0")
	r.KubeletStarted()
	has("a is restored", "a", "4k")
	if err := c.admin.CoreV1().Nodes().Delete(t.Context(), node, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.KubeletStarted()
	register()
	has("the new Node has a", "a", "4k")
	c.kubeletWrites("theirs", "7")
	stop()
	c.wantCores("a", "4k")
	r, stop = started("a")
	has("b has gone", "b", "")
	c.wantCores("a", "4k")
	r.Remove(t.Context())
	c.wantCores("a", "")
	c.wantCores("theirs", "7")
	stop()
	if t.Failed() {
		t.Log(log.String())
	}
}
