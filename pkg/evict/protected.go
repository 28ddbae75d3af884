package evict

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/partition"
)

// Protected selects the protected pods, which are never evicted.
type Protected struct {
	// Static pods come from files on the node: they are not started on another node.
	Static bool
	// NodeCritical pods have the priority of system-node-critical or more.
	NodeCritical bool
	// ClusterCritical pods have the priority of system-cluster-critical or more.
	ClusterCritical bool
}

// DefaultProtected is the default, kubeletProtected the kubelet's own rule (IsCriticalPod,
// pkg/kubelet/types/pod_update.go). The latter leaves next to no candidate if the partition holds
// only kube-system.
var (
	DefaultProtected = Protected{Static: true, NodeCritical: true}
	kubeletProtected = Protected{Static: true, NodeCritical: true, ClusterCritical: true}
)

// ParseProtected parses a list such as "static,node-critical", or "none", or "kubelet".
func ParseProtected(text string) (Protected, error) {
	var s Protected
	words := strings.Split(text, ",")
	for _, word := range words {
		switch word {
		case "static":
			s.Static = true
		case "node-critical":
			s.NodeCritical = true
		case "cluster-critical":
			s.NodeCritical, s.ClusterCritical = true, true
		case "kubelet":
			s = kubeletProtected
		case "none":
			if len(words) > 1 {
				return s, fmt.Errorf("%q: none stands alone", text)
			}
		default:
			return s, fmt.Errorf("%q: want none, kubelet, or a list of static, node-critical, cluster-critical", text)
		}
	}
	return s, nil
}

// String is the inverse of ParseProtected.
func (s Protected) String() string {
	words := []string{}
	for _, word := range []struct {
		set  bool
		word string
	}{{s.Static, "static"}, {s.NodeCritical && !s.ClusterCritical, "node-critical"}, {s.ClusterCritical, "cluster-critical"}} {
		if word.set {
			words = append(words, word.word)
		}
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(slices.Clip(words), ",")
}

// reason returns the reason for which a pod is not evicted, empty for a candidate.
func (s Protected) reason(p Pod) Skip {
	switch {
	case s.Static && p.Static:
		return SkipStatic
	case s.NodeCritical && p.Priority >= partition.NodeCritical:
		return SkipNodeCritical
	//guard: a Guaranteed pod of unknown priority may be node-critical
	case s.NodeCritical && p.Estimated && p.QoS == v1.PodQOSGuaranteed:
		return SkipPriorityUnknown
	case s.ClusterCritical && p.Priority >= partition.ClusterCritical:
		return SkipClusterCritical
	}
	return ""
}

// taken returns the largest amount in bytes that a protected pod uses beyond its request, if the
// kernel can kill that pod. Evicting others would only make room for it, one pod after another, and
// at the limit the kernel kills the pod itself: the largest, with the score of its class
// (oom_badness, mm/oom_kill.c). Guaranteed and node-critical pods have a score of -997, so the
// kernel would kill others for them.
func (s Protected) taken(pods []Pod) uint64 {
	taken := uint64(0)
	for _, p := range pods {
		killable := p.QoS != v1.PodQOSGuaranteed && p.Priority < partition.NodeCritical && !p.Unknown && !p.Empty
		if killable && p.Measured && p.Usage.Used > p.Request && s.reason(p) != "" {
			taken = max(taken, p.Usage.Used-p.Request)
		}
	}
	return taken
}

// Skip is the reason for which a pod is passed over.
type Skip string

// The reasons.
const (
	// SkipUnreclaimable means that its processes have ended, or were just killed, and its memory is
	// still there: stopping it again would not help.
	SkipUnreclaimable Skip = "memory-stays"
	// SkipWithinRequest means that it uses no more than it requests, and that others have taken more
	// than is missing beyond their own requests: pods whose memory stays, a protected pod that has
	// also taken more than this pod has, or pods that are gone (Ownerless).
	SkipWithinRequest Skip = "within-request"
	// SkipPriorityUnknown means that a guaranteed pod may have any priority. The kubelet gives all of
	// them the same oom_score_adj (GetContainerOOMScoreAdjust, pkg/kubelet/qos/policy.go), and there
	// is no Pods API to read it from.
	SkipPriorityUnknown Skip = "priority-unknown"
	// SkipStatic, SkipNodeCritical and SkipClusterCritical follow the fields of Protected.
	SkipStatic          Skip = "static"
	SkipNodeCritical    Skip = "node-critical"
	SkipClusterCritical Skip = "cluster-critical"
)
