//go:build !labcommand

package lab

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// apiClient is a client of a control plane. It imports every group of the API. The lab's command
// starts no control plane, and is built without it.
type apiClient = kubernetes.Interface

func newAPIClient(config *rest.Config) (apiClient, error) { return kubernetes.NewForConfig(config) }

// Client returns a client with all rights.
func (p *ControlPlane) Client() kubernetes.Interface { return p.client }

// ready reports whether the API server is ready and has made the namespaces of static pods, or else
// what is missing.
func (p *ControlPlane) ready(ctx context.Context) (bool, string, error) {
	if seen, err := p.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
		return false, string(seen), err
	}
	for _, namespace := range []string{v1.NamespaceDefault, metav1.NamespaceSystem} {
		if _, err := p.client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{}); err != nil {
			return false, "ready", err
		}
	}
	return true, "", nil
}

// WaitPod waits until a pod runs with all its containers ready, and returns it as the API has it.
func (p *ControlPlane) WaitPod(ctx context.Context, namespace, name string) (*v1.Pod, error) {
	var pod *v1.Pod
	err := waitFor(
		ctx,
		fmt.Sprintf("pod %s/%s running", namespace, name),
		pollInterval,
		func(ctx context.Context) (bool, string, error) {
			var err error
			if pod, err = p.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
				return false, "", err
			}
			return podRuns(*pod), describePods([]v1.Pod{*pod}), nil
		},
	)
	if err != nil {
		return nil, err
	}
	return pod, nil
}

// nodeReady reports whether the node has joined and is ready, or else the reason.
func (p *ControlPlane) nodeReady(ctx context.Context, name string) (bool, string, error) {
	node, err := p.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false, "not joined", err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == v1.NodeReady {
			return c.Status == v1.ConditionTrue, "joined: " + c.Message, nil
		}
	}
	return false, "joined", nil
}
