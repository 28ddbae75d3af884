//go:build node

package kubeapi

import (
	"context"
	"maps"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/lab"
)

// TestNodeStatus: the labels and the condition of readiness on an API server, with the credentials
// of a kubelet.
func TestNodeStatus(t *testing.T) { nodeStatusOn(newCluster(t)) }

// TestNodeStatusVersions: the same on older API servers.
func TestNodeStatusVersions(t *testing.T) {
	for _, minor := range lab.APIServers() {
		t.Run(minor, func(t *testing.T) { nodeStatusOn(clusterOf(t, lab.APIServerForTest(t, minor))) })
	}
}

func nodeStatusOn(c *cluster) {
	for _, test := range []struct {
		name string
		run  func(*cluster)
	}{
		{"written", nodeStatusWritten}, {"rights", nodeStatusRights}, {"policy", nodeStatusPolicy},
	} {
		c.t.Run(test.name, func(t *testing.T) {
			c := *c
			c.t = t
			test.run(&c)
		})
	}
}

// marked returns our labels of the node, and its condition of readiness, nil without one.
func (c *cluster) marked() (labels map[string]string, condition *v1.NodeCondition) {
	c.t.Helper()
	now, err := c.admin.CoreV1().Nodes().Get(c.t.Context(), node, metav1.GetOptions{})
	c.must(err)
	for i := range now.Status.Conditions {
		if now.Status.Conditions[i].Type == kubeapi.Ready {
			condition = &now.Status.Conditions[i]
		}
	}
	labels = maps.Clone(now.Labels)
	maps.DeleteFunc(labels, func(name, _ string) bool { return !strings.HasPrefix(name, "node-partition.io/") })
	return labels, condition
}

// aNodeStatus returns labels, without one that is empty, and a condition.
func aNodeStatus(section string, status v1.ConditionStatus) kubeapi.Node {
	n := kubeapi.Node{Labels: map[string]string{partition.VersionLabel: "0.1.0"}, Ready: &v1.NodeCondition{
		Type: kubeapi.Ready, Status: status, Reason: "Reason", Message: "low.",
		LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
	}}
	if section != "" {
		n.Labels[partition.SectionLabel] = section
	}
	return n
}

// applied returns the error of an application of labels and the condition.
func applied(client *kubeapi.Client, of string, n kubeapi.Node) error {
	_, err := client.ApplyNode(context.Background(), of, kubeapi.StatusManager, n, false)
	return err
}

// nodeStatusWritten: the kubelet's user applies labels and the condition of its Node by its status,
// and of no other Node. Writes of the kubelet keep them. What is not applied any more goes, unless
// another program has written it. What another program has changed is a conflict.
func nodeStatusWritten(c *cluster) {
	c.node()
	c.want(c.monitor.NodeRights(c.t.Context(), node, true), nil)
	if labels, condition := c.marked(); len(labels) > 0 || condition != nil {
		c.t.Errorf("%v, %+v after a dry run", labels, condition)
	}
	c.want(applied(c.monitor, node, aNodeStatus("0123456789ab", v1.ConditionTrue)), nil)
	want := map[string]string{partition.VersionLabel: "0.1.0", partition.SectionLabel: "0123456789ab"}
	if labels, condition := c.marked(); !maps.Equal(labels, want) || condition == nil || condition.Status != v1.ConditionTrue {
		c.t.Errorf("%v, %+v; want %v", labels, condition, want)
	}
	ready := []byte(`{"status":{"conditions":[{"type":"Ready","status":"False","reason":"KubeletNotReady"}]}}`)
	_, err := c.kubelet.CoreV1().Nodes().PatchStatus(c.t.Context(), node, ready)
	c.must(err)
	own := []byte(`{"metadata":{"labels":{"example.com/pool":"workers"}}}`)
	_, err = c.kubelet.CoreV1().Nodes().Patch(c.t.Context(), node, types.StrategicMergePatchType, own, metav1.PatchOptions{})
	c.must(err)
	if labels, condition := c.marked(); !maps.Equal(labels, want) || condition == nil {
		c.t.Errorf("%v, %+v after writes of the kubelet", labels, condition)
	}
	c.want(applied(c.monitor, node, aNodeStatus("", v1.ConditionFalse)), nil)
	delete(want, partition.SectionLabel)
	if labels, condition := c.marked(); !maps.Equal(labels, want) || condition.Status != v1.ConditionFalse {
		c.t.Errorf("%v, %+v; want %v", labels, condition, want)
	}
	now, err := c.monitor.LookAtNode(c.t.Context(), node)
	if c.want(err, nil); !maps.Equal(now.Labels, want) || now.Ready == nil || now.Ready.Reason != "Reason" {
		c.t.Errorf("seen: %+v", now)
	}
	other := []byte(`{"metadata":{"labels":{"node-partition.io/section":"ba9876543210"}}}`)
	_, err = c.admin.CoreV1().Nodes().Patch(c.t.Context(), node, types.MergePatchType, other, metav1.PatchOptions{FieldManager: "partition-rollout"})
	c.must(err)
	err = applied(c.monitor, node, aNodeStatus("0123456789ab", v1.ConditionTrue))
	if !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) || !strings.Contains(err.Error(), "partition-rollout") {
		c.t.Errorf("%v; want a conflict that names the other program", err)
	}
	c.want(applied(c.monitor, node, kubeapi.Node{}), nil)
	if labels, condition := c.marked(); labels[partition.SectionLabel] != "ba9876543210" || len(labels) != 1 || condition != nil {
		c.t.Errorf("%v, %+v; want the label of the other alone", labels, condition)
	}
	_, err = c.monitor.ApplyNode(c.t.Context(), node, kubeapi.StatusManager, aNodeStatus("0123456789ab", v1.ConditionTrue), true)
	c.want(err, nil)
	c.want(applied(c.monitor, node, kubeapi.Node{}), nil)
	c.want(applied(c.monitor, node, kubeapi.Node{}), nil)
	if labels, condition := c.marked(); len(labels) > 0 || condition != nil {
		c.t.Errorf("%v, %+v; want nothing", labels, condition)
	}
	if now, err := c.admin.CoreV1().Nodes().Get(c.t.Context(), node, metav1.GetOptions{}); err != nil || len(now.Status.Conditions) != 1 ||
		now.Labels["example.com/pool"] != "workers" {
		c.t.Errorf("%+v, %v; want what the kubelet has written", now, err)
	}
}

