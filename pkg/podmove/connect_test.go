package podmove

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"

	"nodepartition/internal/cri"
)

// startRuntime serves NRI as runtimes do, with the library that they link.
func startRuntime(t testing.TB, socket string) *adaptation.Adaptation {
	t.Helper()
	runtime, err := adaptation.New("containerd", "v2.3.7",
		func(ctx context.Context, synced adaptation.SyncCB) error { _, err := synced(ctx, nil, nil); return err },
		func(context.Context, []*adaptation.ContainerUpdate) ([]*adaptation.ContainerUpdate, error) { return nil, nil },
		adaptation.WithSocketPath(socket), adaptation.WithPluginPath(t.TempDir()), adaptation.WithPluginConfigPath(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	if err := runtime.Start(); err != nil {
		t.Fatal(err)
	}
	return runtime
}

// connect serves a placer and returns a channel of its connections coming and going.
func connect(t testing.TB, socket string, p *Placer) <-chan bool {
	t.Helper()
	up := make(chan bool, 10)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- ServeNRI(ctx, socket, p, func(c bool) { up <- c }, func(error) {}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	})
	return up
}

func request() *adaptation.CreateContainerRequest {
	const slice = "kubepods-burstable-pod11111111_2222_3333_4444_555555555555.slice"
	return &adaptation.CreateContainerRequest{
		Pod:       &api.PodSandbox{Id: "s", Uid: uidA, Namespace: "kube-system", Name: "a", Linux: &api.LinuxPodSandbox{CgroupParent: slice}},
		Container: &api.Container{Id: "one", Name: "main", Linux: &api.LinuxContainer{CgroupsPath: slice + ":cri-containerd:one"}},
	}
}

// TestRuntimeRestarts: after a restart of the runtime the containers it creates are placed again.
func TestRuntimeRestarts(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "nri.sock")
	p := &Placer{Wake: func() {}, Announce: func(cri.Sandbox, QoS) {}}
	p.SetConfig(Config{Namespaces: []string{"kube-system"}})
	up := connect(t, socket, p) // before there is a runtime
	for range 3 {
		runtime := startRuntime(t, socket)
		if !<-up {
			t.Fatal("not connected")
		}
		answer, err := runtime.CreateContainer(t.Context(), request())
		if err != nil {
			t.Fatal(err)
		}
		if got := answer.GetAdjust().GetLinux().GetCgroupsPath(); !strings.HasPrefix(got, "kubepods-system-burstable-pod11111111") {
			t.Errorf("placed at %q", got)
		}
		runtime.Stop()
		if <-up {
			t.Fatal("connected with a runtime that has ended")
		}
		if p.Connected() {
			t.Error("says that it is connected")
		}
	}
}

// BenchmarkAnswer is what the runtime waits for at each container: request, answer, and the way between.
func BenchmarkAnswer(b *testing.B) {
	socket := filepath.Join(b.TempDir(), "nri.sock")
	p := &Placer{Wake: func() {}, Announce: func(cri.Sandbox, QoS) {}}
	p.SetConfig(Config{Namespaces: []string{"kube-system"}})
	up := connect(b, socket, p)
	runtime := startRuntime(b, socket)
	defer runtime.Stop()
	<-up
	for b.Loop() {
		if _, err := runtime.CreateContainer(b.Context(), request()); err != nil {
			b.Fatal(err)
		}
	}
}
