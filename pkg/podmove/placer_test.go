package podmove

import (
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"nodepartition/internal/cri"
)

func TestCgroupsPath(t *testing.T) {
	const slice = "kubepods-burstable-pod11111111_2222_3333_4444_555555555555.slice"
	const placed = "kubepods-system-burstable-pod11111111_2222_3333_4444_555555555555.slice"
	for name, test := range map[string]struct {
		parent, path, runtime, want string
	}{
		"containerd": {"/kubepods.slice/kubepods-burstable.slice/" + slice, slice + ":cri-containerd:one", "containerd", placed + ":cri-containerd:one"},
		"CRI-O":      {slice, slice + ":crio:one", "cri-o", placed + ":crio:one"},
		// Where the runtime has yet to make the path up when it asks.
		"no path, containerd": {"/kubepods.slice/kubepods-burstable.slice/" + slice, "", "containerd", placed + ":cri-containerd:one"},
		"no path, CRI-O":      {slice, "", "cri-o", placed + ":crio:one"},
		"cgroupfs driver":     {"/kubepods/burstable/pod11111111-2222-3333-4444-555555555555", "/kubepods/burstable/pod11111111-2222-3333-4444-555555555555/one", "containerd", ""},
		"another pod's slice": {"", "kubepods-burstable-podffffffff.slice:cri-containerd:one", "containerd", ""},
		"no slice of a pod":   {"", "system.slice:cri-containerd:one", "containerd", ""},
		"placed already":      {"", placed + ":cri-containerd:one", "containerd", ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &api.PodSandbox{Uid: uidA, Namespace: "kube-system", Linux: &api.LinuxPodSandbox{CgroupParent: test.parent}}
			c := &api.Container{Id: "one", Name: "main", Linux: &api.LinuxContainer{CgroupsPath: test.path}}
			got, err := cgroupsPath(pod, c, test.runtime)
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("%q, %v; want %q", got, err, test.want)
			}
			if err != nil && !strings.Contains(err.Error(), "kube-system/") {
				t.Errorf("%v: does not say whose", err)
			}
		})
	}
}

func TestPlacerKnowsMembersByNamespace(t *testing.T) {
	p := &Placer{Wake: func() {}, Connection: func(bool) {}, Announce: func(cri.Sandbox, QoS) {}}
	p.SetConfig(Config{Namespaces: []string{"kube-system"}})
	if _, err := p.Synchronize(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	container := &api.Container{Id: "one", Linux: &api.LinuxContainer{CgroupsPath: "kubepods-pod" + strings.ReplaceAll(uidA, "-", "_") + ".slice:cri-containerd:one"}}
	for namespace, member := range map[string]bool{"kube-system": true, "kube-system-2": false, "kube": false, "": false, "default": false} {
		// What the author of a pod can write, and the kubelet passes on.
		labels := map[string]string{"io.kubernetes.pod.namespace": "kube-system"}
		pod := &api.PodSandbox{Id: "s", Uid: uidA, Namespace: namespace, Labels: labels, Annotations: labels, Linux: &api.LinuxPodSandbox{}}
		adjust, _, err := p.CreateContainer(t.Context(), pod, container)
		if err != nil {
			t.Fatal(err)
		}
		if got := adjust.GetLinux().GetCgroupsPath() != ""; got != member {
			t.Errorf("namespace %q: placed is %t, want %t", namespace, got, member)
		}
	}
	p.SetConfig(Config{Namespaces: []string{"kube-system"}, Off: true})
	adjust, _, _ := p.CreateContainer(t.Context(), &api.PodSandbox{Uid: uidA, Namespace: "kube-system"}, container)
	if adjust != nil {
		t.Error("placed a container though the partition is switched off")
	}
}

func TestAnnouncedUntilRemoved(t *testing.T) {
	var begun []string
	p := &Placer{Wake: func() {}, Connection: func(bool) {}, Announce: func(s cri.Sandbox, q QoS) { begun = append(begun, s.Name+" "+string(q)) }}
	p.SetConfig(Config{Namespaces: []string{"kube-system"}})
	_, _ = p.Synchronize(t.Context(), nil, nil)
	sandbox := func(id, namespace string) *api.PodSandbox {
		return &api.PodSandbox{Id: id, Uid: "uid-" + id, Name: id, Namespace: namespace, Linux: &api.LinuxPodSandbox{CgroupParent: "kubepods-besteffort-poduid_" + id + ".slice"}}
	}
	_ = p.RunPodSandbox(t.Context(), sandbox("a", "kube-system"))
	_ = p.RunPodSandbox(t.Context(), sandbox("b", "default"))
	if len(begun) != 1 || begun[0] != "a BestEffort" {
		t.Errorf("slices prepared for %v, want that of the member", begun)
	}
	if !p.IsAnnounced("uid-a") || !p.IsAnnounced("uid-b") {
		t.Error("a sandbox that has begun is not known")
	}
	if list := p.Announced(func(id string) bool { return id == "b" }); len(list) != 1 || list[0].ID != "a" || p.IsAnnounced("uid-b") {
		t.Errorf("announced are %+v, want the one that is not listed; the list tells of the other from now on", list)
	}
	_ = p.RunPodSandbox(t.Context(), sandbox("b", "default"))
	_ = p.RemovePodSandbox(t.Context(), sandbox("a", "kube-system"))
	if p.IsAnnounced("uid-a") {
		t.Error("a sandbox that was removed is still known")
	}
	p.Disconnected()
	if p.IsAnnounced("uid-b") || p.Connected() {
		t.Error("what no event will remove is kept")
	}
}
