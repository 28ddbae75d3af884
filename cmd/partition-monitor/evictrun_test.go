package main

import (
	"bufio"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
	"nodepartition/tests/fakeapi"
)

// nodePod is a pod of the fake node: one container, of the pod's name.
type nodePod struct {
	namespace, name, uid string
	partition            unitname.Partition
	workingSet           string
	priority             int32
	request              string
	static               bool
}

// nodePods lists two pods of the partition, of which dns is the candidate, a misplaced pod, and a
// user's pod. The last two use the most memory.
var nodePods = []nodePod{
	{"kube-system", "dns", uid, unitname.System, "31457280", 10, "10Mi", false},
	{"kube-system", "etcd", "22222222-2222-3333-4444-555555555555", unitname.System, "33554432", 2_000_001_000, "1Mi", true},
	{"kube-system", "misplaced", "33333333-2222-3333-4444-555555555555", unitname.Default, "900000000", -10, "1Mi", false},
	{"web", "shop", "44444444-2222-3333-4444-555555555555", unitname.Default, "900000000", -10, "1Mi", false},
}

func (p nodePod) id() string { return strings.Repeat("0", 56) + p.uid[:8] }

// scope returns the path of the container's scope, below the root of the node.
func (p nodePod) scope() string {
	return filepath.Join(cgroupfs.Mount, unitname.CgroupPath(unitname.PodSlice(p.partition, v1.PodQOSBurstable, p.uid)), "cri-containerd-"+p.id()+".scope")
}

// telling is a Pods API that reports nodePods.
type telling struct {
	podsv1alpha1.UnimplementedPodsServer
}

func (telling) WatchPods(_ *podsv1alpha1.WatchPodsRequest, stream grpc.ServerStreamingServer[podsv1alpha1.WatchPodsEvent]) error {
	for _, p := range nodePods {
		pod := v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: p.name, UID: types.UID(p.uid), Annotations: map[string]string{"kubernetes.io/config.source": "api"}},
			Spec: v1.PodSpec{
				Priority: &p.priority, TerminationGracePeriodSeconds: new(int64(30)), RestartPolicy: v1.RestartPolicyAlways,
				Containers: []v1.Container{{Name: p.name, Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
					v1.ResourceCPU: resource.MustParse("2m"), v1.ResourceMemory: resource.MustParse(p.request),
				}}}},
			},
			Status: v1.PodStatus{
				QOSClass: v1.PodQOSBurstable, Phase: v1.PodRunning,
				ContainerStatuses: []v1.ContainerStatus{{Name: p.name, ContainerID: "containerd://" + p.id(), Ready: true}},
			},
		}
		if p.static {
			pod.Annotations["kubernetes.io/config.source"] = "file"
		}
		data, err := pod.Marshal()
		if err == nil {
			err = stream.Send(&podsv1alpha1.WatchPodsEvent{Type: podsv1alpha1.EventType_ADDED, Pod: data})
		}
		if err != nil {
			return err
		}
	}
	return fakeKubelet{}.WatchPods(nil, stream)
}

// The memory usage of the partition on a guarded node. With scarce, 10Mi of 96Mi are available,
// because 4Mi are page cache. plenty leaves more than enough.
const (
	scarce = "94371840"
	// fewer is scarce less most of the usage of dns. It is still too much.
	fewer  = "77594624"
	plenty = "20971520"
)

