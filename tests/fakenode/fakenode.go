// Package fakenode makes the files, the sockets and the services of a node in a folder, for tests
// of what reads a node.
package fakenode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/trialend"
	"node-partition.io/node-partition/tests/fakeapi"
	"node-partition.io/node-partition/tests/testkit"
)

// UID is the UID of the first pod.
const UID = "11111111-2222-3333-4444-555555555555"

// Node is a folder with the files and the sockets of a node.
type Node struct {
	t *testing.T
	// Root is the folder.
	Root string
	// Cluster is nil if the test has none.
	Cluster *fakeapi.Cluster
}

// Host returns the node for those who read one. Its systemd is the script of Systemctl.
func (n *Node) Host() host.Node {
	h := host.Below(n.Root)
	h.Systemd = host.Programs(filepath.Join(n.Root, "bin"))
	return h
}

// PID is the process of the kubelet of RunKubelet.
const PID = 4242

// RunKubelet adds the process of a kubelet with these flags, in the cgroup of its service.
func (n *Node) RunKubelet(flags ...string) {
	n.t.Helper()
	n.process(PID, append([]string{"kubelet"}, flags...)...)
	n.Write("/sys/fs/cgroup/system.slice/kubelet.service/cgroup.procs", fmt.Sprint(PID))
}

// process adds a process to the node's procfs.
func (n *Node) process(pid int, args ...string) {
	n.t.Helper()
	n.writeBytes(fmt.Sprintf("/proc/%d/cmdline", pid), strings.Join(args, "\x00")+"\x00")
}

// writeBytes writes a file as it is: Write adds a newline.
func (n *Node) writeBytes(name, text string) {
	n.t.Helper()
	name = filepath.Join(n.Root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
		n.t.Fatal(err)
	}
}

// RemoveAll removes a file or a folder of the node.
func (n *Node) RemoveAll(name string) {
	n.t.Helper()
	if err := os.RemoveAll(filepath.Join(n.Root, name)); err != nil {
		n.t.Fatal(err)
	}
}

// SystemCgroup is the cgroup of the system partition on a node.
const SystemCgroup = "/sys/fs/cgroup/kubepods.slice/kubepods-system.slice"

// New returns a node with a kubelet's configuration and no services, for which the generator has
// run.
func New(t *testing.T, configuration string) *Node {
	t.Helper()
	root, err := os.MkdirTemp("", "node") // short enough for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	n := &Node{t: t, Root: root}
	n.Write("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids")
	n.Write("/proc/cmdline", "quiet")
	n.Write("/proc/meminfo", "MemTotal: 16777216 kB")
	n.Write("/sys/devices/system/cpu/present", "0-3")
	n.Write("/sys/devices/system/cpu/online", "0-3")
	n.Write("/run/systemd/generator/.keep", "")
	n.Write("/etc/kubernetes/.keep", "")
	n.Systemctl("257.13-1~deb13u1", "", "")
	n.Write("/var/lib/kubelet/config.yaml", configuration)
	if err := os.Symlink("/run", filepath.Join(root, "var/run")); err != nil {
		t.Fatal(err)
	}
	n.generate(trialend.Moment{})
	return n
}

// Systemctl installs a systemctl that reports a version, the properties of units, and what it has
// about systemd-oomd.
func (n *Node) Systemctl(version, units, oomd string) {
	n.t.Helper()
	n.Script(
		"/bin/systemctl",
		"case $2 in\n*=Version) echo 'Version="+version+"' ;;\n*ManagedOOM*) echo '"+oomd+"' ;;\n"+
			"*) echo '"+units+"' ;;\nesac",
	)
}

// Script installs a shell script on the node.
func (n *Node) Script(path, text string) {
	n.t.Helper()
	path = filepath.Join(n.Root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		n.t.Fatal(err)
	}
	testkit.WriteScript(n.t, path, text)
}

// Configuration returns a KubeletConfiguration with a section.
func Configuration(section string) string {
	return "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupDriver: systemd\n" + section
}

