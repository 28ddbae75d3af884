package lab

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// callRuntime calls the runtime of the node over its socket: no node has crictl.
func (n *Node) callRuntime(ctx context.Context, call func(context.Context, cri.RuntimeServiceClient) error) error {
	ctx, cancel := withDefaultTimeout(ctx)
	defer cancel()
	flavour, err := FlavourByName(n.Flavour)
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient(
		"passthrough:///"+n.Name,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(
			func(ctx context.Context, _ string) (net.Conn, error) { return n.Dial(ctx, "unix", flavour.Socket) },
		),
	)
	if err != nil {
		return fmt.Errorf("node %s: %s: %w", n.Name, flavour.Socket, err)
	}
	defer conn.Close()
	if err := call(ctx, cri.NewRuntimeServiceClient(conn)); err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	return nil
}

// readySandboxes returns the IDs of the sandboxes with these labels that have not ended.
func readySandboxes(
	ctx context.Context, runtime cri.RuntimeServiceClient, labels map[string]string,
) ([]string, error) {
	sandboxes, err := runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{Filter: &cri.PodSandboxFilter{
		LabelSelector: labels, State: &cri.PodSandboxStateValue{State: cri.PodSandboxState_SANDBOX_READY},
	}})
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	ids := make([]string, 0, len(sandboxes.Items))
	for _, s := range sandboxes.Items {
		ids = append(ids, s.Id)
	}
	return ids, nil
}

// runningContainers returns the IDs of the running containers of a static pod, the sandbox's too.
// It asks the runtime, because the kubelet forgets a pod before its processes have ended.
func (n *Node) runningContainers(ctx context.Context, namespace, name string) ([]string, error) {
	labels := map[string]string{
		"io.kubernetes.pod.name":      name + "-" + n.Hostname,
		"io.kubernetes.pod.namespace": namespace,
	}
	var ids []string
	err := n.callRuntime(ctx, func(ctx context.Context, runtime cri.RuntimeServiceClient) error {
		var err error
		if ids, err = readySandboxes(ctx, runtime, labels); err != nil {
			return err
		}
		containers, err := runtime.ListContainers(ctx, &cri.ListContainersRequest{Filter: &cri.ContainerFilter{
			LabelSelector: labels, State: &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING},
		}})
		if err != nil {
			return fmt.Errorf("list containers: %w", err)
		}
		for _, c := range containers.Containers {
			ids = append(ids, c.Id)
		}
		return nil
	})
	return ids, err
}

// Sandbox returns the ID of the sandbox of the pod with this UID. It is an error if the pod has
// none, or several that have not ended.
func (n *Node) Sandbox(ctx context.Context, uid string) (string, error) {
	var ids []string
	err := n.callRuntime(ctx, func(ctx context.Context, runtime cri.RuntimeServiceClient) error {
		var err error
		ids, err = readySandboxes(ctx, runtime, map[string]string{"io.kubernetes.pod.uid": uid})
		return err
	})
	if err == nil && len(ids) != 1 {
		err = fmt.Errorf("node %s: the pod %s has the sandboxes %v: want one", n.Name, uid, ids)
	}
	if err != nil {
		return "", err
	}
	return ids[0], nil
}

// StopSandbox ends a sandbox and its containers, as crictl stopp does. The kubelet makes another
// one for the pod.
func (n *Node) StopSandbox(ctx context.Context, id string) error {
	return n.callRuntime(ctx, func(ctx context.Context, runtime cri.RuntimeServiceClient) error {
		if _, err := runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: id}); err != nil {
			return fmt.Errorf("stop the sandbox %s: %w", id, err)
		}
		return nil
	})
}