// guarded returns a node with nodePods and a partition of 96Mi.
func guarded(t *testing.T) *fakeNode {
	t.Helper()
	n := newNode(t, kubelet("systemPartition:\n  memoryLimit: 96Mi\n  namespaces: [kube-system]\n"))
	n.partition("100663296")
	n.write(systemCgroup+"/memory.current", plenty)
	n.write(systemCgroup+"/memory.stat", "anon 16777216\ninactive_file 1048576\nactive_file 2097152\nslab_reclaimable 2097152")
	f := &fakeRuntime{}
	for _, p := range nodePods {
		slice := filepath.Dir(p.scope())
		for name, text := range map[string]string{"memory.max": "max", "memory.current": p.workingSet, "memory.stat": "inactive_file 0", "cpu.weight": "1"} {
			n.write(filepath.Join(slice, name), text)
			n.write(filepath.Join(p.scope(), name), text)
		}
		n.write(filepath.Join(p.scope(), "cgroup.events"), "populated 1")
		n.write(filepath.Join(slice, "cgroup.events"), "populated 1")
		n.write(filepath.Join(p.scope(), "cgroup.kill"), "")
		sandbox := &runtime.PodSandbox{
			Id: "sandbox-" + p.uid, Metadata: &runtime.PodSandboxMetadata{Namespace: p.namespace, Name: p.name, Uid: p.uid}, Annotations: map[string]string{},
		}
		if p.static {
			sandbox.Annotations["kubernetes.io/config.source"] = "file"
		}
		f.sandboxes = append(f.sandboxes, sandbox)
		f.containers = append(f.containers, &runtime.Container{
			Id: p.id(), PodSandboxId: sandbox.Id, State: runtime.ContainerState_CONTAINER_RUNNING, Metadata: &runtime.ContainerMetadata{Name: p.name},
		})
	}
	// The misplaced pod has an empty slice in the partition already.
	prepared := unitname.CgroupPath(unitname.PodSlice(unitname.System, v1.PodQOSBurstable, nodePods[2].uid))
	for name, text := range map[string]string{"memory.max": "max", "memory.current": "0", "memory.stat": "inactive_file 0", "cpu.weight": "1"} {
		n.write(filepath.Join(cgroupfs.Mount, prepared, name), text)
	}
	for name, text := range map[string]string{"memory.events": "oom 0\noom_kill 0", "memory.events.local": "oom 0\noom_kill 0"} {
		n.write(filepath.Join(systemCgroup, name), text)
	}
	n.serve(f)
	return n
}

// tellPods serves the kubelet's Pods API with nodePods.
func (n *fakeNode) tellPods() {
	n.t.Helper()
	n.serveGRPC("/var/lib/kubelet/pods-api/pods-api.sock", func(s *grpc.Server) { podsv1alpha1.RegisterPodsServer(s, telling{}) })
}

// killed returns the pods whose container was killed.
func (n *fakeNode) killed() []string {
	n.t.Helper()
	var names []string
	for _, p := range nodePods {
		text, err := os.ReadFile(filepath.Join(n.root, p.scope(), "cgroup.kill"))
		if err != nil {
			n.t.Fatal(err)
		}
		if strings.TrimSpace(string(text)) != "" {
			names = append(names, p.name)
		}
	}
	return names
}

// end ends the processes of a pod.
func (n *fakeNode) end(p nodePod) {
	n.t.Helper()
	n.write(filepath.Join(p.scope(), "cgroup.events"), "populated 0")
	n.write(filepath.Join(filepath.Dir(p.scope()), "memory.current"), "0")
	n.write(filepath.Join(filepath.Dir(p.scope()), "cgroup.events"), "populated 0")
}

