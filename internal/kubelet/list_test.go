package kubelet

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"node-partition.io/node-partition/tests/testkit"
)

// lister answers ListPods.
type lister struct {
	podsv1alpha1.UnimplementedPodsServer
	pods [][]byte
}

func (l lister) ListPods(context.Context, *podsv1alpha1.ListPodsRequest) (*podsv1alpha1.ListPodsResponse, error) {
	return &podsv1alpha1.ListPodsResponse{Pods: l.pods}, nil
}

// serve serves the API at a socket until the test ends.
func serve(t *testing.T, server podsv1alpha1.PodsServer) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "pods") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket = filepath.Join(dir, "s")
	testkit.ListenGRPC(t, socket, func(s *grpc.Server) { podsv1alpha1.RegisterPodsServer(s, server) })
	return socket
}

func TestList(t *testing.T) {
	t.Parallel()
	pod := v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "dns"}, Status: v1.PodStatus{QOSClass: v1.PodQOSBurstable}}
	data, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	socket := serve(t, lister{pods: [][]byte{data}})
	pods, err := ListPods(t.Context(), socket)
	if err != nil || len(pods) != 1 || pods[0].Name != "dns" || pods[0].Status.QOSClass != v1.PodQOSBurstable {
		t.Errorf("%v, %v", pods, err)
	}
	w := Listed(t.Context(), socket)
	if known, told := w.Pods(); !told || !w.Answers() || len(known) != 1 || known[pod.UID].Name != "dns" {
		t.Errorf("%+v, %t", known, told)
	}
	if known, told := Listed(t.Context(), socket+"none").Pods(); told || len(known) > 0 {
		t.Errorf("without a socket: %+v, %t", known, told)
	}
}

// TestListErrors: the error names the socket. A kubelet that does not answer is awaited no longer
// than the context allows.
func TestListErrors(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	old, broken := serve(t, podsv1alpha1.UnimplementedPodsServer{}), serve(t, lister{pods: [][]byte{[]byte("no pod")}})
	for _, test := range []struct {
		ctx    context.Context
		socket string
	}{{ended, "/nonexistent/s"}, {t.Context(), old}, {t.Context(), broken}} {
		_, err := ListPods(test.ctx, test.socket)
		if err == nil || !strings.Contains(err.Error(), test.socket) || errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", test.socket, err)
		}
	}
}
