package node

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// fakeRuntime is a runtime without pods.
type fakeRuntime struct {
	runtime.UnimplementedRuntimeServiceServer
	partly bool // it lists containers, and no sandboxes
}

func (*fakeRuntime) Version(context.Context, *runtime.VersionRequest) (*runtime.VersionResponse, error) {
	return &runtime.VersionResponse{RuntimeName: "containerd", RuntimeVersion: "v2.3.7"}, nil
}

func (*fakeRuntime) ListContainers(context.Context, *runtime.ListContainersRequest) (*runtime.ListContainersResponse, error) {
	return &runtime.ListContainersResponse{}, nil
}

func (f *fakeRuntime) ListPodSandbox(context.Context, *runtime.ListPodSandboxRequest) (*runtime.ListPodSandboxResponse, error) {
	if f.partly {
		return nil, errors.New("the list is too long")
	}
	return &runtime.ListPodSandboxResponse{}, nil
}

// runtimeAt serves a runtime until stop is called. With nil it serves no CRI.
func runtimeAt(t *testing.T, path string, f *fakeRuntime) (stop func()) {
	t.Helper()
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	if f != nil {
		runtime.RegisterRuntimeServiceServer(server, f)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // it ends with Stop
	}()
	stop = func() {
		server.Stop()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// TestRuntimeReconnect: a runtime that does not serve the CRI is dropped, and one that the kubelet
// uses later replaces the present one.
func TestRuntimeReconnect(t *testing.T) {
	t.Parallel()
	dir := ShortDir(t)
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	named := first
	up := false
	r := &Runtime{kubelets: func(context.Context) (string, bool) { return named, true }, connected: func(is bool) { up = is }}
	stop := runtimeAt(t, first, nil)
	if _, err := r.Sandboxes(t.Context()); err == nil || !strings.Contains(err.Error(), "no CRI is served here") || up {
		t.Fatalf("%v; want that it serves no CRI", err)
	}
	named = second
	runtimeAt(t, second, &fakeRuntime{})
	if _, err := r.Sandboxes(t.Context()); err != nil || !up {
		t.Fatalf("%v; want the second, for the first is none", err)
	}
	stop()
	runtimeAt(t, first, &fakeRuntime{})
	named = first
	r.Reconsider(t.Context())
	if endpoint, _, _, err := r.Version(t.Context()); err != nil || endpoint != first {
		t.Errorf("%s, %v; want %s, which the kubelet is told to use", endpoint, err, first)
	}
	named = ""
	r.Reconsider(t.Context()) // not known any more: keep the runtime that answers
	if endpoint, _, _, err := r.Version(t.Context()); err != nil || endpoint != first {
		t.Errorf("%s, %v; want %s", endpoint, err, first)
	}
	if err := r.Stop(t.Context(), "c1", time.Second); err == nil {
		t.Error("the fake stops nothing")
	}
}

// TestRuntimePartly: a runtime that lists containers and no sandboxes is not connected.
func TestRuntimePartly(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(ShortDir(t), "runtime")
	var became []bool
	r := &Runtime{
		kubelets:  func(context.Context) (string, bool) { return socket, true },
		connected: func(up bool) { became = append(became, up) },
	}
	runtimeAt(t, socket, &fakeRuntime{partly: true})
	_, err := r.Containers(t.Context())
	_, listErr := r.Sandboxes(t.Context())
	if err != nil || listErr == nil || slices.Contains(became, true) {
		t.Errorf("containers: %v, sandboxes: %v, connected: %v", err, listErr, became)
	}
}
