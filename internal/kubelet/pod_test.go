package kubelet

import (
	"reflect"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/partition"
)

func cpu(request string) v1.ResourceList { return of(v1.ResourceCPU, request) }

func memory(request string) v1.ResourceList { return of(v1.ResourceMemory, request) }

func of(name v1.ResourceName, request string) v1.ResourceList {
	return v1.ResourceList{name: resource.MustParse(request)}
}

// container returns a container with a CPU request.
func container(name, request string) v1.Container { return requesting(name, v1.ResourceCPU, request) }

// takes returns a container with a memory request.
func takes(name, request string) v1.Container { return requesting(name, v1.ResourceMemory, request) }

func requesting(name string, what v1.ResourceName, request string) v1.Container {
	c := v1.Container{Name: name}
	if request != "" {
		c.Resources.Requests = of(what, request)
	}
	return c
}

func sidecar(name, request string) v1.Container { return restarting(container(name, request)) }

func stays(name, request string) v1.Container { return restarting(takes(name, request)) }

func restarting(c v1.Container) v1.Container {
	c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
	return c
}

func TestNewPod(t *testing.T) {
	t.Parallel()
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			UID: "1111-2222", Namespace: "kube-system", Name: "dns", Annotations: map[string]string{"kubernetes.io/config.source": "file"},
			OwnerReferences: []metav1.OwnerReference{{UID: "1"}, {UID: "2", Controller: new(true)}},
		},
		Spec: v1.PodSpec{
			RestartPolicy:  v1.RestartPolicyAlways,
			Priority:       new(int32(-10)),
			InitContainers: []v1.Container{container("setup", "1"), sidecar("log", "100m")},
			Containers:     []v1.Container{container("dns", "250m"), container("probe", "")},
		},
		Status: v1.PodStatus{QOSClass: v1.PodQOSBurstable, Phase: v1.PodRunning},
	}
	want := &Pod{
		UID: "1111-2222", Namespace: "kube-system", Name: "dns",
		QoS: v1.PodQOSBurstable, RestartPolicy: v1.RestartPolicyAlways, GracePeriod: 30 * time.Second,
		MilliCPU: 1000, // the init container runs before the sidecar
		Priority: -10, Origin: partition.Origin{Static: true}, Owner: "2", Initializing: true,
		Containers: map[string]Container{
			"setup": {Init: true, MilliCPU: 1000},
			"log":   {Sidecar: true, Order: 1, RestartPolicy: v1.ContainerRestartPolicyAlways, MilliCPU: 100},
			"dns":   {MilliCPU: 250},
			"probe": {Order: 1},
		},
	}
	if got := newPod(pod); !reflect.DeepEqual(got, want) {
		t.Errorf("\n%+v; want\n%+v", got, want)
	}
}

// Containers for debugging are marked as ephemeral: the kubelet never restarts one.
func TestNewPodEphemeralContainers(t *testing.T) {
	t.Parallel()
	debug := v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debugger-abcde"}}
	pod := newPod(&v1.Pod{Spec: v1.PodSpec{
		Containers: []v1.Container{container("dns", "100m")}, EphemeralContainers: []v1.EphemeralContainer{debug},
	}})
	want := map[string]Container{"dns": {MilliCPU: 100}, "debugger-abcde": {Ephemeral: true, StaysEnded: true}}
	if !reflect.DeepEqual(pod.Containers, want) || pod.MilliCPU != 100 {
		t.Errorf("%+v, %d", pod.Containers, pod.MilliCPU)
	}
}

