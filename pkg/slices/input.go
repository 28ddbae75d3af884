package slices

import (
	"fmt"
	"strings"

	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/slices/config"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// Input holds everything that a plan is made from.
type Input struct {
	config *config.Config
	// valid means that config.Load returned no error.
	valid bool
	// services lists the installed services, of ours and of the node.
	services []string
	// kubelets lists the installed services that run a kubelet, whatever is configured.
	kubelets []string
	// program is the path of this program if a changed configuration is to be applied when it
	// comes.
	program string
	// hasMonitor means that the monitor's service is installed.
	hasMonitor bool
	// empties means that a kubelet that starts has to start the monitor for a partition that is
	// switched off.
	empties bool
	// ownSlices lists the slices to write for which the node has a unit file already.
	ownSlices []string
	// kept holds, by path, the files of the current output that stay for the rest of the boot.
	kept map[string]string
	// keptWarning is the reason why those files could not be read.
	keptWarning string
	// names lists the partitions that the node may have: by the configuration, and by an output of
	// this boot.
	names []partition.Name
	// restrictsOthers means that CPUs are exclusive, or were in this boot.
	restrictsOthers bool
	// podsRun means that the kubelet has made its slices. It is set together with restrictsOthers.
	podsRun bool
	// running holds the partitions whose cgroup exists.
	running map[partition.Name]bool
	// keepsCPUs holds the partitions that have a list of CPUs that they cannot be without.
	keepsCPUs map[partition.Name]bool
	// exclusive holds the CPUs that are kept for one partition each.
	exclusive cpuset.CPUSet
	// hostCPUs holds the CPUs of the units in hostUnits; empty for no restriction.
	hostCPUs cpuset.CPUSet
	// nodeCPUs holds the CPUs of the node. It is set if a unit has the rest of them, or all.
	nodeCPUs cpuset.CPUSet
	// deferrals holds, by partition, the limits that have to wait for evictions.
	deferrals map[partition.Name]*decision.Deferral
}

// Load reads the configuration and, if there is a partition to make, the facts that its units
// depend on. root is the root directory of the node, "/" except in tests. output holds the previous
// output and will take the plan. If the configuration is not valid, Load returns the error of
// config.Load, and the input is for the units that may still lead to a partition.
func Load(root string, output Output) (*Input, error) {
	settings, err := config.Load(root)
	in := &Input{config: settings, valid: err == nil, names: settings.Names}
	node := host.Root(root)
	in.ownSlices = ownSlices(node, sliceNames(settings))
	if len(settings.Partitions) > 0 || len(settings.Reserved.Slices) > 0 || !settings.Services.IsZero() {
		in.services = installedServices(node)
	}
	if settings.Off {
		return in, err
	}
	in.kubelets = ofInstalled(node, kubeletServices)
	in.program = watched(node, settings)
	in.hasMonitor = installed(node, partition.MonitorService)
	var keptErr error
	if in.names, keptErr = output.names(settings.Names); keptErr == nil {
		in.kept, keptErr = output.kept(keptUnits(in.names))
	}
	if keptErr != nil {
		in.names, in.kept, in.keptWarning = settings.Names, nil, fmt.Sprintf("%v, ignoring it", keptErr)
	}
	in.running = map[partition.Name]bool{}
	for _, name := range in.names {
		in.running[name] = node.Exists(name.Cgroup())
	}
	for _, name := range in.names {
		if err == nil {
			//guard: an automount that is idle does not end the partition
			err = idleSource(output.source(name.Slice()), settings.Kubelet.Idle)
			in.valid = err == nil
		}
	}
	if err != nil {
		return in, err
	}
	if err = in.readCPUs(node); err != nil {
		in.valid = false
		return in, err
	}
	in.deferrals = deferrals(node, settings)
	// A soft-reboot keeps the slices of a partition that is switched off, and nothing else starts the
	// monitor then (TestTrial, systemd 257.13). It moves the pods back and stops the slices. A monitor
	// that runs does so by itself. A kubelet that wants it would keep its unit in memory until the
	// next daemon-reload, and its After= would keep the slice's unit (TestLiveMove, systemd 252).
	//guard: a kubelet that starts does not want a monitor that runs, which would keep units loaded
	in.empties = in.hasMonitor && len(in.present()) > len(settings.Partitions) && !monitorRuns(node)
	return in, nil
}

// readCPUs finds which units have lists of CPUs that no section has, and reads the CPUs of the node
// for them.
func (in *Input) readCPUs(node host.Root) (err error) {
	in.exclusive = config.ExclusiveCPUs(in.config.Partitions)
	in.restrictsOthers = !in.exclusive.IsEmpty() || in.wasExclusive()
	in.podsRun = in.restrictsOthers && node.Exists(partition.Default.Cgroup())
	in.keepsCPUs = map[partition.Name]bool{}
	for _, name := range in.present() {
		p := in.config.Partition(name)
		if in.running[name] && (p == nil || p.CPUs.IsEmpty()) && keepsCPUs(node, name) {
			in.keepsCPUs[name] = true
		}
	}
	in.hostCPUs = in.config.HostCPUs
	noMore := in.hostCPUs.IsEmpty() && in.wasOnHostCPUs()
	if in.restrictsOthers || noMore || len(in.keepsCPUs) > 0 {
		in.nodeCPUs, err = config.PresentCPUs(node)
	}
	if noMore {
		in.hostCPUs = in.nodeCPUs
	}
	return err
}

// Watched reports whether a change of the file at kubeletconfig.OverridePath is to be applied when
// it comes.
func (in *Input) Watched() bool { return in.program != "" }

// Identity returns config.Config.Identity of the configuration.
func (in *Input) Identity() string { return in.config.Identity() }

// idleSource returns an error if the partition in place was made from a file at one of the idle
// places. The file is still there, and cannot be seen: an automount with an idle timeout must
// neither end the partition nor select another section.
func idleSource(source string, idle []string) error {
	for _, place := range idle {
		if source == place || strings.HasPrefix(source, place+"/") {
			return fmt.Errorf(
				"%s: the partition was made from it, and nothing is mounted at its automount point; look at the file, which mounts it",
				source,
			)
		}
	}
	return nil
}

// keepsCPUs reports whether the kernel keeps a former list of CPUs, of a partition without one now.
// A list that an operator has set by hand is not a former one: ours would extend it to all CPUs.
func keepsCPUs(root host.Root, name partition.Name) bool {
	return boundToCPUs(root, name.Cgroup()) && !operatorSets(root, name.Slice(), "AllowedCPUs")
}

// maxCPUList bounds a list of CPUs. The longest, of 8192 CPUs that alternate, has 20 KB.
const maxCPUList = 64 << 10

// boundToCPUs reports whether a cgroup has a private list of CPUs, and processes.
func boundToCPUs(root host.Root, cgroup string) bool {
	list, err := root.ReadFile(cgroup+"/cpuset.cpus", maxCPUList)
	if err != nil || strings.TrimSpace(string(list)) == "" {
		return false
	}
	populated, err := cgroups.FS(root).Populated(cgroup)
	return err == nil && populated
}
