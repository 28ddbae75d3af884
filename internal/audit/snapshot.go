package audit

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/cpuset"

	"nodepartition/internal/membership"
	"nodepartition/internal/unitname"
)

// Facts holds what the rules are applied to.
type Facts struct {
	Node Node
	// Time is the time at which it was taken.
	Time metav1.Time
	// Kubelet is nil if no command line of a running kubelet is known. Flags may then override each of
	// its settings.
	Kubelet *Kubelet
	// Partitions lists the configured partitions, and Members the rules of who belongs to them.
	Partitions []Section
	Members    membership.Rules
	// Names lists the partitions that the node may have, configured or not.
	Names []unitname.PartitionName
	// Cgroups holds the cgroups by their path below the mount: kubepods.slice. It has the slices, the
	// scopes of containers, and no others.
	Cgroups map[string]Files
	// Units holds properties of the units of Cgroups by the name of the unit.
	Units map[string]Unit
	// Sysctls holds kernel parameters by name: vm.overcommit_memory. One that cannot be read is
	// missing.
	Sysctls map[string]string
	// Processes lists the kubelet and the runtime.
	Processes []Process
	// Containers holds the first process of containers by the path of the scope.
	Containers map[string]FirstProcess
	// Pods lists the pods of the kubelet if PodsKnown.
	Pods      []*v1.Pod
	PodsKnown bool
	// PodsUnknown is the reason why they are not known, if it is not the lack of the Pods API.
	PodsUnknown string
	// OomdActive means that systemd-oomd runs.
	OomdActive bool
}

// Files holds the text of a cgroup's files by name, without the final newline. A file that does not
// exist, because its controller is off, is missing.
type Files map[string]string

// Unit holds properties of a unit by name, as systemctl show prints them.
type Unit map[string]string

// Node holds the capacity of the node as the kubelet counts it.
type Node struct {
	MilliCPU, MemoryBytes int64
	// PIDs is the smaller of kernel.pid_max and kernel.threads-max, 0 if it is not known.
	PIDs int64
	// CPUs holds the CPUs that are online.
	CPUs cpuset.CPUSet
	// PageSize is in bytes. The kernel rounds limits of memory down to whole pages.
	PageSize uint64
}

// Amounts holds amounts of resources. A resource that is not set is nil.
type Amounts struct {
	MilliCPU, MemoryBytes, PIDs *int64
}

// Kubelet holds the settings of the running kubelet, with its flags. The names and types follow
// k8s.io/kubelet/config/v1beta1.KubeletConfiguration.
type Kubelet struct {
	// Source names the configuration file for the operator.
	Source string `json:"-"`
	// KubeReserved and SystemReserved are the reservations in effect: reservedSystemCPUs has replaced
	// their CPUs.
	KubeReserved   Amounts `json:"-"`
	SystemReserved Amounts `json:"-"`

	EnforceNodeAllocatable  []string          `json:"enforceNodeAllocatable,omitempty"`
	KubeReservedCgroup      string            `json:"kubeReservedCgroup,omitempty"`
	SystemReservedCgroup    string            `json:"systemReservedCgroup,omitempty"`
	SystemCgroups           string            `json:"systemCgroups,omitempty"`
	QOSReserved             map[string]string `json:"qosReserved,omitempty"`
	PodPidsLimit            *int64            `json:"podPidsLimit,omitempty"`
	CPUCFSQuota             *bool             `json:"cpuCFSQuota,omitempty"`
	CPUCFSQuotaPeriod       string            `json:"cpuCFSQuotaPeriod,omitempty"`
	CPUManagerPolicy        string            `json:"cpuManagerPolicy,omitempty"`
	CPUManagerPolicyOptions map[string]string `json:"cpuManagerPolicyOptions,omitempty"`
	ReservedSystemCPUs      string            `json:"reservedSystemCPUs,omitempty"`
	OOMScoreAdj             *int32            `json:"oomScoreAdj,omitempty"`
}

// Section holds the settings of a partition.
type Section struct {
	Name unitname.PartitionName
	// CPUs is empty if the partition runs on all CPUs.
	CPUs cpuset.CPUSet
	// Exclusive means that other pods are kept off CPUs.
	Exclusive bool
}

// FirstProcess is the process that a container was started with.
type FirstProcess struct {
	PID, OOMScoreAdj int
}

// Kind is a kind of daemon.
type Kind string

// The daemons whose processes are audited.
const (
	KubeletDaemon Kind = "kubelet"
	RuntimeDaemon Kind = "runtime"
)

// Process is a daemon of the node.
type Process struct {
	Kind Kind
	// Unit is the name of its service, and Cgroup its path below the mount.
	Unit, Cgroup string
	PID          int
	OOMScoreAdj  int
}
