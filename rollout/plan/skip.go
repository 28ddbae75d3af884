package plan

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// leavingTaints begin the keys of the taints by which a node is about to be deleted: of
// cluster-autoscaler, Karpenter, the kubelet's out-of-service, AWS' node termination handler, GKE
// and the cloud controllers.
var leavingTaints = []string{
	"ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption", v1.TaintNodeOutOfService,
	"aws-node-termination-handler/", "cloud.google.com/impending-node-termination",
	"node.cloudprovider.kubernetes.io/shutdown",
}

// Tolerations returns the tolerations of the pod of a node: what a DaemonSet adds, and those of the
// NodePartition. A removal goes to each node.
func Tolerations(mode Mode, own []v1.Toleration) []v1.Toleration {
	if mode == Remove {
		return []v1.Toleration{{Operator: v1.TolerationOpExists}}
	}
	all := slices.Clone(own)
	for key, effect := range map[string]v1.TaintEffect{
		v1.TaintNodeNotReady: v1.TaintEffectNoExecute, v1.TaintNodeUnreachable: v1.TaintEffectNoExecute,
		v1.TaintNodeMemoryPressure: v1.TaintEffectNoSchedule, v1.TaintNodeDiskPressure: v1.TaintEffectNoSchedule,
		v1.TaintNodePIDPressure: v1.TaintEffectNoSchedule,
	} {
		all = append(all, v1.Toleration{Key: key, Operator: v1.TolerationOpExists, Effect: effect})
	}
	slices.SortStableFunc(all[len(own):], func(a, b v1.Toleration) int { return strings.Compare(a.Key, b.Key) })
	return all
}

// leaving reports whether a node is about to leave the cluster, or is drained.
func leaving(n *v1.Node) bool {
	return n.DeletionTimestamp != nil || n.Spec.Unschedulable || slices.ContainsFunc(n.Spec.Taints, func(t v1.Taint) bool {
		return slices.ContainsFunc(leavingTaints, func(key string) bool { return strings.HasPrefix(t.Key, key) })
	})
}

// ready returns the condition Ready of a node, and whether it is true.
func ready(n *v1.Node) (v1.NodeCondition, bool) {
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady {
			return c, c.Status == v1.ConditionTrue
		}
	}
	return v1.NodeCondition{}, false
}

// skip returns why a node cannot be changed now, or nothing.
func skip(n *v1.Node, mode Mode, own []v1.Toleration) string {
	if n.DeletionTimestamp != nil {
		return "is being deleted"
	}
	if _, ok := ready(n); !ok {
		return "not ready"
	}
	if mode == Remove {
		return ""
	}
	if os := n.Labels[v1.LabelOSStable]; os != "" && os != "linux" {
		return "the operating system is " + os
	}
	if arch := n.Labels[v1.LabelArchStable]; arch != "" && arch != "amd64" && arch != "arm64" {
		return "the image is not for " + arch
	}
	// a node without a host of its own is skipped
	if n.Labels["eks.amazonaws.com/compute-type"] == "fargate" || n.Labels["type"] == "virtual-kubelet" {
		return "has no host that a pod reaches"
	}
	if leaving(n) && !n.Spec.Unschedulable {
		return "is about to be deleted"
	}
	tolerations := Tolerations(mode, own)
	for _, t := range n.Spec.Taints {
		if t.Effect == v1.TaintEffectPreferNoSchedule || t.Key == v1.TaintNodeUnschedulable {
			continue
		}
		if !tolerated(t, tolerations) {
			return "untolerated taint " + t.ToString()
		}
	}
	if n.Spec.Unschedulable {
		return "cordoned"
	}
	return ""
}

func tolerated(taint v1.Taint, tolerations []v1.Toleration) bool {
	return slices.ContainsFunc(tolerations, func(t v1.Toleration) bool {
		return t.ToleratesTaint(klog.Background(), &taint, true)
	})
}

// byReason has nodes by what is said of them.
type byReason map[string][]string

// A message names the first of its reasons, and of each the first nodes.
const reasonsNamed, named = 10, 3

// String returns the reasons with the number of their nodes, the most frequent first.
func (b byReason) String() string {
	reasons := make([]string, 0, len(b))
	for reason := range b {
		reasons = append(reasons, reason)
	}
	slices.SortFunc(reasons, func(a, c string) int {
		if len(b[a]) != len(b[c]) {
			return len(b[c]) - len(b[a])
		}
		return strings.Compare(a, c)
	})
	shown := min(len(reasons), reasonsNamed)
	parts := make([]string, 0, shown+1)
	for _, reason := range reasons[:shown] {
		nodes := slices.Sorted(slices.Values(b[reason]))
		text := strings.Join(nodes[:min(len(nodes), named)], ", ")
		if len(nodes) > named {
			text += ", ..."
		}
		parts = append(parts, fmt.Sprintf("%d %s (%s)", len(nodes), reason, text))
	}
	left := 0
	for _, reason := range reasons[shown:] {
		left += len(b[reason])
	}
	if left > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d other reasons", left, len(reasons)-shown))
	}
	return strings.Join(parts, "; ")
}
