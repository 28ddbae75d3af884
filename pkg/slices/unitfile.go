package slices

import (
	"cmp"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/coreos/go-systemd/v22/unit"
	"k8s.io/utils/cpuset"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/latemount"
	"nodepartition/internal/unitname"
	"nodepartition/internal/unitpath"
	"nodepartition/pkg/slices/config"
	"nodepartition/pkg/slices/decision"
)

// UnitFile is one file of the output.
type UnitFile struct {
	// Path is relative to the generator's directory. It names a unit, or a drop-in such as
	// kubelet.service.d/50-node-partition.conf.
	Path string
	// Content is the text of the file.
	Content string
}

const header = `# Written by partition-generator at boot and at every daemon-reload; what is
# changed here is lost. Change the systemPartition section of the kubelet's
# configuration and run systemctl daemon-reload.

`

// units returns the units for an input. Their values are numbers, CPU sets, fixed names, and paths
// that are checked to be plain.
func units(in *Input) []UnitFile {
	var files []UnitFile
	p, names, kubelet := in.config.Partition, in.config.Name, in.config.Kubelet
	addTo := func(header string) func(string, ...*unit.UnitOption) {
		return func(path string, options ...*unit.UnitOption) {
			files = append(files, UnitFile{Path: path, Content: header + text(options)})
		}
	}
	add, addForServices := addTo(header), addTo(servicesHeader)
	shared := add // for files of the partition and of the slices for services
	if p == nil {
		shared = addForServices
	}
	if p != nil {
		addSlices(add, in)
		for _, path := range shutdownDropins(names) {
			add(path, outlivesShutdown())
		}
		addApply(add, names)
	}
	addServiceSlices(addForServices, in)
	for _, service := range in.services {
		if options := serviceDropin(service, in); len(options) > 0 {
			shared(service+".d/"+dropinName, options...)
		}
	}
	if wanted := wantedSlices(in); len(wanted) > 0 {
		// A drop-in, and not a link in slices.target.wants/: systemd follows such a link by its name
		// alone, so a link left over by a killed run would start a slice without limits. See Output.
		shared("slices.target.d/"+dropinName, option("Unit", "Wants", strings.Join(wanted, " ")))
	}
	// Some files that were written in this boot stay for the rest of it:
	//   - LateService and AwaitService may be running, for it is their own reload that runs the
	//     generator again.
	//   - ApplyPath has to act at the end of a partition too.
	//   - Slices that exist still have to outlive the shutdown.
	for _, name := range keptUnits(names) {
		if content, ok := in.kept[name]; ok && (p == nil || name == LateService || name == AwaitService) {
			files = append(files, UnitFile{Path: name, Content: content})
		}
	}
	_, keptLate := in.kept[LateService]
	switch late := kubelet.Late; {
	case len(late.Paths) == 0:
		addAwait(add, in)
	case keptLate:
	default:
		if len(kubelet.Awaited.Files) > 0 {
			// Nothing is awaited before the mount. So systemd is reloaded even if the mount brings no
			// configuration.
			late.Paths = nil
		}
		add(LateService, lateService(late)...)
	}
	if keptLate || len(kubelet.Late.Paths) > 0 {
		add("multi-user.target.d/"+dropinName, option("Unit", "Wants", LateService))
	}
	slices.SortFunc(files, func(a, b UnitFile) int { return cmp.Compare(a.Path, b.Path) })
	return files
}

func addSlices(add func(string, ...*unit.UnitOption), in *Input) {
	p, names := in.config.Partition, in.config.Name
	// The section may be in a drop-in, and a drop-in's name may hold any character.
	source := unitpath.Plain(in.config.Kubelet.SectionFile)
	// The KEP's hierarchy is complete from the start, not only from the first pod on. And whatever
	// starts the partition starts the units that belong to it.
	wants := []string{
		unitname.QoSSlice(names, unitname.Burstable),
		unitname.QoSSlice(names, unitname.BestEffort),
		ApplyPath,
	}
	if slices.Contains(in.services, unitname.MonitorService) {
		wants = append(wants, unitname.MonitorService)
	}
	section := func(description string, more ...*unit.UnitOption) []*unit.UnitOption {
		return append([]*unit.UnitOption{
			option("Unit", "Description", description),
			option("Unit", "Documentation", config.Documentation),
			option("Unit", "SourcePath", source),
			outlivesShutdown(),
		}, more...)
	}
	system := append(section("Kubernetes System Partition",
		option("Unit", "Wants", strings.Join(wants, " "))), memoryLimits(p, in.deferral)...)
	system = append(system, memoryFloor(in.config.Settings.Floor)...)
	if bytes := in.config.Settings.SwapMax; bytes != nil {
		system = append(system, option("Slice", "MemorySwapMax", strconv.FormatInt(*bytes, 10)))
	}
	if cpus := allowedCPUs(in); !cpus.IsEmpty() {
		system = append(system, option("Slice", "AllowedCPUs", cpus.String()))
	}
	add(names.Slice(), system...)
	add(unitname.QoSSlice(names, unitname.Burstable), section("Kubernetes System Partition, Burstable Pods")...)
	add(unitname.QoSSlice(names, unitname.BestEffort), section("Kubernetes System Partition, Best-Effort Pods",
		// The kubelet gives its own best-effort slice cpu.weight 1: MinShares, 2, converted
		// (qosContainerManagerImpl.Start, pkg/kubelet/cm/qos_container_manager_linux.go).
		option("Slice", "CPUWeight", "1"))...)
}

