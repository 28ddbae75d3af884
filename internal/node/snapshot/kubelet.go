package snapshot

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"nodepartition/internal/audit"
	"nodepartition/internal/budget"
	"nodepartition/internal/kubeletargs"
	"nodepartition/internal/node/allocatable"
	"nodepartition/internal/unitname"
)

// readKubelet reads the capacity of the node and the settings of the running kubelet. Without a
// running kubelet its settings are not known.
func (g *gatherer) readKubelet(s *audit.Facts) error {
	n, err := allocatable.Read(g.node)
	if err != nil {
		return err
	}
	s.Node.CPUs, s.Node.MilliCPU, s.Node.MemoryBytes = n.CPUs, n.Capacity.MilliCPU, n.Capacity.MemoryBytes
	g.kubelet = n.Kubelet
	if n.Kubelet == nil {
		return nil
	}
	process := n.Kubelet
	var settings struct {
		audit.Kubelet
		KubePIDs      map[string]string `json:"kubeReserved"`
		SystemPIDs    map[string]string `json:"systemReserved"`
		CgroupRoot    string            `json:"cgroupRoot"`
		CgroupsPerQOS *bool             `json:"cgroupsPerQOS"`
	}
	if err := n.Config.DecodeInto(&settings, nil); err != nil {
		return err
	}
	override(&settings.Kubelet, &process.Flags)
	if process.Given("kube-reserved") {
		settings.KubePIDs = process.KubeReserved
	}
	if process.Given("system-reserved") {
		settings.SystemPIDs = process.SystemReserved
	}
	if process.Given("cgroup-root") {
		settings.CgroupRoot = process.CgroupRoot
	}
	if process.Given("cgroups-per-qos") {
		settings.CgroupsPerQOS = &process.CgroupsPerQOS
	}
	if err := otherTree(settings.CgroupRoot, settings.CgroupsPerQOS); err != nil {
		return err
	}
	k := &settings.Kubelet
	k.KubeReserved = amounts(n.KubeReserved, settings.KubePIDs)
	k.SystemReserved = amounts(n.SystemReserved, settings.SystemPIDs)
	k.Source = "the kubelet's command line"
	if files := n.Config.Files; len(files) > 0 {
		k.Source = files[len(files)-1]
	}
	s.Kubelet = k
	return nil
}

// otherTree returns an error for a kubelet whose pods are not in kubepods.slice. A slice of that
// name is then a remainder from an earlier configuration, and systemd's alone.
func otherTree(cgroupRoot string, perQOS *bool) error {
	switch {
	case perQOS != nil && !*perQOS:
		return fmt.Errorf("cgroupsPerQOS of the kubelet is false: its pods are not in %s, and there is nothing to audit", unitname.Default.Slice())
	case strings.Trim(cgroupRoot, "/") != "":
		return fmt.Errorf("cgroupRoot of the kubelet is %q: its pods are not in %s at the top of the hierarchy, and there is nothing to audit",
			cgroupRoot, unitname.Default.Slice())
	}
	return nil
}

// amounts returns the amounts of a reservation. The processes are read from its own list, which has
// them as pid.
func amounts(r budget.Resources, list map[string]string) audit.Amounts {
	var a audit.Amounts
	if r.MilliCPU > 0 {
		a.MilliCPU = &r.MilliCPU
	}
	if r.MemoryBytes > 0 {
		a.MemoryBytes = &r.MemoryBytes
	}
	if q, err := resource.ParseQuantity(list["pid"]); err == nil {
		a.PIDs = new(q.Value())
	}
	return a
}

// override replaces the settings that the command line sets.
func override(k *audit.Kubelet, flags *kubeletargs.Flags) {
	for name, replace := range map[string]func(){
		"enforce-node-allocatable":   func() { k.EnforceNodeAllocatable = flags.EnforceNodeAllocatable },
		"kube-reserved-cgroup":       func() { k.KubeReservedCgroup = flags.KubeReservedCgroup },
		"system-reserved-cgroup":     func() { k.SystemReservedCgroup = flags.SystemReservedCgroup },
		"system-cgroups":             func() { k.SystemCgroups = flags.SystemCgroups },
		"qos-reserved":               func() { k.QOSReserved = flags.QOSReserved },
		"pod-max-pids":               func() { k.PodPidsLimit = &flags.PodPidsLimit },
		"cpu-cfs-quota":              func() { k.CPUCFSQuota = &flags.CPUCFSQuota },
		"cpu-cfs-quota-period":       func() { k.CPUCFSQuotaPeriod = flags.CPUCFSQuotaPeriod },
		"cpu-manager-policy":         func() { k.CPUManagerPolicy = flags.CPUManagerPolicy },
		"cpu-manager-policy-options": func() { k.CPUManagerPolicyOptions = flags.CPUManagerPolicyOptions },
		"reserved-cpus":              func() { k.ReservedSystemCPUs = flags.ReservedCPUs },
		"oom-score-adj":              func() { k.OOMScoreAdj = &flags.OOMScoreAdj },
	} {
		if flags.Given(name) {
			replace()
		}
	}
}