// The readiness of a pod, and the IDs of its containers.
func TestNewPodReady(t *testing.T) {
	t.Parallel()
	condition := func(status v1.ConditionStatus) []v1.PodCondition {
		return []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue}, {Type: v1.PodReady, Status: status}}
	}
	for status, want := range map[v1.ConditionStatus]bool{v1.ConditionTrue: true, v1.ConditionFalse: false, v1.ConditionUnknown: false} {
		pod := newPod(&v1.Pod{
			Spec: v1.PodSpec{InitContainers: []v1.Container{sidecar("log", "")}, Containers: []v1.Container{container("dns", "")}},
			Status: v1.PodStatus{
				Conditions:            condition(status),
				ContainerStatuses:     []v1.ContainerStatus{{Name: "dns", ContainerID: "containerd://0123", Ready: want}},
				InitContainerStatuses: []v1.ContainerStatus{{Name: "log", ContainerID: "containerd://4567", Ready: true}},
			},
		})
		dns, log := pod.Containers["dns"], pod.Containers["log"]
		if pod.Ready != want || dns.Ready != want || dns.ID != "0123" || !log.Ready || log.ID != "4567" {
			t.Errorf("%s: ready %t, %+v, %+v", status, pod.Ready, dns, log)
		}
	}
}

func TestNewPodLifecycle(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	for name, test := range map[string]struct {
		pod  v1.Pod
		want Pod
	}{
		"terminating": {v1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}, Pod{Terminating: true}},
		"pending":     {v1.Pod{Status: v1.PodStatus{Phase: v1.PodPending}}, Pod{}},
		"running":     {v1.Pod{Status: v1.PodStatus{Phase: v1.PodRunning}}, Pod{}},
		"succeeded":   {v1.Pod{Status: v1.PodStatus{Phase: v1.PodSucceeded}}, Pod{Ended: true}},
		"failed":      {v1.Pod{Status: v1.PodStatus{Phase: v1.PodFailed}}, Pod{Ended: true}},
		"guaranteed":  {v1.Pod{Status: v1.PodStatus{QOSClass: v1.PodQOSGuaranteed}}, Pod{QoS: v1.PodQOSGuaranteed}},
		"best effort": {v1.Pod{Status: v1.PodStatus{QOSClass: v1.PodQOSBestEffort}}, Pod{QoS: v1.PodQOSBestEffort}},
		"never":       {v1.Pod{Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyNever}}, Pod{RestartPolicy: v1.RestartPolicyNever}},
		"on failure":  {v1.Pod{Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyOnFailure}}, Pod{RestartPolicy: v1.RestartPolicyOnFailure}},
	} {
		test.want.GracePeriod, test.want.Containers = 30*time.Second, map[string]Container{}
		if got := newPod(&test.pod); !reflect.DeepEqual(*got, test.want) {
			t.Errorf("%s: %+v; want %+v", name, *got, test.want)
		}
	}
	for seconds, want := range map[int64]time.Duration{0: 0, 1: time.Second, 30: 30 * time.Second, 86400: 24 * time.Hour} {
		pod := newPod(&v1.Pod{Spec: v1.PodSpec{TerminationGracePeriodSeconds: &seconds}})
		if pod.GracePeriod != want {
			t.Errorf("terminationGracePeriodSeconds %d: %s; want %s", seconds, pod.GracePeriod, want)
		}
	}
}

func TestNewPodRequests(t *testing.T) {
	t.Parallel()
	running := func(name, request string) v1.ContainerStatus {
		return v1.ContainerStatus{
			Name: name, Resources: &v1.ResourceRequirements{Requests: cpu(request)}, AllocatedResources: cpu(request),
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
		}
	}
	for name, test := range map[string]struct {
		pod        v1.Pod
		pods       int64 // the pod's request
		containers int
	}{
		"sum": {
			v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{container("a", "100m"), container("b", "1500m"), container("c", "")}}},
			1600, 3,
		},
		"below a thousandth": {
			v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{container("a", "100u")}}},
			1, 1,
		},
		// A sidecar counts beside the containers, and beside init containers that come after it.
		"sidecar": {
			v1.Pod{Spec: v1.PodSpec{
				InitContainers: []v1.Container{container("i", "1"), sidecar("s", "300m"), container("j", "1")},
				Containers:     []v1.Container{container("a", "100m")},
			}},
			1300, 4,
		},
		// A resize to 2 that the node has not allocated, because it is deferred or infeasible.
		"growing": {
			v1.Pod{
				Spec:   v1.PodSpec{Containers: []v1.Container{container("a", "2")}},
				Status: v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{running("a", "1")}},
			},
			1000, 1,
		},
	} {
		pod := newPod(&test.pod)
		if pod.MilliCPU != test.pods {
			t.Errorf("%s: %d for the pod; want %d", name, pod.MilliCPU, test.pods)
		}
		if len(pod.Containers) != test.containers {
			t.Errorf("%s: containers %v", name, pod.Containers)
		}
	}
}

