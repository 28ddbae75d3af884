// Package kubeapi tells the API server that a pod of this node was evicted, in the words in which the kubelet tells it of its own
// node-pressure evictions (k8s.io/kubernetes v1.37.0: evictPod and evictionMessage in pkg/kubelet/eviction, mergePodStatus and
// syncPod in pkg/kubelet/status).
//
// # What the kubelet makes of it
//
// A pod that is Failed in the API is torn down by its kubelet and never started again (podWorkers.UpdatePod); what of it still runs
// has the pod's own grace period, not an eviction's. The kubelet keeps the phase, and after the teardown the reason, too, which is
// empty for a moment (generateAPIPodStatus, SyncTerminatingPod); the condition stays all the time (mergePodStatus).
//
// Two things may come before. For the kubelet its own view of a pod's status is the true one, and until it begins the teardown it
// writes it over ours, phase and reason, at each change of the pod and every ten seconds (syncBatch, needsReconcile). It has begun
// when it says itself that the pod has failed, which its Pods API shows; until then MarkEvicted has to be repeated. And a pod whose
// containers are not restarted fails by itself when it is killed: where that comes before MarkEvicted, it has failed, and was not
// evicted, which a Job's podFailurePolicy counts differently.
package kubeapi

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/connrotation"
)

// Component is who we are to the API server: our user agent, and so the manager of the fields that we write, and the source of our
// events.
const Component = "partition-monitor"

// requestTimeout is for one request, of which a call makes several. The first one has a TLS handshake, which took 3.9 s on an emulated node;
// an API server whose priority and fairness lets requests wait takes seconds for each.
const requestTimeout = 5 * time.Second

// Client talks to the API server as the user of a kubeconfig. It connects when it is first used. A request takes five seconds at most, and
// ends with the context of its call.
//
// Credentials may change under it: certificates and keys that the kubeconfig names as files, as those of kubeadm, k3s and RKE2 do,
// are read again at each handshake and every five minutes, and connections with an old certificate are closed (dynamicClientCert,
// k8s.io/client-go/transport v0.37.0); so is the file of its authority. What stands in the kubeconfig itself is read once: who keeps a Client
// looks at its Files, and makes another when they change.
type Client struct {
	// Timeout is for one request; New sets it to five seconds.
	Timeout    time.Duration
	kubeconfig string
	server     string
	plugin     string // the program that the kubeconfig asks for credentials
	files      []string
	// connections are those that are open.
	connections *connrotation.ConnectionTracker
	rest        *rest.RESTClient
}

// New prepares to talk to the API server of a kubeconfig. It fails where the file, or one that it names, is not there (yet): a kubelet
// that joins the cluster makes them.
func New(kubeconfig string) (*Client, error) {
	c, err := newClient(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	return c, nil
}

func newClient(kubeconfig string) (*Client, error) {
	// As the kubelet reads it (buildKubeletClientConfig, cmd/kubelet/app/server.go, v1.37.0).
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, err
	}
	config.UserAgent = Component
	config.APIPath, config.GroupVersion = "/api", &v1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(newScheme()).WithoutConversion()
	// An eviction must not wait for its turn: there is one at a time.
	config.QPS = -1
	// The default writes them to standard error.
	config.WarningHandlerWithContext = rest.NoWarnings{}
	// The dialer that client-go has by default, but for its connections being known.
	dialer := connrotation.NewDialer((&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext)
	config.Dial = dialer.DialContext
	c := &Client{Timeout: requestTimeout, kubeconfig: kubeconfig, server: config.Host, connections: dialer.ConnectionTracker}
	for _, file := range []string{kubeconfig, config.CAFile, config.CertFile, config.KeyFile, config.BearerTokenFile} {
		if file != "" {
			c.files = append(c.files, file)
		}
	}
	if config.ExecProvider != nil {
		c.plugin = config.ExecProvider.Command
	}
	if c.rest, err = rest.RESTClientFor(config); err != nil {
		return nil, err
	}
	return c, nil
}

// newScheme knows what is sent and received, and not all of core/v1: reflecting on its types takes memory.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(v1.SchemeGroupVersion, &v1.Pod{}, &v1.Event{})
	metav1.AddToGroupVersion(scheme, v1.SchemeGroupVersion)
	return scheme
}

// Kubeconfig is the path as it was given.
func (c *Client) Kubeconfig() string { return c.kubeconfig }

// Server is the address of the API server.
func (c *Client) Server() string { return c.server }

// Files are the kubeconfig and those that it names.
func (c *Client) Files() []string { return c.files }

// do makes a request and returns when ctx ends, or its own time, whatever becomes of the request: client-go waits for a credential plugin without
// regard to the context (refreshCredsLocked, k8s.io/client-go/plugin/pkg/client/auth/exec v0.37.0).
func (c *Client) do(ctx context.Context, request *rest.Request) (rest.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	done := make(chan rest.Result, 1)
	var mu sync.Mutex
	left := false // before there was a result
	go func() {
		// client-go would wait as long as an answer of 429 says. Who calls us knows whether it is still worth it.
		result := request.MaxRetries(0).Do(ctx)
		mu.Lock()
		defer mu.Unlock()
		if unanswered(result.Error()) && !left {
			// The next request must not wait for a dead connection, which Go's health check finds after 45 s (configureHTTP2Transport,
			// k8s.io/apimachinery/pkg/util/net v0.37.0). The kubelet does it after heartbeats that failed (updateDialer, cmd/kubelet/app,
			// v1.37.0).
			c.connections.CloseAll()
		}
		done <- result
	}()
	select {
	case result := <-done:
		return result, result.Error()
	case <-ctx.Done():
		// By us and now: later it would cut off the next attempt.
		mu.Lock()
		defer mu.Unlock()
		left = true
		c.connections.CloseAll()
		return rest.Result{}, ctx.Err()
	}
}
