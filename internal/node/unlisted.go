package node

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/evict"
)

// unlisted returns the pods in the partition that are not in the inventory of the last reconcile.
// They have just been started, which is when a program that takes all memory takes it. The
// reconcile may have seen the pod before its slice existed. The kubelet's Pods API has most of
// them. For the others, the name of the cgroup contains the UID and the class, and requests and
// priorities are estimated from the scores of their processes. capacity is the node's memory in
// bytes.
func unlisted(
	p partition.Name, n host.Node, inventory []evict.Pod,
	known map[types.UID]*kubelet.Pod, capacity uint64,
) []evict.Pod {
	listed := make(map[string]bool, len(inventory))
	for _, pod := range inventory {
		listed[pod.Cgroup] = true
	}
	var reported map[string]*kubelet.Pod // made for the first pod that is not listed
	var pods []evict.Pod
	for _, parent := range p.Slices() {
		children, err := n.Cgroups.Children(partition.CgroupPath(parent))
		if err != nil {
			continue // unreadable: the next poll reads it again
		}
		for _, slice := range children {
			in, qos, uid, ok := partition.ParsePodSlice(slice)
			if !ok || in != p || listed[partition.CgroupPath(slice)] {
				continue
			}
			pod := evict.Pod{
				PodMeta: evict.PodMeta{
					UID:    uid,
					QoS:    v1.PodQOSClass(qos),
					Cgroup: partition.CgroupPath(slice),
				},
				GracePeriod: v1.DefaultTerminationGracePeriodSeconds * 1e9,
			}
			if reported == nil {
				reported = byEscapedUID(known)
			}
			if k := reported[uid]; k != nil {
				pod.UID, pod.Namespace, pod.Name = k.UID, k.Namespace, k.Name
				fromKubelet(&pod, k)
				for name, c := range k.Containers {
					if c.ID != "" { // its cgroup is determined when the pod is selected
						pod.Containers = append(
							pod.Containers,
							evict.Container{ID: c.ID, Name: name, Request: uint64(max(c.MemoryRequest, 0))},
						)
					}
				}
			} else {
				pod.Unknown, pod.Estimated, pod.Owner = true, true, uid
				pod.Name = fmt.Sprintf("(pod %s)", uid)
				// The kubelet gives a pod from a file or a URL a hash as its UID (applyDefaults,
				// pkg/kubelet/config/common.go). A UID of the API server has dashes, which are underscores in
				// the name of the slice.
				pod.Static = !strings.Contains(uid, "_")
				// An eviction that begins now belongs to the same pod when a reconcile has found it.
				//guard: an unknown pod has the UID that it has when a pass has found it
				pod.UID = strings.ReplaceAll(uid, "_", "-")
				estimateByScore(n, &pod, capacity)
			}
			pods = append(pods, pod)
		}
	}
	return pods
}

// byEscapedUID returns the pods by their UIDs as in the names of slices.
func byEscapedUID(known map[types.UID]*kubelet.Pod) map[string]*kubelet.Pod {
	escaped := make(map[string]*kubelet.Pod, len(known))
	for uid, k := range known {
		escaped[partition.EscapeUID(string(uid))] = k
	}
	return escaped
}

// maxScore bounds a number in procfs, in bytes.
const maxScore = 64

// estimateByScore estimates the request and the priority of a pod from the oom_score_adj of a
// process of each container. The kubelet sets the same score for all processes of a container.
func estimateByScore(n host.Node, pod *evict.Pod, capacity uint64) {
	scopes, err := ContainerScopes(n.Cgroups)(pod.Cgroup)
	if err != nil {
		return
	}
	for _, cgroup := range scopes {
		pid := process(n.Cgroups, cgroup, maxDepth)
		text, err := n.Root.ReadFile("/proc/"+pid+"/oom_score_adj", maxScore)
		if pid == "" || err != nil {
			continue // it has ended
		}
		score, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			continue
		}
		pod.Request += evict.EstimateRequest(pod.QoS, score, 0, capacity)
		pod.Priority = max(pod.Priority, evict.EstimatePriority(pod.QoS, score))
	}
}

// maxDepth bounds the search for a process below the scope of a container. systemd in a container
// keeps services in slices of slices.
const maxDepth = 6

// process returns the ID of a process in a cgroup or below it, empty for none. A cgroup whose
// children have controllers has no process of its own (the "no internal processes" rule of
// Documentation/admin-guide/cgroup-v2.rst): with systemd or Docker in a container they are in
// leaves.
func process(fs cgroups.FS, cgroup string, depth int) string {
	procs, err := fs.ReadFile(cgroup, "cgroup.procs")
	if err != nil {
		return ""
	}
	if pid, _, _ := strings.Cut(string(procs), "\n"); pid != "" {
		return pid
	}
	children, err := fs.Children(cgroup)
	if err != nil || depth == 0 {
		return ""
	}
	for _, child := range children {
		if pid := process(fs, cgroup+"/"+child, depth-1); pid != "" {
			return pid
		}
	}
	return ""
}
