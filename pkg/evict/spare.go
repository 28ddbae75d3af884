package evict

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Priorities of the classes that every cluster has (SystemCriticalPriority and the two above it,
// pkg/apis/scheduling/types.go of Kubernetes).
const (
	clusterCritical = 2_000_000_000
	nodeCritical    = 2_000_001_000
)

// Spare is the kind of pods that are never evicted.
type Spare struct {
	// Static pods come from files on the node: nobody starts them elsewhere.
	Static bool
	// NodeCritical pods have the priority of system-node-critical or more.
	NodeCritical bool
	// ClusterCritical pods have the priority of system-cluster-critical or more.
	ClusterCritical bool
}

// Who is spared: by default, and by the kubelet (IsCriticalPod, pkg/kubelet/types/pod_update.go). The kubelet's own rule would leave
// next to nobody to evict where kube-system is all there is in the partition.
var (
	DefaultSpare = Spare{Static: true, NodeCritical: true}
	KubeletSpare = Spare{Static: true, NodeCritical: true, ClusterCritical: true}
)

// ParseSpare parses a list, "static,node-critical"; "none" and "kubelet" stand for themselves.
func ParseSpare(text string) (Spare, error) {
	var s Spare
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
			s = KubeletSpare
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

// String is the inverse of ParseSpare.
func (s Spare) String() string {
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

// reason is why a pod is not evicted, empty where it may be.
func (s Spare) reason(p Pod) Skip {
	switch {
	case s.Static && p.Static:
		return SkipStatic
	case s.NodeCritical && p.Priority >= nodeCritical:
		return SkipNodeCritical
	case s.NodeCritical && p.Estimated && p.QoS == v1.PodQOSGuaranteed:
		return SkipPriorityUnknown
	case s.ClusterCritical && p.Priority >= clusterCritical:
		return SkipClusterCritical
	}
	return ""
}

// Skip is why a pod is passed over.
type Skip string

// The reasons.
const (
	// SkipStays means that its processes have ended, or were ended a moment ago, and its memory is still there: to stop it again is no use.
	SkipStays Skip = "memory-stays"
	// SkipPriorityUnknown means that a guaranteed pod may have any priority: the kubelet gives all of them the same oom_score_adj
	// (GetContainerOOMScoreAdjust, pkg/kubelet/qos/policy.go), and there is no Pods API to ask.
	SkipPriorityUnknown Skip = "priority-unknown"
	// SkipStatic, SkipNodeCritical and SkipClusterCritical are those of Spare.
	SkipStatic          Skip = "static"
	SkipNodeCritical    Skip = "node-critical"
	SkipClusterCritical Skip = "cluster-critical"
)
