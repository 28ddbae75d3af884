package partition

import (
	"path"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/validate/content"
)

// FuzzLabel: a label is one of the API server's.
func FuzzLabel(f *testing.F) {
	for _, seed := range []string{"kube-system", "0", "a-", "-a", "", "A", "a.b", "a\n", "ä", strings.Repeat("a", 63), strings.Repeat("a", 64)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if got, want := IsLabel(name), len(content.IsDNS1123Label(name)) == 0; got != want {
			t.Errorf("%q: %t; want %t", name, got, want)
		}
	})
}

// FuzzPodSlice: an accepted name is the name that the kubelet gives to the slice of that pod. A
// foreign slice is never taken for a pod's.
func FuzzPodSlice(f *testing.F) {
	for _, seed := range []string{
		"kubepods-pod1_2.slice", "kubepods-system-burstable-pod1_2.slice", "kubepods-pod.slice", "kubepods--pod1.slice",
		"kubepods-burstable-burstable-pod1.slice", "kubepods-pod1-pod2.slice", "system.slice", "kubepods-podx-besteffort-pod1.slice",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, slice string) {
		p, class, uid, ok := ParsePodSlice(slice)
		if !ok {
			return
		}
		if got := PodSlice(p, class, uid); got != slice {
			t.Errorf("%q is taken for the slice of %s, whose name is %q", slice, uid, got)
		}
		if cgroup := CgroupPath(slice); path.Base(cgroup) != slice || path.Clean(cgroup) != cgroup && !strings.Contains(slice, "--") {
			t.Errorf("%q is at %q", slice, cgroup)
		}
	})
}

// FuzzScope: a live move keeps the ID of a container, and the name of its scope can be had back.
func FuzzScope(f *testing.F) {
	for _, seed := range []string{"cri-containerd-0a.scope", "crio-conmon-1.scope", "docker-.scope", "partition-a.scope", "", ".scope"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, scope string) {
		if IsLiveMoved(scope) {
			return
		}
		live := LiveScope(scope)
		if !IsLiveMoved(live) || RuntimeScope(live) != scope || ContainerID(live) != ContainerID(scope) {
			t.Errorf("%q: %q has the ID %q of %q", scope, live, ContainerID(live), ContainerID(scope))
		}
		if id := ContainerID(scope); strings.Contains(id, "-") || !strings.HasSuffix(scope, id+".scope") && id != "" {
			t.Errorf("%q: ID %q", scope, id)
		}
	})
}
