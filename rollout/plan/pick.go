package plan

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Replicas has the nodes of the ready pods of each workload, by the UID of its controller: false
// for a node whose pod is being deleted, which may be Ready until it is gone.
type Replicas map[types.UID]map[string]bool

// Add counts a pod of the partition. What has a pod on each node is no workload with replicas.
func (r Replicas) Add(p *v1.Pod) {
	owner := metav1.GetControllerOf(p)
	if owner == nil || owner.Kind == "DaemonSet" || owner.Kind == "Node" || p.Spec.NodeName == "" {
		return
	}
	for _, c := range p.Status.Conditions {
		if c.Type != v1.PodReady || c.Status != v1.ConditionTrue {
			continue
		}
		if r[owner.UID] == nil {
			r[owner.UID] = map[string]bool{}
		}
		r[owner.UID][p.Spec.NodeName] = r[owner.UID][p.Spec.NodeName] || p.DeletionTimestamp == nil
	}
}

// Pick returns up to Free nodes that start. A node waits if it and nodes that change have all ready
// replicas of a workload. One that has all of them alone does not wait: nothing would end it.
func (d Decision) Pick(replicas Replicas) []Start {
	var picked []Start
	taken := map[string]bool{}
	for _, node := range d.Busy {
		taken[node] = true
	}
	for _, s := range d.Starts {
		if len(picked) == d.Free {
			break
		}
		if s.Mode == Survey || !replicas.takesLast(s.Node, taken) {
			picked = append(picked, s)
			taken[s.Node] = true
		}
	}
	return picked
}

// takesLast reports whether a node, with those that are taken, has all replicas of a workload.
func (r Replicas) takesLast(node string, taken map[string]bool) bool {
	for _, nodes := range r {
		if !nodes[node] || len(nodes) == 1 {
			continue
		}
		left := 0
		for n, stays := range nodes {
			if n != node && !taken[n] && stays {
				left++
			}
		}
		if left == 0 {
			return true
		}
	}
	return false
}
