package slices

const (
	// LateService reloads systemd once the file system with the configuration is mounted.
	LateService = "partition-generator-late.service"
	// LateMountService does so for a file system that is not mounted by every boot.
	LateMountService = "partition-generator-late@.service"
	// AwaitPath starts AwaitService when a configuration is made on a node that had none.
	AwaitPath = "partition-generator-await.path"
	// AwaitService reloads systemd when AwaitPath starts it.
	AwaitService = "partition-generator-await.service"
	// AwaitSectionPath starts AwaitSectionService when a section is made for a configured kubelet.
	AwaitSectionPath = "partition-generator-await-section.path"
	// AwaitSectionService reloads systemd when AwaitSectionPath starts it.
	AwaitSectionService = "partition-generator-await-section.service"
	// WatchPath starts WatchService when the file of kubeletconfig.OverridePath changes.
	WatchPath = "partition-generator-watch.path"
	// WatchService starts ReadService, once it has ended.
	WatchService = "partition-generator-watch.service"
	// ReadService reloads systemd for a changed file that is valid.
	ReadService = "partition-generator-read.service"
	// ApplyPath starts ApplyService after a reload of a node whose partition is active.
	ApplyPath = "partition-generator-apply.path"
	// ApplyService makes systemd write changed limits to the kernel.
	ApplyService = "partition-generator-apply.service"
	// ControllersService enables the hugetlb controller for reserved slices below other slices.
	ControllersService = "partition-generator-controllers.service"
)

// kubeletServices lists services that run a kubelet. The partition must exist before they start.
var kubeletServices = []string{
	"kubelet.service",
	"k3s.service", "k3s-agent.service",
	"rke2-server.service", "rke2-agent.service",
}

// runtimeServices lists services that run a container runtime that asks systemd for scopes. The k3s
// and RKE2 services above run their runtime as a child.
var runtimeServices = []string{"containerd.service", "crio.service", "docker.service"}

// dropinName sorts our drop-ins after a distribution's 10-*.conf and before an operator's
// 90-*.conf. systemd applies the drop-ins of all directories in the order of their names
// (systemd.unit(5)).
const dropinName = "50-node-partition.conf"

// wantsName is a drop-in that goes with a partition. The other one stays for the rest of the boot.
const wantsName = "50-node-partition-wants.conf"
