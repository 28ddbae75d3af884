package nri

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
)

// startRuntime serves NRI as runtimes do, with the library that they link. It starts the plugins in
// a folder.
func startRuntime(tb testing.TB, socket, plugins string) *adaptation.Adaptation {
	tb.Helper()
	runtime := newRuntime(tb, socket, plugins)
	if err := runtime.Start(); err != nil {
		tb.Fatal(err)
	}
	return runtime
}

// newRuntime returns a runtime that is not started yet.
func newRuntime(tb testing.TB, socket, plugins string) *adaptation.Adaptation {
	tb.Helper()
	runtime, err := adaptation.New("containerd", "v2.3.7",
		func(ctx context.Context, synced adaptation.SyncCB) error { _, err := synced(ctx, nil, nil); return err },
		func(context.Context, []*adaptation.ContainerUpdate) ([]*adaptation.ContainerUpdate, error) {
			return nil, nil
		},
		adaptation.WithSocketPath(socket), adaptation.WithPluginPath(plugins), adaptation.WithPluginConfigPath(tb.TempDir()))
	if err != nil {
		tb.Fatal(err)
	}
	return runtime
}

// connect serves a plugin and returns a channel that receives each connect (true) and disconnect.
func connect(tb testing.TB, socket string, p *Plugin) <-chan bool {
	tb.Helper()
	up := make(chan bool, 10)
	p.Connection = func(c bool) { up <- c }
	serve(tb, socket, p)
	return up
}

// serve serves a plugin until the test ends.
func serve(tb testing.TB, socket string, p *Plugin) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, socket, p, func(error) {}) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			tb.Errorf("ended with %v", err)
		}
	})
}

// create creates a container as runtimes do, and returns the slice of the answer. Before each event
// runtimes wait for a plugin that is being synchronized.
func create(tb testing.TB, runtime *adaptation.Adaptation, question *adaptation.CreateContainerRequest) string {
	tb.Helper()
	defer runtime.BlockPluginSync().Unblock()
	answer, err := runtime.CreateContainer(tb.Context(), question)
	if err != nil {
		tb.Fatalf("the runtime would not create the container: %v", err)
	}
	return sliceOf(answer)
}

// sliceOf returns the slice of an answer, "" if it has none.
func sliceOf(answer *adaptation.CreateContainerResponse) string {
	slice, _, _ := strings.Cut(answer.GetAdjust().GetLinux().GetCgroupsPath(), ":")
	return slice
}

func request() *adaptation.CreateContainerRequest {
	const slice = "kubepods-burstable-pod11111111_2222_3333_4444_555555555555.slice"
	return &adaptation.CreateContainerRequest{
		Pod:       &api.PodSandbox{Id: "s", Uid: uidA, Namespace: "kube-system", Name: "a", Linux: &api.LinuxPodSandbox{CgroupParent: slice}},
		Container: &api.Container{Id: "one", Name: "main", Linux: &api.LinuxContainer{CgroupsPath: slice + ":cri-containerd:one"}},
	}
}

// placedSlice is the slice of the pod of request in the partition.
const placedSlice = "kubepods-system-burstable-pod11111111_2222_3333_4444_555555555555.slice"

// mortal serves the socket of a runtime until it is killed. The library keeps the connections of
// its plugins when it is stopped: they end only with the runtime's process.
type mortal struct {
	listener net.Listener
	mu       sync.Mutex
	conns    []net.Conn
}

func serveMortal(t *testing.T, socket, behind string) *mortal {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	m := &mortal{listener: listener}
	go func() {
		for {
			plugin, err := listener.Accept()
			if err != nil {
				return
			}
			runtime, err := net.Dial("unix", behind)
			if err != nil {
				_ = plugin.Close()
				return
			}
			m.mu.Lock()
			m.conns = append(m.conns, plugin, runtime)
			m.mu.Unlock()
			go func() { _, _ = io.Copy(runtime, plugin) }()
			go func() { _, _ = io.Copy(plugin, runtime) }()
		}
	}()
	return m
}

func (m *mortal) kill() {
	_ = m.listener.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, conn := range m.conns {
		_ = conn.Close()
	}
}

// TestServeRuntimeRestarts: after a restart of the runtime the containers it creates are placed
// again.
func TestServeRuntimeRestarts(t *testing.T) {
	socket, behind := filepath.Join(t.TempDir(), "nri.sock"), filepath.Join(t.TempDir(), "nri.sock")
	p := newPlugin()
	up := connect(t, socket, p) // before there is a runtime
	for range 3 {
		runtime := startRuntime(t, behind, t.TempDir())
		process := serveMortal(t, socket, behind)
		if !<-up {
			t.Fatal("not connected")
		}
		if got := create(t, runtime, request()); got != placedSlice {
			t.Errorf("placed at %q, want %s", got, placedSlice)
		}
		process.kill()
		if <-up {
			t.Fatal("connected with a runtime that has ended")
		}
		if p.Connected() {
			t.Error("reports that it is connected")
		}
		runtime.Stop()
	}
}

// TestServeNotSynchronized: containerd accepts the plugin's connection. It synchronizes the plugin
// after the grace periods of all containers. The plugin does not take that for a refusal.
func TestServeNotSynchronized(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "nri.sock")
	p := newPlugin()
	up := connect(t, socket, p) // before there is a runtime
	for p.RefusedFor() == 0 {
		<-time.After(time.Millisecond)
	}
	runtime := newRuntime(t, socket, t.TempDir())
	stopping := runtime.BlockPluginSync()
	if err := runtime.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(runtime.Stop)
	isConfigured := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.runtime != ""
	}
	for !isConfigured() {
		<-time.After(time.Millisecond)
	}
	if got := p.RefusedFor(); got != 0 || p.Connected() {
		t.Errorf("refused for %s, connected %t; want it to be waited for", got, p.Connected())
	}
	stopping.Unblock()
	if !<-up {
		t.Error("not connected")
	}
}

// BenchmarkAnswer measures how long the runtime waits at each container: request, answer, and
// transport.
func BenchmarkAnswer(b *testing.B) {
	socket := filepath.Join(b.TempDir(), "nri.sock")
	p := newPlugin()
	up := connect(b, socket, p)
	runtime := startRuntime(b, socket, b.TempDir())
	defer runtime.Stop()
	<-up
	runtime.BlockPluginSync().Unblock()
	var took []time.Duration
	for b.Loop() {
		begin := time.Now()
		if _, err := runtime.CreateContainer(b.Context(), request()); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "p99-ms")
}
