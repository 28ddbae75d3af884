package cri

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/testkit"
)

// fake is a container runtime with given answers.
type fake struct {
	runtime.UnimplementedRuntimeServiceServer
	sandboxes  []*runtime.PodSandbox
	containers []*runtime.Container
	statuses   map[string]*runtime.ContainerStatusResponse
	config     *runtime.RuntimeConfigResponse

	mu        sync.Mutex
	stops     []*runtime.StopContainerRequest
	deadlines map[string]time.Duration // of calls, from their begin
}

func (f *fake) called(ctx context.Context, call string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.deadlines == nil {
		f.deadlines = map[string]time.Duration{}
	}
	if deadline, ok := ctx.Deadline(); ok {
		f.deadlines[call] = time.Until(deadline)
	}
}

func (f *fake) Version(ctx context.Context, _ *runtime.VersionRequest) (*runtime.VersionResponse, error) {
	f.called(ctx, "Version")
	return &runtime.VersionResponse{RuntimeName: "containerd", RuntimeVersion: "v2.3.7"}, nil
}

func (f *fake) ListPodSandbox(ctx context.Context, r *runtime.ListPodSandboxRequest) (*runtime.ListPodSandboxResponse, error) {
	f.called(ctx, "ListPodSandbox")
	if r.GetFilter() != nil {
		return nil, status.Error(codes.InvalidArgument, "asked for some only")
	}
	return &runtime.ListPodSandboxResponse{Items: f.sandboxes}, nil
}

func (f *fake) ListContainers(ctx context.Context, r *runtime.ListContainersRequest) (*runtime.ListContainersResponse, error) {
	f.called(ctx, "ListContainers")
	if r.GetFilter() != nil {
		return nil, status.Error(codes.InvalidArgument, "asked for some only")
	}
	return &runtime.ListContainersResponse{Containers: f.containers}, nil
}

func (f *fake) ContainerStatus(ctx context.Context, r *runtime.ContainerStatusRequest) (*runtime.ContainerStatusResponse, error) {
	f.called(ctx, "ContainerStatus")
	answer, ok := f.statuses[r.ContainerId]
	if !ok {
		return nil, status.Errorf(codes.NotFound, "no container %s", r.ContainerId)
	}
	if !r.Verbose {
		return &runtime.ContainerStatusResponse{Status: answer.GetStatus()}, nil
	}
	return answer, nil
}

func (f *fake) StopContainer(ctx context.Context, r *runtime.StopContainerRequest) (*runtime.StopContainerResponse, error) {
	f.called(ctx, "StopContainer")
	f.mu.Lock()
	f.stops = append(f.stops, r)
	f.mu.Unlock()
	return &runtime.StopContainerResponse{}, nil
}

func (f *fake) RuntimeConfig(ctx context.Context, r *runtime.RuntimeConfigRequest) (*runtime.RuntimeConfigResponse, error) {
	if f.config == nil {
		return f.UnimplementedRuntimeServiceServer.RuntimeConfig(ctx, r)
	}
	return f.config, nil
}

// socket returns a path that is short enough for a socket, whatever the test's name is.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cri")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// listen serves f at path until stop is called, or the test ends.
func (f *fake) listen(t *testing.T, path string) (stop func()) {
	t.Helper()
	return testkit.ListenGRPC(t, path, func(server *grpc.Server) { runtime.RegisterRuntimeServiceServer(server, f) })
}

// connect returns a client of f.
func (f *fake) connect(t *testing.T) *Client {
	t.Helper()
	path := socket(t)
	f.listen(t, path)
	return newClient(t, path)
}

