package kubelet

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"
)

// ListPods returns the pods of the kubelet at a socket, as the kubelet has them. It waits for the
// kubelet until ctx ends.
func ListPods(ctx context.Context, socket string) ([]*v1.Pod, error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxList)))
	if err != nil {
		return nil, fmt.Errorf("kubelet's Pods API: %s: %w", socket, err)
	}
	defer conn.Close()
	answer, err := podsv1alpha1.NewPodsClient(conn).ListPods(ctx, &podsv1alpha1.ListPodsRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return nil, fmt.Errorf("kubelet's Pods API: %s: %w", socket, err)
	}
	pods := make([]*v1.Pod, 0, len(answer.Pods))
	for _, data := range answer.Pods {
		pod := &v1.Pod{}
		if err := pod.Unmarshal(data); err != nil {
			return nil, fmt.Errorf("kubelet's Pods API: %s: %w", socket, err)
		}
		pods = append(pods, pod)
	}
	return pods, nil
}

// maxList bounds the list. A pod of the API is at most 1.5 MiB, which etcd's request may have, and
// a usual one has 10 KiB.
const maxList = 64 << 20