// Valid returns a configuration with a partition.
func Valid(namespaces string) string {
	return Configuration("systemPartition:\n  memoryLimit: 64Mi\n  namespaces: [" + namespaces + "]\n")
}

// Broken is a configuration with two problems.
var Broken = Configuration("systemPartition:\n  memoryLimit: never\n  namespaces: [Kube_System]\n")

func (n *Node) Write(path, text string) {
	n.t.Helper()
	path = filepath.Join(n.Root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		n.t.Fatal(err)
	}
	// A file of the kernel is never empty for a reader.
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = file.WriteString(text + "\n")
		err = errors.Join(err, file.Truncate(int64(len(text)+1)), file.Close())
	}
	if err != nil {
		n.t.Fatal(err)
	}
}

// Partition creates the cgroup of an active partition with a limit.
func (n *Node) Partition(limit string) {
	n.t.Helper()
	for name, text := range map[string]string{
		"memory.max": limit, "memory.current": "1048576", "cpu.weight": "79", "cpu.max": "max 100000", "pids.max": "max",
		"memory.stat": "anon 1048576\ninactive_file 0\nactive_file 0\nslab_reclaimable 0",
	} {
		n.Write(filepath.Join(SystemCgroup, name), text)
	}
}

// Listen creates a socket on the node.
func (n *Node) Listen(path string) net.Listener {
	n.t.Helper()
	path = filepath.Join(n.Root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		n.t.Fatal(err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// Runtime is a runtime with pods.
type Runtime struct {
	runtime.UnimplementedRuntimeServiceServer
	Sandboxes  []*runtime.PodSandbox
	Containers []*runtime.Container
	Config     *runtime.RuntimeConfigResponse // nil if it does not implement the call
}

// RuntimeConfig implements the CRI.
func (f *Runtime) RuntimeConfig(
	ctx context.Context,
	r *runtime.RuntimeConfigRequest,
) (*runtime.RuntimeConfigResponse, error) {
	if f.Config == nil {
		return f.UnimplementedRuntimeServiceServer.RuntimeConfig(ctx, r)
	}
	return f.Config, nil
}

// Version implements the CRI.
func (*Runtime) Version(context.Context, *runtime.VersionRequest) (*runtime.VersionResponse, error) {
	return &runtime.VersionResponse{RuntimeName: "containerd", RuntimeVersion: "v2.3.7"}, nil
}

// ListPodSandbox implements the CRI.
func (f *Runtime) ListPodSandbox(
	context.Context,
	*runtime.ListPodSandboxRequest,
) (*runtime.ListPodSandboxResponse, error) {
	return &runtime.ListPodSandboxResponse{Items: f.Sandboxes}, nil
}

// ListContainers implements the CRI.
func (f *Runtime) ListContainers(
	context.Context,
	*runtime.ListContainersRequest,
) (*runtime.ListContainersResponse, error) {
	return &runtime.ListContainersResponse{Containers: f.Containers}, nil
}

// ContainerStatus implements the CRI.
func (*Runtime) ContainerStatus(
	context.Context,
	*runtime.ContainerStatusRequest,
) (*runtime.ContainerStatusResponse, error) {
	return &runtime.ContainerStatusResponse{}, nil
}

// Serve starts the runtime at containerd's socket.
func (n *Node) Serve(f *Runtime) {
	n.t.Helper()
	n.ServeAt("/run/containerd/containerd.sock", f)
}

// ServeAt starts the runtime at a socket.
func (n *Node) ServeAt(socket string, f *Runtime) {
	n.t.Helper()
	n.ServeGRPC(socket, func(s *grpc.Server) { runtime.RegisterRuntimeServiceServer(s, f) })
}

// ServePods starts the kubelet's Pods API without pods. status waits two seconds for a socket that
// does not answer.
func (n *Node) ServePods() {
	n.t.Helper()
	n.servePods(Kubelet{})
}

func (n *Node) servePods(api podsv1alpha1.PodsServer) {
	n.t.Helper()
	n.ServeGRPC(kubelet.PodsSocket, func(s *grpc.Server) { podsv1alpha1.RegisterPodsServer(s, api) })
}

// ServeGRPC serves what register registers at a socket until the test ends.
func (n *Node) ServeGRPC(socket string, register func(*grpc.Server)) {
	n.t.Helper()
	testkit.ServeGRPC(n.t, n.Listen(socket), register)
}

// Pod is a pod of the fake node: one container, of the pod's name.
type Pod struct {
	Namespace, Name, UID string
	Partition            partition.Name
	WorkingSet           string
	Priority             int32
	Request              string
	Static               bool
}

// Pods lists two pods of the partition, of which dns is the candidate, a misplaced pod, and a
// user's pod. The last two use the most memory.
var Pods = []Pod{
	{"kube-system", "dns", UID, partition.System, "31457280", 10, "10Mi", false},
	{
		"kube-system",
		"etcd",
		"22222222-2222-3333-4444-555555555555",
		partition.System,
		"33554432",
		2_000_001_000,
		"1Mi",
		true,
	},
	{
		"kube-system",
		"misplaced",
		"33333333-2222-3333-4444-555555555555",
		partition.Default,
		"900000000",
		-10,
		"1Mi",
		false,
	},
	{"web", "shop", "44444444-2222-3333-4444-555555555555", partition.Default, "900000000", -10, "1Mi", false},
}

func (p Pod) id() string { return strings.Repeat("0", 56) + p.UID[:8] }

// scope returns the path of the container's scope, below the root of the node.
func (p Pod) scope() string {
	return filepath.Join(
		cgroups.Mount,
		partition.CgroupPath(partition.PodSlice(p.Partition, v1.PodQOSBurstable, p.UID)),
		"cri-containerd-"+p.id()+".scope",
	)
}

// newKubelet returns the kubelet with Pods.
func newKubelet() (k Kubelet) {
	for _, p := range Pods {
		pod := v1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace:   p.Namespace,
				Name:        p.Name,
				UID:         types.UID(p.UID),
				Annotations: map[string]string{"kubernetes.io/config.source": "api"},
			},
			Spec: v1.PodSpec{
				Priority: &p.Priority, TerminationGracePeriodSeconds: new(int64(30)), RestartPolicy: v1.RestartPolicyAlways,
				Containers: []v1.Container{{Name: p.Name, Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
					v1.ResourceCPU: resource.MustParse("2m"), v1.ResourceMemory: resource.MustParse(p.Request),
				}}}},
			},
			Status: v1.PodStatus{
				QOSClass: v1.PodQOSBurstable, Phase: v1.PodRunning,
				ContainerStatuses: []v1.ContainerStatus{
					{Name: p.Name, ContainerID: "containerd://" + p.id(), Ready: true},
				},
			},
		}
		if p.Static {
			pod.Annotations["kubernetes.io/config.source"] = "file"
		}
		k.Pods = append(k.Pods, &pod)
	}
	return k
}

