package check

import (
	"fmt"
	"slices"
	"strings"

	"node-partition.io/node-partition/internal/node/allocatable"
)

// kubeletSettings holds settings of the running kubelet, with its flags. The names and types follow
// k8s.io/kubelet/config/v1beta1.KubeletConfiguration. Of the reservations only the processes, pid,
// are read from here.
type kubeletSettings struct {
	// Source names the configuration file for the operator.
	Source string `json:"-"`

	KubeReserved            map[string]string `json:"kubeReserved"`
	SystemReserved          map[string]string `json:"systemReserved"`
	CgroupRoot              string            `json:"cgroupRoot"`
	CgroupsPerQOS           *bool             `json:"cgroupsPerQOS"`
	EnforceNodeAllocatable  []string          `json:"enforceNodeAllocatable"`
	KubeReservedCgroup      string            `json:"kubeReservedCgroup"`
	SystemReservedCgroup    string            `json:"systemReservedCgroup"`
	SystemCgroups           string            `json:"systemCgroups"`
	QOSReserved             map[string]string `json:"qosReserved"`
	PodPidsLimit            *int64            `json:"podPidsLimit"`
	CPUCFSQuota             *bool             `json:"cpuCFSQuota"`
	CPUCFSQuotaPeriod       string            `json:"cpuCFSQuotaPeriod"`
	CPUManagerPolicy        string            `json:"cpuManagerPolicy"`
	CPUManagerPolicyOptions map[string]string `json:"cpuManagerPolicyOptions"`
	ReservedSystemCPUs      string            `json:"reservedSystemCPUs"`
	OOMScoreAdj             *int              `json:"oomScoreAdj"`
}

// settingsOf returns the settings of the running kubelet; nil without one. It returns an error for
// a kubelet whose pods are not in kubepods.slice: a slice of that name is then a remainder.
func settingsOf(n *allocatable.Node) (*kubeletSettings, error) {
	if n.Kubelet == nil {
		return nil, nil
	}
	s := &kubeletSettings{Source: "the kubelet's command line"}
	if err := n.Config.DecodeInto(s, nil); err != nil {
		return nil, err
	}
	if files := n.Config.Files; len(files) > 0 {
		s.Source = files[len(files)-1]
	}
	flags := &n.Kubelet.Flags
	score := int(flags.OOMScoreAdj)
	for name, replace := range map[string]func(){
		"kube-reserved":              func() { s.KubeReserved = flags.KubeReserved },
		"system-reserved":            func() { s.SystemReserved = flags.SystemReserved },
		"cgroup-root":                func() { s.CgroupRoot = flags.CgroupRoot },
		"cgroups-per-qos":            func() { s.CgroupsPerQOS = &flags.CgroupsPerQOS },
		"enforce-node-allocatable":   func() { s.EnforceNodeAllocatable = flags.EnforceNodeAllocatable },
		"kube-reserved-cgroup":       func() { s.KubeReservedCgroup = flags.KubeReservedCgroup },
		"system-reserved-cgroup":     func() { s.SystemReservedCgroup = flags.SystemReservedCgroup },
		"system-cgroups":             func() { s.SystemCgroups = flags.SystemCgroups },
		"qos-reserved":               func() { s.QOSReserved = flags.QOSReserved },
		"pod-max-pids":               func() { s.PodPidsLimit = &flags.PodPidsLimit },
		"cpu-cfs-quota":              func() { s.CPUCFSQuota = &flags.CPUCFSQuota },
		"cpu-cfs-quota-period":       func() { s.CPUCFSQuotaPeriod = flags.CPUCFSQuotaPeriod },
		"cpu-manager-policy":         func() { s.CPUManagerPolicy = flags.CPUManagerPolicy },
		"cpu-manager-policy-options": func() { s.CPUManagerPolicyOptions = flags.CPUManagerPolicyOptions },
		"reserved-cpus":              func() { s.ReservedSystemCPUs = flags.ReservedCPUs },
		"oom-score-adj":              func() { s.OOMScoreAdj = &score },
	} {
		if flags.Given(name) {
			replace()
		}
	}
	switch {
	case s.CgroupsPerQOS != nil && !*s.CgroupsPerQOS:
		return nil, fmt.Errorf("cgroupsPerQOS of the kubelet is false: its pods are not in %s", kubepods)
	case strings.Trim(s.CgroupRoot, "/") != "":
		return nil, fmt.Errorf("cgroupRoot of the kubelet is %q: its pods are not in %s at the top of the hierarchy", s.CgroupRoot, kubepods)
	}
	return s, nil
}

// enforces reports whether enforceNodeAllocatable contains a value. Its default is pods alone
// (SetDefaults_KubeletConfiguration, pkg/kubelet/apis/config/v1beta1/defaults.go).
func (s *kubeletSettings) enforces(what string) bool {
	if s.EnforceNodeAllocatable == nil {
		return what == "pods"
	}
	return slices.Contains(s.EnforceNodeAllocatable, what)
}

// left returns an amount without the reservations, never negative (getNodeAllocatableAbsoluteImpl,
// pkg/kubelet/cm/node_container_manager_linux.go). The eviction threshold is not a part of it. If
// Node Allocatable is not enforced, the whole capacity is left.
func (s *kubeletSettings) left(capacity int64, reserved ...int64) uint64 {
	if s.enforces("pods") {
		for _, amount := range reserved {
			capacity -= amount
		}
	}
	return uint64(max(capacity, 0))
}
