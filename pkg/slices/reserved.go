package slices

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/coreos/go-systemd/v22/unit"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/slices/config"
)

const (
	servicesHeader = `# Written by partition-generator at boot and at every daemon-reload; what is
# changed here is lost. Change the kubelet's configuration or
# /etc/default/node-partition and run systemctl daemon-reload.

`
	// reservedDocs is the URL that systemctl status shows for slices of services.
	reservedDocs = "https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/"

	cgroupMount = partition.CgroupMount + "/"
)

// serviceSlice is a slice for services beside the pods.
type serviceSlice struct {
	name, description, source string
	// reserved means that the kubelet expects its cgroup.
	reserved bool
}

// serviceSlices returns the slices to write: those that the kubelet expects, the one of the
// settings, and the slices above these, which would otherwise have default dependencies. A unit
// file of the node's own stays as it is.
func serviceSlices(in *Input) []serviceSlice {
	var list []serviceSlice
	add := func(s serviceSlice) {
		known := slices.ContainsFunc(list, func(other serviceSlice) bool { return other.name == s.name })
		if !known && !slices.Contains(in.ownSlices, s.name) {
			list = append(list, s)
		}
	}
	for _, s := range in.config.Reserved.Slices {
		add(serviceSlice{s.Name, "Kubernetes Node Resources, " + s.For, partition.PlainPath(s.File), true})
	}
	if name := in.config.Services.Slice; name != "" {
		add(serviceSlice{name, "Kubelet and Container Runtime", kubeletconfig.SettingsPath, false})
	}
	for _, s := range slices.Clone(list) {
		for _, parent := range above(s.name) {
			if parent != "system.slice" {
				add(serviceSlice{parent, "Slice Above " + s.name, s.source, false})
			}
		}
	}
	return list
}

// sliceNames returns the names of all slices that serviceSlices may return, and of the partitions.
func sliceNames(c *config.Config) []string {
	var names []string
	for _, p := range c.Partitions {
		names = append(names, p.Name.Slice())
	}
	for _, s := range c.Reserved.Slices {
		names = append(append(names, s.Name), above(s.Name)...)
	}
	if name := c.Services.Slice; name != "" {
		names = append(append(names, name), above(name)...)
	}
	return names
}

// above returns the names of the slices above a slice, outermost first.
func above(slice string) []string {
	levels := strings.Split(partition.CgroupPath(slice), "/")
	return levels[:len(levels)-1]
}

// ownSlices returns the names that have a unit file on the node.
func ownSlices(root host.Root, names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return !installed(root, name) })
}

// addServiceSlices adds the slices for services. They have no limits: those are the kubelet's.
func addServiceSlices(add func(string, ...*unit.UnitOption), in *Input) {
	withProtection, settings := slicesWithProtection(in.config.Services), servicesProtection(in.config.Services)
	for _, name := range withProtection {
		if slices.Contains(in.ownSlices, name) {
			add(name+".d/"+dropinName, settings...)
		}
	}
	for _, s := range serviceSlices(in) {
		options := []*unit.UnitOption{
			option("Unit", "Description", s.description),
			option("Unit", "Documentation", reservedDocs),
			option("Unit", "SourcePath", s.source),
			// As system.slice has it: a shutdown stops services, and no slice with all that is in it.
			outlivesShutdown(),
			option("Unit", "Before", "slices.target"),
		}
		floor := slices.Contains(withProtection, s.name)
		if floor {
			options = append(options, settings...)
		}
		if s.reserved {
			// The kubelet checks that the cgroup has the controllers cpu, cpuset, memory and pids
			// (cgroupV2impl.Validate). systemd enables a controller for a unit that has a setting of it
			// (unit_get_cgroup_mask, src/core/cgroup.c). These values change nothing, and the kubelet's own
			// win over them. Only while systemd starts or stops the CPUs here win over AllowedCPUs=
			// (systemd.resource-control(5)). An AllowedCPUs= here would extend an operator's: systemd adds
			// lists up.
			if !floor || in.config.Services.CPUWeight == 0 {
				options = append(options, option("Slice", "CPUWeight", "100"))
			}
			options = append(options,
				option("Slice", "StartupAllowedCPUs", in.config.Reserved.CPUs.String()),
				option("Slice", "MemoryAccounting", "yes"),
				option("Slice", "TasksAccounting", "yes"))
		}
		add(s.name, options...)
	}
	if cgroups := withoutHugeTLB(in.config.Reserved); len(cgroups) > 0 {
		add(ControllersService, controllersService(in, cgroups)...)
	}
}