// The memory usage of the partition on a guarded node. With Scarce, 10Mi of 96Mi are available,
// because 4Mi are page cache. Plenty leaves more than enough.
const (
	Scarce = "94371840"
	// Fewer is Scarce less most of the usage of dns. It is still too much.
	Fewer  = "77594624"
	Plenty = "20971520"
)

// Guarded returns a node with Pods and a partition of 96Mi.
func Guarded(t *testing.T) *Node {
	t.Helper()
	n := New(t, Configuration("systemPartition:\n  memoryLimit: 96Mi\n  namespaces: [kube-system]\n"))
	n.Partition("100663296")
	n.Write(SystemCgroup+"/memory.current", Plenty)
	n.Write(
		SystemCgroup+"/memory.stat",
		"anon 16777216\ninactive_file 1048576\nactive_file 2097152\nslab_reclaimable 2097152",
	)
	f := &Runtime{}
	for _, p := range Pods {
		slice := filepath.Dir(p.scope())
		for name, text := range map[string]string{
			"memory.max": "max", "memory.current": p.WorkingSet, "memory.stat": "inactive_file 0", "cpu.weight": "1",
		} {
			n.Write(filepath.Join(slice, name), text)
			n.Write(filepath.Join(p.scope(), name), text)
		}
		n.Write(filepath.Join(p.scope(), "cgroup.events"), "populated 1")
		n.Write(filepath.Join(slice, "cgroup.events"), "populated 1")
		n.Write(filepath.Join(p.scope(), "cgroup.kill"), "")
		sandbox := &runtime.PodSandbox{
			Id: "sandbox-" + p.UID, Annotations: map[string]string{},
			Metadata: &runtime.PodSandboxMetadata{Namespace: p.Namespace, Name: p.Name, Uid: p.UID},
		}
		if p.Static {
			sandbox.Annotations["kubernetes.io/config.source"] = "file"
		}
		f.Sandboxes = append(f.Sandboxes, sandbox)
		f.Containers = append(f.Containers, &runtime.Container{
			Id: p.id(), PodSandboxId: sandbox.Id, State: runtime.ContainerState_CONTAINER_RUNNING,
			Metadata: &runtime.ContainerMetadata{Name: p.Name},
		})
	}
	// The misplaced pod has an empty slice in the partition already.
	prepared := partition.CgroupPath(partition.PodSlice(partition.System, v1.PodQOSBurstable, Pods[2].UID))
	for name, text := range map[string]string{
		"memory.max": "max", "memory.current": "0", "memory.stat": "inactive_file 0", "cpu.weight": "1",
	} {
		n.Write(filepath.Join(cgroups.Mount, prepared, name), text)
	}
	for name, text := range map[string]string{
		"memory.events": "oom 0\noom_kill 0", "memory.events.local": "oom 0\noom_kill 0",
	} {
		n.Write(filepath.Join(SystemCgroup, name), text)
	}
	n.Serve(f)
	return n
}