// A container's own restartPolicy (KEP-5307). For an init container only Always makes a sidecar.
func TestNewPodContainerRestartPolicy(t *testing.T) {
	t.Parallel()
	with := func(name string, policy v1.ContainerRestartPolicy) v1.Container {
		return v1.Container{Name: name, RestartPolicy: &policy}
	}
	pod := newPod(&v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{
			with("sidecar", v1.ContainerRestartPolicyAlways), with("try", v1.ContainerRestartPolicyOnFailure), with("once", v1.ContainerRestartPolicyNever),
		},
		Containers: []v1.Container{with("never", v1.ContainerRestartPolicyNever), {Name: "main"}},
	}})
	want := map[string]Container{
		"sidecar": {Sidecar: true, RestartPolicy: v1.ContainerRestartPolicyAlways},
		"try":     {Init: true, Order: 1, RestartPolicy: v1.ContainerRestartPolicyOnFailure},
		"once":    {Init: true, Order: 2, RestartPolicy: v1.ContainerRestartPolicyNever, StaysEnded: true},
		"never":   {RestartPolicy: v1.ContainerRestartPolicyNever, StaysEnded: true},
		"main":    {Order: 1},
	}
	if !reflect.DeepEqual(pod.Containers, want) {
		t.Errorf("%+v; want %+v", pod.Containers, want)
	}
}

func TestNewPodInitializing(t *testing.T) {
	t.Parallel()
	exited := func(name string, code int32) v1.ContainerStatus {
		return v1.ContainerStatus{Name: name, State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code}}}
	}
	running := v1.ContainerStatus{Name: "i", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}
	again := v1.ContainerStatus{Name: "i", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}}, LastTerminationState: exited("i", 1).State}
	i, j := container("i", ""), container("j", "")
	for name, test := range map[string]struct {
		init     []v1.Container
		statuses []v1.ContainerStatus
		want     bool
	}{
		"no init containers":          {nil, nil, false},
		"status is not there yet":     {[]v1.Container{i}, nil, true},
		"running":                     {[]v1.Container{i}, []v1.ContainerStatus{running}, true},
		"failed, tried again":         {[]v1.Container{i}, []v1.ContainerStatus{again}, true},
		"failed":                      {[]v1.Container{i}, []v1.ContainerStatus{exited("i", 1)}, true},
		"ended well":                  {[]v1.Container{i}, []v1.ContainerStatus{exited("i", 0)}, false},
		"second has yet to start":     {[]v1.Container{i, j}, []v1.ContainerStatus{exited("i", 0)}, true},
		"both ended well":             {[]v1.Container{i, j}, []v1.ContainerStatus{exited("j", 0), exited("i", 0)}, false},
		"a sidecar does not end":      {[]v1.Container{sidecar("s", "")}, nil, false},
		"a sidecar and one that runs": {[]v1.Container{sidecar("s", ""), i}, []v1.ContainerStatus{running}, true},
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{InitContainers: test.init}, Status: v1.PodStatus{InitContainerStatuses: test.statuses}}
		if got := newPod(pod).Initializing; got != test.want {
			t.Errorf("%s: %t; want %t", name, got, test.want)
		}
	}
}
