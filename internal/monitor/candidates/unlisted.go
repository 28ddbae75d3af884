package candidates

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/podsapi"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
)

// Unlisted returns the pods in the partition that are not in the inventory of the last pass. They
// have just been started, which is when a program that takes all memory takes it. The pass may have
// seen the pod before its slice existed. The kubelet's Pods API has most of them. For the others,
// the name of the cgroup contains the UID and the class, and requests and priorities are estimated
// from the scores of their processes. capacity is the node's memory in bytes.
func Unlisted(fs cgroupfs.FS, inventory []evict.Pod, known map[types.UID]*podsapi.Pod, capacity uint64) []evict.Pod {
	listed := map[string]bool{}
	for _, pod := range inventory {
		listed[pod.Cgroup] = true
	}
	var pods []evict.Pod
	for _, parent := range unitname.System.Slices() {
		children, err := fs.Children(unitname.CgroupPath(parent))
		if err != nil {
			continue // unreadable: the next poll reads it again
		}
		for _, slice := range children {
			partition, qos, uid, ok := unitname.ParsePodSlice(slice)
			if !ok || partition != unitname.System || listed[unitname.CgroupPath(slice)] {
				continue
			}
			pod := evict.Pod{
				UID:         uid,
				QoS:         v1.PodQOSClass(qos),
				Cgroup:      unitname.CgroupPath(slice),
				GracePeriod: v1.DefaultTerminationGracePeriodSeconds * 1e9,
			}
			if k := kubeletPod(known, slice, v1.PodQOSClass(qos)); k != nil {
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
				estimateByScore(fs, &pod, capacity)
			}
			pods = append(pods, pod)
		}
	}
	return pods
}

// kubeletPod returns the pod to which a slice of the partition belongs, or nil.
func kubeletPod(known map[types.UID]*podsapi.Pod, slice string, qos v1.PodQOSClass) *podsapi.Pod {
	for uid, k := range known {
		if unitname.PodSlice(unitname.System, qos, string(uid)) == slice {
			return k
		}
	}
	return nil
}

// estimateByScore estimates the request and the priority of a pod from the oom_score_adj of the
// first process of each container. The kubelet sets the same score for all processes of a
// container.
func estimateByScore(fs cgroupfs.FS, pod *evict.Pod, capacity uint64) {
	scopes, err := Scopes(fs)(pod.Cgroup)
	if err != nil {
		return
	}
	for _, cgroup := range scopes {
		procs, err := os.ReadFile(filepath.Join(fs.Path(cgroup), "cgroup.procs"))
		if err != nil {
			continue
		}
		pid, _, _ := strings.Cut(string(procs), "\n")
		text, err := os.ReadFile(filepath.Join("/proc", pid, "oom_score_adj"))
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
