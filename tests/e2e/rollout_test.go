//go:build node

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/lab"
)

// The objects of a rollout.
const (
	rolloutNamespace = "node-partition"
	rolloutName      = "node-partition-rollout"
	partitionName    = "general"
	stateLabel       = partition.LabelPrefix + "state"
)

var nodePartitions = schema.GroupVersionResource{Group: "node-partition.io", Version: "v1alpha1", Resource: "nodepartitions"}

// rolloutCluster is a cluster with the controller of NodePartitions.
type rolloutCluster struct {
	*lab.Cluster
	flavour string
	image   []byte
	client  dynamic.Interface
	nodes   []*fleetNode
}

// newRolloutCluster starts a cluster with nodes of these names, without anything of the project but
// the image.
func newRolloutCluster(t *testing.T, flavour string, names ...string) *rolloutCluster {
	t.Helper()
	// Built before the nodes take the places of the host.
	_, image := built(t, "image", "image.tar", "0.1.0", "1", "IMAGE_ARCHIVE=$(BIN)/image.tar")
	c := &rolloutCluster{flavour: flavour, image: image, Cluster: lab.ClusterForTest(t)}
	var err error
	if c.client, err = dynamic.NewForConfig(c.Config()); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		c.join(t, name)
	}
	// The chart prefers the control plane for the controller.
	c.label(t, names[0], `{"node-role.kubernetes.io/control-plane": ""}`)
	return c
}

// label merges labels into those of a Node.
func (c *rolloutCluster) label(t *testing.T, node, labels string) {
	t.Helper()
	patch := []byte(`{"metadata": {"labels": ` + labels + `}}`)
	if _, err := c.Client().CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// node returns a Node.
func (c *rolloutCluster) node(ctx context.Context, name string) (*v1.Node, error) {
	return c.Client().CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
}

// conditionOf returns whether a condition of a Node is true.
func conditionOf(n *v1.Node, of v1.NodeConditionType) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c v1.NodeCondition) bool { return c.Type == of && c.Status == v1.ConditionTrue })
}

// join adds a node, and waits until it is Ready and its pods run.
func (c *rolloutCluster) join(t *testing.T, name string) *fleetNode {
	t.Helper()
	n := c.Join(lab.Options{Name: name, Flavour: c.flavour, Files: protectingNoPod(c.flavour)})
	imported(t, n, c.image)
	c.becomes(t, "node "+name+" is Ready, and its pods, too", func(ctx context.Context) (string, error) {
		node, err := c.node(ctx, name)
		if err != nil {
			return "", err
		}
		if !conditionOf(node, v1.NodeReady) || len(node.Spec.Taints) > 0 {
			return fmt.Sprintf("taints %v", node.Spec.Taints), nil
		}
		pods, err := c.Client().CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + name})
		if err != nil || len(pods.Items) == 0 {
			return "no pods", err
		}
		for _, p := range pods.Items {
			if !slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodReady && c.Status == v1.ConditionTrue }) {
				return p.Name + " is not Ready", nil
			}
		}
		return "", nil
	})
	f := fleetNodeOf(t, n)
	c.nodes = append(c.nodes, f)
	return f
}

// becomes waits until a function finds nothing that is missing.
func (c *rolloutCluster) becomes(t *testing.T, what string, missing func(context.Context) (string, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	if err := c.Eventually(ctx, what, func(ctx context.Context) (bool, string, error) {
		why, err := missing(ctx)
		return why == "", why, err
	}); err != nil {
		t.Fatal(err)
	}
}

// install applies install.yaml with the image of the test and its version, as kubectl apply does.
func (c *rolloutCluster) install(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile("../../rollout/install.yaml")
	if err != nil {
		t.Fatal(err)
	}
	manifests := strings.NewReplacer("registry.example/node-partition:v0.0.0", installerImage+":v0.1.0", "v0.0.0", "v0.1.0").Replace(string(text))
	if err := lab.EachObject([]byte(manifests), func(o *unstructured.Unstructured) error {
		resource, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
		return c.apply(t.Context(), resource, o)
	}); err != nil {
		t.Fatal(err)
	}
}

func (c *rolloutCluster) apply(ctx context.Context, resource schema.GroupVersionResource, o *unstructured.Unstructured) error {
	_, err := c.client.Resource(resource).Namespace(o.GetNamespace()).Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "kubectl"})
	if err != nil {
		return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

// wanted is what an operator writes into the NodePartition.
type wanted struct {
	memory             string
	maxFailures        int
	trial              string
	paused, surveyOnly bool
}

// wants applies the NodePartition of all nodes, as soon as the API server serves them.
func (c *rolloutCluster) wants(t *testing.T, w wanted) {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "node-partition.io/v1alpha1", "kind": "NodePartition", "metadata": map[string]any{"name": partitionName},
		"spec": map[string]any{
			"nodeSelector": map[string]any{"matchLabels": map[string]any{v1.LabelOSStable: "linux"}},
			"section": map[string]any{"systemPartition": map[string]any{
				"namespaces": []any{"kube-system"}, "memoryLimit": w.memory, "cpuset": "0-1",
			}},
			"monitorArgs": []any{"--node-status"},
			"rollout": map[string]any{
				"first": int64(1), "maxUnavailable": int64(1), "maxFailures": int64(w.maxFailures), "trial": w.trial, "soak": "1s",
				"paused": w.paused, "surveyOnly": w.surveyOnly,
			},
		},
	}}
	c.becomes(t, "the NodePartition is applied", func(ctx context.Context) (string, error) {
		return "", c.apply(ctx, nodePartitions, o)
	})
}