// nodeStatusRights: the kubelet's user has no right to another node, and to no label of Kubernetes.
// A user needs patch of nodes/status, and nothing else.
func nodeStatusRights(c *cluster) {
	c.node()
	c.other()
	m := aNodeStatus("0123456789ab", v1.ConditionTrue)
	c.want(applied(c.monitor, "two", m), kubeapi.ErrForbidden)
	c.want(applied(c.monitor, "two", kubeapi.Node{}), kubeapi.ErrForbidden)
	c.want(applied(c.monitor, "none", m), kubeapi.ErrGone)
	c.want(c.monitor.NodeRights(c.t.Context(), "two", true), kubeapi.ErrForbidden)
	restricted := []byte(`{"metadata":{"labels":{"node-restriction.kubernetes.io/pool":"x"}}}`)
	if _, err := c.kubelet.CoreV1().Nodes().PatchStatus(c.t.Context(), node, restricted); err == nil {
		c.t.Error("a label below kubernetes.io was written through the status")
	}
	client := c.account("marks")
	c.want(client.NodeRights(c.t.Context(), node, true), kubeapi.ErrForbidden)
	grant := func(name string, rule rbacv1.PolicyRule) {
		c.t.Helper()
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule}}
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "marks"}},
		}
		_, err := c.admin.RbacV1().ClusterRoles().Create(c.t.Context(), role, metav1.CreateOptions{})
		c.must(err)
		_, err = c.admin.RbacV1().ClusterRoleBindings().Create(c.t.Context(), binding, metav1.CreateOptions{})
		c.must(err)
	}
	grant("marks-write", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}})
	c.eventually("the role counts", func(ctx context.Context) (bool, error) { return client.NodeRights(ctx, node, true) == nil, nil })
	c.want(applied(client, node, m), nil)
	now, err := client.LookAtNode(c.t.Context(), node)
	if c.want(err, nil); len(now.Labels) != 2 {
		c.t.Errorf("%v; want both labels", now)
	}
	c.want(applied(client, node, kubeapi.Node{}), nil)
	c.want(applied(client, "none", m), kubeapi.ErrGone)
}

// refusal is a policy that refuses a value of a label.
const refusal = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-marks}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: ["v1"], operations: ["UPDATE"], resources: ["nodes", "nodes/status"]}
  validations:
  - expression: "!(has(object.metadata.labels) && 'node-partition.io/section' in object.metadata.labels)"
    message: no labels of node-partition
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-marks}
spec: {policyName: no-marks, validationActions: [Deny]}
`

// nodeStatusPolicy: the dry run finds an admission policy that is about the labels.
func nodeStatusPolicy(c *cluster) {
	c.node()
	c.apply(refusal)
	c.eventually("the policy counts", func(ctx context.Context) (bool, error) {
		return c.monitor.NodeRights(ctx, node, true) != nil, nil
	})
	err := c.monitor.NodeRights(c.t.Context(), node, true)
	if err == nil || !strings.Contains(err.Error(), "no labels of node-partition") {
		c.t.Errorf("%v; want the message of the policy", err)
	}
	policies := c.admin.AdmissionregistrationV1()
	c.must(policies.ValidatingAdmissionPolicyBindings().Delete(c.t.Context(), "no-marks", metav1.DeleteOptions{}))
	c.must(policies.ValidatingAdmissionPolicies().Delete(c.t.Context(), "no-marks", metav1.DeleteOptions{}))
	c.eventually("the policy is gone", func(ctx context.Context) (bool, error) {
		return c.monitor.NodeRights(ctx, node, true) == nil, nil
	})
}
