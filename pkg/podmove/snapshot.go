package podmove

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/cpuweight"
	"nodepartition/internal/cri"
	"nodepartition/internal/unitname"
)

// Snapshot is the input of Decide: plain data.
type Snapshot struct {
	// Config is the requested configuration.
	Config Config
	// Pods are the pods that have a sandbox in the runtime, or a slice of the partition.
	Pods []Pod
	// NRI is the state of creation-time placement.
	NRI NRIState
	// Weights holds the present weights of the partition's slices, by name. A slice that does not
	// exist has no entry.
	Weights map[string]uint64
	// Protected holds the protected memory of the partition's slices, by name, and that of
	// kubepods.slice if there is a floor or was one.
	Protected map[string]cgroupfs.Protection
	// Raised is the largest protected memory that kubepods.slice may have for a floor: Decision.Raised
	// of the last pass that did everything, or of those since then.
	Raised cgroupfs.Protection
	// Formula is the formula that the kubelet uses.
	Formula cpuweight.Formula
	// Moving is the UID of the pod that is being moved, empty for none.
	Moving string
	// Backoff holds the pods whose move failed and is not tried again yet, GivenUp those that are not
	// restarted again.
	Backoff, GivenUp map[string]bool
	// RestartsFail means that a restarted container was not placed: another one would not be either.
	RestartsFail bool
	// Awaited lists the pods that were restarted and are not Ready again, by namespace and name,
	// separated by commas. It is empty for none.
	Awaited string
	// Ordered holds the UIDs of the pods that an operator wants moved now.
	Ordered map[string]bool
}

// Config is the part of the configuration that placement needs.
type Config struct {
	// Partition is the partition that the members belong to.
	Partition unitname.Partition
	// Namespaces lists the namespaces whose pods are members.
	Namespaces []string
	// Off means that the partition is switched off: no pod belongs to it any more.
	Off bool
	// Mode is the method of moving running pods.
	Mode Mode
	// Floor is the protected memory that the partition has at least, whatever its pods have.
	Floor cgroupfs.Protection
}

// Mode is the method of moving running pods that are misplaced.
type Mode string

// The modes.
const (
	// Auto restarts if containers are placed at creation, and moves live if they cannot be. It
	// restarts neither static pods nor those that are critical for the node.
	Auto Mode = "auto"
	// OnlyRestart restarts any pod, and never moves processes.
	OnlyRestart Mode = "restart"
	// OnlyLive never stops a container.
	OnlyLive Mode = "live"
	// Never leaves running pods where they are.
	Never Mode = "never"
)

// NRIState is the state of creation-time placement.
type NRIState int

const (
	// Unavailable means that the runtime serves no NRI.
	Unavailable NRIState = iota
	// Awaited means that it serves NRI and we are not connected: it was restarted, or we have just
	// started.
	Awaited
	// Working means that each new container is placed.
	Working
)

// Pod is a pod on the node.
type Pod struct {
	UID, Namespace, Name string
	QoS                  v1.PodQOSClass
	// Ready means that it has a running sandbox. Without one it has ended, or is being created again.
	Ready bool
	// Static means that the kubelet read it from a file or a URL.
	Static bool
	// Exists means that the runtime lists a sandbox of it, or NRI announced one. Otherwise only
	// cgroups are left.
	Exists bool
	// Kubelet holds what the kubelet reports about it. It is nil if the kubelet does not report it.
	Kubelet *KubeletPod
	// MilliCPU is its CPU request in thousandths of a CPU. It is estimated from the containers if the
	// kubelet does not report it.
	MilliCPU int64
	// DefaultCgroup is its slice in the default partition, which the kubelet made. PartitionCgroup is
	// its slice in the system partition.
	DefaultCgroup, PartitionCgroup PodCgroup
	// Containers lists the containers that the runtime has not removed.
	Containers []Container
	// Orphans lists the scopes in its slices that no program but this one ends: live moves made them
	// and their container has ended, or they were left over empty (leftOvers).
	Orphans []string
	// Outlived lists the scopes in its slice of the partition with processes that have outlived it.
	Outlived []Outlived
	// Settling means that an empty scope in its slice is too young to be left over.
	Settling bool
}

// terminate marks a pod as terminating, whatever the kubelet has reported.
func (p *Pod) terminate() {
	known := KubeletPod{}
	if p.Kubelet != nil {
		known = *p.Kubelet
	}
	known.Terminating = true
	p.Kubelet = &known
}

// KubeletPod is the part of a pod's state that only the kubelet knows.
type KubeletPod struct {
	// Terminating means that the pod is being deleted or has ended. Initializing means that init
	// containers have yet to end.
	Terminating, Initializing bool
	// Ready is the pod's condition of that name.
	Ready bool
	// Priority decides whether the pod is critical.
	Priority int32
	// GracePeriod bounds how long a container may take to end.
	GracePeriod time.Duration
}

// nowhere stands for the cgroup of a container that runs and whose process the runtime does not
// report.
const nowhere = "nowhere"

// PodCgroup is one of the slices of a pod.
type PodCgroup struct {
	// Slice is the name of the unit.
	Slice string
	// Exists means that its cgroup is there. The other fields but Slice hold only then.
	Exists bool
	Limits cgroupfs.Limits
	// Units lists the cgroups in it.
	Units []string
	// Bytes is the memory that is charged to it and not to a cgroup below it. It is only read if a
	// live move left some.
	Bytes uint64
}

// Container is a container of a pod.
type Container struct {
	ID, Name string
	// Running means that the runtime has started it and it has not ended. A container that is being
	// created is not running.
	Running bool
	// Creating means that the runtime has created it and has yet to start it.
	Creating bool
	// Init, Sidecar and Restarts are known if the kubelet reports the pod. Restarts means that the
	// kubelet starts the container again whatever its exit status is.
	Init, Sidecar, Restarts bool
	// Order is its index in the pod.
	Order int
	// Ready is the readiness that the kubelet reports for this container. If the kubelet does not
	// report it, Ready means that the container runs.
	Ready bool
	// Unit is the scope that it runs in, empty if it has none. Slice is the slice of that scope.
	Unit, Slice string
	// Foreign means that it runs outside its pod's slices. Slice is its cgroup then, or Nowhere.
	Foreign bool
	// AlsoUnit and AlsoSlice are the second place of a container whose live move ended half-way, with
	// processes in both.
	AlsoUnit, AlsoSlice string
	// IdleCPUs lists the CPUs that it was given alone and cannot use. It is empty for none.
	IdleCPUs string
	// OwnCgroups means that it has cgroups below its scope.
	OwnCgroups bool
	// Resources holds the resources it was created with, in whatever state it is. They are read only
	// if the kubelet does not report the pod's requests.
	Resources cri.Resources
}