// allowedCPUs returns the CPUs of the partition; empty for no list. The kernel does not accept an
// empty list for a cpuset that had one and has processes (validate_change,
// kernel/cgroup/cpuset.c: ENOSPC, seen with 6.12). Such a partition gets all CPUs.
func allowedCPUs(in *Input) cpuset.CPUSet {
	if in.keepsCPUs {
		return in.config.Partition.NodeCPUs
	}
	return in.config.Partition.CPUs
}

// wantedSlices returns the slices that must exist before a kubelet starts.
func wantedSlices(in *Input) []string {
	var wanted []string
	if in.config.Partition != nil {
		wanted = append(wanted, in.config.Name.Slice())
	}
	return append(wanted, reservedNames(in.config.Reserved)...)
}

// outlivesShutdown keeps a slice out of the transaction of a shutdown. By default systemd stops
// each slice at the first instant of a shutdown (slice_add_default_dependencies, src/core/slice.c),
// and with a slice all units in it, which require it (unit_add_slice_dependencies,
// src/core/unit.c). Pods have to end with their runtime, as pods in the kubelet's own slices do:
// runc and crun start their scopes, and the kubelet its slices, without default dependencies.
func outlivesShutdown() *unit.UnitOption { return option("Unit", "DefaultDependencies", "no") }

// shutdownDropins returns drop-ins with outlivesShutdown for slices without a unit file:
//
//   - kubepods.slice is implicitly created when systemd starts the partition before the kubelet is
//     there, and the kubelet takes what it finds.
//   - The kubelet loads the slice of a pod with default dependencies, before StartTransientUnit
//     turns them off. That counts only from the next reload on.
//   - The partition itself is implicitly created when the section is removed while pods are in it.
//
// A drop-in does not keep a slice from being made transient (unit_is_pristine).
func shutdownDropins(names unitname.Partition) []string {
	return []string{
		"kubepods.slice.d/" + dropinName,
		names.Slice() + ".d/" + dropinName,
		names.Below() + ".d/" + dropinName,
	}
}

// keptUnits lists the files that stay for the rest of the boot in which they were written.
func keptUnits(names unitname.Partition) []string {
	return append([]string{LateService, AwaitService, ApplyPath, ApplyService}, shutdownDropins(names)...)
}

// memoryLimits returns the settings that limit the partition's memory. It leaves out memoryHigh
// while a limit is deferred: memoryHigh would slow down the pods to evict, and all others, until
// the evictions are over.
func memoryLimits(p *config.Partition, deferral *decision.Deferral) []*unit.UnitOption {
	bytes := func(name string, n uint64) *unit.UnitOption { return option("Slice", name, strconv.FormatUint(n, 10)) }
	switch {
	case p.MemoryLimit == 0, deferral != nil && deferral.InForce == cgroupfs.Unlimited:
		return nil
	case deferral != nil:
		return []*unit.UnitOption{bytes("MemoryMax", deferral.InForce)}
	case p.MemoryHigh > 0:
		return []*unit.UnitOption{bytes("MemoryHigh", uint64(p.MemoryHigh)), bytes("MemoryMax", uint64(p.MemoryLimit))}
	default:
		return []*unit.UnitOption{bytes("MemoryMax", uint64(p.MemoryLimit))}
	}
}

// addApply adds the units that make a changed limit reach the kernel. After a reload systemd 252
// writes changed settings of running units to their cgroups by itself. 257 loads the settings, but
// does not write them before it touches the cgroup for another reason (seen with 257.13 on any
// slice; systemd pull request 38190 has the discussion). Setting an empty list of markers is such a
// reason, and leaves nothing behind. A generator cannot do it, because systemd waits for
// generators. systemd checks a path unit again when the reload is over.
func addApply(add func(string, ...*unit.UnitOption), names unitname.Partition) {
	add(ApplyPath,
		option("Unit", "Description", "Watch for Changed Limits of the System Partition"),
		option("Unit", "Documentation", config.Documentation),
		option("Unit", "StartLimitIntervalSec", "0"),
		option("Path", "PathExists", validFlag),
		// Reloads may come one after the other, as with "systemctl enable --now" of many units, and each
		// starts the service. A limit that is met makes the path unit fail, and no later change would be
		// applied. 255 and later keep the count over reloads.
		option("Path", "TriggerLimitIntervalSec", "0"))
	add(ApplyService,
		option("Unit", "Description", "Apply Changed Limits of the System Partition"),
		option("Unit", "Documentation", config.Documentation),
		option("Unit", "StartLimitIntervalSec", "0"),
		option("Service", "Type", "oneshot"),
		// Remove the flag first: a flag that is raised during the call is for another call.
		option("Service", "ExecStart", "/usr/bin/rm -f "+validFlag),
		option("Service", "ExecStart", "/usr/bin/systemctl set-property --runtime "+names.Slice()+" Markers="),
		// There is no start limit, so this delay keeps a service that cannot succeed from taking all of
		// the node's time.
		option("Service", "Restart", "on-failure"),
		option("Service", "RestartSec", "5s"),
		// It runs at every reload, so its start and end are not worth a log line.
		option("Service", "LogLevelMax", "notice"))
}

