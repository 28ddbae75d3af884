package check

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/tests/fakenode"
)

// dockers serves the containerd of Docker, which answers each call of the CRI with Unimplemented.
func dockers(n *fakenode.Node) {
	n.ServeGRPC("/run/containerd/containerd.sock", func(*grpc.Server) {})
}

const (
	crio       = "/run/crio/crio.sock"
	elsewhere  = "/run/elsewhere.sock"
	containerd = "/run/containerd/containerd.sock"
)

// TestRuntimeEndpoint: the flag selects the runtime, else the kubelet's configuration, else the
// first that answers is used.
func TestRuntimeEndpoint(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prepare func(*fakenode.Node)
		flags   []flag
		want    string
	}{
		"the first that answers": {func(n *fakenode.Node) {
			dockers(n)
			n.ServeAt(crio, &fakenode.Runtime{})
		}, nil, crio},
		"the kubelet's, by a drop-in and without a section": {func(n *fakenode.Node) {
			n.Serve(&fakenode.Runtime{})
			n.ServeAt(elsewhere, &fakenode.Runtime{})
			n.Write("/var/lib/kubelet/config.yaml", fakenode.Configuration(""))
			n.Write("/etc/kubernetes/kubelet/config.json.d/1.conf", fakenode.Configuration("containerRuntimeEndpoint: unix://"+elsewhere))
		}, nil, elsewhere},
		"the flag's": {func(n *fakenode.Node) {
			n.ServeAt(crio, &fakenode.Runtime{})
			n.ServeAt(elsewhere, &fakenode.Runtime{})
			n.Write("/var/lib/kubelet/config.yaml", fakenode.Valid("kube-system")+"containerRuntimeEndpoint: unix://"+elsewhere)
		}, []flag{endpoint(crio)}, crio},
		"another type is ignored": {func(n *fakenode.Node) {
			n.Serve(&fakenode.Runtime{})
			n.Write("/var/lib/kubelet/config.yaml", fakenode.Valid("kube-system")+"containerRuntimeEndpoint: [7]")
		}, nil, containerd},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := fakenode.New(t, fakenode.Valid("kube-system"))
			n.Partition("67108864")
			test.prepare(n)
			stdout, _ := textOf(t, n, nil, test.flags...)
			if !strings.Contains(stdout, "containerd v2.3.7 at ") || !strings.Contains(stdout, test.want+"\n") {
				t.Errorf("want %s in\n%s", test.want, stdout)
			}
		})
	}
}

// deaf is a runtime and a kubelet that take a request and do not answer it.
type deaf struct {
	runtime.UnimplementedRuntimeServiceServer
	podsv1alpha1.UnimplementedPodsServer
	requests atomic.Int32
}

func (d *deaf) wait(ctx context.Context) error {
	d.requests.Add(1)
	<-ctx.Done()
	return ctx.Err()
}

// Version implements the CRI.
func (d *deaf) Version(ctx context.Context, _ *runtime.VersionRequest) (*runtime.VersionResponse, error) {
	return nil, d.wait(ctx)
}

// RuntimeConfig implements the CRI.
func (d *deaf) RuntimeConfig(ctx context.Context, _ *runtime.RuntimeConfigRequest) (*runtime.RuntimeConfigResponse, error) {
	return nil, d.wait(ctx)
}

// ListPods implements the Pods API.
func (d *deaf) ListPods(ctx context.Context, _ *podsv1alpha1.ListPodsRequest) (*podsv1alpha1.ListPodsResponse, error) {
	return nil, d.wait(ctx)
}

// TestCheckDeaf: a runtime and a kubelet that do not answer are waited for once.
func TestCheckDeaf(t *testing.T) {
	t.Parallel()
	n := fakenode.Audited(t)
	d := &deaf{}
	n.RemoveAll(kubelet.PodsSocket)
	n.ServeGRPC(kubelet.PodsSocket, func(s *grpc.Server) { podsv1alpha1.RegisterPodsServer(s, d) })
	n.ServeGRPC(elsewhere, func(s *grpc.Server) { runtime.RegisterRuntimeServiceServer(s, d) })
	stdout, _ := textOf(t, n, nil, endpoint(elsewhere))
	for _, want := range []string{"error    runtime: ", "ok       cpu-manager: not compared: ", "warning  second-writer: "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("want %q in\n%s", want, stdout)
		}
	}
	if requests := d.requests.Load(); requests != 2 {
		t.Errorf("%d requests; want one to the runtime and one to the kubelet", requests)
	}
}
