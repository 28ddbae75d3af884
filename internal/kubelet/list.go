package kubelet

import (
	"context"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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

// listTimeout bounds the wait of Listed.
const listTimeout = 2 * time.Second

// Listed returns a Watcher that does not run, with the pods that the kubelet has now. It has none
// if there is no socket, or if the kubelet does not answer in time.
func Listed(ctx context.Context, socket string) *Watcher {
	w := NewWatcher(socket, func() {}, func(bool) {})
	if _, err := os.Stat(socket); err != nil {
		return w
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	pods, err := ListPods(ctx, socket)
	if err != nil {
		return w
	}
	listed := make(map[types.UID]*Pod, len(pods))
	for _, pod := range pods {
		listed[pod.UID] = newPod(pod)
	}
	w.replace(listed)
	return w
}

// maxList bounds the list. A pod of the API is at most 1.5 MiB, which etcd's request may have, and
// a usual one has 10 KiB.
const maxList = 64 << 20
