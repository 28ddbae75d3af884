package audit

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRunScoreOfItsOwn: a container with the right to do so may have set its own score, as
// kube-proxy does with -999. Another container cannot.
func TestRunScoreOfItsOwn(t *testing.T) {
	t.Parallel()
	secured := func(c v1.SecurityContext) change {
		return pod("batch", func(p *v1.Pod) { p.Spec.Containers[0].SecurityContext = &c })
	}
	yes := true
	for name, test := range map[string]struct {
		change change
		want   int
	}{
		"privileged":        {secured(v1.SecurityContext{Privileged: &yes}), 0},
		"with SYS_RESOURCE": {secured(v1.SecurityContext{Capabilities: &v1.Capabilities{Add: []v1.Capability{"SYS_RESOURCE"}}}), 0},
		"with all":          {secured(v1.SecurityContext{Capabilities: &v1.Capabilities{Add: []v1.Capability{"ALL"}}}), 0},
		"with NET_ADMIN":    {secured(v1.SecurityContext{Capabilities: &v1.Capabilities{Add: []v1.Capability{"NET_ADMIN"}}}), 1},
		"without rights":    {func(*Facts) {}, 1},
	} {
		s := healthy(t)
		changes(test.change, score(batchScope, -999))(s)
		if report := Run(s); len(report.Findings) != test.want {
			t.Errorf("%s: %+v; want %d findings", name, report.Findings, test.want)
		}
	}
}

// TestRunResized: runtimes set the score of a container when it starts, and not when its memory
// request is changed.
func TestRunResized(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	pod("app", func(p *v1.Pod) {
		p.Generation = 2
		p.Spec.Containers[0].Resources.Requests[v1.ResourceMemory] = resource.MustParse("60Mi")
	})(s)
	score(appScope, 990)(s)
	if report := Run(s); len(report.Findings) != 0 {
		t.Errorf("%+v", report.Findings)
	}
}

// TestRunOverhead: a RuntimeClass with an overhead, such as that of Kata Containers, runs
// containers in a sandbox, which has the limits in place of their scopes.
func TestRunOverhead(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	pod("batch", func(p *v1.Pod) {
		p.Spec.Overhead = v1.ResourceList{v1.ResourceMemory: resource.MustParse("120Mi")}
	})(s)
	s.Cgroups[batchScope] = Files{cpuWeight: "79", memoryMax: "1073741824", cpuMax: "max 100000"}
	score(batchScope, 0)(s)
	if report := Run(s); len(report.Findings) != 0 {
		t.Errorf("%+v", report.Findings)
	}
}

// TestRunEndedPod: the weight of the burstable pods counts a pod of a Job up to a minute after its
// end. Later a weight that still counts it is wrong.
func TestRunEndedPod(t *testing.T) {
	t.Parallel()
	for ago, want := range map[time.Duration]int{10 * time.Second: 0, 55 * time.Second: 0, 10 * time.Minute: 1} {
		s := healthy(t)
		job := &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "job", UID: "9"},
			Spec: v1.PodSpec{Containers: []v1.Container{{
				Name: "main", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("500m")}},
			}}},
			Status: v1.PodStatus{Phase: v1.PodSucceeded, QOSClass: v1.PodQOSBurstable, ContainerStatuses: []v1.ContainerStatus{{
				Name:  "main",
				State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{FinishedAt: metav1.NewTime(s.Time.Add(-ago))}},
			}}},
		}
		s.Pods = append(s.Pods, job)
		property("kubepods.slice/kubepods-burstable.slice", "CPUWeight", "35", cpuWeight, "35")(s) // 900m
		if report := Run(s); len(report.Findings) != want {
			t.Errorf("%s after its end: %+v; want %d findings", ago, report.Findings, want)
		}
	}
}
