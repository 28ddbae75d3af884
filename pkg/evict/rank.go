package evict

import (
	"cmp"
	"slices"
)

// Rank returns the pods in the order in which they go, as the kubelet's rankMemoryPressure (pkg/kubelet/eviction/helpers.go, 1.37):
//
//  1. exceedMemoryRequests: a pod without figures goes first, then one that uses more than it requests;
//  2. priority: the lower one first;
//  3. memory: a pod without figures first, then the one that uses more beyond its request.
//
// The kubelet leaves the order of equals to chance; here it is by namespace and name, so that status shows what happens.
func Rank(pods []Pod) []Pod {
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