// TellPods serves the kubelet's Pods API with Pods.
func (n *Node) TellPods() {
	n.t.Helper()
	n.servePods(newKubelet())
}

// Killed returns the pods whose container was killed.
func (n *Node) Killed() []string {
	n.t.Helper()
	var names []string
	for _, p := range Pods {
		text, err := os.ReadFile(filepath.Join(n.Root, p.scope(), "cgroup.kill"))
		if err != nil {
			n.t.Fatal(err)
		}
		if strings.TrimSpace(string(text)) != "" {
			names = append(names, p.Name)
		}
	}
	return names
}

// End ends the processes of a pod.
func (n *Node) End(p Pod) {
	n.t.Helper()
	n.Write(filepath.Join(p.scope(), "cgroup.events"), "populated 0")
	n.Write(filepath.Join(filepath.Dir(p.scope()), "memory.current"), "0")
	n.Write(filepath.Join(filepath.Dir(p.scope()), "cgroup.events"), "populated 0")
}

// Whole returns a node on which all checks are OK.
func Whole(t *testing.T) *Node {
	t.Helper()
	n := New(t, Valid("kube-system, monitoring"))
	n.Partition(fmt.Sprint(64 << 20))
	for name, text := range map[string]string{
		"memory.high": "max", "cpuset.cpus": "", "cgroup.kill": "", "memory.pressure": "some avg10=0.00",
		"memory.swap.max": "0",
	} {
		n.Write(SystemCgroup+"/"+name, text)
	}
	n.Serve(&Runtime{})
	n.Listen("/run/nri/nri.sock")
	n.ServePods()
	c := fakeapi.New(t, httptest.NewServer)
	c.Kubeconfig(t, filepath.Join(n.Root, "/var/lib/kubelet/kubeconfig"))
	n.Cluster = c
	return n
}

// Kubelet has pods of a request and a limit.
type Kubelet struct {
	podsv1alpha1.UnimplementedPodsServer
	Pods []*v1.Pod
}

