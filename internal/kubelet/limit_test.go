package kubelet

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// limited returns a container with a memory limit, or without one if limit is empty.
func limited(limit string) v1.Container {
	var c v1.Container
	if limit != "" {
		c.Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse(limit)}
	}
	return c
}

func TestNewPodMemoryLimit(t *testing.T) {
	t.Parallel()
	always := func(c v1.Container) v1.Container {
		c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		return c
	}
	whole := &v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")}}
	for name, test := range map[string]struct {
		spec v1.PodSpec
		want int64
	}{
		"the sum":              {v1.PodSpec{Containers: []v1.Container{limited("100"), limited("20")}}, 120},
		"one without":          {v1.PodSpec{Containers: []v1.Container{limited("100"), limited("")}}, 0},
		"an init container":    {v1.PodSpec{InitContainers: []v1.Container{limited("")}, Containers: []v1.Container{limited("100")}}, 100},
		"a sidecar":            {v1.PodSpec{InitContainers: []v1.Container{always(limited("3"))}, Containers: []v1.Container{limited("100")}}, 103},
		"a sidecar without":    {v1.PodSpec{InitContainers: []v1.Container{always(limited(""))}, Containers: []v1.Container{limited("100")}}, 0},
		"of the pod":           {v1.PodSpec{Resources: whole, Containers: []v1.Container{limited("")}}, 1 << 30},
		"of pod and container": {v1.PodSpec{Resources: whole, Containers: []v1.Container{limited("100")}}, 1 << 30},
	} {
		if got := newPod(&v1.Pod{Spec: test.spec}).MemoryLimit; got != test.want {
			t.Errorf("%s: %d; want %d", name, got, test.want)
		}
	}
}
