//go:build node

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/lab"
)

// zeroing stands between a kubelet and the API server. While it is on, it sets the resource of a
// type to zero whenever the kubelet registers its Node, with the rights of the kubelet.
// kubernetes#137335 has a kubelet do so at each start.
type zeroing struct {
	node   string
	client kubernetes.Interface // as the kubelet
	on     atomic.Bool
	// restored gets the time from a zero to the next other value.
	restored chan time.Duration
}

// through makes the kubelet of a node reach the API server through a zeroing, and the monitor
// without it.
func through(t *testing.T, r *typedNode) *zeroing {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	kubeconfig, err := r.control.Kubeconfig(r.Hostname)
	must(err)
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	must(err)
	fromNode, err := url.Parse(config.Host)
	must(err)
	config.Host, config.QPS = r.control.Config().Host, -1
	z := &zeroing{node: r.Hostname, restored: make(chan time.Duration, 1)}
	z.client, err = kubernetes.NewForConfig(config)
	must(err)
	transport, err := rest.TransportFor(config)
	must(err)
	target, err := url.Parse(config.Host)
	must(err)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target) }, Transport: transport, FlushInterval: -1,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if z.on.Load() && request.Method == http.MethodPost && request.URL.Path == "/api/v1/nodes" {
			if err := z.zero(t.Context()); err != nil {
				t.Error(err)
			}
		}
		proxy.ServeHTTP(w, request)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	here, err := url.Parse(server.URL)
	must(err)
	proxied := clientcmdapi.NewConfig()
	proxied.Clusters["lab"] = &clientcmdapi.Cluster{Server: "http://" + fromNode.Hostname() + ":" + here.Port()}
	proxied.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab"}
	proxied.CurrentContext = "lab"
	data, err := clientcmd.Write(*proxied)
	must(err)
	const kubelet, direct = "/etc/kubernetes/proxied.conf", "/etc/kubernetes/kubelet.conf"
	must(r.CopyTo(t.Context(),
		lab.File{Path: kubelet, Data: data},
		lab.File{Path: "/etc/systemd/system/kubelet.service.d/20-proxied.conf", Data: []byte("[Service]\nEnvironment=KUBELET_KUBECONFIG_ARGS=--kubeconfig=" + kubelet + "\n")},
	))
	settle(t, r.Node, "PARTITION_MONITOR_ARGS=--kubeconfig="+direct+"\n")
	run(t, r.Node, "systemctl restart "+monitorUnit)
	r.restartKubelet(t)
	return z
}

// zero sets the resource to zero and measures how long it stays so.
func (z *zeroing) zero(ctx context.Context) error {
	amount := func(n *v1.Node) int64 {
		q := n.Status.Capacity[v1.ResourceName(partition.WorkloadResource("telemetry"))]
		return q.Value()
	}
	nodes := z.client.CoreV1().Nodes()
	now, err := nodes.Patch(ctx, z.node, types.MergePatchType, coresPatch("telemetry", `"0"`), metav1.PatchOptions{}, "status")
	if err != nil {
		return err
	}
	began := time.Now()
	go func() {
		for amount(now) == 0 && ctx.Err() == nil {
			if now, err = nodes.Get(ctx, z.node, metav1.GetOptions{}); err != nil {
				break
			}
		}
		z.restored <- time.Since(began)
	}()
	return nil
}

// zeroedRestarts is the number of restarts of a kubelet that zeroes the resource.
const zeroedRestarts = 10

// TestKubeletThatZeroes: a kubelet that sets the resource to zero when it starts does not leave it
// so. What happens to members meanwhile is in docs/workload-types.md.
func TestKubeletThatZeroes(t *testing.T) {
	onEach(t, kinds(allFlavours(), "trixie"), func(t *testing.T, flavour string) {
		r := newTypedNode(t, flavour, resourceSection(telemetryOn(true)))
		small := resources("50m", "24Mi")
		take := func(name string) spec {
			return taking(asking(spec{namespace: operators, name: name, requests: small}, "telemetry"), "100")
		}
		r.created(t,
			group{take("first"), (*typedNode).byDeployment, telemetry, v1.PodQOSBurstable, "0"},
			group{take("second"), (*typedNode).byDeployment, telemetry, v1.PodQOSBurstable, "0"},
			group{asking(spec{namespace: operators, name: "static", requests: small}), (*typedNode).byManifest, telemetry, v1.PodQOSBurstable, "0"},
			group{spec{namespace: operators, name: "other", requests: small}, (*typedNode).byDeployment, partition.Default, v1.PodQOSBurstable, "0-1"},
		)
		z := through(t, r)
		for _, step := range []struct {
			name string
			run  func(*testing.T, *zeroing)
		}{
			{"not zeroed", r.notZeroed},
			{"restored by the monitor", r.restoredByMonitor},
			{"restored by nobody", r.restoredByNobody},
			{"kept by the policy", r.keptByPolicy},
		} {
			if !t.Run(step.name, func(t *testing.T) { step.run(t, z) }) {
				return
			}
		}
	})
}