// partition returns the NodePartition.
func (c *rolloutCluster) partition(ctx context.Context) (*unstructured.Unstructured, error) {
	return c.client.Resource(nodePartitions).Get(ctx, partitionName, metav1.GetOptions{})
}

// conditions waits until a condition of the NodePartition, about what it says now, has a status and
// a reason.
func (c *rolloutCluster) condition(t *testing.T, of string, status metav1.ConditionStatus, reason string) {
	t.Helper()
	c.becomes(t, fmt.Sprintf("%s is %s, %s", of, status, reason), func(ctx context.Context) (string, error) {
		o, err := c.partition(ctx)
		if err != nil {
			return "", err
		}
		var s struct {
			Conditions []metav1.Condition `json:"conditions"`
		}
		seen, _, err := unstructured.NestedMap(o.Object, "status")
		if err == nil {
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(seen, &s)
		}
		got := meta.FindStatusCondition(s.Conditions, of)
		if err != nil || got == nil || got.ObservedGeneration != o.GetGeneration() || got.Status != status || got.Reason != reason {
			return fmt.Sprintf("%v", seen), err
		}
		return "", nil
	})
}

// current waits until each node has what the NodePartition says.
func (c *rolloutCluster) current(t *testing.T) {
	t.Helper()
	c.condition(t, "Available", metav1.ConditionTrue, "Current")
}

// rolled holds the labels of a rollout.
type rolled struct{ version, state, reason string }