// WatchPods implements the Pods API.
func (k Kubelet) WatchPods(
	_ *podsv1alpha1.WatchPodsRequest,
	stream grpc.ServerStreamingServer[podsv1alpha1.WatchPodsEvent],
) error {
	for _, pod := range k.Pods {
		data, err := pod.Marshal()
		if err == nil {
			err = stream.Send(&podsv1alpha1.WatchPodsEvent{Type: podsv1alpha1.EventType_ADDED, Pod: data})
		}
		if err != nil {
			return err
		}
	}
	if err := stream.Send(&podsv1alpha1.WatchPodsEvent{Type: podsv1alpha1.EventType_INITIAL_SYNC_COMPLETE}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// PodOf returns a pod with a memory request, and a limit unless that is empty.
func PodOf(namespace, name, request, limit string) *v1.Pod {
	c := v1.Container{Name: "c"}
	c.Resources.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse(request)}
	if limit != "" {
		c.Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse(limit)}
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name)},
		Spec:       v1.PodSpec{Containers: []v1.Container{c}},
	}
}

// ListPods returns the pods of the kubelet.
func (k Kubelet) ListPods(context.Context, *podsv1alpha1.ListPodsRequest) (*podsv1alpha1.ListPodsResponse, error) {
	answer := &podsv1alpha1.ListPodsResponse{}
	for _, pod := range k.Pods {
		data, err := pod.Marshal()
		if err != nil {
			return nil, err
		}
		answer.Pods = append(answer.Pods, data)
	}
	return answer, nil
}

// Cgroup writes files of a cgroup.
func (n *Node) Cgroup(cgroup string, files map[string]string) {
	n.t.Helper()
	for name, text := range files {
		n.Write(path.Join("/sys/fs/cgroup", cgroup, name), text)
	}
}

// Audited has a pod without requests, a weight that systemd does not know of, and a kubelet with a
// file of its own.
func Audited(t *testing.T) *Node {
	t.Helper()
	n := New(t, Configuration(""))
	n.Write("/etc/k.yaml", Configuration(""))
	const slice = "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-poduid_shop.slice"
	for _, cgroup := range []string{"kubepods.slice", "kubepods.slice/kubepods-besteffort.slice", slice, slice + "/cri-containerd-abc.scope"} {
		n.Cgroup(cgroup, map[string]string{
			"cpu.max": "max 100000", "memory.max": "max", "memory.high": "max", "pids.max": "max",
			"cpuset.cpus": "", "cpu.weight": "1",
		})
	}
	pod := PodOf("web", "shop", "0", "")
	pod.Spec.Containers[0].Resources = v1.ResourceRequirements{}
	pod.Status = v1.PodStatus{
		Phase:    v1.PodRunning,
		QOSClass: v1.PodQOSBestEffort,
		ContainerStatuses: []v1.ContainerStatus{{
			Name: "c", ContainerID: "containerd://abc", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
		}},
	}
	n.ServeGRPC("/var/lib/kubelet/pods-api/pods-api.sock", func(s *grpc.Server) {
		podsv1alpha1.RegisterPodsServer(s, Kubelet{Pods: []*v1.Pod{pod}})
	})
	n.Systemctl("257", "Id=kubepods-besteffort.slice\nActiveState=active\nMemoryMax=infinity\nCPUWeight=50", "")
	n.RunKubelet("--config=/etc/k.yaml")
	return n
}

// Gate is a kubelet that may make the system partition itself.
type Gate struct {
	// Flags are its flags, and File has the fields of its configuration beside the section.
	Flags []string
	File  string
	// Yields means that the programs leave the partition to it.
	Yields bool
}

// Gates returns kubelets by what they have for the feature gate.
func Gates() map[string]Gate {
	return map[string]Gate{
		"none":                 {nil, "", false},
		"with =":               {[]string{"--feature-gates=NodeSystemPartition=true"}, "", true},
		"as the next argument": {[]string{"--v", "2", "--feature-gates", "A=true,NodeSystemPartition=true"}, "", true},
		"the file, which the generator reads": {
			[]string{"--feature-gates=NodeSystemPartition=false"}, "featureGates: {NodeSystemPartition: true}", true,
		},
		"another gate": {[]string{"--feature-gates=AllAlpha=true"}, "", false},
	}
}