// notZeroed: behind the stand-in a kubelet is as it is without.
func (r *typedNode) notZeroed(t *testing.T, _ *zeroing) {
	before := r.known(t)
	r.restartKubelet(t)
	r.admitted(t)
	r.become(t, before)
}

// restoredByMonitor: the monitor writes the value again, and the pods that end meanwhile are
// replaced.
func (r *typedNode) restoredByMonitor(t *testing.T, z *zeroing) {
	var longest time.Duration
	ended := 0
	for range zeroedRestarts {
		took, pods := r.zeroed(t, z)
		longest, ended = max(longest, took), ended+len(pods)
		t.Logf("zero for %s; ended: %s", took.Round(time.Millisecond), strings.Join(pods, " "))
		r.hasCores(t, "telemetry", allCores)
		r.recovered(t, pods)
	}
	t.Logf("zero for %s at most; %d members of %d have ended", longest.Round(time.Millisecond), ended, 3*zeroedRestarts)
	if longest > 5*time.Minute {
		t.Errorf("the value was zero for %s", longest)
	}
}

// restoredByNobody: while the value is zero, a kubelet that starts ends every member, and no other
// pod.
func (r *typedNode) restoredByNobody(t *testing.T, z *zeroing) {
	run(t, r.Node, "systemctl stop "+monitorUnit)
	z.on.Store(true)
	run(t, r.Node, "systemctl reset-failed kubelet.service; systemctl restart kubelet.service")
	var ended []string
	eventually(t, r.Node, "members end", func(ctx context.Context) (bool, string, error) {
		var err error
		ended, err = r.ended(ctx)
		return len(ended) == 3, strings.Join(ended, " "), err
	})
	z.on.Store(false)
	t.Logf("ended: %s", strings.Join(ended, " "))
	for _, pod := range ended {
		if strings.HasPrefix(pod, "operators/other-") {
			t.Errorf("%s has ended", pod)
		}
	}
	run(t, r.Node, "systemctl start "+monitorUnit)
	r.hasCores(t, "telemetry", allCores)
	<-z.restored
	r.recovered(t, ended)
}

// keptByPolicy: with the policy for nodes/status there is no zero, and no member fails.
func (r *typedNode) keptByPolicy(t *testing.T, z *zeroing) {
	r.applied(t)
	before, said := r.known(t), overwritten(t, r.Node)
	for range 3 {
		if _, pods := r.zeroed(t, z); len(pods) > 0 {
			t.Errorf("ended: %s", strings.Join(pods, " "))
		}
	}
	r.become(t, before)
	r.stand(t)
	if now := overwritten(t, r.Node); now != said {
		t.Errorf("the value was overwritten: %s messages before and %s after", said, now)
	}
}

// zeroed restarts the kubelet, which sets the resource to zero. It returns how long that lasted,
// and the pods that have failed.
func (r *typedNode) zeroed(t *testing.T, z *zeroing) (time.Duration, []string) {
	t.Helper()
	z.on.Store(true)
	run(t, r.Node, "systemctl reset-failed kubelet.service; systemctl restart kubelet.service")
	var took time.Duration
	select {
	case took = <-z.restored:
	case <-time.After(time.Minute):
		t.Fatal("the kubelet has not registered, or the value is zero for a minute")
	}
	z.on.Store(false)
	r.admitted(t)
	ended, err := r.ended(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return took, ended
}

// ended returns the pods that the kubelet has ended. It refuses them the resource, and their phase
// is then by the status of their container, or Failed.
func (r *typedNode) ended(ctx context.Context) ([]string, error) {
	all, err := r.identities(ctx)
	var names []string
	for name, id := range all {
		if id.phase == v1.PodFailed || id.phase == v1.PodSucceeded {
			names = append(names, name)
		}
	}
	return names, err
}

// recovered removes pods that have ended, and waits until others are in their place.
func (r *typedNode) recovered(t *testing.T, ended []string) {
	t.Helper()
	for _, name := range ended {
		namespace, pod, _ := strings.Cut(name, "/")
		if !strings.HasPrefix(pod, "static-") {
			r.delete(t, namespace, pod)
			continue
		}
		for _, g := range r.groups {
			if g.name == "static" {
				remove(t, r.Node, g.spec)
				r.byManifest(t, g.spec)
			}
		}
	}
	r.stand(t)
	if err := r.WaitReady(t.Context()); err != nil {
		t.Fatal(fmt.Errorf("after the end of %s: %w", strings.Join(ended, " "), err))
	}
}
