package admission

import (
	"errors"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestLeftAlone: what asks for no type is not changed, and neither is a mirror pod.
func TestLeftAlone(t *testing.T) {
	t.Parallel()
	pod := &v1.Pod{}
	pod.Annotations = map[string]string{"a": "b"}
	if e := Convert(nil, Namespace{}, pod); len(e.Remove)+len(e.Set)+len(e.Milli) != 0 {
		t.Errorf("%+v; want no change", e)
	}
	pod.Annotations = map[string]string{mirrorKey: "x", resourcesKey("c"): "y"}
	if e := Convert(nil, Namespace{}, pod); len(e.Remove)+len(e.Set) != 0 {
		t.Errorf("%+v; want no change of a mirror pod", e)
	}
	if err := Judge(nil, Namespace{}, pod); err != nil {
		t.Error(err)
	}
}

// TestMany: a pod that asks, or requests the resource of a type, is bounded. Another is not.
func TestMany(t *testing.T) {
	t.Parallel()
	types := []Type{{Name: "a", Namespaces: []string{"n"}}}
	pod := func(annotations, containers, resources int) *v1.Pod {
		pod := &v1.Pod{}
		pod.Annotations = map[string]string{}
		for i := range annotations {
			pod.Annotations["x"+strconv.Itoa(i)] = ""
		}
		for i := range containers {
			c := v1.Container{Name: strconv.Itoa(i), Resources: v1.ResourceRequirements{Limits: v1.ResourceList{}}}
			for j := range resources {
				c.Resources.Limits[v1.ResourceName("x/"+strconv.Itoa(j))] = resource.MustParse("1")
			}
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
		return pod
	}
	asks := func(pod *v1.Pod) { pod.Annotations[targetKey("a")] = asked }
	for name, test := range map[string]struct {
		pod     *v1.Pod
		change  func(*v1.Pod)
		refused bool
	}{
		"the most":             {pod(MaxAnnotations-1, MaxContainers, MaxResources), asks, false},
		"annotations":          {pod(MaxAnnotations, 1, 0), asks, true},
		"containers":           {pod(0, MaxContainers+1, 0), asks, true},
		"resources":            {pod(0, 1, MaxResources+1), asks, true},
		"beside the resource":  {pod(0, 1, MaxResources), func(pod *v1.Pod) { pod.Spec.Containers[0].Resources.Limits[resourceOf("a")] = resource.MustParse("1") }, true},
		"asks for nothing":     {pod(MaxAnnotations+1, MaxContainers+1, MaxResources+1), func(*v1.Pod) {}, false},
		"speaks of it":         {pod(MaxAnnotations, 1, 0), func(pod *v1.Pod) { pod.Annotations["y"] = "{" + targetKey("a") + "}" }, true},
		"speaks of it, is few": {pod(1, 1, 0), func(pod *v1.Pod) { pod.Annotations["y"] = "{" + targetKey("a") + "}" }, false},
	} {
		test.change(test.pod)
		in := Namespace{Name: "n"}
		e := Convert(types, in, test.pod)
		if test.refused && len(e.Set)+len(e.Remove) > 0 {
			t.Errorf("%s: %d annotations are set, and the pod is refused", name, len(e.Set))
		}
		if err := Judge(types, in, test.pod); errors.Is(err, errMany) != test.refused {
			t.Errorf("%s: %v; want it refused: %t", name, err, test.refused)
		}
	}
}
