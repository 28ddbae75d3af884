package slices

import (
	"fmt"
	"strings"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/hostfs"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/slices/config"
	"nodepartition/pkg/slices/decision"
	"nodepartition/pkg/slices/lowering"
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
	// hasMonitor means that the monitor's service is installed.
	hasMonitor bool
	// ownSlices lists, of the slices for services, those that have a unit file of the node's own.
	ownSlices []string
	// kept holds, by path, the files of the current output that stay for the rest of the boot.
	kept map[string]string
	// keptWarning is the reason why those files could not be read.
	keptWarning string
	// running means that the partition's cgroup exists.
	running bool
	// keepsCPUs means that the partition has a list of CPUs that it cannot be without.
	keepsCPUs bool
	// deferral is nil if the limit does not have to wait for evictions.
	deferral *decision.Deferral
}

// Load reads the configuration and, if there is a partition to make, the facts that its units
// depend on. root is the root directory of the node, "/" except in tests. output holds the previous
// output and will take the plan. If the configuration is not valid, Load returns the error of
// config.Load, and the input is for the units that may still lead to a partition.
func Load(root string, output Output) (*Input, error) {
	settings, err := config.Load(root)
	in := &Input{config: settings, valid: err == nil}
	node := hostfs.FS(root)
	in.ownSlices = ownSlices(node, sliceNames(settings))
	if settings.Partition != nil || len(settings.Reserved.Slices) > 0 || !settings.Services.IsZero() {
		in.services = installedServices(node)
	}
	if settings.Off {
		return in, err
	}
	in.kubelets = ofInstalled(node, kubeletServices)
	in.hasMonitor = installed(node, unitname.MonitorService)
	in.running = node.Exists(settings.Name.Cgroup())
	var keptErr error
	if in.kept, keptErr = output.kept(keptUnits(settings.Name)); keptErr != nil {
		in.kept, in.keptWarning = nil, fmt.Sprintf("%v, taking it for none", keptErr)
	}
	if err == nil {
		err = idleSource(output.source(settings.Name.Slice()), settings.Kubelet.Idle)
		in.valid = err == nil
	}
	if err != nil {
		return in, err
	}
	if settings.Partition != nil {
		in.deferral = lowering.Find(root, settings)
		in.keepsCPUs = in.running && keepsCPUs(node, settings)
	}
	return in, nil
}

// idleSource returns an error if the partition in place was made from a file at one of the idle
// places. The file is still there, and cannot be seen: an automount with an idle timeout is no
// reason to end the partition, or to take another section.
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

// keepsCPUs reports whether the section has no cpuset and the kernel keeps a former one. A list
// that an operator has set by hand is not a former one: ours would extend it to all CPUs.
func keepsCPUs(root hostfs.FS, c *config.Config) bool {
	return c.Partition.CPUs.IsEmpty() && boundToCPUs(root, c.Name.Cgroup()) &&
		!lowering.OperatorSets(root, c.Name.Slice(), "AllowedCPUs")
}

// maxCPUList bounds a list of CPUs. The longest, of 8192 CPUs that alternate, has 20 KB.
const maxCPUList = 64 << 10

// boundToCPUs reports whether a cgroup has a list of CPUs of its own, and processes.
func boundToCPUs(root hostfs.FS, cgroup string) bool {
	list, err := root.ReadFile(cgroup+"/cpuset.cpus", maxCPUList)
	if err != nil || strings.TrimSpace(string(list)) == "" {
		return false
	}
	populated, err := cgroupfs.FS(root).Populated(cgroup)
	return err == nil && populated
}
