package nri

import (
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"node-partition.io/node-partition/internal/partition"
)

// FuzzCgroupsPath: whatever a runtime or another plugin gives as the cgroup of a container, the
// answer is a scope in the partition's slice of that very pod, or an error.
func FuzzCgroupsPath(f *testing.F) {
	const uid = "1f2e-3d"
	f.Add("", "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1f2e_3d.slice", uid, "c1", "containerd")
	f.Add("kubepods-pod1f2e_3d.slice:cri-containerd:c1", "", uid, "c1", "cri-o")
	f.Add("kubepods-system-pod1f2e_3d.slice:cri-containerd:c1", "", uid, "c1", "containerd")
	f.Add("/kubepods/pod1f2e-3d/c1", "", uid, "c1", "containerd")
	f.Add("../../x.slice:a:b", "", uid, "", "")
	f.Fuzz(func(t *testing.T, present, parent, uid, id, runtime string) {
		pod := &api.PodSandbox{Uid: uid, Linux: &api.LinuxPodSandbox{CgroupParent: parent}}
		got, err := cgroupsPath(partition.System, pod, &api.Container{Id: id, Linux: &api.LinuxContainer{CgroupsPath: present}}, runtime)
		if err != nil {
			if got != "" {
				t.Errorf("%q with %v", got, err)
			}
			return
		}
		slice, _, ok := strings.Cut(got, ":")
		if i := strings.LastIndexByte(slice, '/'); i >= 0 {
			slice = slice[i+1:]
		}
		name, _, escaped, known := partition.ParsePodSlice(slice)
		if !ok || !known || name != partition.System || escaped != partition.EscapeUID(uid) {
			t.Errorf("%q in %q with UID %q goes to %q", present, parent, uid, got)
		}
	})
}
