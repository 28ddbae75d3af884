package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"

	"google.golang.org/grpc"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"node-partition.io/node-partition/internal/cri"
)

// runtimeServer is a container runtime that only lists pods and containers.
type runtimeServer struct {
	runtime.UnimplementedRuntimeServiceServer

	mu         sync.Mutex
	sandboxes  []*runtime.PodSandbox
	containers []*runtime.Container
}

// serve starts the server and returns a client of it.
func (n *node) serve(ctx context.Context) (*cri.Client, error) {
	dir, err := os.MkdirTemp("/run", "nodebench")
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "runtime.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	n.runtime = &runtimeServer{}
	server := grpc.NewServer()
	runtime.RegisterRuntimeServiceServer(server, n.runtime)
	go func() { _ = server.Serve(listener) }()
	context.AfterFunc(ctx, server.Stop)
	return cri.New(socket)
}

func (r *runtimeServer) ListPodSandbox(
	context.Context,
	*runtime.ListPodSandboxRequest,
) (*runtime.ListPodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &runtime.ListPodSandboxResponse{Items: r.sandboxes}, nil
}

func (r *runtimeServer) ListContainers(
	context.Context,
	*runtime.ListContainersRequest,
) (*runtime.ListContainersResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &runtime.ListContainersResponse{Containers: r.containers}, nil
}

// annotations holds some of those that the kubelet sets.
var annotations = map[string]string{
	"kubernetes.io/config.source":              "file",
	"io.kubernetes.container.hash":             "a1b2c3d4",
	"io.kubernetes.pod.terminationGracePeriod": "30",
}

func (r *runtimeServer) addSandbox(i int, name, uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sandboxes = append(r.sandboxes, &runtime.PodSandbox{
		Id: idOf('a', i), State: runtime.PodSandboxState_SANDBOX_READY, Labels: labels(name, uid), Annotations: annotations,
		Metadata: &runtime.PodSandboxMetadata{Name: name, Namespace: namespace, Uid: uid},
	})
}

func (r *runtimeServer) addContainer(i int, uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.containers = append(r.containers, &runtime.Container{
		Id: idOf(
			'c',
			i,
		),
		PodSandboxId: idOf('a', i),
		State:        runtime.ContainerState_CONTAINER_RUNNING,
		Labels:       labels("main", uid),
		Annotations:  annotations,
		Metadata:     &runtime.ContainerMetadata{Name: "main"},
		Image:        &runtime.ImageSpec{Image: image},
		ImageRef:     image,
	})
}

// uids returns the UIDs of the sandboxes, in their order.
func (r *runtimeServer) uids() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]string, 0, len(r.sandboxes))
	for _, s := range r.sandboxes {
		all = append(all, s.Metadata.Uid)
	}
	return all
}

func (r *runtimeServer) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sandboxes, r.containers = nil, nil
}
