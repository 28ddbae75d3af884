//go:build node

package apitest

import (
	"context"
	"os"
	"regexp"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/rollout/api/v1alpha1"
	"node-partition.io/node-partition/tests/lab"
)

// TestGitOps: the files of docs/examples/gitops.md give each pool its partition, a commit changes
// the canaries alone, its revert brings them back, and without the files no node has a partition.
func TestGitOps(t *testing.T) {
	page, err := os.ReadFile("../../docs/examples/gitops.md")
	if err != nil {
		t.Fatal(err)
	}
	files := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllStringSubmatch(string(page), -1)
	if len(files) != 4 {
		t.Fatalf("the page has %d blocks of YAML; want the pools, a change, and a rule for each tool", len(files))
	}
	pools, change := files[0][1], files[1][1]
	c := newCluster(t)
	for node, pool := range map[string]string{"canary-1": "canary", "canary-2": "canary", "node-1": "general", "node-2": "general"} {
		c.nodes(node)
		n := &v1.Node{}
		c.must(c.admin.Get(t.Context(), client.ObjectKey{Name: node}, n))
		n.Labels["pool"] = pool
		c.must(c.admin.Update(t.Context(), n))
	}
	c.run(nil)
	made := 0
	// synced applies a file as a tool does, with a shorter soak, waits for its health, and compares
	// the nodes that were changed.
	synced := func(what, file string, want ...string) {
		t.Helper()
		c.must(lab.EachObject([]byte(file), func(o *unstructured.Unstructured) error {
			c.must(unstructured.SetNestedField(o.Object, "10ms", "spec", "rollout", "soak"))
			return c.admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("gitops"), client.ForceOwnership)
		}))
		c.eventually(what+" is available", func(ctx context.Context) (bool, string) {
			var all v1alpha1.NodePartitionList
			c.must(c.admin.List(ctx, &all))
			for _, p := range all.Items {
				is := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.Available)
				if is == nil || is.Status != "True" || is.ObservedGeneration != p.Generation {
					return false, p.Name + " is not"
				}
			}
			return len(all.Items) == 2, "not all are there"
		})
		if got := c.ran(made); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
			t.Errorf("%s: %q; want %q", what, got, want)
		}
		made = len(c.ran(0))
	}
	synced("the first commit", pools, "apply canary-1", "apply canary-2", "apply node-1", "apply node-2")
	synced("a change of the canaries", change, "apply canary-1", "apply canary-2")
	synced("its revert", pools, "apply canary-1", "apply canary-2")
	c.must(c.admin.DeleteAllOf(t.Context(), &v1alpha1.NodePartition{}))
	c.eventually("all are deleted", func(ctx context.Context) (bool, string) {
		var all v1alpha1.NodePartitionList
		c.must(c.admin.List(ctx, &all))
		return len(all.Items) == 0, "some are left"
	})
	if got := len(c.ran(made)); got != 4 {
		t.Errorf("%d nodes were cleaned; want 4", got)
	}
	for _, rule := range files[2:] {
		c.must(lab.EachObject([]byte(rule[1]), func(*unstructured.Unstructured) error { return nil }))
	}
}
