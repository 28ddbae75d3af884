package kubelet

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"

	"node-partition.io/node-partition/internal/admission"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/text"
)

// Pod holds the properties of a pod that the kubelet has and the runtime does not.
type Pod struct {
	UID, Namespace, Name string
	QoS                  v1.PodQOSClass
	RestartPolicy        v1.RestartPolicy
	// Terminating pods have a deletionTimestamp.
	Terminating bool
	// Ended pods succeeded or failed; the kubelet starts none of their containers again.
	Ended bool
	// GracePeriod is the time in which a container has to end.
	GracePeriod time.Duration
	// Priority of the pod, 0 if it has none.
	Priority int32
	// Origin is as the annotations are now.
	partition.Origin
	// Owner is the UID of the controller, empty if there is none.
	Owner string
	// MemoryRequest that is allocated, in bytes, counted as MilliCPU.
	MemoryRequest int64
	// MemoryLimit is the sum of the limits in bytes, or the limit of the pod as a whole. It is 0 if a
	// container has none.
	MemoryLimit int64
	// MilliCPU is the pod's CPU request in thousandths of a CPU, as the scheduler and the kubelet
	// count it: the larger of the sum of its containers and its largest init container, with overhead.
	MilliCPU int64
	// Requested is the CPU time that the pod has by the resource of the workload type that it asks
	// for. It is zero for a pod that asks for none.
	Requested admission.PodCPU
	// Initializing pods have init containers that have not ended yet.
	Initializing bool
	// Ready is the pod's condition of that name.
	Ready bool
	// Containers by name, init containers, sidecars and ephemeral ones too.
	Containers map[string]Container
}

// Ends reports whether the pod is being deleted or has ended.
func (pod *Pod) Ends() bool { return pod.Terminating || pod.Ended }

// EndsWhenKilled reports whether a container of the pod would not be started again after SIGKILL.
// An ephemeral container is never started again, and nothing waits for it.
func (pod *Pod) EndsWhenKilled() bool {
	for _, c := range pod.Containers {
		if c.StaysEnded && !c.Ended && !c.Ephemeral {
			return true
		}
	}
	return false
}

// Container holds the properties of a container that the kubelet has.
type Container struct {
	// Init containers run one after the other before the others start.
	Init bool
	// Sidecar containers are init containers that are kept running.
	Sidecar bool
	// Ephemeral containers are for debugging; the kubelet never starts one again.
	Ephemeral bool
	// Order is the index in the pod's list.
	Order int
	// ID identifies the present container in the runtime, empty if there is none yet. Ready means that
	// the kubelet reports that container as ready.
	ID    string
	Ready bool
	// RestartPolicy of the container itself, empty if the pod's applies.
	RestartPolicy v1.ContainerRestartPolicy
	// StaysEnded containers are not started again when they are killed with SIGKILL.
	StaysEnded bool
	// Ended containers have exited, and have not been started again yet.
	Ended bool
	// MemoryRequest that is allocated, in bytes.
	MemoryRequest int64
	// MilliCPU is the CPU request that is allocated, and MilliLimit the CPU limit, in thousandths of a
	// CPU.
	MilliCPU, MilliLimit int64
}

// defaultGracePeriod applies to a pod without a grace period (DefaultTerminationGracePeriodSeconds,
// k8s.io/api/core/v1).
const defaultGracePeriod = v1.DefaultTerminationGracePeriodSeconds * time.Second

// maxGraceSeconds is a year: longer than a node stays up.
const maxGraceSeconds = 365 * 24 * 3600

