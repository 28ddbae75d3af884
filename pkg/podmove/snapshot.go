package podmove

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/admission"
	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/cri"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// Snapshot is the input of Decide: plain data.
type Snapshot struct {
	// Config is the requested configuration, and Rules are its rules. A partition that exists on the
	// node, and that the configuration does not have, counts as switched off.
	Config Policy
	Rules  partition.Rules
	// Pods are the pods that have a sandbox in the runtime, or a slice of a partition.
	Pods []Pod
	// NRI is the state of creation-time placement.
	NRI NRIState
	// KubeletAnswers means that the kubelet reported its pods when the node was read. Otherwise
	// Pod.Kubelet has what it reported last.
	KubeletAnswers bool
	// Weights holds the present weights of the partitions' slices, by name. A slice that does not
	// exist has no entry.
	Weights map[string]uint64
	// Protected holds the protected memory of the partitions' slices, by name, and of kubepods.slice
	// if there is a floor or was one.
	Protected map[string]cgroups.Protection
	// Raised is the largest protected memory that kubepods.slice may have for a floor: Decision.Raised
	// of the last reconcile that did everything, or of those since then.
	Raised cgroups.Protection
	// Formula is the formula that the kubelet uses, and Runtime the runtime's.
	Formula, Runtime admission.WeightFormula
	// CPU holds the figures of earlier passes about the CPU time of members by annotation, and
	// recorded its scopes by the ID of their container.
	CPU      CPURecord
	recorded map[string]string
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

// follow replaces the configuration, which may have changed since the node was read.
func (s *Snapshot) follow(c Policy, rules partition.Rules) {
	s.Config, s.Rules = c.with(s.Config.names()), rules
	for i := range s.Pods {
		p := &s.Pods[i]
		if len(p.Partitions) == len(s.Config.Partitions) || !p.Exists {
			continue
		}
		for _, name := range s.Config.names() {
			if cgroup := p.Cgroup(name); !p.inPartition(cgroup.Slice) {
				p.Partitions = append(p.Partitions, cgroup) // the partition was not there
			}
		}
	}
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
	annotations
	// Exists means that the runtime lists a sandbox of it, or NRI announced one. Otherwise only
	// cgroups are left.
	Exists bool
	// Kubelet holds what the kubelet reports about it. It is nil if the kubelet does not report it.
	Kubelet *kubelet.Pod
	// MilliCPU is its CPU request in thousandths of a CPU. It is estimated from the containers if the
	// kubelet does not report it.
	MilliCPU int64
	// DefaultCgroup is its slice in the default partition, which the kubelet made.
	DefaultCgroup PodCgroup
	// Partitions holds its slice in each other partition, in the order of the configuration. Of a pod
	// that does not exist it holds one slice that is left over.
	Partitions []PodCgroup
	// Containers lists the containers that the runtime has not removed.
	Containers []Container
	// Orphans lists the scopes in its slices that no program but this one ends: live moves made them
	// and their container has ended, or they were left over empty (forgotten).
	Orphans []string
	// Outlived lists the scopes in its slice of a partition with processes that have outlived it.
	Outlived []report.Outlived
	// Settling means that an empty scope in its slice is too young to be left over.
	Settling bool
}

// annotations holds what the annotations of a pod said when its sandbox was made. Annotations that
// are added later count from the next sandbox on.
type annotations struct {
	partition.Origin
	// Annotated is the CPU time that the pod has by the resource of its type, of the containers that
	// have not ended. It is zero if the kubelet reports the pod.
	Annotated admission.PodCPU
}

// fullName returns the namespace and the name of the pod, as an operator writes them.
func (p *Pod) fullName() string { return p.Namespace + "/" + p.Name }

// member returns what decides about the pod's membership.
func (p *Pod) member() partition.Pod {
	return partition.Pod{
		//guard: a Guaranteed pod that asks is not moved
		Namespace: p.Namespace, Guaranteed: p.QoS == v1.PodQOSGuaranteed, Origin: p.Origin,
	}
}

// Cgroup returns the slice of the pod in a partition. If the partition is not among Partitions, its
// slice does not exist.
func (p *Pod) Cgroup(in partition.Name) PodCgroup {
	if in == partition.Default {
		return p.DefaultCgroup
	}
	if found := p.find(in); found != nil {
		return *found
	}
	return PodCgroup{Partition: in, Slice: partition.PodSlice(in, p.QoS, p.UID)}
}

// find returns the element of Partitions for a partition, nil if there is none.
func (p *Pod) find(in partition.Name) *PodCgroup {
	for i := range p.Partitions {
		if p.Partitions[i].Partition == in {
			return &p.Partitions[i]
		}
	}
	return nil
}

// inPartition reports whether a slice is the pod's slice in a partition other than the default one.
func (p *Pod) inPartition(slice string) bool {
	return slices.ContainsFunc(p.Partitions, func(c PodCgroup) bool { return c.Slice == slice })
}

// reported sets what the kubelet reports about the pod, nil for nothing. It counts in place of the
// annotations.
func (p *Pod) reported(known *kubelet.Pod) {
	if known != nil {
		p.Kubelet, p.MilliCPU, p.Annotated = known, known.MilliCPU, admission.PodCPU{}
	}
}

// terminate marks a pod as terminating, whatever the kubelet has reported.
func (p *Pod) terminate() {
	known := kubelet.Pod{}
	if p.Kubelet != nil {
		known = *p.Kubelet
	}
	known.Terminating = true
	p.Kubelet = &known
}

// nowhere stands for the cgroup of a container that runs and whose process the runtime does not
// report.
const nowhere = "nowhere"

// PodCgroup is the slice of a pod in a partition.
type PodCgroup struct {
	Partition partition.Name
	// Slice is the name of the unit.
	Slice string
	// Exists means that its cgroup is there. The other fields but Slice hold only then.
	Exists bool
	Limits cgroups.Limits
	// Units lists the cgroups in it.
	Units []string
	// Bytes is the memory that is charged to it and not to a cgroup below it. It is only read where a
	// move may have left some: in a slice without cgroups, and in the kubelet's own beside a live
	// move.
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
	// Container is known if the kubelet reports the pod. Otherwise MilliCPU is estimated.
	kubelet.Container
	// asked is its CPU time by the resource of a type, by the annotations of the sandbox if the
	// kubelet does not report the pod.
	asked admission.CPU
	// Restarts means that the kubelet starts the container again whatever its exit status is.
	Restarts bool
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
	// CPU is the CPU time of its scope. It is read if a pod of the node asks for a type, and otherwise
	// zero.
	CPU cgroups.CPU
	// OwnCgroups means that it has cgroups below its scope.
	OwnCgroups bool
	// Resources holds the resources it was created with, in whatever state it is. They are read only
	// if the kubelet does not report the pod's requests.
	Resources cri.Resources
}
