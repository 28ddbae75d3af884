package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"nodepartition/tests/fakeapi"
	"nodepartition/tests/script"
)

// nodeRoot is an environment variable. With it this test program runs as partition-monitor on the
// node in that folder.
const nodeRoot = "PARTITION_MONITOR_NODE"

// nodeShell is an environment variable. With both, the program runs a shell there, with the script
// in its second argument.
const nodeShell = "PARTITION_MONITOR_SHELL"

// onNode lists the paths of a node that are in the folder, and that are mounted over the program's
// own.
var onNode = []string{"/etc", "/run", "/var", "/sys/fs/cgroup", "/proc/cmdline"}

func TestMain(m *testing.M) {
	root, ok := os.LookupEnv(nodeRoot)
	if !ok {
		os.Exit(m.Run())
	}
	for _, place := range onNode {
		if err := unix.Mount(filepath.Join(root, place), place, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			fmt.Fprintf(os.Stderr, "mounting %s: %v\n", place, err)
			os.Exit(99)
		}
	}
	if os.Getenv(nodeShell) != "" {
		err := syscall.Exec("/bin/sh", []string{"sh", "-c", os.Args[2]}, os.Environ())
		fmt.Fprintln(os.Stderr, err)
		os.Exit(99)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	status := run(ctx, os.Args, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// fakeNode is a folder that the program sees as its node. The program runs in a mount namespace.
type fakeNode struct {
	t       *testing.T
	root    string
	cluster *fakeapi.Cluster // nil if the test has none
}

const systemCgroup = "/sys/fs/cgroup/kubepods.slice/kubepods-system.slice"

// newNode returns a node with a kubelet's configuration and no services.
func newNode(t *testing.T, configuration string) *fakeNode {
	t.Helper()
	root, err := os.MkdirTemp("", "node") // short enough for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	n := &fakeNode{t: t, root: root}
	n.write("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids")
	n.write("/proc/cmdline", "quiet")
	n.write("/run/systemd/generator/.keep", "")
	n.write("/etc/kubernetes/.keep", "")
	n.systemctl("257.13-1~deb13u1", "", "")
	n.write("/var/lib/kubelet/config.yaml", configuration)
	if err := os.Symlink("/run", filepath.Join(root, "var/run")); err != nil {
		t.Fatal(err)
	}
	return n
}

// systemctl installs a systemctl that reports a version, the properties of units, and those of
// systemd-oomd.
func (n *fakeNode) systemctl(version, units, oomd string) {
	n.t.Helper()
	n.script("/bin/systemctl", "case $2 in\n*=Version) echo 'Version="+version+"' ;;\n*ManagedOOM*) echo '"+oomd+"' ;;\n*) echo '"+units+"' ;;\nesac")
}

// script installs a shell script on the node.
func (n *fakeNode) script(path, text string) {
	n.t.Helper()
	path = filepath.Join(n.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		n.t.Fatal(err)
	}
	script.Write(n.t, path, text)
}

// kubelet returns a KubeletConfiguration with a section.
func kubelet(section string) string {
	return "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupDriver: systemd\n" + section
}

// valid returns a configuration with a partition.
func valid(namespaces string) string {
	return kubelet("systemPartition:\n  memoryLimit: 64Mi\n  namespaces: [" + namespaces + "]\n")
}

// broken is a configuration with two problems.
var broken = kubelet("systemPartition:\n  memoryLimit: never\n  namespaces: [Kube_System]\n")

func (n *fakeNode) write(path, text string) {
	n.t.Helper()
	path = filepath.Join(n.root, path)
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

// partition creates the cgroup of an active partition with a limit.
func (n *fakeNode) partition(limit string) {
	n.t.Helper()
	for name, text := range map[string]string{
		"memory.max": limit, "memory.current": "1048576", "cpu.weight": "79", "cpu.max": "max 100000", "pids.max": "max",
		"memory.stat": "anon 1048576\ninactive_file 0\nactive_file 0\nslab_reclaimable 0",
	} {
		n.write(filepath.Join(systemCgroup, name), text)
	}
}

// listen creates a socket on the node.
func (n *fakeNode) listen(path string) net.Listener {
	n.t.Helper()
	path = filepath.Join(n.root, path)
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

// fakeRuntime is a runtime with pods.
type fakeRuntime struct {
	runtime.UnimplementedRuntimeServiceServer
	sandboxes  []*runtime.PodSandbox
	containers []*runtime.Container
	config     *runtime.RuntimeConfigResponse // nil if it does not implement the call
}

func (f *fakeRuntime) RuntimeConfig(ctx context.Context, r *runtime.RuntimeConfigRequest) (*runtime.RuntimeConfigResponse, error) {
	if f.config == nil {
		return f.UnimplementedRuntimeServiceServer.RuntimeConfig(ctx, r)
	}
	return f.config, nil
}

func (*fakeRuntime) Version(context.Context, *runtime.VersionRequest) (*runtime.VersionResponse, error) {
	return &runtime.VersionResponse{RuntimeName: "containerd", RuntimeVersion: "v2.3.7"}, nil
}

func (f *fakeRuntime) ListPodSandbox(context.Context, *runtime.ListPodSandboxRequest) (*runtime.ListPodSandboxResponse, error) {
	return &runtime.ListPodSandboxResponse{Items: f.sandboxes}, nil
}

func (f *fakeRuntime) ListContainers(context.Context, *runtime.ListContainersRequest) (*runtime.ListContainersResponse, error) {
	return &runtime.ListContainersResponse{Containers: f.containers}, nil
}

func (*fakeRuntime) ContainerStatus(context.Context, *runtime.ContainerStatusRequest) (*runtime.ContainerStatusResponse, error) {
	return &runtime.ContainerStatusResponse{}, nil
}

// serve starts the runtime at containerd's socket.
func (n *fakeNode) serve(f *fakeRuntime) {
	n.t.Helper()
	n.serveAt("/run/containerd/containerd.sock", f)
}

func (n *fakeNode) serveAt(socket string, f *fakeRuntime) {
	n.t.Helper()
	n.serveGRPC(socket, func(s *grpc.Server) { runtime.RegisterRuntimeServiceServer(s, f) })
}

// fakeKubelet has no pods.
type fakeKubelet struct {
	podsv1alpha1.UnimplementedPodsServer
}

func (fakeKubelet) WatchPods(_ *podsv1alpha1.WatchPodsRequest, stream grpc.ServerStreamingServer[podsv1alpha1.WatchPodsEvent]) error {
	if err := stream.Send(&podsv1alpha1.WatchPodsEvent{Type: podsv1alpha1.EventType_INITIAL_SYNC_COMPLETE}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// servePods starts the kubelet's Pods API without pods. status waits two seconds for a socket that
// does not answer.
func (n *fakeNode) servePods() {
	n.t.Helper()
	n.serveGRPC("/var/lib/kubelet/pods-api/pods-api.sock", func(s *grpc.Server) { podsv1alpha1.RegisterPodsServer(s, fakeKubelet{}) })
}

func (n *fakeNode) serveGRPC(socket string, register func(*grpc.Server)) {
	n.t.Helper()
	listener := n.listen(socket)
	server := grpc.NewServer()
	register(server)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // it ends with Stop
	}()
	n.t.Cleanup(func() {
		server.Stop()
		<-done
	})
}

// program returns a command that runs partition-monitor on the node.
func (n *fakeNode) program(args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = []string{nodeRoot + "=" + n.root, "PATH=" + filepath.Join(n.root, "bin")}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	return cmd
}

// run runs partition-monitor until it exits.
func (n *fakeNode) run(args ...string) (status int, stdout, stderr string) {
	n.t.Helper()
	cmd := n.program(args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	switch err := cmd.Run(); {
	case errors.As(err, &exit):
		status = exit.ExitCode()
	case err != nil:
		n.t.Fatalf("%v: this test runs a program in a mount namespace of its own, for which user namespaces have to be allowed", err)
	}
	return status, out.String(), errs.String()
}

// oneProblem runs the program, and expects exit status 1 and an error of one line.
func (n *fakeNode) oneProblem(parts []string, args ...string) {
	n.t.Helper()
	status, stdout, stderr := n.run(args...)
	if status != exitProblem || stdout != "" || strings.Count(stderr, "\n") != 1 {
		n.t.Errorf("%q: status %d, %q, %q; want 1 and one line", args, status, stdout, stderr)
	}
	for _, part := range append(parts, "partition-monitor: ") {
		if !strings.Contains(stderr, part) {
			n.t.Errorf("%q: %q does not say %q", args, stderr, part)
		}
	}
}
