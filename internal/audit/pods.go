package audit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"

	"nodepartition/internal/cpuweight"
	"nodepartition/internal/unitname"
)

// ended reports whether a pod has ended: the kubelet counts its requests no longer.
func ended(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// endedAt returns the last time at which something of a pod has ended.
func endedAt(pod *v1.Pod) metav1.Time {
	var last metav1.Time
	for i := range pod.Status.ContainerStatuses {
		if t := pod.Status.ContainerStatuses[i].State.Terminated; t != nil && t.FinishedAt.After(last.Time) {
			last = t.FinishedAt
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.LastTransitionTime.After(last.Time) {
			last = c.LastTransitionTime
		}
	}
	return last
}

// isSettled reports whether the limits of a running pod are known: it is neither ending nor being
// resized, and uses no claims, which add to its resources.
func isSettled(pod *v1.Pod) bool {
	if pod.Status.Phase != v1.PodRunning || pod.DeletionTimestamp != nil || len(pod.Spec.ResourceClaims) > 0 {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if (c.Type == v1.PodResizePending || c.Type == v1.PodResizeInProgress) && c.Status == v1.ConditionTrue {
			return false
		}
	}
	return true
}

// settled returns the pods whose limits are known.
func (a *audit) settled() []*v1.Pod {
	var list []*v1.Pod
	for _, pod := range a.Pods {
		if a.PodsKnown && isSettled(pod) && pod.Status.QOSClass != "" {
			list = append(list, pod)
		}
	}
	return list
}

// resources holds what the kubelet writes for a pod. A limit is nil if there is none.
type resources struct {
	milliCPU           int64
	milliLimit, memory *int64
}

// podResources returns the resources of a pod as the kubelet counts them for its slice
// (ResourceConfigForPod, pkg/kubelet/cm/helpers_linux.go). A pod has a limit if each of its
// containers, init containers too, has one, or if the pod itself has one.
func podResources(pod *v1.Pod) resources {
	if pod.Status.QOSClass == v1.PodQOSBestEffort {
		return resources{}
	}
	requests := resource.PodRequests(pod, resource.PodResourcesOptions{})
	limits := resource.PodLimits(pod, resource.PodResourcesOptions{})
	r := resources{milliCPU: requests.Cpu().MilliValue()}
	if declared(pod, v1.ResourceCPU) {
		r.milliLimit = new(limits.Cpu().MilliValue())
	}
	if declared(pod, v1.ResourceMemory) {
		r.memory = new(limits.Memory().Value())
	}
	return r
}

func declared(pod *v1.Pod, name v1.ResourceName) bool {
	if own := pod.Spec.Resources; own != nil {
		if q := own.Limits[name]; !q.IsZero() {
			return true
		}
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if q := list[i].Resources.Limits[name]; q.IsZero() {
				return false
			}
		}
	}
	return true
}

// podSlices checks the slices that the kubelet has made for pods.
func (a *audit) podSlices() {
	for _, pod := range a.settled() {
		cgroup, r := podSlice(pod), podResources(pod)
		name := pod.Namespace + "/" + pod.Name
		a.expect(limit{cgroup, cpuWeight, a.weight(cpuweight.SharesOfMilliCPU(r.milliCPU)), warning,
			fmt.Sprintf("the %s pod %s requests %dm of CPU, and weighs as that by the %s formula, which the kubelet uses on this node",
				pod.Status.QOSClass, name, r.milliCPU, a.formula.Name), docWeight})
		why := fmt.Sprintf("the %s pod %s has the sum of the limits of its containers, and no limit if one of them has none", pod.Status.QOSClass, name)
		a.expect(limit{cgroup, memoryMax, a.memoryLimit(r.memory), Error, why, docResources})
		if a.quotas(pod) {
			a.expect(limit{cgroup, cpuMax, a.cpuLimit(r.milliLimit), warning, why, docResources})
		}
		a.askedSlice(pod, r)
		if a.Kubelet != nil {
			a.expect(limit{cgroup, pidsMax, a.pidsLimit(), warning,
				fmt.Sprintf("podPidsLimit of the kubelet bounds the processes of each pod, %s too", name), docPIDs})
		}
	}
}

func (a *audit) memoryLimit(limit *int64) value {
	if limit == nil || *limit <= 0 {
		return none(memoryMax)
	}
	return byteLimit{memoryMax, uint64(*limit), a.Node.PageSize}
}

func (a *audit) cpuLimit(milli *int64) value {
	if milli == nil || *milli <= 0 || a.Kubelet.CPUCFSQuota != nil && !*a.Kubelet.CPUCFSQuota {
		return none(cpuMax)
	}
	return quota(*milli)
}

// quotas reports whether the limit of CPU of a pod is known. It is not with another period, and not
// if the pod may have CPUs for itself: the kubelet then writes no quota
// (DisableCPUQuotaWithExclusiveCPUs, 1.33).
func (a *audit) quotas(pod *v1.Pod) bool {
	k := a.Kubelet
	if k == nil {
		return false
	}
	otherPeriod := k.CPUCFSQuotaPeriod != "" && k.CPUCFSQuotaPeriod != "100ms"
	exclusive := k.CPUManagerPolicy == static && pod.Status.QOSClass == v1.PodQOSGuaranteed
	return !otherPeriod && !exclusive
}

func (a *audit) pidsLimit() value {
	if limit := a.Kubelet.PodPidsLimit; limit != nil && *limit > 0 {
		return count{pidsMax, uint64(*limit)}
	}
	return none(pidsMax)
}

// container is a running container with its resources.
type container struct {
	spec               *v1.Container
	scope              string
	milli              int64 // the request, or the limit without one
	shares             uint64
	milliLimit, memory *int64
	// asked means that shares counts the resource of a workload type, too. askedLimit is the limit
	// that an annotation gives it in thousandths of a CPU, 0 for none.
	asked      bool
	askedLimit int64
}

// running returns the running containers of a settled pod that have a scope. It returns none of a
// pod with an overhead: its RuntimeClass runs the containers in a sandbox (gVisor, Kata
// Containers), and their scopes need not have limits.
func (a *audit) running(pod *v1.Pod) []container {
	if _, known := a.containersOf[pod]; !known {
		a.containersOf[pod] = a.findRunning(pod)
	}
	return a.containersOf[pod]
}

func (a *audit) findRunning(pod *v1.Pod) []container {
	var list []container
	if len(pod.Spec.Overhead) > 0 {
		return nil
	}
	asked := a.askedCPU(pod)
	for _, group := range []struct {
		specs    []v1.Container
		statuses []v1.ContainerStatus
	}{{pod.Spec.Containers, pod.Status.ContainerStatuses}, {pod.Spec.InitContainers, pod.Status.InitContainerStatuses}} {
		for i := range group.specs {
			for j := range group.statuses {
				spec, status := &group.specs[i], &group.statuses[j]
				if spec.Name != status.Name || status.State.Running == nil {
					continue
				}
				if scope, ok := a.scopes[idOf(status.ContainerID)]; ok {
					c := newContainer(pod, spec, scope)
					c.ask(asked)
					list = append(list, c)
				}
			}
		}
	}
	return list
}

// idOf returns the ID in RUNTIME://ID.
func idOf(id string) string {
	for i := len(id); i > 0; i-- {
		if id[i-1] == '/' {
			return id[i:]
		}
	}
	return id
}

// newContainer computes the resources of a container (generateLinuxContainerResources,
// pkg/kubelet/kuberuntime/kuberuntime_container_linux.go). A container without a limit has the
// pod's limit, and one without a request for CPU requests its limit.
func newContainer(pod *v1.Pod, spec *v1.Container, scope string) container {
	c := container{spec: spec, scope: scope}
	limitOf := func(name v1.ResourceName) *int64 {
		q := spec.Resources.Limits[name]
		if q.IsZero() && pod.Spec.Resources != nil {
			q = pod.Spec.Resources.Limits[name]
		}
		if q.IsZero() {
			return nil
		}
		if name == v1.ResourceCPU {
			return new(q.MilliValue())
		}
		return new(q.Value())
	}
	c.milliLimit, c.memory = limitOf(v1.ResourceCPU), limitOf(v1.ResourceMemory)
	request, ok := spec.Resources.Requests[v1.ResourceCPU]
	milli := request.MilliValue()
	if !ok && c.milliLimit != nil {
		milli = *c.milliLimit
	}
	c.milli, c.shares = milli, cpuweight.SharesOfMilliCPU(milli)
	return c
}

// containers checks the scopes that the runtime has made for containers.
func (a *audit) containers() {
	for _, pod := range a.settled() {
		for _, c := range a.running(pod) {
			why := fmt.Sprintf("container %s of %s/%s has its own limits, and the runtime writes them", c.spec.Name, pod.Namespace, pod.Name)
			a.expect(limit{c.scope, memoryMax, a.memoryLimit(c.memory), Error, why, docResources})
			switch {
			case c.askedLimit > 0:
				a.expect(limit{c.scope, cpuMax, quota(c.askedLimit), warning,
					fmt.Sprintf("an annotation of %s/%s limits container %s, and partition-monitor writes the limit", pod.Namespace, pod.Name, c.spec.Name), docAsked})
			case a.quotas(pod):
				a.expect(limit{c.scope, cpuMax, a.cpuLimit(c.milliLimit), warning, why, docResources})
			}
			a.containerWeight(pod, c)
		}
	}
}

// containerWeight checks the weight of a container. Either formula is right: a container that was
// started before an upgrade of the runtime keeps its weight.
func (a *audit) containerWeight(pod *v1.Pod, c container) {
	present := a.Cgroups[c.scope][cpuWeight]
	expected := cpuweight.Linear
	if a.report.Formulas.Runtime == cpuweight.Quadratic.Name {
		expected = cpuweight.Quadratic
	}
	for _, f := range []cpuweight.Formula{cpuweight.Linear, cpuweight.Quadratic} {
		if present == strconv.FormatUint(f.Weight(c.shares), 10) {
			return
		}
	}
	if c.asked {
		a.expect(limit{c.scope, cpuWeight, count{cpuWeight, expected.Weight(c.shares)}, warning,
			fmt.Sprintf("container %s of %s/%s has %d shares of CPU with its request of the resource of a workload type, "+
				"and partition-monitor gives its scope the weight of that", c.spec.Name, pod.Namespace, pod.Name, c.shares), docAsked})
		return
	}
	a.expect(limit{c.scope, cpuWeight, count{cpuWeight, expected.Weight(c.shares)}, warning,
		fmt.Sprintf("container %s of %s/%s has %d shares of CPU, which neither formula of runtimes converts into this weight",
			c.spec.Name, pod.Namespace, pod.Name, c.shares), docWeight})
}

// isNodeCritical is the kubelet's IsNodeCriticalPod (pkg/kubelet/types/pod_update.go): a pod of the
// highest class that is static or has a priority of the system.
func isNodeCritical(pod *v1.Pod) bool {
	const systemPriority = 2 * 1_000_000_000
	source := pod.Annotations["kubernetes.io/config.source"]
	critical := source != "" && source != "api" || pod.Spec.Priority != nil && *pod.Spec.Priority >= systemPriority
	return critical && pod.Spec.PriorityClassName == "system-node-critical"
}

// The oom_score_adj of containers (pkg/kubelet/qos/policy.go).
const (
	guaranteedScore = -997
	bestEffortScore = 1000
)

// score returns the oom_score_adj of a container, and whether it is known
// (GetContainerOOMScoreAdjust, pkg/kubelet/qos/policy.go). It is not known for a sidecar and for a
// pod with pod-level resources, whose rules differ between versions, nor for a pod whose
// specification has changed: runtimes set the score when a container starts, and a resize keeps it.
func (a *audit) score(pod *v1.Pod, spec *v1.Container) (int, bool) {
	switch {
	case isNodeCritical(pod) || pod.Status.QOSClass == unitname.Guaranteed:
		return guaranteedScore, true
	case pod.Status.QOSClass == unitname.BestEffort:
		return bestEffortScore, true
	case spec.RestartPolicy != nil || pod.Spec.Resources != nil || pod.Generation > 1 || a.Node.MemoryBytes <= 0:
		return 0, false
	}
	const scale = 1000
	// A request above the memory of the node is at the lower end.
	request := min(spec.Resources.Requests.Memory().Value(), a.Node.MemoryBytes)
	score := int(scale - scale*request/a.Node.MemoryBytes)
	return min(max(score, scale+guaranteedScore), bestEffortScore-1), true
}

// mayLowerScore reports whether a container has CAP_SYS_RESOURCE, with which it may lower its own
// score: kube-proxy sets -999 (--oom-score-adj).
func mayLowerScore(spec *v1.Container) bool {
	s := spec.SecurityContext
	if s == nil {
		return false
	}
	return s.Privileged != nil && *s.Privileged || s.Capabilities != nil &&
		slices.ContainsFunc(s.Capabilities.Add, func(c v1.Capability) bool {
			name := strings.TrimPrefix(strings.ToUpper(string(c)), "CAP_")
			return name == "SYS_RESOURCE" || name == "ALL"
		})
}