func newPod(p *v1.Pod) *Pod {
	spec := p
	//guard: a deferred resize does not count
	p = allocated(p)
	pod := &Pod{
		UID: string(p.UID), Namespace: p.Namespace, Name: p.Name,
		QoS: p.Status.QOSClass, RestartPolicy: p.Spec.RestartPolicy,
		Terminating:  p.DeletionTimestamp != nil,
		Origin:       partition.OriginOf(p.Annotations),
		Ended:        p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed,
		GracePeriod:  defaultGracePeriod,
		Initializing: initializing(p),
		Ready:        ready(p),
		Containers:   make(map[string]Container, len(p.Spec.Containers)+len(p.Spec.InitContainers)),
	}
	if seconds := p.Spec.TerminationGracePeriodSeconds; seconds != nil {
		// The API has no maximum; time.Duration ends at 292 years.
		pod.GracePeriod = time.Duration(min(max(*seconds, 0), maxGraceSeconds)) * time.Second
	}
	requests := resource.PodRequests(p, resource.PodResourcesOptions{})
	pod.MilliCPU = text.MilliCPU(*requests.Cpu())
	pod.MemoryRequest = requests.Memory().Value()
	pod.MemoryLimit = memoryLimit(p)
	if pod.Ask.Type != "" {
		// No resize changes the request of such a resource: the status adds nothing to the spec.
		pod.Requested = admission.CPUOf(spec, pod.Ask.Type)
	}
	if p.Spec.Priority != nil {
		pod.Priority = *p.Spec.Priority
	}
	if owner := metav1.GetControllerOf(p); owner != nil {
		pod.Owner = string(owner.UID)
	}
	for i := range p.Spec.Containers {
		pod.add(p, &p.Spec.Containers[i], i, Container{})
	}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		sidecar := c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
		pod.add(p, c, i, Container{Init: !sidecar, Sidecar: sidecar})
	}
	for i := range p.Spec.EphemeralContainers {
		c := v1.Container(p.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		pod.add(p, &c, i, Container{Ephemeral: true})
	}
	return pod
}

// memoryLimit returns the memory limit of a pod, 0 if a container other than an init container can
// use any amount.
func memoryLimit(p *v1.Pod) int64 {
	ofPod := p.Spec.Resources != nil && !p.Spec.Resources.Limits.Memory().IsZero()
	without := func(c v1.Container) bool { return c.Resources.Limits.Memory().IsZero() }
	sidecarWithout := func(c v1.Container) bool {
		return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways && without(c)
	}
	if !ofPod && (slices.ContainsFunc(p.Spec.Containers, without) ||
		slices.ContainsFunc(p.Spec.InitContainers, sidecarWithout)) {
		return 0
	}
	limits := resource.PodLimits(p, resource.PodResourcesOptions{})
	return limits.Memory().Value()
}

// ready reports whether the pod's condition is true: its containers are ready, and its readiness
// gates.
func ready(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodReady && c.Status == v1.ConditionTrue
	})
}

func (pod *Pod) add(p *v1.Pod, c *v1.Container, order int, known Container) {
	known.Order = order
	known.MemoryRequest = c.Resources.Requests.Memory().Value()
	known.MilliCPU = text.MilliCPU(*c.Resources.Requests.Cpu())
	known.MilliLimit = text.MilliCPU(*c.Resources.Limits.Cpu())
	if c.RestartPolicy != nil {
		known.RestartPolicy = *c.RestartPolicy
	}
	known.StaysEnded = known.Ephemeral || !restartsAfter(c, p.Spec.RestartPolicy, killed)
	for _, statuses := range [][]v1.ContainerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses} {
		for i := range statuses {
			s := &statuses[i]
			if s.Name != c.Name {
				continue
			}
			// As RUNTIME://ID.
			_, known.ID, _ = strings.Cut(s.ContainerID, "://")
			known.Ready = s.Ready
			known.Ended = s.State.Terminated != nil
		}
	}
	pod.Containers[c.Name] = known
}

// initializing reports whether an init container, other than a sidecar, has not ended successfully.
// A pod without a status, because the kubelet has just started, counts as initializing if it has
// any.
func initializing(p *v1.Pod) bool {
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			continue
		}
		done := false
		for j := range p.Status.InitContainerStatuses {
			s := &p.Status.InitContainerStatuses[j]
			if s.Name == c.Name && s.State.Terminated != nil && s.State.Terminated.ExitCode == 0 {
				done = true
			}
		}
		if !done {
			return true
		}
	}
	return false
}