// evicting runs the service, makes memory scarce when the service has the pods, and stops it when a
// line of its log contains until. It calls heard with each line.
func (n *fakeNode) evicting(until string, heard func(line string), args ...string) {
	n.t.Helper()
	cmd := n.program(append([]string{"run", "--listen=", "--move=never"}, args...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	watchdog := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer watchdog.Stop()
	var log strings.Builder // all lines
	found, connections := false, 0
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		log.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "to=kubelet up=true") || strings.Contains(lines.Text(), "to=runtime up=true") {
			if connections++; connections == 2 {
				n.write(systemCgroup+"/memory.current", scarce)
			}
		}
		heard(lines.Text())
		if strings.Contains(lines.Text(), until) && !found {
			found = true
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				n.t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil || !found {
		n.t.Errorf("%v; want %q in\n%s", err, until, &log)
	}
}

// TestServiceEvicts: the service kills the containers of the first candidate, reports to the API
// server, and leaves all other pods alone.
func TestServiceEvicts(t *testing.T) {
	t.Parallel()
	n := guarded(t)
	n.tellPods()
	c := fakeapi.New(t, httptest.NewServer)
	c.Pod.Spec.Containers = []v1.Container{fakeapi.Requesting("dns", nodePods[0].request)}
	// It has kubeadm's path, which auto finds.
	c.Kubeconfig(t, filepath.Join(n.root, "/etc/kubernetes/kubelet.conf"))
	var decided string
	n.evicting("an eviction has ended", func(line string) {
		if strings.Contains(line, "evicting a pod") {
			decided = line
			n.write(systemCgroup+"/memory.current", plenty)
			n.end(nodePods[0])
		}
	})
	if killed := n.killed(); !slices.Equal(killed, []string{"dns"}) {
		t.Errorf("killed: %v; want dns alone", killed)
	}
	for _, part := range []string{
		"namespace=kube-system pod=dns", "threshold=hard available=10Mi below=32Mi limit=96Mi working-set=30Mi request=10Mi estimated=false priority=10",
		"MESSAGE_ID=89c4cdf13b994233ab91955cce1e6c7e", "method=evict",
	} {
		if !strings.Contains(decided, part) {
			t.Errorf("%q does not say %q", decided, part)
		}
	}
	// The last request confirms the status.
	if came := c.Came(); !slices.Equal(came, []string{fakeapi.GetPod, fakeapi.PatchPod, fakeapi.PostEvent, fakeapi.GetPod}) {
		t.Errorf("the API server was asked %v", came)
	} else if message := c.Events[0].Message; !strings.Contains(message, "Container dns was using 30Mi, request is 10Mi") {
		t.Errorf("the event has the message %q", message)
	}
	// status lists the eviction afterwards.
	e := n.status().Eviction
	if e == nil || len(e.Last) != 1 || e.Last[0].Name != "dns" || e.Last[0].Method != evict.Evict || e.Last[0].Problem != "" || len(e.Open) > 0 {
		t.Errorf("status: %+v", e)
	}
}

// TestServiceEvictsWithoutAPIServer: without a kubeconfig the containers are stopped, and the
// kubelet starts them again.
func TestServiceEvictsWithoutAPIServer(t *testing.T) {
	t.Parallel()
	n := guarded(t)
	n.tellPods()
	why := 0
	n.evicting("an eviction has ended", func(line string) {
		if strings.Contains(line, "evictions are not reported to the API server") && strings.Contains(line, "--kubeconfig") {
			why++
		}
		if strings.Contains(line, "stopping the containers of a pod") {
			n.write(systemCgroup+"/memory.current", plenty)
			n.end(nodePods[0])
		}
	})
	if killed := n.killed(); !slices.Equal(killed, []string{"dns"}) || why != 1 {
		t.Errorf("killed: %v; logged %d times why evictions are not reported", killed, why)
	}
	if e := n.status().Eviction; len(e.Last) != 1 || e.Last[0].Method != evict.Restart {
		t.Errorf("status: %+v", e)
	}
}

// TestServiceDryRun: a dry run logs the pod that it would evict, and evicts none.
func TestServiceDryRun(t *testing.T) {
	t.Parallel()
	n := guarded(t)
	n.tellPods()
	c := fakeapi.New(t, httptest.NewServer)
	kubeconfig := c.Kubeconfig(t, filepath.Join(n.root, "/etc/kubernetes/other.conf"))
	var said string
	n.evicting("dry run: would evict a pod", func(line string) { said += line + "\n" }, "--eviction=dry-run", "--kubeconfig="+strings.TrimPrefix(kubeconfig, n.root))
	if killed := n.killed(); len(killed) > 0 || !strings.Contains(said, "pod=dns") {
		t.Errorf("killed: %v; log:\n%s", killed, said)
	}
	if came := c.Came(); len(came) > 0 {
		t.Errorf("the API server was asked %v", came)
	}
	if e := n.status().Eviction; len(e.Last) != 1 || !e.Last[0].DryRun || len(e.Open) > 0 {
		t.Errorf("status: %+v", e)
	}
}

// TestServiceNoCandidate: if only protected pods and pods outside the partition are left, no pod is
// evicted.
func TestServiceNoCandidate(t *testing.T) {
	t.Parallel()
	n := guarded(t)
	n.tellPods()
	var said string
	const left = "kube-system/etcd (static)"
	n.evicting(left, func(line string) {
		if strings.Contains(line, left) {
			said = line
		}
		if strings.Contains(line, "stopping the containers of a pod") { // dns ends, which is not enough
			n.end(nodePods[0])
			n.write(systemCgroup+"/memory.current", fewer)
		}
	})
	if killed := n.killed(); !slices.Equal(killed, []string{"dns"}) {
		t.Errorf("killed: %v; want dns alone", killed)
	}
	if strings.Contains(said, "shop") || strings.Contains(said, "misplaced") || strings.Contains(said, "dns") || !strings.Contains(said, "--eviction-protect") {
		t.Errorf("%q; want the pods that are left in the partition and what to change", said)
	}
}
