//go:build node

package apitest

import (
	"context"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"node-partition.io/node-partition/rollout/api/v1alpha1"
	"node-partition.io/node-partition/rollout/plan"
)

// TestInstallations: what changes an installation, and how many pods it makes. helm template with
// kubectl apply, an upgrade, a rollback, an uninstallation and an installation change the nodes of
// which something changes, and no other.
func TestInstallations(t *testing.T) {
	c := newCluster(t)
	c.nodes("a", "b")
	stop := c.run(nil)
	c.partition(func(p *v1alpha1.NodePartition) {
		p.Spec.Rollout.First, p.Spec.Rollout.MaxUnavailable, p.Spec.Rollout.Soak.Duration = 0, intstr.FromInt32(1), time.Millisecond
	})
	c.await(v1alpha1.Available, metav1.ConditionTrue, "")
	made := 0
	// then compares the pods that were made. A new node, which is the last one, shows that all that
	// was to be done has been done.
	then := func(what, node string, want ...string) {
		t.Helper()
		c.nodes(node)
		c.eventually(what, func(context.Context) (bool, string) {
			has := c.labelled(plan.StateLabel + "=kept,kubernetes.io/hostname=" + node)
			return has == 1 && c.get().Status.Nodes.Current == int32(c.labelled("")), "the new node has nothing"
		})
		if got := c.ran(made); !slices.Equal(slices.Sorted(slices.Values(got)), append(want, "apply "+node)) {
			t.Errorf("%s: %q", what, got)
		}
		made = len(c.ran(0))
	}
	then("the first roll", "c", "apply a", "apply b")
	c.install(settings.Version)
	then("a second apply of the same", "d")
	stop()
	stop = c.run(nil)
	then("another pod of the controller", "e")
	stop()
	c.install("v0.0.1")
	stop = c.runVersion("v0.0.1", nil)
	then("an upgrade", "f", "apply a", "apply b", "apply c", "apply d", "apply e")
	stop()
	c.install(settings.Version)
	stop = c.run(nil)
	then("a rollback", "g", "apply a", "apply b", "apply c", "apply d", "apply e", "apply f")
	stop()
	c.uninstall("CustomResourceDefinition") // as Helm, which leaves it
	c.install(settings.Version)
	stop = c.run(nil)
	then("an uninstallation, and an installation", "h")

	// the wrong order: the controller goes first, and the definition with all NodePartitions
	stop()
	c.uninstall()
	if p := c.get(); p.DeletionTimestamp == nil || c.labelled(plan.StateLabel+"=kept") != 8 || len(c.ran(made)) > 0 {
		t.Errorf("without a controller: deleted at %v, %q", p.DeletionTimestamp, c.ran(made))
	}
	c.install(settings.Version)
	c.run(nil)
	c.gone()
	if got := c.ran(made); len(got) != 8 || c.labelled(plan.StateLabel) != 0 {
		t.Errorf("the removal goes on: %q", got)
	}
}
