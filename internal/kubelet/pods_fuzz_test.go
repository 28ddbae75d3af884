package kubelet

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// FuzzPod: whatever the kubelet answers, a pod requests no negative memory, and its grace period is
// one that a node can wait for.
func FuzzPod(f *testing.F) {
	seconds := int64(1 << 62)
	for _, pod := range []*v1.Pod{
		{},
		{Spec: v1.PodSpec{TerminationGracePeriodSeconds: &seconds, Containers: []v1.Container{container("a", "1"), container("a", "")}}},
		{
			Spec: v1.PodSpec{InitContainers: []v1.Container{sidecar("log", "100m")}, Overhead: v1.ResourceList{v1.ResourceMemory: resource.MustParse("8Ei")}},
			Status: v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{
				Name: "log", AllocatedResources: v1.ResourceList{v1.ResourceMemory: resource.MustParse("8Ei")},
			}}},
		},
	} {
		data, err := pod.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p := &v1.Pod{}
		if p.Unmarshal(data) != nil {
			return
		}
		pod := newPod(p)
		if pod.GracePeriod < 0 || pod.GracePeriod > maxGraceSeconds*time.Second {
			t.Errorf("the grace period is %s", pod.GracePeriod)
		}
		if pod.UID != string(p.UID) || pod.Namespace != p.Namespace {
			t.Errorf("%s/%s has become %s/%s", p.Namespace, p.UID, pod.Namespace, pod.UID)
		}
		if want := len(p.Spec.Containers) + len(p.Spec.InitContainers) + len(p.Spec.EphemeralContainers); len(pod.Containers) > want {
			t.Errorf("%d containers of %d", len(pod.Containers), want)
		}
	})
}
