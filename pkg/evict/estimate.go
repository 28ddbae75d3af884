package evict

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Scores of the kubelet's GetContainerOOMScoreAdjust (pkg/kubelet/qos/policy.go).
const (
	scoreGuaranteed = -997 // of containers of pods that are node-critical, too
	scoreBestEffort = 1000
)

// EstimateRequest is the memory request in bytes of a container, from what the runtime knows of it: the oom_score_adj that the kubelet
// asked for, 1000 - 1000 x request / capacity of the node for a burstable pod, cut to whole numbers. It is off by a two-thousandth
// of the node's memory at most, the middle of what gives the same score. A score of 999 is of any request below a five-hundredth
// (the kubelet keeps 1000 for best effort), and counts as none: on a node of 64 GiB that is 131 MiB, and such a pod goes before it would
// by the kubelet's word. A guaranteed pod requests its limit.
func EstimateRequest(class v1.PodQOSClass, score int, limit, capacity uint64) uint64 {
	switch {
	case class == v1.PodQOSGuaranteed:
		return limit
	case class == v1.PodQOSBestEffort, score >= scoreBestEffort-1, score <= scoreGuaranteed:
		// 999 is also a container without a request: the kubelet keeps it apart from best effort.
		return 0
	}
	return capacity / 2000 * uint64(2*(scoreBestEffort-score)+1)
}

// EstimatePriority is the priority of a pod: a container that is not of a guaranteed pod has the score of one if its pod has the
// priority of system-node-critical or more (IsNodeCriticalPod). Nothing else of it reaches the runtime: all other pods are equals.
func EstimatePriority(class v1.PodQOSClass, score int) int32 {
	if class != v1.PodQOSGuaranteed && score == scoreGuaranteed {
		return nodeCritical
	}
	return 0
}

// generated are the letters of what the API server makes of generateName (k8s.io/apimachinery/pkg/util/rand).
const generated = "bcdfghjklmnpqrstvwxz2456789"

// EstimateOwner is what is counted as one for the cooldown where nobody tells the controller: the name without what a controller
// adds, five letters for a DaemonSet or a Job, and a hash before them for a Deployment.
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
