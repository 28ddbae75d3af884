package main

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// dockers is the containerd of Docker: it answers every call of the CRI with Unimplemented.
func (n *node) dockers() {
	n.t.Helper()
	n.serveGRPC("/run/containerd/containerd.sock", func(*grpc.Server) {})
}

const (
	crio       = "/run/crio/crio.sock"
	elsewhere  = "/run/elsewhere.sock"
	containerd = "/run/containerd/containerd.sock"
)

// Which runtime it is: that of the flag, else the kubelet's, else the first that answers.
func TestWhichRuntime(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prepare func(*node)
		args    []string
		want    string
	}{
		"the first that answers": {func(n *node) {
			n.dockers()
			n.serveAt(crio, &fakeRuntime{})
		}, nil, crio},
		"the kubelet's": {func(n *node) {
			n.serve(&fakeRuntime{})
			n.serveAt(elsewhere, &fakeRuntime{})
			n.write("/var/lib/kubelet/config.yaml", valid("kube-system")+"containerRuntimeEndpoint: unix://"+elsewhere)
		}, nil, elsewhere},
		"the kubelet's, by a drop-in and without a section": {func(n *node) {
			n.serve(&fakeRuntime{})
			n.serveAt(elsewhere, &fakeRuntime{})
			n.write("/var/lib/kubelet/config.yaml", kubelet(""))
			n.write("/etc/kubernetes/kubelet/config.json.d/1.conf", kubelet("containerRuntimeEndpoint: unix://"+elsewhere))
		}, nil, elsewhere},
		"the flag's": {func(n *node) {
			n.serveAt(crio, &fakeRuntime{})
			n.serveAt(elsewhere, &fakeRuntime{})
			n.write("/var/lib/kubelet/config.yaml", valid("kube-system")+"containerRuntimeEndpoint: unix://"+elsewhere)
		}, []string{"--runtime-endpoint=" + crio}, crio},
		"of another type it says nothing": {func(n *node) {
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

// runtimeAt serves a runtime, or nothing of the CRI where it is nil, until stop is called.
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

// A runtime that does not serve the CRI is not kept, and one that the kubelet is told to use later is gone over to.
func TestRuntimeIsLookedForAgain(t *testing.T) {
	t.Parallel()
	n := newNode(t, "") // for its short path
	first, second := filepath.Join(n.root, "first"), filepath.Join(n.root, "second")
	named := first
	up := false
	r := &runtimeClient{kubelets: func() string { return named }, connected: func(is bool) { up = is }}
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
	r.reconsider()
	if endpoint, _, _, err := r.version(t.Context()); err != nil || endpoint != first {
		t.Errorf("%s, %v; want %s, which the kubelet is told to use", endpoint, err, first)
	}
	named = ""
	r.reconsider() // nobody tells any more: what answers stays
	if endpoint, _, _, err := r.version(t.Context()); err != nil || endpoint != first {
		t.Errorf("%s, %v; want %s", endpoint, err, first)
	}
	if err := r.stop(t.Context(), "c1", time.Second); err == nil {
		t.Error("the fake stops nothing")
	}
}
