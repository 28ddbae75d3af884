package evict

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/partition"
)

// Scores of the kubelet's GetContainerOOMScoreAdjust (pkg/kubelet/qos/policy.go).
const (
	scoreGuaranteed = -997 // also of containers of node-critical pods
	scoreBestEffort = 1000
)

// EstimateRequest returns the memory request in bytes of a container, estimated from the
// oom_score_adj that the kubelet passed to the runtime. For a burstable pod this is 1000 - 1000 x
// request / capacity of the node, cut to a whole number. The estimate is the middle of the requests
// with the same score, and off by at most a two-thousandth of the node's memory. A score of 999
// stands for any request below a five-hundredth, because the kubelet keeps 1000 for best effort,
// and counts as no request. A guaranteed pod requests its limit.
func EstimateRequest(class v1.PodQOSClass, score int, limit, capacity uint64) uint64 {
	switch {
	case class == v1.PodQOSGuaranteed:
		return limit
	case class == v1.PodQOSBestEffort, score >= scoreBestEffort-1, score <= scoreGuaranteed:
		return 0
	}
	// The kubelet gives no burstable container a score below 2.
	return min(capacity, capacity/2000*uint64(2*(scoreBestEffort-score)+1))
}

// EstimatePriority returns the priority of a pod, estimated from the score of a container. A
// container of a pod that is not guaranteed has the score of a guaranteed one if the pod has the
// priority of system-node-critical or more (IsNodeCriticalPod). The runtime learns nothing else
// about priorities: all other pods are equal.
func EstimatePriority(class v1.PodQOSClass, score int) int32 {
	if class != v1.PodQOSGuaranteed && score == scoreGuaranteed {
		return partition.NodeCritical
	}
	return 0
}

// generated holds the letters that the API server uses for generateName
// (k8s.io/apimachinery/pkg/util/rand).
const generated = "bcdfghjklmnpqrstvwxz2456789"

// EstimateOwner returns the key under which the cooldown counts a pod whose controller is unknown:
// the name without the suffix that a controller adds. The suffix has five letters for a DaemonSet
// or a Job, and a hash before them for a Deployment.
func EstimateOwner(namespace, name string) string {
	cut := func(name string, least, most int) string {
		i := strings.LastIndexByte(name, '-')
		if i <= 0 || len(name)-i-1 < least || len(name)-i-1 > most || strings.Trim(name[i+1:], generated) != "" {
			return name
		}
		return name[:i]
	}
	if once := cut(name, 5, 5); once != name {
		name = cut(once, 6, 10)
	}
	return namespace + "/" + name
}
