package kubeletargs

import (
	"strconv"
	"strings"
)

// Limits holds the flags that set limits of pods and of the kubelet itself, and the CPU manager's
// options. Given reports whether a flag is given.
type Limits struct {
	// PodPidsLimit is --pod-max-pids, OOMScoreAdj --oom-score-adj, and CPUCFSQuotaPeriod
	// --cpu-cfs-quota-period.
	PodPidsLimit      int64
	OOMScoreAdj       int32
	CPUCFSQuotaPeriod string
	// CPUCFSQuota is --cpu-cfs-quota, and SystemCgroups --system-cgroups.
	CPUCFSQuota   bool
	SystemCgroups string
	// CgroupsPerQOS is --cgroups-per-qos, and CgroupRoot --cgroup-root.
	CgroupsPerQOS bool
	CgroupRoot    string
	// CPUManagerPolicyOptions is --cpu-manager-policy-options, and QOSReserved --qos-reserved. Each
	// replaces the whole field of the file.
	CPUManagerPolicyOptions, QOSReserved map[string]string
}

// flags returns a function for each flag, which is called with each value of it.
func (l *Limits) flags() map[string]func(string) {
	return map[string]func(string){
		"pod-max-pids": func(v string) {
			if n, err := strconv.ParseInt(v, 0, 64); err == nil {
				l.PodPidsLimit = n
			}
		},
		"oom-score-adj": func(v string) {
			if n, err := strconv.ParseInt(v, 0, 32); err == nil {
				l.OOMScoreAdj = int32(n)
			}
		},
		"cpu-cfs-quota-period":       func(v string) { l.CPUCFSQuotaPeriod = v },
		"system-cgroups":             func(v string) { l.SystemCgroups = v },
		"cgroup-root":                func(v string) { l.CgroupRoot = v },
		"cpu-manager-policy-options": func(v string) { addPairs(&l.CPUManagerPolicyOptions, v, "=") },
		"qos-reserved":               func(v string) { addPairs(&l.QOSReserved, v, "=") },
	}
}

// OtherTree returns the flag with which the pods are not in kubepods.slice at the top of the
// hierarchy, and no pod comes into the partition; "" if none is given. The kubelet puts kubepods
// below its cgroup root (NewQOSContainerManager, pkg/kubelet/cm/qos_container_manager_linux.go,
// v1.37.0).
func (f *Flags) OtherTree() string {
	switch {
	//guard: a kubelet whose pods are in another tree is reported
	case strings.Trim(f.CgroupRoot, "/") != "":
		return "--cgroup-root=" + f.CgroupRoot
	case f.Given("cgroups-per-qos") && !f.CgroupsPerQOS:
		return "--cgroups-per-qos=false"
	}
	return ""
}
