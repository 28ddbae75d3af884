package main

import (
	"strings"
	"testing"

	"google.golang.org/grpc"
)

// dockers serves the containerd of Docker, which answers each call of the CRI with Unimplemented.
func (n *fakeNode) dockers() {
	n.t.Helper()
	n.serveGRPC("/run/containerd/containerd.sock", func(*grpc.Server) {})
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
		prepare func(*fakeNode)
		args    []string
		want    string
	}{
		"the first that answers": {func(n *fakeNode) {
			n.dockers()
			n.serveAt(crio, &fakeRuntime{})
		}, nil, crio},
		"the kubelet's": {func(n *fakeNode) {
			n.serve(&fakeRuntime{})
			n.serveAt(elsewhere, &fakeRuntime{})
			n.write("/var/lib/kubelet/config.yaml", valid("kube-system")+"containerRuntimeEndpoint: unix://"+elsewhere)
		}, nil, elsewhere},
		"the kubelet's, by a drop-in and without a section": {func(n *fakeNode) {
			n.serve(&fakeRuntime{})
			n.serveAt(elsewhere, &fakeRuntime{})
			n.write("/var/lib/kubelet/config.yaml", kubelet(""))
			n.write("/etc/kubernetes/kubelet/config.json.d/1.conf", kubelet("containerRuntimeEndpoint: unix://"+elsewhere))
		}, nil, elsewhere},
		"the flag's": {func(n *fakeNode) {
			n.serveAt(crio, &fakeRuntime{})
			n.serveAt(elsewhere, &fakeRuntime{})
			n.write("/var/lib/kubelet/config.yaml", valid("kube-system")+"containerRuntimeEndpoint: unix://"+elsewhere)
		}, []string{"--runtime-endpoint=" + crio}, crio},
		"another type is ignored": {func(n *fakeNode) {
			n.serve(&fakeRuntime{})
			n.write("/var/lib/kubelet/config.yaml", valid("kube-system")+"containerRuntimeEndpoint: [7]")
		}, nil, containerd},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, valid("kube-system"))
			n.partition("67108864")
			test.prepare(n)
			_, stdout, _ := n.run(append([]string{"check", "--listen="}, test.args...)...)
			if !strings.Contains(stdout, "containerd v2.3.7 at ") || !strings.Contains(stdout, test.want+"\n") {
				t.Errorf("want %s in\n%s", test.want, stdout)
			}
		})
	}
}
