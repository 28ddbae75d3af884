package budget

import (
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// allocatable returns Node Allocatable: the capacity without the reservations and the threshold,
// never negative (MachineInfo, pkg/kubelet/nodestatus/setters.go). Huge pages are a part of the
// memory's capacity, and are not allocatable as memory.
func allocatable(capacity v1.ResourceList, r reservations, threshold v1.ResourceList) v1.ResourceList {
	list := v1.ResourceList{}
	for name, total := range capacity {
		q := total.DeepCopy()
		q.Sub(reservation(name, r, threshold))
		list[name] = notNegative(q)
	}
	for name, total := range capacity {
		if isHugePages(name) {
			memory := list[v1.ResourceMemory]
			memory.Sub(total)
			list[v1.ResourceMemory] = notNegative(memory)
		}
	}
	return list
}

func isHugePages(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
}

// hugePages returns the memory of the huge pages of all sizes in bytes, at most math.MaxInt64.
func hugePages(capacity v1.ResourceList) int64 {
	var sum resource.Quantity
	for name, total := range capacity {
		if isHugePages(name) {
			sum.Add(total)
		}
	}
	if sum.CmpInt64(math.MaxInt64) > 0 { // Value wraps
		return math.MaxInt64
	}
	return sum.Value()
}

// reservation returns the amount of a resource that pods do not get (GetNodeAllocatableReservation,
// pkg/kubelet/cm/node_container_manager_linux.go).
func reservation(name v1.ResourceName, r reservations, threshold v1.ResourceList) resource.Quantity {
	var q resource.Quantity
	for _, list := range []v1.ResourceList{r.system, r.kube, threshold} {
		q.Add(list[name])
	}
	return q
}

// exceeded returns the names of the resources of which more is reserved than the node has, sorted.
// The kubelet does not start then (validateNodeAllocatable).
func exceeded(capacity v1.ResourceList, r reservations, threshold v1.ResourceList) []v1.ResourceName {
	var names []v1.ResourceName
	for name, total := range capacity {
		if q := reservation(name, r, threshold); q.Cmp(total) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
