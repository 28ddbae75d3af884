package slices

import (
	"cmp"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/coreos/go-systemd/v22/unit"
	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/slices/config"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// UnitFile is one file of the output.
type UnitFile struct {
	// Path is relative to the generator's directory. It names a unit, or a drop-in such as
	// kubelet.service.d/50-node-partition.conf.
	Path string
	// Content is the text of the file.
	Content string
}

// header returns the beginning of a file that is made from a section of the configuration.
func header(section string, watched bool) string {
	applied := `Then run
# systemctl daemon-reload.

`
	if watched {
		applied = `An edit of
# ` + kubeletconfig.OverridePath + ` is applied when it is saved. One of the
# kubelet's files needs systemctl daemon-reload.

`
	}
	return `# Written by partition-generator at boot and at every daemon-reload; what is
# changed here is lost. Change the ` + section + ` section. ` + applied
}

// units returns the units for an input. Their values are numbers, CPU sets, fixed names, and paths
// that are checked to be plain.
func units(in *Input) []UnitFile {
	var files []UnitFile
	partitions := in.config.Partitions
	addTo := func(header string) func(string, ...*unit.UnitOption) {
		return func(path string, options ...*unit.UnitOption) {
			files = append(files, UnitFile{Path: path, Content: header + text(options)})
		}
	}
	field := kubeletconfig.SectionField
	if len(partitions) > 0 && in.config.System() == nil {
		field = kubeletconfig.WorkloadsField
	}
	add, addForServices := addTo(header(field, in.Watched())), addTo(servicesHeader)
	shared := add // for files of the partition and of the slices for services
	if len(partitions) == 0 {
		shared = addForServices
	} else {
		for i := range partitions {
			p := &partitions[i]
			addSlices(addTo(header(config.SectionPath(p.Name), in.Watched())), in, p)
		}
		for _, path := range shutdownDropins(partitionNames(partitions)) {
			add(path, outlivesShutdown())
		}
		addApply(add, in)
	}
	addExclusive(add, in)
	addRemoved(add, in)
	addHost(addForServices, in)
	addMonitor(add, in)
	addServiceSlices(addForServices, in)
	services := in.services
	//guard: a kubelet that starts has the monitor empty a partition that is switched off
	if len(services) == 0 { // nothing is configured, and a partition may have to be emptied
		services = in.kubelets
	}
	for _, service := range services {
		if options := serviceDropin(service, in); len(options) > 0 {
			shared(service+".d/"+dropinName, options...)
		}
	}
	wanted := wantedSlices(in)
	if len(wanted) == 0 {
		shared = add
	}
	for _, path := range append(in.stillWaits(), addWaiting(add, in), addWatch(addTo(watchHeader), in)) {
		if path != "" && !slices.Contains(wanted, path) {
			wanted = append(wanted, path)
		}
	}
	if len(wanted) > 0 {
		// A drop-in, and not a link in slices.target.wants/: systemd follows such a link by its name
		// alone, so a link left over by a killed run would start a slice without limits. See Output.
		shared("slices.target.d/"+dropinName, option("Unit", "Wants", strings.Join(wanted, " ")))
	}
	// Some files that were written in this boot stay for the rest of it:
	//   - The units that wait may be running, for it is their own reload that runs the generator
	//     again. Or they have not run yet, and something else has reloaded systemd: then they
	//     start what the boot has not.
	//   - ApplyPath has to act at the end of a partition too.
	//   - Slices that exist still have to outlive the shutdown.
	for _, name := range keptUnits(in.names) {
		content, kept := in.kept[name]
		written := slices.ContainsFunc(files, func(f UnitFile) bool { return f.Path == name })
		if kept && !written {
			files = append(files, UnitFile{Path: name, Content: content})
		}
	}
	slices.SortFunc(files, func(a, b UnitFile) int { return cmp.Compare(a.Path, b.Path) })
	return files
}

func partitionNames(partitions []config.Partition) []partition.Name {
	names := make([]partition.Name, 0, len(partitions))
	for _, p := range partitions {
		names = append(names, p.Name)
	}
	return names
}

// title returns the name of a partition for people, in the descriptions of its units.
func title(name partition.Name) string {
	if name == partition.First {
		return "Kubernetes System Partition"
	}
	return "Kubernetes Partition " + string(name)
}

func addSlices(add func(string, ...*unit.UnitOption), in *Input, p *config.Partition) {
	name := p.Name
	// The section may be in a drop-in, and a drop-in's name may hold any character.
	source := partition.PlainPath(in.config.SectionFile(name))
	// The KEP's hierarchy is complete from the start, not only from the first pod on. And whatever
	// starts the partition starts the units that belong to it.
	wants := []string{
		partition.QoSSlice(name, partition.Burstable),
		partition.QoSSlice(name, partition.BestEffort),
		ApplyPath,
	}
	if in.watches() {
		wants = append(wants, WatchPath)
	}
	if slices.Contains(in.services, partition.MonitorService) {
		wants = append(wants, partition.MonitorService)
	}
	section := func(description string, more ...*unit.UnitOption) []*unit.UnitOption {
		return append(about(description, option("Unit", "SourcePath", source), outlivesShutdown()), more...)
	}
	wanted := option("Unit", "Wants", strings.Join(wants, " "))
	whole := append(section(title(name), wanted), memoryLimits(p, in.deferrals[name])...)
	whole = append(whole, memoryProtection(p.Protection)...)
	if bytes := p.SwapMax; bytes != nil {
		whole = append(whole, option("Slice", "MemorySwapMax", strconv.FormatUint(*bytes, 10)))
	}
	if cpus := allowedCPUs(in, p); !cpus.IsEmpty() {
		whole = append(whole, option("Slice", "AllowedCPUs", cpus.String()))
	}
	add(name.Slice(), whole...)
	//guard: a partition with a unit file of an operator starts the monitor
	if slices.Contains(in.ownSlices, name.Slice()) { // one in /etc or /run is read in place of ours
		add(name.Slice()+".d/"+wantsName, wanted)
	}
	add(partition.QoSSlice(name, partition.Burstable), section(title(name)+", Burstable Pods")...)
	add(partition.QoSSlice(name, partition.BestEffort), section(title(name)+", Best-Effort Pods",
		// The kubelet gives its own best-effort slice cpu.weight 1: MinShares, 2, converted
		// (qosContainerManagerImpl.Start, pkg/kubelet/cm/qos_container_manager_linux.go).
		option("Slice", "CPUWeight", "1"))...)
}

func allowedCPUs(in *Input, p *config.Partition) cpuset.CPUSet {
	if !p.CPUs.IsEmpty() {
		return p.CPUs
	}
	return in.withoutList(p.Name)
}

// withoutList returns the CPUs of a partition for which no section has any; empty for no list. It
// has the CPUs that other pods have. The kernel does not accept an empty list for a cpuset that had
// one and has processes (validate_change, kernel/cgroup/cpuset.c: ENOSPC, seen with 6.12). Such a
// partition gets all CPUs.
func (in *Input) withoutList(name partition.Name) cpuset.CPUSet {
	switch {
	case in.restrictsOthers:
		return in.othersCPUs()
	case in.keepsCPUs[name]:
		return in.nodeCPUs
	default:
		return cpuset.New()
	}
}

// wantedSlices returns the slices that must exist before a kubelet starts.
func wantedSlices(in *Input) []string {
	var wanted []string
	for _, p := range in.config.Partitions {
		wanted = append(wanted, p.Name.Slice())
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
func shutdownDropins(names []partition.Name) []string {
	dropins := append(make([]string, 0, 1+2*len(names)), partition.Default.Slice()+".d/"+dropinName)
	for _, name := range names {
		//guard: slices of pods outlive what is below them at shutdown
		dropins = append(dropins, name.Slice()+".d/"+dropinName, name.Below()+".d/"+dropinName)
	}
	return dropins
}

// keptUnits lists the files that stay for the rest of the boot in which they were written.
func keptUnits(names []partition.Name) []string {
	return append(
		append(append(exclusiveDropins(), hostDropins()...),
			LateService, LateMountService, AwaitPath, AwaitService, AwaitSectionPath, AwaitSectionService,
			WatchPath, WatchService, ReadService, ApplyPath, ApplyService,
		),
		shutdownDropins(names)...)
}

// memoryLimits returns the settings that limit the partition's memory. It leaves out memoryHigh
// while a limit is deferred: memoryHigh would slow down the pods to evict, and all others, until
// the evictions are over.
func memoryLimits(p *config.Partition, deferral *decision.Deferral) []*unit.UnitOption {
	bytes := func(name string, n uint64) *unit.UnitOption { return option("Slice", name, strconv.FormatUint(n, 10)) }
	switch {
	case p.Limit == 0, deferral != nil && deferral.InForce == cgroups.Unlimited:
		return nil
	case deferral != nil:
		return []*unit.UnitOption{bytes("MemoryMax", deferral.InForce)}
	case p.MemoryHigh > 0:
		return []*unit.UnitOption{bytes("MemoryHigh", p.MemoryHigh), bytes("MemoryMax", p.Max())}
	default:
		return []*unit.UnitOption{bytes("MemoryMax", p.Max())}
	}
}

// addApply adds the units that make a changed limit reach the kernel. After a reload systemd 252
// writes changed settings of running units to their cgroups by itself. 257 loads the settings, but
// does not write them before it touches the cgroup for another reason (seen with 257.13 on any
// slice; systemd pull request 38190 has the discussion). Setting an empty list of markers is such a
// reason, and leaves nothing behind. A generator cannot do it, because systemd waits for
// generators. systemd checks a path unit again when the reload is over.
func addApply(add func(string, ...*unit.UnitOption), in *Input) {
	add(ApplyPath, about("Watch for Changed Limits of the System Partition",
		option("Unit", "StartLimitIntervalSec", "0"),
		option("Path", "PathExists", validFlag),
		// Reloads may come one after the other, as with "systemctl enable --now" of many units, and
		// each starts the service. A limit that is met makes the path unit fail, and no later
		// change would be applied. 255 and later keep the count over reloads.
		option("Path", "TriggerLimitIntervalSec", "0"))...)
	var limited []string
	// Also one that does not run yet: the service stays as it is when the sections are removed.
	//guard: the end of a partition that began after the last reload is applied
	for _, name := range in.present() {
		limited = append(limited, name.Slice())
	}
	if !in.hostCPUs.IsEmpty() {
		limited = append(limited, hostUnits...)
	}
	var writes []*unit.UnitOption
	if len(limited) > 0 {
		writes = append(writes, option("Service", "ExecStart", applyTo(limited)))
	}
	if in.restrictsOthers {
		writes = append(writes, option("Service", "ExecStart", applyToAll))
	}
	if in.watches() {
		writes = append(writes, option("Service", "ExecStart", "/usr/bin/systemctl start --no-block "+ReadService))
	}
	add(ApplyService, slices.Concat(about("Apply Changed Limits of the System Partition",
		option("Unit", "StartLimitIntervalSec", "0"),
		option("Service", "Type", "oneshot"),
		// Remove the flag first: a flag that is raised during the call is for another call.
		option("Service", "ExecStart", "/usr/bin/rm -f "+validFlag),
	), writes, []*unit.UnitOption{
		// There is no start limit, so this delay keeps a service that cannot succeed from taking all of
		// the node's time.
		option("Service", "Restart", "on-failure"),
		option("Service", "RestartSec", "5s"),
		// It runs at every reload, so its start and end are not worth a log line.
		option("Service", "LogLevelMax", "notice"),
	})...)
}

// applyTo returns the command that makes systemd write the limits of units.
func applyTo(units []string) string {
	return `/bin/sh -c "r=0; for s in ` + strings.Join(units, " ") + `; do ` + applyEach
}

// applyEach is the end of a command that makes systemd write the limits of each unit s, also if it
// cannot write another one. It leaves out what is not active any more: a partition that has no pods
// may end after the reload, and systemd would make the cgroup of the inactive slice
// (unit_realize_cgroup), which nothing removes before the next boot.
const applyEach = "" +
	//guard: limits are not written to a slice that has ended
	`systemctl is-active --quiet $$s || continue; ` +
	`systemctl set-property --runtime $$s Markers= || r=1; done; exit $$r"`

// addMonitor lets the monitor start on a node with other partitions than the system partition, for
// which the condition of its unit is. An empty value removes that condition.
func addMonitor(add func(string, ...*unit.UnitOption), in *Input) {
	names := in.present()
	if !in.hasMonitor || !slices.ContainsFunc(names, func(p partition.Name) bool { return p != partition.First }) {
		return
	}
	after := make([]string, 0, len(names))
	conditions := []*unit.UnitOption{option("Unit", "ConditionPathExists", "")}
	for _, name := range names {
		after = append(after, name.Slice())
		conditions = append(conditions, option("Unit", "ConditionPathExists", "|"+name.Cgroup()))
	}
	options := append([]*unit.UnitOption{option("Unit", "After", strings.Join(after, " "))}, conditions...)
	add(partition.MonitorService+".d/"+dropinName, options...)
}

// serviceDropin delegates to a service that has cgroups below its own, and makes a kubelet start
// the partition and its reserved slices before itself. Delegate= does not belong on the slices:
// systemd ignores it there with a warning.
func serviceDropin(service string, in *Input) []*unit.UnitOption {
	if service == partition.MonitorService {
		return nil
	}
	var options []*unit.UnitOption
	if slices.Contains(kubeletServices, service) {
		wanted := wantedSlices(in)
		if len(withoutHugeTLB(in.config.Reserved)) > 0 {
			wanted = append(wanted, ControllersService)
		}
		if in.empties {
			wanted = append(wanted, partition.MonitorService)
		}
		if len(wanted) > 0 {
			options = append(options,
				option("Unit", "Wants", strings.Join(wanted, " ")),
				option("Unit", "After", strings.Join(wanted, " ")))
		}
	}
	return append(options, serviceSettings(in.config.Services, len(in.config.Partitions) > 0)...)
}

// addWaiting adds the units that wait for a configuration or a section: for a mount of the
// boot, for other mounts, and for a file that is made. It returns the path unit to start, if
// any.
func addWaiting(add func(string, ...*unit.UnitOption), in *Input) string {
	late := in.config.Kubelet.Late
	_, keptLate := in.kept[LateService]
	if keptLate || late.AtBoot() {
		add("multi-user.target.d/"+dropinName, option("Unit", "Wants", LateService))
	}
	for _, mount := range late.OnDemand {
		add(mount+".d/"+dropinName, option("Unit", "Upholds", lateMountInstance(mount)))
	}
	if len(late.OnDemand) > 0 {
		add(LateMountService, lateMountService(startsBefore(in))...)
	}
	if !late.AtBoot() {
		return addAwait(add, in)
	}
	// Until the mounts of the boot are there, nothing waits for a file.
	if !keptLate {
		add(LateService, lateService(late, in.config.Kubelet.Awaited.Any(), startsBefore(in))...)
	}
	return ""
}

// startsBefore lists the services that a reload has to come before.
func startsBefore(in *Input) []string {
	services := slices.Clone(in.kubelets)
	if in.hasMonitor {
		services = append(services, partition.MonitorService)
	}
	return services
}

// before returns the order of a unit that starts before services, if there are any.
func before(services []string) []*unit.UnitOption {
	if len(services) == 0 {
		return nil
	}
	return []*unit.UnitOption{option("Unit", "Before", strings.Join(services, " "))}
}

// lateService reloads systemd, which runs the generator again, once the file systems of the
// boot are mounted. Then it starts the new units. systemd's own initrd-parse-etc.service does
// the same for /etc. If nothing is awaited, it does so only if one of the paths has come.
func lateService(late host.Late, awaiting bool, services []string) []*unit.UnitOption {
	options := about("Read the System Partition's Configuration Once It Is Mounted")
	// Only ordering: RequiresMountsFor= would pull in mounts that the node does not make by itself.
	if len(late.MountUnits) > 0 {
		options = append(options, option("Unit", "After", strings.Join(late.MountUnits, " ")))
	}
	options = append(options, before(services)...)
	if !awaiting {
		for _, path := range late.Paths {
			options = append(options, option("Unit", "ConditionPathExists", "|"+path))
		}
	}
	return slices.Concat(options, oneshot(), reloads("", ""))
}

// lateMountInstance returns the instance of LateMountService for a mount unit.
func lateMountInstance(mount string) string {
	return strings.Replace(LateMountService, "@", "@"+strings.TrimSuffix(mount, ".mount"), 1)
}

// lateMountService does the same for one file system that is mounted at any time, or never: noauto,
// nofail, by an automount, over the network. Upholds= in a drop-in of the mount unit starts it
// whenever the file system is mounted: by the boot, by an operator, with mount(8) too.
//
// It is not ordered after the mount: the kubelet, which is ordered after this service, would
// wait for a disk that is not there. Instead it is skipped before the mount, and upheld after
// that. systemd does this before it runs the jobs that waited for the mount (252, manager_loop:
// the queue of upheld units comes before the queue of jobs). So a kubelet that is itself
// ordered after the mount still finds the partition. ConditionPathIsMountPoint= would be true
// for an automount too.
func lateMountService(services []string) []*unit.UnitOption {
	mounted := option("Service", "ExecCondition", "/usr/bin/systemctl is-active --quiet %i.mount")
	return slices.Concat(
		about("Read the System Partition's Configuration in a New Mount"), before(services), append(oneshot(), mounted), reloads("", ""),
	)
}

// oneshot keeps a service from running a second time in the same boot.
func oneshot() []*unit.UnitOption {
	return []*unit.UnitOption{option("Service", "Type", "oneshot"), option("Service", "RemainAfterExit", "yes")}
}

// reloads runs the generator again, and starts slices.target. The target is active by now, and
// starting it again starts the units that it wants since the reload. One process runs all steps,
// and continues if the reload loses this unit. failed follows a reload that has failed, and then
// follows all else.
func reloads(failed, then string) []*unit.UnitOption {
	return []*unit.UnitOption{
		option("Service", "ExecStart",
			`/bin/sh -c "systemctl daemon-reload`+failed+` && systemctl start slices.target`+then+`"`),
		//guard: a reload that fails on a busy node is tried again
		option("Service", "Restart", "on-failure"),
		option("Service", "RestartSec", "5s"),
	}
}

// awaits returns the path unit that waits for a file, and its service. A node without a kubelet's
// configuration has one pair, and one whose kubelet is configured has the other. So a section is
// found that is made after the kubelet's configuration, in the same boot. Both names are empty if
// nothing is awaited that can be watched.
func awaits(in *Input) (path, service string) {
	kubelet := in.config.Kubelet
	switch {
	case len(awaitedFiles(in))+len(kubelet.Awaited.Globs) == 0, kubelet.Kubelet.FeatureGates[config.Gate]:
		return "", ""
	case len(kubelet.Files) == 0:
		return AwaitPath, AwaitService
	default:
		return AwaitSectionPath, AwaitSectionService
	}
}

// stillWaits lists the path units of this boot that wait on, because what has come is not valid.
// The boot may not have started them yet.
func (in *Input) stillWaits() []string {
	return slices.DeleteFunc([]string{AwaitPath, AwaitSectionPath}, func(path string) bool {
		_, kept := in.kept[path]
		//guard: what waits for a configuration waits on while a file is broken
		return in.valid || !kept
	})
}

// awaitedFiles lists the files to wait for. A file that is watched is not among them.
func awaitedFiles(in *Input) []string {
	if !in.watches() {
		return in.config.Kubelet.Awaited.Files
	}
	return slices.DeleteFunc(slices.Clone(in.config.Kubelet.Awaited.Files), func(name string) bool {
		return name == kubeletconfig.OverridePath
	})
}

// waits returns a message for the operator, when a path unit is new: at the boot, and when
// something else is awaited. If a section was removed from an active partition, the path unit does
// not wait before the next start of slices.target.
func waits(in *Input) string {
	path, _ := awaits(in)
	//guard: what is awaited is said once
	//guard: nothing waits for a section that was removed before slices.target is started
	if _, kept := in.kept[path]; kept || in.anyRuns() || in.config.Kubelet.Late.AtBoot() {
		return ""
	}
	switch path {
	case AwaitPath:
		text := "no configuration of a kubelet yet: " + path + " waits for one"
		if slices.Contains(awaitedFiles(in), kubeletconfig.OverridePath) {
			text += ", and for " + kubeletconfig.OverridePath
		}
		return text
	case AwaitSectionPath:
		return "no section " + kubeletconfig.SectionField + " yet: " + path + " waits for " + kubeletconfig.OverridePath
	default:
		return ""
	}
}

// watchesFrom returns when a path unit watches. By default slices.target, which wants it, and
// paths.target wait for a path unit, and the boot for both of them. It comes after
// systemd-confext.service, which is before sysinit.target: a watch on the /etc below would see
// nothing. The kubelet waits until a file that is there has been seen.
func watchesFrom(in *Input) []*unit.UnitOption {
	return []*unit.UnitOption{
		option("Unit", "DefaultDependencies", "no"),
		option("Unit", "After", "sysinit.target"),
		option("Unit", "Before", strings.Join(append(slices.Clone(in.kubelets), "shutdown.target"), " ")),
		option("Unit", "Conflicts", "shutdown.target"),
	}
}

// addAwait adds the units that wait for a configuration or a section that is made after the
// generator's run, and returns the path unit. PathExists= is true for as long as the file
// exists. This does not loop, because the service stays active once it has run, until the next
// boot. So the path unit has nothing to start. The service also stops the path unit.
func addAwait(add func(string, ...*unit.UnitOption), in *Input) string {
	path, service := awaits(in)
	if path == "" {
		return ""
	}
	watch := about("Watch for a Configuration of the System Partition", watchesFrom(in)...)
	for _, name := range awaitedFiles(in) {
		watch = append(watch, option("Path", "PathExists", name))
	}
	for _, glob := range in.config.Kubelet.Awaited.Globs {
		watch = append(watch, option("Path", "PathExistsGlob", glob))
	}
	add(path, watch...)
	if _, kept := in.kept[service]; !kept {
		add(service, slices.Concat(
			about("Read the System Partition's Configuration Once There Is One"),
			// A kubelet that is started right after its configuration is made waits for the partition.
			// Not before the monitor, which the new units start: systemd would load it on each node
			// without a section.
			before(in.kubelets),
			oneshot(),
			settled(service),
			[]*unit.UnitOption{option("Service", "ExecStartPre", "-/usr/bin/systemctl stop "+path)},
			reloads("", ""),
		)...)
	}
	return path
}

// settled waits a second, because a file is created first and written then. It skips the service if
// the section is removed meanwhile, so that the path unit waits again: a service that has run acts
// no more in this boot. AwaitService is not skipped. Its paths may be others at the next run of the
// generator, and a path that only the path unit knows would start and skip it without end.
func settled(service string) []*unit.UnitOption {
	wait := "sleep 1"
	if service == AwaitSectionService {
		//guard: a section that is removed while it is written is awaited again
		wait += "; test -e " + kubeletconfig.OverridePath
	}
	return []*unit.UnitOption{option("Service", "ExecCondition", "/bin/sh -c \""+wait+"\"")}
}

// about returns what systemctl status shows of a unit, and more settings.
func about(description string, more ...*unit.UnitOption) []*unit.UnitOption {
	return append([]*unit.UnitOption{
		option("Unit", "Description", description), option("Unit", "Documentation", config.Documentation),
	}, more...)
}

func option(section, name, value string) *unit.UnitOption {
	return unit.NewUnitOption(section, name, value)
}

func text(options []*unit.UnitOption) string {
	var b strings.Builder
	_, _ = io.Copy(&b, unit.Serialize(options)) // neither side can fail
	return b.String()
}
