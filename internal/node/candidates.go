package node

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/podmove"
)

// Candidates returns the pods that an eviction can choose from: those that a reconcile has found
// with a slice in the partition, with what the kubelet has reported since. Pods without a running
// container are included: one may have been started since, and a pod that has ended may hold
// memory. capacity is the node's memory in bytes.
func Candidates(
	in partition.Name, found []podmove.Pod, known map[types.UID]*kubelet.Pod, capacity uint64,
) []evict.Pod {
	var pods []evict.Pod
	for i := range found {
		p := &found[i]
		slice := p.Cgroup(in)
		//guard: pods outside of the partition are no candidates
		if !p.Exists || !slice.Exists {
			continue
		}
		pods = append(pods, listed(p, slice, known[types.UID(p.UID)], capacity))
	}
	return pods
}

// listed returns a pod with the containers that it has in one of its slices. k is nil if the
// kubelet has not reported it.
func listed(p *podmove.Pod, slice podmove.PodCgroup, k *kubelet.Pod, capacity uint64) evict.Pod {
	pod := evict.Pod{
		PodMeta: evict.PodMeta{
			UID: p.UID, Namespace: p.Namespace, Name: p.Name, QoS: p.QoS, Cgroup: partition.CgroupPath(slice.Slice),
			Static: p.Static,
		},
		GracePeriod: v1.DefaultTerminationGracePeriodSeconds * 1e9,
	}
	for _, c := range p.Containers {
		if unit, ok := scopeIn(c, slice.Slice); ok && (c.Running || c.Creating) {
			pod.Containers = append(pod.Containers, container(c, k, pod, slice, unit, capacity))
		}
	}
	if k != nil {
		fromKubelet(&pod, k)
	} else {
		estimate(&pod, p, slice.Limits.MemoryMax)
	}
	return pod
}

// scopeIn returns the scope of a container in a slice. A live move that ended half-way leaves a
// container in two scopes.
func scopeIn(c podmove.Container, slice string) (string, bool) {
	switch {
	case c.Unit != "" && c.Slice == slice:
		return c.Unit, true
	case c.AlsoUnit != "" && c.AlsoSlice == slice:
		return c.AlsoUnit, true
	}
	return "", false
}

func container(
	c podmove.Container,
	known *kubelet.Pod,
	pod evict.Pod,
	slice podmove.PodCgroup,
	unit string,
	capacity uint64,
) evict.Container {
	out := evict.Container{ID: c.ID, Name: c.Name, Cgroup: pod.Cgroup + "/" + unit}
	if known != nil {
		out.Request = uint64(max(known.Containers[c.Name].MemoryRequest, 0))
		return out
	}
	if pod.QoS == v1.PodQOSBurstable && c.Resources.OOMScoreAdj == 0 {
		return out // the runtime reports no score: the kubelet gives a burstable container none of 0
	}
	limit := c.Resources.MemoryLimit
	if limit == 0 && slice.Limits.MemoryMax != cgroups.Unlimited {
		limit = slice.Limits.MemoryMax // of a guaranteed pod with limits for the pod as a whole
	}
	out.Request = evict.EstimateRequest(pod.QoS, c.Resources.OOMScoreAdj, limit, capacity)
	return out
}

func fromKubelet(pod *evict.Pod, k *kubelet.Pod) {
	//guard: a container that stays ended ends its pod for good
	pod.EndsForGood = k.EndsWhenKilled()
	pod.Priority, pod.Request, pod.GracePeriod = k.Priority, uint64(max(k.MemoryRequest, 0)), k.GracePeriod
	pod.Static = pod.Static || k.Static
	pod.Terminating = k.Ends()
	if pod.Owner = k.Owner; pod.Owner == "" {
		pod.Owner = pod.Namespace + "/" + pod.Name
	}
}

func estimate(pod *evict.Pod, p *podmove.Pod, limit uint64) {
	pod.Estimated = true
	pod.Owner = evict.EstimateOwner(pod.Namespace, pod.Name)
	for _, c := range pod.Containers {
		pod.Request += c.Request
	}
	// Containers may share one limit of the pod, and no pod requests more than its limit.
	pod.Request = min(pod.Request, limit)
	pod.Priority = estimatedPriority(p)
}

// ContainerScopes returns a function that returns the scopes of containers in the slice of a pod,
// by container ID.
func ContainerScopes(fs cgroups.FS) func(podCgroup string) (map[string]string, error) {
	return func(podCgroup string) (map[string]string, error) {
		units, err := fs.Children(podCgroup)
		if err != nil {
			return nil, err
		}
		scopes := map[string]string{}
		for _, unit := range units {
			if id := partition.ContainerID(unit); id != "" {
				scopes[id] = podCgroup + "/" + unit
			}
		}
		return scopes, nil
	}
}

// CandidateContainers returns the containers of a pod, in whichever partition, by ID and cgroup.
// One that has two cgroups is in the list twice.
func CandidateContainers(found []podmove.Pod, uid string) []evict.Container {
	var containers []evict.Container
	for i := range found {
		if found[i].UID != uid {
			continue
		}
		for _, c := range found[i].Containers {
			for _, at := range [][2]string{{c.Slice, c.Unit}, {c.AlsoSlice, c.AlsoUnit}} {
				if at[1] != "" {
					cgroup := partition.CgroupPath(at[0]) + "/" + at[1]
					containers = append(containers, evict.Container{ID: c.ID, Name: c.Name, Cgroup: cgroup})
				}
			}
		}
	}
	return containers
}
