package lab

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// runningContainers returns the IDs of the running containers of a static pod, the sandbox's too.
// It asks the runtime, because the kubelet forgets a pod before its processes have ended.
func (n *Node) runningContainers(ctx context.Context, namespace, name string) ([]string, error) {
	ctx, cancel := withDefaultTimeout(ctx)
	defer cancel()
	flavour, err := FlavourByName(n.Flavour)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(
		"passthrough:///"+n.Name,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(
			func(ctx context.Context, _ string) (net.Conn, error) { return n.Dial(ctx, "unix", flavour.Socket) },
		),
	)
	if err != nil {
		return nil, fmt.Errorf("node %s: %s: %w", n.Name, flavour.Socket, err)
	}
	defer conn.Close()
	runtime := cri.NewRuntimeServiceClient(conn)
	labels := map[string]string{
		"io.kubernetes.pod.name":      name + "-" + n.Hostname,
		"io.kubernetes.pod.namespace": namespace,
	}
	sandboxes, err := runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{Filter: &cri.PodSandboxFilter{
		LabelSelector: labels, State: &cri.PodSandboxStateValue{State: cri.PodSandboxState_SANDBOX_READY},
	}})
	if err != nil {
		return nil, fmt.Errorf("node %s: list sandboxes: %w", n.Name, err)
	}
	containers, err := runtime.ListContainers(ctx, &cri.ListContainersRequest{Filter: &cri.ContainerFilter{
		LabelSelector: labels, State: &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING},
	}})
	if err != nil {
		return nil, fmt.Errorf("node %s: list containers: %w", n.Name, err)
	}
	var ids []string
	for _, s := range sandboxes.Items {
		ids = append(ids, s.Id)
	}
	for _, c := range containers.Containers {
		ids = append(ids, c.Id)
	}
	return ids, nil
}