// serviceDropin delegates to a service that has cgroups below its own, and makes a kubelet start
// the partition and its reserved slices before itself. Delegate= does not belong on the slices:
// systemd ignores it there with a warning.
func serviceDropin(service string, in *Input) []*unit.UnitOption {
	if service == unitname.MonitorService {
		return nil
	}
	var options []*unit.UnitOption
	if slices.Contains(kubeletServices, service) {
		wanted := wantedSlices(in)
		if len(withoutHugeTLB(in.config.Reserved)) > 0 {
			wanted = append(wanted, ControllersService)
		}
		if len(wanted) > 0 {
			options = append(options,
				option("Unit", "Wants", strings.Join(wanted, " ")),
				option("Unit", "After", strings.Join(wanted, " ")))
		}
	}
	return append(options, serviceSettings(in.config.Services, in.config.Partition != nil)...)
}

// lateService reloads systemd, which runs the generator again, once the file system with the
// configuration is mounted and has one of the paths, if there are any. Then it starts the new
// units. systemd's own initrd-parse-etc.service does the same for /etc.
func lateService(late latemount.Late) []*unit.UnitOption {
	options := []*unit.UnitOption{
		option("Unit", "Description", "Read the System Partition's Configuration Once It Is Mounted"),
		option("Unit", "Documentation", config.Documentation),
	}
	// Only ordering: RequiresMountsFor= would pull in mounts that the node does not make by itself.
	if len(late.MountUnits) > 0 {
		options = append(options, option("Unit", "After", strings.Join(late.MountUnits, " ")))
	}
	options = append(
		options,
		option("Unit", "Before", strings.Join(append(slices.Clone(kubeletServices), unitname.MonitorService), " ")),
	)
	for _, path := range late.Paths {
		options = append(options, option("Unit", "ConditionPathExists", "|"+path))
	}
	return append(options,
		option("Service", "Type", "oneshot"),
		option("Service", "RemainAfterExit", "yes"),
		option("Service", "ExecStart", "/usr/bin/systemctl daemon-reload"),
		// The target is active by now. Starting it again starts the units that it wants since the reload,
		// if any.
		option("Service", "ExecStart", "/usr/bin/systemctl start slices.target"))
}

// addAwait adds the units that wait for a configuration that is made after the boot, by kubeadm
// join for one. PathExists= is true for as long as the file exists. This does not loop, because
// AwaitService stays active once it has run, until the next boot. So the path unit has nothing to
// start. AwaitService also stops the path unit.
func addAwait(add func(string, ...*unit.UnitOption), in *Input) {
	awaited := in.config.Kubelet.Awaited
	if len(awaited.Files) == 0 && len(awaited.Globs) == 0 {
		return
	}
	path := []*unit.UnitOption{
		option("Unit", "Description", "Watch for a Configuration of the System Partition"),
		option("Unit", "Documentation", config.Documentation),
	}
	for _, name := range awaited.Files {
		path = append(path, option("Path", "PathExists", name))
	}
	for _, glob := range awaited.Globs {
		path = append(path, option("Path", "PathExistsGlob", glob))
	}
	add(AwaitPath, path...)
	if _, kept := in.kept[AwaitService]; !kept {
		add(AwaitService,
			option("Unit", "Description", "Read the System Partition's Configuration Once There Is One"),
			option("Unit", "Documentation", config.Documentation),
			// A kubelet that is started right after its configuration is made waits for the partition.
			option("Unit", "Before", strings.Join(append(slices.Clone(kubeletServices), unitname.MonitorService), " ")),
			option("Service", "Type", "oneshot"),
			option("Service", "RemainAfterExit", "yes"),
			// A file is created first and then written, hence the sleep. One process runs all steps, and
			// continues if the reload loses this unit.
			option("Service", "ExecStart", "/bin/sh -c \"sleep 1; systemctl stop "+AwaitPath+"; "+
				"systemctl daemon-reload && systemctl start slices.target\""))
	}
	// Whatever starts the partition also starts to wait for one, as with LateService.
	add("slices.target.d/"+dropinName, option("Unit", "Wants", AwaitPath))
}

func option(section, name, value string) *unit.UnitOption {
	return unit.NewUnitOption(section, name, value)
}

func text(options []*unit.UnitOption) string {
	var b strings.Builder
	_, _ = io.Copy(&b, unit.Serialize(options)) // neither side can fail
	return b.String()
}
