package nri

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/nri/pkg/api"
	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// newPlugin returns a plugin whose members are the pods of kube-system.
func newPlugin() *Plugin {
	p := &Plugin{Wake: func() {}, Announce: func(podmove.Announcement) {}, Connection: func(bool) {}}
	p.SetRules(members("kube-system").Rules())
	return p
}

// members returns a configuration whose members are the pods of a namespace.
func members(namespace string) podmove.Policy {
	return podmove.Policy{Partitions: []decision.Partition{{Name: partition.System, Namespaces: []string{namespace}}}}
}

func TestCgroupsPath(t *testing.T) {
	const slice = "kubepods-burstable-pod11111111_2222_3333_4444_555555555555.slice"
	const placed = placedSlice
	for name, test := range map[string]struct {
		parent, path, runtime, want string
	}{
		"containerd": {"/kubepods.slice/kubepods-burstable.slice/" + slice, slice + ":cri-containerd:one", "containerd", placed + ":cri-containerd:one"},
		"CRI-O":      {slice, slice + ":crio:one", "cri-o", placed + ":crio:one"},
		// The runtime has not set the path yet when it calls.
		"no path, containerd":    {"/kubepods.slice/kubepods-burstable.slice/" + slice, "", "containerd", placed + ":cri-containerd:one"},
		"no path, CRI-O":         {slice, "", "cri-o", placed + ":crio:one"},
		"a path without a slice": {slice, ":cri-containerd:one", "containerd", placed + ":cri-containerd:one"},
		"cgroupfs driver":        {"/kubepods/burstable/pod11111111-2222-3333-4444-555555555555", "/kubepods/burstable/pod11111111-2222-3333-4444-555555555555/one", "containerd", ""},
		"runtime without systemd": {
			"/kubepods.slice/kubepods-burstable.slice/" + slice, "/kubepods.slice/kubepods-burstable.slice/" + slice + "/one", "containerd", "",
		},
		"another pod's slice": {"", "kubepods-burstable-podffffffff.slice:cri-containerd:one", "containerd", ""},
		"no slice of a pod":   {"", "system.slice:cri-containerd:one", "containerd", ""},
		"placed already":      {"", placed + ":cri-containerd:one", "containerd", placed + ":cri-containerd:one"},
		"another pod's place": {"", "kubepods-system-podffffffff.slice:cri-containerd:one", "containerd", ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &api.PodSandbox{Uid: uidA, Namespace: "kube-system", Linux: &api.LinuxPodSandbox{CgroupParent: test.parent}}
			c := &api.Container{Id: "one", Name: "main", Linux: &api.LinuxContainer{CgroupsPath: test.path}}
			got, err := cgroupsPath(partition.System, pod, c, test.runtime)
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("%q, %v; want %q", got, err, test.want)
			}
			if err != nil && !strings.Contains(err.Error(), "kube-system/") {
				t.Errorf("%v: does not name the pod", err)
			}
		})
	}
}

func TestPluginAnnounced(t *testing.T) {
	var begun []string
	p := newPlugin()
	p.Announce = func(s podmove.Announcement) { begun = append(begun, s.Name+" "+string(s.QoS)) }
	_, _ = p.Synchronize(t.Context(), nil, nil)
	sandbox := func(id, namespace string) *api.PodSandbox {
		return &api.PodSandbox{Id: id, Uid: "uid-" + id, Name: id, Namespace: namespace, Linux: &api.LinuxPodSandbox{CgroupParent: "kubepods-besteffort-poduid_" + id + ".slice"}}
	}
	_ = p.RunPodSandbox(t.Context(), sandbox("a", "kube-system"))
	_ = p.RunPodSandbox(t.Context(), sandbox("b", "default"))
	if len(begun) != 1 || begun[0] != "a BestEffort" {
		t.Errorf("slices prepared for %v, want that of the member", begun)
	}
	if !p.IsAnnounced("uid-a") || !p.IsAnnounced(partition.EscapeUID("uid-b")) {
		t.Error("a sandbox that has begun is not announced")
	}
	if list := p.Announced(func(id string) bool { return id == "b" }); len(list) != 1 || list[0].ID != "a" || p.IsAnnounced("uid-b") {
		t.Errorf("announced are %+v, want the one that is not listed; the runtime lists the other", list)
	}
	_ = p.RunPodSandbox(t.Context(), sandbox("b", "default"))
	_ = p.RemovePodSandbox(t.Context(), sandbox("a", "kube-system"))
	if p.IsAnnounced("uid-a") {
		t.Error("a removed sandbox is still announced")
	}
	p.disconnected()
	if p.IsAnnounced("uid-b") || p.Connected() {
		t.Error("what no event will remove is kept")
	}
}

// connectedPlugin returns a connected plugin with one member namespace and empty callbacks.
func connectedPlugin(t *testing.T) *Plugin {
	t.Helper()
	p := newPlugin()
	if _, err := p.Synchronize(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPluginAnnouncementExpires: a sandbox that the runtime never lists counts as long as the
// kubelet may wait for it. If it counted longer, the slice of its pod would never be stopped.
func TestPluginAnnouncementExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connectedPlugin(t)
		_ = p.RunPodSandbox(t.Context(), &api.PodSandbox{Id: "a", Uid: "uid-a", Namespace: "kube-system"})
		nothing := func(string) bool { return false }
		for _, step := range []struct {
			wait time.Duration
			want int
		}{{0, 1}, {announcedFor, 1}, {1, 0}} {
			<-time.After(step.wait)
			list := p.Announced(nothing)
			if len(list) != step.want || p.IsAnnounced("uid-a") != (step.want == 1) {
				t.Errorf("after another %s announced are %+v, want %d", step.wait, list, step.want)
			}
		}
	})
}