// wantState checks the labels of a rollout that a node has.
func (c *rolloutCluster) wantState(t *testing.T, name, version, state, reason string) {
	t.Helper()
	n, err := c.node(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	got := rolled{n.Labels[partition.VersionLabel], n.Labels[stateLabel], n.Labels[partition.LabelPrefix+"reason"]}
	if wanted := (rolled{version, state, reason}); got != wanted {
		t.Errorf("node %s has the labels %q; want %q: %s", name, got, wanted, c.said(t, name))
	}
}

// said returns what the controller has recorded of the last try of a node.
func (c *rolloutCluster) said(t *testing.T, name string) string {
	t.Helper()
	n, err := c.node(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	var record struct{ Message string }
	if text := n.Annotations[partition.LabelPrefix+"rollout"]; text != "" {
		if err := json.Unmarshal([]byte(text), &record); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	return record.Message
}

// active: a partition of that much memory is in force on a node, and nothing of the rollout is
// left.
func (f *fleetNode) active(t *testing.T, memory string) {
	t.Helper()
	wantLimits(t, f.Node, memory, "0-1")
	inSlice(t, f.Node, "kube-system", "system-agent", partition.System, v1.PodQOSBurstable)
	f.forgotten(t)
	want(t, f.Node, "systemctl is-active "+monitorUnit, "active")
	want(t, f.Node, servicePIDs, f.before.services)
	want(t, f.Node, f.others, f.untouched)
}

// still holds what a rollout without a change leaves as it is.
type still struct{ files, reloads, monitor, services, processes string }

func (f *fleetNode) still(t *testing.T) still {
	t.Helper()
	return still{
		files: run(t, f.Node, written), reloads: run(t, f.Node, reloads), monitor: property(t, f.Node, monitorUnit, "InvocationID"),
		services: run(t, f.Node, servicePIDs), processes: f.processes(t),
	}
}

// processes lists the processes of the pods that the node has by itself.
func (f *fleetNode) processes(t *testing.T) string {
	t.Helper()
	return run(t, f.Node, "cat $(find "+cgroupRoot+" -path '*kubepods*system*' -name cgroup.procs) | sort -n | xargs")
}

// stills returns the state of each node.
func (c *rolloutCluster) stills(t *testing.T) []still {
	t.Helper()
	all := make([]still, 0, len(c.nodes))
	for _, f := range c.nodes {
		all = append(all, f.still(t))
	}
	return all
}

// wantStill: nothing was written or restarted on a node since.
func (c *rolloutCluster) wantStill(t *testing.T, before []still) {
	t.Helper()
	for i, after := range c.stills(t)[:len(before)] {
		if after != before[i] {
			t.Errorf("%s: %+v\nwas %+v", c.nodes[i].Name, after, before[i])
		}
	}
}

// marked waits until the monitor of a node has set its condition, and label the digest of the
// section, or until both are gone.
func (c *rolloutCluster) marked(t *testing.T, f *fleetNode, there bool) {
	t.Helper()
	section := ""
	if there {
		section = run(t, f.Node, "sha256sum "+kubeletconfig.OverridePath+" | cut -c -12")
	}
	c.becomes(t, fmt.Sprintf("the marks of %s are there: %t", f.Name, there), func(ctx context.Context) (string, error) {
		n, err := c.node(ctx, f.Name)
		if err != nil {
			return "", err
		}
		if is, got := conditionOf(n, kubeapi.Ready), n.Labels[partition.SectionLabel]; is != there || got != section {
			return fmt.Sprintf("condition %t, section %q; want %q", is, got, section), nil
		}
		return "", nil
	})
}

// delete deletes the NodePartition. gone waits until it is gone.
func (c *rolloutCluster) delete(t *testing.T) {
	t.Helper()
	if err := c.client.Resource(nodePartitions).Delete(t.Context(), partitionName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (c *rolloutCluster) gone(t *testing.T) {
	t.Helper()
	c.becomes(t, "the NodePartition is gone", func(ctx context.Context) (string, error) {
		o, err := c.partition(ctx)
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		return fmt.Sprint(o.Object["status"]), nil
	})
}

// uninstall deletes the controller, and waits until no pod of its namespace is left.
func (c *rolloutCluster) uninstall(t *testing.T) {
	t.Helper()
	background := metav1.DeletePropagationBackground
	if err := c.Client().AppsV1().Deployments(rolloutNamespace).Delete(t.Context(), rolloutName, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	c.becomes(t, "the controller is gone", func(ctx context.Context) (string, error) {
		pods, err := c.Client().CoreV1().Pods(rolloutNamespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		names := make([]string, 0, len(pods.Items))
		for _, p := range pods.Items {
			names = append(names, p.Name)
		}
		return strings.Join(names, " "), nil
	})
}

// logged shows what the controller has logged, if the test has failed.
func (c *rolloutCluster) logged(t *testing.T) {
	t.Helper()
	if !t.Failed() {
		return
	}
	for _, f := range c.nodes {
		out, err := f.Run(t.Context(), "tail -n 30 /var/log/pods/"+rolloutNamespace+"_*/*/*.log; journalctl --no-pager -o short-monotonic -u 'partition-install*' | tail -n 50")
		t.Logf("%s: %s %v", f.Name, out, err)
	}
}

// TestRollout: a NodePartition gives the nodes of a cluster their partitions, and the same again
// changes nothing. A survey and a pause change nothing, another section changes each node, a node
// that joins gets its partition, and when the NodePartition is deleted, nothing of ours is left.
func TestRollout(t *testing.T) {
	onOne(t, func(t *testing.T, flavour string) {
		c := newRolloutCluster(t, flavour, "fleet-a", "fleet-b")
		defer c.logged(t)
		half := wanted{memory: "512Mi", trial: "10m"}
		t.Run("applied", func(t *testing.T) {
			c.install(t)
			c.wants(t, half)
			c.current(t)
			for _, f := range c.nodes {
				f.active(t, "536870912")
				c.wantState(t, f.Name, "v0.1.0", "kept", "")
				c.marked(t, f, true)
			}
		})
		if t.Failed() {
			return
		}
		t.Run("again", func(t *testing.T) {
			before := c.stills(t)
			c.install(t)
			c.wants(t, half)
			// Without its label a node is asked again.
			for _, f := range c.nodes {
				c.label(t, f.Name, `{"`+stateLabel+`": null}`)
			}
			for _, f := range c.nodes {
				c.becomes(t, f.Name+" is kept", func(ctx context.Context) (string, error) {
					n, err := c.node(ctx, f.Name)
					if err != nil || n.Labels[stateLabel] != "kept" {
						return "not kept", err
					}
					return "", nil
				})
			}
			c.current(t)
			c.wantStill(t, before)
		})
		more := half
		more.memory = "520Mi"
		t.Run("surveyed", func(t *testing.T) {
			before := c.stills(t)
			survey := more
			survey.surveyOnly = true
			c.wants(t, survey)
			c.condition(t, "Progressing", metav1.ConditionFalse, "Surveyed")
			c.wantStill(t, before)
		})
		t.Run("paused, and a node joins", func(t *testing.T) {
			before := c.stills(t)
			pause := more
			pause.paused = true
			c.wants(t, pause)
			c.condition(t, "Progressing", metav1.ConditionFalse, "Paused")
			f := c.join(t, "fleet-c")
			c.wantStill(t, before)
			c.wantState(t, f.Name, "", "", "")
		})
		t.Run("changed", func(t *testing.T) {
			c.wants(t, more)
			c.current(t)
			for _, f := range c.nodes {
				f.active(t, "545259520")
				c.wantState(t, f.Name, "v0.1.0", "kept", "")
			}
		})
		t.Run("deleted", func(t *testing.T) {
			c.delete(t)
			c.gone(t)
			c.uninstall(t)
			for _, f := range c.nodes {
				c.wantState(t, f.Name, "", "", "")
				c.marked(t, f, false)
				f.asBefore(t)
			}
		})
	})
}
