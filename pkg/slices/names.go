package slices

const (
	// LateService reloads systemd once the file system with the configuration is mounted.
	LateService = "partition-generator-late.service"
	// AwaitPath starts AwaitService when a configuration is made on a node that had none.
	AwaitPath = "partition-generator-await.path"
	// AwaitService reloads systemd then.
	AwaitService = "partition-generator-await.service"
	// ApplyPath starts ApplyService after a reload of a node whose partition runs.
	ApplyPath = "partition-generator-apply.path"
	// ApplyService has systemd write changed limits to the kernel.
	ApplyService = "partition-generator-apply.service"
)

// kubeletServices run a kubelet: the partition must be there before they start.
var kubeletServices = []string{
	"kubelet.service",
	"k3s.service", "k3s-agent.service",
	"rke2-server.service", "rke2-agent.service",
}

// runtimeServices run a container runtime that asks systemd for scopes. The k3s and RKE2 services above run
// theirs as a child.
var runtimeServices = []string{"containerd.service", "crio.service", "docker.service"}

// dropinName sorts our drop-ins after a distribution's 10-*.conf and before an operator's 90-*.conf: drop-ins
// of all directories are applied in the order of their names (systemd.unit(5)).
const dropinName = "50-node-partition.conf"