// TestPluginAnswers: an answer is returned once its container is seen, and dropped once it cannot
// be seen any more.
func TestPluginAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connectedPlugin(t)
		create := func(id, namespace, path string) {
			pod := &api.PodSandbox{Uid: uidA, Namespace: namespace, Linux: &api.LinuxPodSandbox{}}
			c := &api.Container{Id: id, Linux: &api.LinuxContainer{CgroupsPath: path}}
			if _, _, err := p.CreateContainer(t.Context(), pod, c); err != nil {
				t.Error(err)
			}
		}
		member := partition.PodSlice(partition.Default, v1.PodQOSBurstable, uidA) + ":cri-containerd:x"
		create("early", "kube-system", member)
		create("foreign", "kube-system", "system.slice:cri-containerd:x")
		create("user's", "default", member)
		seen := func(ids ...string) map[string]podmove.Answer {
			return p.Answers(func(id string) bool { return slices.Contains(ids, id) })
		}
		got := seen("early", "foreign", "user's")
		if ids := slices.Sorted(maps.Keys(got)); !slices.Equal(ids, []string{"early", "foreign"}) {
			t.Fatalf("answers for %q, want those for the members", ids)
		}
		if got["early"].Err != nil || got["foreign"].Err == nil {
			t.Errorf("answers %+v, want an error for the one whose cgroup is foreign alone", got)
		}
		if got := seen("early", "foreign"); len(got) != 0 {
			t.Errorf("taken twice: %+v", got)
		}
		create("late", "kube-system", member)
		<-time.After(announcedFor)
		_ = seen()
		if got := seen("late"); len(got) != 1 {
			t.Errorf("answers %+v, want that of a container that took %s to start", got, announcedFor)
		}
		create("never", "kube-system", member)
		<-time.After(announcedFor + 1)
		_ = seen()
		if got := seen("never"); len(got) != 0 {
			t.Errorf("answers %+v of a container that has never started", got)
		}
	})
}

// TestPluginNotConnected: events before or after a connection are answered, and nothing of them is
// kept.
func TestPluginNotConnected(t *testing.T) {
	var calls []string
	p := &Plugin{
		Wake:       func() { calls = append(calls, "wake") },
		Announce:   func(s podmove.Announcement) { calls = append(calls, "announce "+s.ID) },
		Connection: func(up bool) { calls = append(calls, map[bool]string{true: "up", false: "down"}[up]) },
	}
	p.SetRules(members("kube-system").Rules())
	sandbox := func(parent string) *api.PodSandbox {
		return &api.PodSandbox{
			Id: "s", Uid: uidA, Namespace: "kube-system", Linux: &api.LinuxPodSandbox{CgroupParent: parent},
		}
	}
	member := partition.PodSlice(partition.Default, v1.PodQOSGuaranteed, uidA)
	expect := func(what string, want ...string) {
		t.Helper()
		if !slices.Equal(calls, want) {
			t.Errorf("%s: %q was called, want %q", what, calls, want)
		}
		calls = nil
	}
	_ = p.RunPodSandbox(t.Context(), sandbox(member))
	expect("a sandbox of a member", "announce s")
	if p.IsAnnounced(uidA) || p.Connected() {
		t.Error("without a connection a sandbox is kept, which no event will remove")
	}
	adjust, _, err := p.CreateContainer(t.Context(), sandbox(member), &api.Container{Id: "c"})
	if err != nil || adjust.GetLinux().GetCgroupsPath() == "" {
		t.Errorf("adjusted %+v, %v; want it placed", adjust, err)
	}
	if got := p.Answers(func(string) bool { return true }); len(got) != 0 {
		t.Errorf("without a connection the answers %+v are kept", got)
	}
	p.disconnected()
	expect("a connection that never was ends")
	if _, err := p.Synchronize(t.Context(), nil, nil); err != nil || !p.Connected() {
		t.Errorf("connected is %t, %v", p.Connected(), err)
	}
	expect("connected", "up", "wake")
	_ = p.RunPodSandbox(t.Context(), sandbox("kubepods"))
	expect("a sandbox that is in no pod's slice")
	_ = p.RemovePodSandbox(t.Context(), sandbox("kubepods"))
	expect("a sandbox removed", "wake")
	_, _ = p.UpdateContainer(t.Context(), nil, nil, nil)
	expect("other limits", "wake")
	p.disconnected()
	expect("disconnected", "down", "wake")
	p.disconnected()
	expect("disconnected again")
}

const uidA = "11111111-2222-3333-4444-555555555555"

// TestPluginLateSynchronize: a call on a connection that has ended does not count as connected, and
// does not count for the next connection.
func TestPluginLateSynchronize(t *testing.T) {
	t.Parallel()
	p := newPlugin()
	old := &connection{Plugin: p}
	old.end() // before the call, which comes all the same
	if _, err := old.Synchronize(t.Context(), nil, nil); err == nil || p.Connected() {
		t.Errorf("%v, connected %t, after the end of the connection", err, p.Connected())
	}
	next := &connection{Plugin: p}
	if _, err := next.Synchronize(t.Context(), nil, nil); err != nil || !p.Connected() {
		t.Errorf("the next connection: %v, connected %t", err, p.Connected())
	}
	if _, err := old.Synchronize(t.Context(), nil, nil); err == nil || p.Connections() != 1 {
		t.Errorf("%v, %d connections", err, p.Connections())
	}
	if next.end(); p.Connected() {
		t.Error("connected after the end of the next connection")
	}
}
