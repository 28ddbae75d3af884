package lab

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestDefaultManifests(t *testing.T) {
	files, err := guestFiles("seed")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, f := range files {
		if !strings.HasPrefix(f.Path, ManifestDir) {
			continue
		}
		pod, err := parsePod(f.Data)
		if err != nil {
			t.Errorf("%s: %v", f.Path, err)
			continue
		}
		if f.Path != manifestPath(pod.Name) {
			t.Errorf("pod %s is in %s: DeletePod would not find it", pod.Name, f.Path)
		}
		found[pod.Namespace+"/"+pod.Name] = true
	}
	for _, want := range []string{"kube-system/system-agent", "default/user-app", "default/user-besteffort"} {
		if !found[want] {
			t.Errorf("there is no manifest of %s", want)
		}
	}
}

func TestParsePod(t *testing.T) {
	pod, err := parsePod([]byte("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"))
	if err != nil || pod.Namespace != "default" {
		t.Errorf("namespace %q, %v", pod.Namespace, err)
	}
	for name, manifest := range map[string]string{
		"not a pod": "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n",
		"no name":   "apiVersion: v1\nkind: Pod\n",
		"misspelt":  "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspeck: {}\n",
		"not yaml":  "{",
	} {
		if _, err := parsePod([]byte(manifest)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestPodRunsAndDescribePods(t *testing.T) {
	pod := v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main"}}}}
	pod.Namespace, pod.Name = "default", "a-node"
	pod.Status.Phase = v1.PodRunning
	if podRuns(pod) {
		t.Error("runs without a container's status")
	}
	status := v1.ContainerStatus{Name: "main"}
	status.State.Waiting = &v1.ContainerStateWaiting{Reason: "ErrImageNeverPull", Message: "not present"}
	pod.Status.ContainerStatuses = []v1.ContainerStatus{status}
	if podRuns(pod) {
		t.Error("runs with a container that waits")
	}
	want := "default/a-node Running (main waits: ErrImageNeverPull not present)"
	if got := describePods([]v1.Pod{pod}); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	pod.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "main", Ready: true}}
	if !podRuns(pod) {
		t.Error("does not run")
	}
	if describePods(nil) != "none" {
		t.Error(describePods(nil))
	}
}
