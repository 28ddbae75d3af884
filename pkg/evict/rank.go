package evict

import (
	"cmp"
	"slices"
)

// rank returns the pods in eviction order, as the kubelet's rankMemoryPressure
// (pkg/kubelet/eviction/helpers.go, 1.37):
//
//  1. exceedMemoryRequests: a pod without a reading comes first, then one that uses more than
//     it requests;
//  2. priority: the lower one comes first;
//  3. memory: a pod without a reading comes first, then the one that exceeds its request most.
//
// The kubelet leaves the order of equal pods to chance. Here it follows namespace and name, so that
// status shows the order of evictions.
func rank(pods []Pod) []Pod {
	ranked := slices.Clone(pods)
	slices.SortStableFunc(ranked, func(a, b Pod) int {
		return cmp.Or(
			trueFirst(!a.Measured, !b.Measured),
			trueFirst(a.exceeds(), b.exceeds()),
			cmp.Compare(a.Priority, b.Priority),
			-cmp.Compare(a.excess(), b.excess()),
			cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.UID, b.UID),
		)
	})
	return ranked
}

func (p Pod) exceeds() bool { return p.excess() > 0 }

// trueFirst is cmpBool of the kubelet.
func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