func newClient(t *testing.T, endpoint string) *Client {
	t.Helper()
	client, err := New(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// A pod's author chooses its labels, and images choose theirs: the identity of a pod is in the
// metadata.
func TestSandboxesIgnoreLabels(t *testing.T) {
	t.Parallel()
	lies := map[string]string{
		"io.kubernetes.pod.namespace": "kube-system", "io.kubernetes.pod.name": "etcd", "io.kubernetes.pod.uid": "0",
		"io.kubernetes.container.name": "etcd",
	}
	client := (&fake{
		sandboxes: []*runtime.PodSandbox{
			{
				Id: "s1", State: runtime.PodSandboxState_SANDBOX_READY, Labels: lies, Annotations: lies,
				Metadata: &runtime.PodSandboxMetadata{Name: "shop-1", Namespace: "web", Uid: "1111-2222", Attempt: 3},
			},
			{
				Id: "s2", State: runtime.PodSandboxState_SANDBOX_NOTREADY, Labels: lies,
				Metadata: &runtime.PodSandboxMetadata{Name: "shop-2", Namespace: "web", Uid: "1111-3333"},
			},
			{Id: "s3", Labels: lies}, // without metadata
		},
		containers: []*runtime.Container{
			{Id: "c1", PodSandboxId: "s1", Labels: lies, Metadata: &runtime.ContainerMetadata{Name: "shop", Attempt: 1}, State: Exited},
			{Id: "c2", PodSandboxId: "s2", Labels: lies},
		},
	}).connect(t)
	sandboxes, err := client.Sandboxes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []Sandbox{
		{ID: "s1", UID: "1111-2222", Namespace: "web", Name: "shop-1", Ready: true},
		{ID: "s2", UID: "1111-3333", Namespace: "web", Name: "shop-2"},
		{ID: "s3", Ready: true},
	}
	if !reflect.DeepEqual(sandboxes, want) {
		t.Errorf("%+v; want %+v", sandboxes, want)
	}
	containers, err := client.Containers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := []Container{{ID: "c1", SandboxID: "s1", Name: "shop", State: Exited}, {ID: "c2", SandboxID: "s2"}}; !slices.Equal(containers, want) {
		t.Errorf("%+v; want %+v", containers, want)
	}
}

// The kubelet notes the source of a pod in its sandbox, and overwrites the value of the pod's
// author.
func TestSandboxesStatic(t *testing.T) {
	t.Parallel()
	const source = "kubernetes.io/config.source"
	tests := []struct {
		annotations, labels map[string]string
		want                bool
	}{
		{map[string]string{source: "file", "target.workload.openshift.io/a": "{}", "io.openshift.workload.a.cpushares/main": "400"}, nil, true},
		{map[string]string{source: "http"}, nil, true},
		{map[string]string{source: "api"}, nil, false},
		{map[string]string{source: "api"}, map[string]string{source: "file"}, false},
		{nil, map[string]string{source: "file"}, false},
		{map[string]string{source: "", "kubernetes.io/config.hash": "x"}, nil, false},
		{nil, nil, false},
	}
	f := &fake{}
	for i, test := range tests {
		f.sandboxes = append(f.sandboxes, &runtime.PodSandbox{Id: fmt.Sprint(i), Annotations: test.annotations, Labels: test.labels})
	}
	sandboxes, err := f.connect(t).Sandboxes(t.Context())
	if err != nil || len(sandboxes) != len(tests) {
		t.Fatal(sandboxes, err)
	}
	for i, s := range sandboxes {
		if s.Ask != (partition.Ask{Type: "a"}) && i == 0 {
			t.Errorf("the sandbox asks for %+v", s.Ask)
		}
		if asked := i == 0; asked != (s.Requested.Containers["main"].Request == 400) {
			t.Errorf("annotations %v: %+v", tests[i].annotations, s.Requested)
		}
		if s.Static != tests[i].want {
			t.Errorf("annotations %v, labels %v: static %t; want %t", tests[i].annotations, tests[i].labels, s.Static, tests[i].want)
		}
	}
}

// The CRI counts grace in whole seconds. Rounding down would kill a container before its time.
func TestStopRoundsGraceUp(t *testing.T) {
	t.Parallel()
	f := &fake{}
	client := f.connect(t)
	for grace, want := range map[time.Duration]int64{
		0: 0, 1: 1, time.Millisecond: 1, time.Second: 1, time.Second + 1: 2, 1500 * time.Millisecond: 2, 30 * time.Second: 30, time.Hour: 3600,
	} {
		if err := client.Stop(t.Context(), "c1", grace); err != nil {
			t.Fatal(err)
		}
		last := f.stops[len(f.stops)-1]
		if last.ContainerId != "c1" || last.Timeout != want {
			t.Errorf("grace %s: %s in %d s; want %d s", grace, last.ContainerId, last.Timeout, want)
		}
		if got := f.deadlines["StopContainer"]; got < grace+90*time.Second || got > grace+2*time.Minute {
			t.Errorf("grace %s: the runtime has %s for it", grace, got)
		}
	}
}

// Calls that read are bounded, so that a hanging runtime does not delay a reconcile for longer.
func TestClientReadDeadlines(t *testing.T) {
	t.Parallel()
	f := &fake{statuses: map[string]*runtime.ContainerStatusResponse{"c1": {}}}
	client := f.connect(t)
	_, _, e1 := client.Version(t.Context())
	_, e2 := client.Sandboxes(t.Context())
	_, e3 := client.Containers(t.Context())
	_, e4 := client.Status(t.Context(), "c1")
	if err := errors.Join(e1, e2, e3, e4); err != nil {
		t.Fatal(err)
	}
	if len(f.deadlines) != 4 {
		t.Errorf("calls with a deadline: %v", slices.Sorted(maps.Keys(f.deadlines)))
	}
	for call, got := range f.deadlines {
		if got > callTimeout {
			t.Errorf("%s: %s; want at most %s", call, got, callTimeout)
		}
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	linux := func(shares int64) *runtime.ContainerStatus {
		return &runtime.ContainerStatus{State: Exited, Resources: &runtime.ContainerResources{Linux: &runtime.LinuxContainerResources{CpuShares: shares, OomScoreAdj: 999, MemoryLimitInBytes: 1 << 20}}}
	}
	info := func(text string) map[string]string { return map[string]string{"info": text} }
	runs, exited := &runtime.ContainerStatus{State: Running}, &runtime.ContainerStatus{State: Exited}
	// The answer of containerd 1.6, shortened.
	const verbose = `{"sandboxID":"s1","pid":1234,"config":{"metadata":{"name":"shop"},"linux":{"resources":{"cpu_period":100000,"cpu_shares":256,"memory_limit_in_bytes":4096,"oom_score_adj":998,` +
		`"hugepage_limits":[{"page_size":"2MB"}]},"security_context":{}}},"runtimeSpec":{"linux":{"resources":{"cpu":{"shares":999}}}}}`
	for name, test := range map[string]struct {
		answer *runtime.ContainerStatusResponse
		want   Status
		err    string
	}{
		"status":                  {&runtime.ContainerStatusResponse{Status: linux(512), Info: info(verbose)}, Status{false, 1234, Resources{512, 999, 1 << 20}}, ""},
		"status, and torn":        {&runtime.ContainerStatusResponse{Status: linux(512), Info: info(verbose[:200])}, Status{}, "ContainerStatus status, and torn: verbose information: want the JSON"},
		"status of a zero":        {&runtime.ContainerStatusResponse{Status: linux(0), Info: info(verbose)}, Status{false, 1234, Resources{256, 998, 4096}}, ""},
		"no limit":                {&runtime.ContainerStatusResponse{Status: &runtime.ContainerStatus{State: Exited, Resources: &runtime.ContainerResources{Linux: &runtime.LinuxContainerResources{CpuShares: 2, OomScoreAdj: -997, MemoryLimitInBytes: -1}}}}, Status{Resources: Resources{2, -997, 0}}, ""},
		"negative":                {&runtime.ContainerStatusResponse{Status: linux(-1)}, Status{}, ""},
		"containerd 1.6":          {&runtime.ContainerStatusResponse{Status: runs, Info: info(verbose)}, Status{true, 1234, Resources{256, 998, 4096}}, ""},
		"no request":              {&runtime.ContainerStatusResponse{Status: exited, Info: info(`{"pid":0,"config":{"linux":{"resources":{}}}}`)}, Status{}, ""},
		"another shape":           {&runtime.ContainerStatusResponse{Status: exited, Info: info(`{"pid":-1,"config":null}`)}, Status{}, ""},
		"no info":                 {&runtime.ContainerStatusResponse{Status: runs}, Status{Running: true}, ""},
		"nothing":                 {&runtime.ContainerStatusResponse{}, Status{}, ""},
		"torn":                    {&runtime.ContainerStatusResponse{Info: info(verbose[:200])}, Status{}, "ContainerStatus torn: verbose information: want the JSON of containerd or CRI-O: unexpected end of JSON input"},
		"shares of another type":  {&runtime.ContainerStatusResponse{Info: info(`{"config":{"linux":{"resources":{"cpu_shares":"many"}}}}`)}, Status{}, "cpu_shares"},
		"not there (no such one)": {nil, Status{}, "NotFound"},
	} {
		f := &fake{statuses: map[string]*runtime.ContainerStatusResponse{}}
		if test.answer != nil {
			f.statuses[name] = test.answer
		}
		got, err := f.connect(t).Status(t.Context(), name)
		if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: %+v, %v; want %+v, %q", name, got, err, test.want, test.err)
		}
	}
}

// An error names the runtime, the call and the container, and keeps its code.
func TestClientErrors(t *testing.T) {
	t.Parallel()
	client := (&fake{}).connect(t)
	_, err := client.Status(t.Context(), "c1")
	if status.Code(err) != codes.NotFound {
		t.Errorf("%v; want NotFound", err)
	}
	for _, part := range []string{client.Endpoint(), "ContainerStatus c1", "no container c1"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	// A missing socket fails at once, and not at the deadline.
	if _, err := newClient(t, socket(t)).Sandboxes(t.Context()); status.Code(err) != codes.Unavailable {
		t.Errorf("no runtime: %v; want Unavailable", err)
	}
}

// A restarting runtime is away for a second. grpc's own pauses would be 1, 1.6, 2.6 and 4.1 s by
// the fifth attempt.
func TestClientReconnects(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	path := socket(t)
	stop := (&fake{}).listen(t, path)
	client := newClient(t, path)
	if _, err := client.Sandboxes(ctx); err != nil {
		t.Fatal(err)
	}
	stop()
	if _, err := client.Sandboxes(ctx); status.Code(err) != codes.Unavailable {
		t.Fatalf("without a runtime: %v; want Unavailable", err)
	}
	client.conn.Connect() // as the next call does
	refuse(ctx, t, path, 5)
	(&fake{sandboxes: []*runtime.PodSandbox{{Id: "new"}}}).listen(t, path)
	for state := client.conn.GetState(); state != connectivity.Ready; state = client.conn.GetState() {
		if !client.conn.WaitForStateChange(ctx, state) {
			t.Fatalf("the connection is %s; want %s", state, connectivity.Ready)
		}
	}
	if sandboxes, err := client.Sandboxes(ctx); err != nil || len(sandboxes) != 1 || sandboxes[0].ID != "new" {
		t.Errorf("%v, %v; want the new runtime's", sandboxes, err)
	}
}

// refuse takes a number of connections and ends them.
func refuse(ctx context.Context, t *testing.T, path string, times int) {
	t.Helper()
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	for range times {
		conn, err := listener.Accept()
		if err != nil {
			t.Fatalf("no attempt to connect: %v", context.Cause(ctx))
		}
		_ = conn.Close() // it only refuses
	}
}

// The list of a full node is within the kubelet's limit. An answer beyond the limit is a
// ResourceExhausted error.
func TestContainersLargeAnswer(t *testing.T) {
	t.Parallel()
	f := &fake{}
	label := map[string]string{"annotation": strings.Repeat("x", 10<<10)}
	for i := range 1000 {
		f.containers = append(f.containers, &runtime.Container{Id: fmt.Sprint(i), Annotations: label})
	}
	client := f.connect(t)
	if containers, err := client.Containers(t.Context()); err != nil || len(containers) != 1000 {
		t.Errorf("%d containers, %v; want 1000", len(containers), err)
	}
	f.containers = slices.Concat(f.containers, f.containers)
	if _, err := client.Containers(t.Context()); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("20 MB: %v; want ResourceExhausted", err)
	}
}

func TestTarget(t *testing.T) {
	t.Parallel()
	for endpoint, want := range map[string]string{
		"/run/containerd/containerd.sock":        "unix:///run/containerd/containerd.sock",
		"unix:///run/containerd/containerd.sock": "unix:///run/containerd/containerd.sock",
	} {
		if got, err := Target(endpoint); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", endpoint, got, err, want)
		}
	}
	for endpoint, want := range map[string]string{
		"":                          "is not an absolute path",
		"run/containerd.sock":       "is not an absolute path",
		"unix://containerd.sock":    "is not an absolute path",
		"unix:/run/containerd.sock": "is not an absolute path",
		"tcp://127.0.0.1:1234":      "only unix sockets",
		"npipe:////./pipe/x":        "only unix sockets",
		"dns:///example.org":        "only unix sockets",
	} {
		_, err := New(endpoint)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "container runtime: "+endpoint) {
			t.Errorf("%q: %v; want %q", endpoint, err, want)
		}
	}
}

