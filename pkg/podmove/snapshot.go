package podmove

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/cri"
	"nodepartition/internal/unitname"
)

// Snapshot is all that Decide decides from: plain data.
type Snapshot struct {
	// Config is what is asked for.
	Config Config
	// Pods are the pods that have a sandbox in the runtime, or a slice of the partition.
	Pods []Pod
	// NRI tells whether new containers are placed at creation.
	NRI NRIState
	// Weights are the present weights of the partition's slices, by name; a slice that is not there has no entry.
	Weights map[string]uint64
	// Protected is the memory of the partition's slices that is protected now, likewise.
	Protected map[string]cgroupfs.Protection
	// Formula is the kubelet's.
	Formula Formula
	// Moving is the UID of the pod that is being moved, empty for none.
	Moving string
	// Backoff has the pods whose move failed and is not to be tried again yet, GivenUp those that are not
	// to be restarted again.
	Backoff, GivenUp map[string]bool
	// RestartsFail tells that a restarted container was not placed: another one would not be either.
	RestartsFail bool
	// Awaited is the namespace and name of a pod that was restarted and is not Ready again, empty for none.
	Awaited string
	// Ordered has the UIDs of the pods that an operator wants moved now.
	Ordered map[string]bool
}

// Config is the part of the configuration that placement needs.
type Config struct {
	// Partition is the one that the members belong to.
	Partition unitname.Partition
	// Namespaces whose pods are members.
	Namespaces []string
	// Off says that the partition is switched off: no pod belongs into it any more.
	Off bool
	// Mode is how running pods are moved.
	Mode Mode
}

// Mode is how running pods that are misplaced are moved.
type Mode string

// The modes.
const (
	// Auto restarts where containers are placed at creation, but for static pods and those that are
	// critical for the node, and moves live where they cannot be.
	Auto Mode = "auto"
	// OnlyRestart restarts whatever pod it is, and never moves processes.
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
	// Awaited means that it serves NRI and we are not connected: it was restarted, or has just begun.
	Awaited
	// Working means that each new container is placed.
	Working
)

// Pod is a pod on the node.
type Pod struct {
	UID, Namespace, Name string
	QoS                  v1.PodQOSClass
	// Ready tells that it has a sandbox that is running; without one it has ended, or is being created again.
	Ready bool
	// Static tells that the kubelet has it from a file or a URL.
	Static bool
	// Exists tells that the runtime knows a sandbox of it, or NRI announced one. Otherwise only cgroups are left.
	Exists bool
	// Kubelet is what the kubelet knows of it, nil where it has not said.
	Kubelet *KubeletPod
	// MilliCPU is its CPU request in thousandths of a CPU, an approximation by its containers where the kubelet has not said.
	MilliCPU int64
	// Home is its slice in the default partition, which the kubelet made; Guest that in the system partition.
	Home, Guest PodCgroup
	// Containers are those that the runtime has not removed.
	Containers []Container
	// Orphans are units in its slices that live moves made and whose container has ended.
	Orphans []string
}

// terminate says of a pod that it ends, whatever the kubelet has said.
func (p *Pod) terminate() {
	known := KubeletPod{}
	if p.Kubelet != nil {
		known = *p.Kubelet
	}
	known.Terminating = true
	p.Kubelet = &known
}

// KubeletPod is what only the kubelet knows of a pod.
type KubeletPod struct {
	// Terminating pods are being deleted; Initializing ones have init containers to run.
	Terminating, Initializing bool
	// Ready is its condition of that name.
	Ready bool
	// Priority is what decides who is critical.
	Priority int32
	// GracePeriod is how long a container may take to end.
	GracePeriod time.Duration
}

// Nowhere is where a container is that runs and whose process the runtime does not tell.
const Nowhere = "nowhere"

// PodCgroup is one of the slices of a pod.
type PodCgroup struct {
	// Slice is the name of the unit.
	Slice string
	// Exists tells whether its cgroup is there; the rest holds only then.
	Exists bool
	Limits cgroupfs.Limits
	// Units are the cgroups in it.
	Units []string
	// Bytes is the memory that is charged to it and not to a cgroup below it; only read where a live move left some.
	Bytes uint64
}

// Container is a container of a pod.
type Container struct {
	ID, Name string
	// Running tells that the runtime has started it and it has not ended. One that is being created is not running.
	Running bool
	// Creating tells that the runtime has made it and has yet to start it.
	Creating bool
	// Init, Sidecar and Restarts are known where the kubelet has told. Restarts is that of the container itself.
	Init, Sidecar, Restarts bool
	// Order is its place in the pod.
	Order int
	// Ready is what the kubelet says of this container, that it runs where the kubelet does not tell.
	Ready bool
	// Unit is the scope it runs in, empty where it has none; Slice the slice that is in.
	Unit, Slice string
	// Foreign tells that it runs and is in none of its pod's slices. Slice is its cgroup then, or Nowhere.
	Foreign bool
	// AlsoUnit and AlsoSlice are the second place of a container whose live move ended half-way, with processes in both.
	AlsoUnit, AlsoSlice string
	// IdleCPUs are those that it was given alone and cannot use, as a list; empty for none.
	IdleCPUs string
	// OwnCgroups tells that it has cgroups below its scope.
	OwnCgroups bool
	// Resources it was created with; asked for only where the kubelet does not tell the pod's requests.
	Resources cri.Resources
}