// slicesWithProtection returns the slice of the services and those above it, outermost first, if
// they have a weight or protected memory. A slice shares CPU time with kubepods.slice by the weight
// of the outermost slice, and is protected as far as those above it are.
func slicesWithProtection(s config.Services) []string {
	if s.Slice == "" || !s.HasProtection() {
		return nil
	}
	return append(above(s.Slice), s.Slice)
}

// servicesProtection returns the settings of each of slicesWithProtection.
func servicesProtection(s config.Services) []*unit.UnitOption {
	options := memoryProtection(s.Protection)
	if s.CPUWeight != 0 {
		options = append(options, option("Slice", "CPUWeight", strconv.Itoa(s.CPUWeight)))
	}
	return options
}

func memoryProtection(p cgroups.Protection) []*unit.UnitOption {
	var options []*unit.UnitOption
	for _, part := range []struct {
		name  string
		bytes uint64
	}{{"MemoryMin", p.Min}, {"MemoryLow", p.Low}} {
		if part.bytes > 0 {
			options = append(options, option("Slice", part.name, strconv.FormatUint(part.bytes, 10)))
		}
	}
	return options
}

// withoutHugeTLB returns the cgroups below which hugetlb has to be enabled, outermost first. The
// kubelet enables it for the cgroups below the root itself, when it makes kubepods.slice. It does
// not do so below other cgroups.
func withoutHugeTLB(r config.Reserved) []string {
	var cgroups []string
	if !r.HugeTLB {
		return nil
	}
	for _, s := range r.Slices {
		for _, parent := range above(s.Name) {
			cgroups = append(cgroups, cgroupMount+partition.CgroupPath(parent))
		}
	}
	if len(cgroups) > 0 {
		cgroups = append(cgroups, path.Clean(cgroupMount))
	}
	slices.Sort(cgroups)
	return slices.Compact(cgroups)
}

// controllersService enables hugetlb below cgroups. runc does the same for the cgroups that it
// makes (CreateCgroupPath, opencontainers/cgroups fs2/create.go). systemd neither enables nor
// disables that controller.
func controllersService(in *Input, cgroups []string) []*unit.UnitOption {
	names := reservedNames(in.config.Reserved)
	options := []*unit.UnitOption{
		option("Unit", "Description", "Enable the hugetlb Controller for "+strings.Join(names, " ")),
		option("Unit", "Documentation", reservedDocs),
		option("Unit", "After", strings.Join(names, " ")),
	}
	options = append(options, before(in.kubelets)...)
	return append(options,
		option("Service", "Type", "oneshot"),
		option("Service", "ExecStart", "/bin/sh -c \"for d in "+strings.Join(cgroups, " ")+
			"; do echo +hugetlb >$$d/cgroup.subtree_control; done\""))
}

func reservedNames(r config.Reserved) []string {
	names := make([]string, 0, len(r.Slices))
	for _, s := range r.Slices {
		names = append(names, s.Name)
	}
	return names
}

// serviceSettings returns the settings of a service of the kubelet or of the runtime.
//
// The CPUs are settings of each service, and not of its slice: with kube-reserved in
// enforceNodeAllocatable and without a static CPU manager, the kubelet writes all CPUs to that
// slice (getCgroupConfig, pkg/kubelet/cm/node_container_manager_linux.go). CPUAffinity= would be
// inherited by containers: since Linux 6.2 a process keeps it in another cpuset, and runc does not
// reset it before 1.3.1 (runc pull request 4858).
func serviceSettings(s config.Services, partition bool) []*unit.UnitOption {
	var options []*unit.UnitOption
	if partition || s.Delegate {
		options = append(options, option("Service", "Delegate", "yes"))
	}
	if s.Slice != "" {
		options = append(options, option("Service", "Slice", s.Slice))
	}
	if !s.CPUs.IsEmpty() {
		// systemd adds lists of several files up. An empty one discards those before it.
		options = append(options, option("Service", "AllowedCPUs", ""), option("Service", "AllowedCPUs", s.CPUs.String()))
	}
	if s.OOMScoreAdjust != nil {
		options = append(options, option("Service", "OOMScoreAdjust", strconv.Itoa(*s.OOMScoreAdjust)))
	}
	return options
}