// disabled serves everything but the CRI, as Docker's containerd does.
func disabled(t *testing.T, path string) {
	t.Helper()
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	t.Cleanup(server.Stop)
	go func() { _ = server.Serve(listener) }() // it ends with Stop
}

// Not parallel: it replaces the list of endpoints.
func TestFind(t *testing.T) {
	saved := endpoints
	defer func() { endpoints = saved }()
	dir := t.TempDir()
	first, docker, second, third := filepath.Join(dir, "first"), socket(t), socket(t), socket(t)
	endpoints = []string{first, docker, second, third}
	path := func(name string) string { return name }
	fails := func(parts ...string) {
		t.Helper()
		_, err := Find(t.Context(), path)
		for _, part := range append(parts, "--runtime-endpoint") {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%v; want that it says %q", err, part)
			}
		}
	}
	fails(first + ", " + docker)
	if err := os.WriteFile(first, nil, 0o600); err != nil { // no socket
		t.Fatal(err)
	}
	disabled(t, docker)
	fails(docker, "no CRI is served here")
	for _, at := range []string{third, second} {
		(&fake{}).listen(t, at)
		client, err := Find(t.Context(), path)
		if err != nil || client.Endpoint() != "unix://"+at {
			t.Fatalf("%v, %v; want %q", client, err, at)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A runtime without RuntimeConfig, and one without an answer for Linux, report no cgroup driver.
// That is no error.
func TestCgroupDriver(t *testing.T) {
	t.Parallel()
	of := func(driver runtime.CgroupDriver) *runtime.RuntimeConfigResponse {
		return &runtime.RuntimeConfigResponse{Linux: &runtime.LinuxRuntimeConfiguration{CgroupDriver: driver}}
	}
	for _, test := range []struct {
		answer *runtime.RuntimeConfigResponse
		want   string
	}{
		{nil, ""}, {&runtime.RuntimeConfigResponse{}, ""}, {of(runtime.CgroupDriver_SYSTEMD), "systemd"}, {of(runtime.CgroupDriver_CGROUPFS), "cgroupfs"},
	} {
		if got, err := (&fake{config: test.answer}).connect(t).CgroupDriver(t.Context()); got != test.want || err != nil {
			t.Errorf("%v: %q, %v; want %q", test.answer, got, err, test.want)
		}
	}
	if _, err := newClient(t, socket(t)).CgroupDriver(t.Context()); status.Code(err) != codes.Unavailable {
		t.Errorf("no runtime: %v", err)
	}
}
