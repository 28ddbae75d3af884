package kubeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
)

// Component identifies us to the API server: as the user agent, hence the manager of the fields
// that we write, and as the source of our events.
const Component = "partition-monitor"

// requestTimeout bounds one request; a call makes several. The first one has a TLS handshake, which
// took 3.9 s on an emulated node. Each may take seconds if priority and fairness of the API server
// delays requests.
const requestTimeout = 5 * time.Second

// patient multiplies the time of a request that may wait for webhooks, whose default is ten seconds
// (SetDefaults_ValidatingWebhook, pkg/apis/admissionregistration/v1, v1.37.0).
const patient = 3

// maxBehind bounds the requests of the background that have not ended. A few go on after they were
// given up.
const maxBehind = 8

// errLeft is the error of a request beyond maxBehind.
var errLeft = errors.New("earlier requests have not ended")

// Client calls the API server as the user of a kubeconfig. It connects on first use. A read takes
// five seconds at most, a write three times that, and both end with the context of their call.
//
// Requests share connections, and one without an answer says nothing about the others. Go's health
// check finds a dead connection, within 45 s (configureHTTP2Transport,
// k8s.io/apimachinery/pkg/util/net v0.37.0). An eviction has ten seconds, so that our unit sets
// eight (HTTP2_READ_IDLE_TIMEOUT_SECONDS, HTTP2_PING_TIMEOUT_SECONDS).
//
// Credentials may change meanwhile. Certificates and keys that the kubeconfig names as files, as
// those of kubeadm, k3s and RKE2 do, are read again at each handshake and every five minutes, and
// connections with an old certificate are closed (dynamicClientCert, k8s.io/client-go/transport
// v0.37.0). The file of its authority is read again, too. The content of the kubeconfig itself is
// read once: the owner of a Client watches its Files, and creates another Client when they change.
type Client struct {
	// Timeout bounds a read, and a third of a write. New sets it to five seconds.
	Timeout    time.Duration
	kubeconfig string
	server     string
	plugin     string // the program that the kubeconfig names for credentials
	node       string // the name of the node whose kubelet the certificate is of
	files      []string
	rest       *rest.RESTClient
	background bool
	// underWay has an element for each request of the background that has not ended.
	underWay chan struct{}
}

// New prepares a client of the API server of a kubeconfig. It fails if the file, or one that it
// names, is missing: a kubelet that joins the cluster creates them.
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
	config.AcceptContentTypes = runtime.ContentTypeJSON
	config.NegotiatedSerializer = serializer.NewCodecFactory(newScheme()).WithoutConversion()
	config.QPS = -1 // an eviction must not wait for its turn
	// The default writes warnings to standard error.
	config.WarningHandlerWithContext = rest.NoWarnings{}
	// The default dialer. Without one of its own a Client shares the connections of an earlier Client
	// whose files have the same paths. Without files it shares those of http.DefaultTransport, which
	// have no health check (tlsTransportCache.get, k8s.io/client-go/transport v0.37.0).
	//guard: another authority at the same path is known at once
	config.Dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	c := &Client{
		Timeout: requestTimeout, kubeconfig: kubeconfig, server: config.Host,
		underWay: make(chan struct{}, maxBehind),
	}
	for _, file := range []string{kubeconfig, config.CAFile, config.CertFile, config.KeyFile, config.BearerTokenFile} {
		if file != "" {
			c.files = append(c.files, file)
		}
	}
	if config.ExecProvider != nil {
		c.plugin = config.ExecProvider.Command
	}
	c.node = nodeOf(config)
	if c.rest, err = rest.RESTClientFor(config); err != nil {
		return nil, err
	}
	return c, nil
}

// Background returns a client for requests that are not urgent: few of them wait at a time.
func (c *Client) Background() *Client {
	background := *c
	background.background = true
	return &background
}

// newScheme registers only the type that is sent as an object: reflecting on all types of core/v1
// takes memory.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(v1.SchemeGroupVersion, &v1.Event{})
	metav1.AddToGroupVersion(scheme, v1.SchemeGroupVersion)
	return scheme
}

// Server returns the address of the API server.
func (c *Client) Server() string { return c.server }

// Node returns the name of the node whose kubelet the client certificate is of, empty if it is of
// another user or if there is none. A kubelet's certificate has it as its common name, after
// system:node: (NodeIdentity, pkg/auth/nodeidentifier, v1.37.0).
func (c *Client) Node() string { return c.node }

// nodeOf returns the name of the node of a client certificate. The client reports one that cannot
// be read.
func nodeOf(config *rest.Config) string {
	data := config.CertData
	if len(data) == 0 && config.CertFile != "" {
		data, _ = os.ReadFile(config.CertFile)
	}
	certificates, _ := cert.ParseCertsPEM(data) // the kubelet keeps its key in the same file
	if len(certificates) == 0 {
		return ""
	}
	node, ok := strings.CutPrefix(certificates[0].Subject.CommonName, nodeUser)
	if !ok {
		return ""
	}
	return node
}

// nodeUser begins the names of kubelets' users.
const nodeUser = "system:node:"

// Files returns the kubeconfig and the files that it names.
func (c *Client) Files() []string { return c.files }

// merge returns a strategic merge patch.
func (c *Client) merge(patch any) *rest.Request {
	return c.patchOf(types.StrategicMergePatchType, patch)
}

func (c *Client) patchOf(kind types.PatchType, patch any) *rest.Request {
	data, err := json.Marshal(patch)
	if err != nil {
		panic(err) // it has texts, numbers and times
	}
	return c.rest.Patch(kind).Body(data)
}

// get makes a request by do, and decodes the JSON of its answer.
func (c *Client) get(ctx context.Context, request *rest.Request, into any) error {
	result, err := c.do(ctx, request)
	if err != nil {
		return err
	}
	return decode(result, into)
}

// decode decodes the JSON of an answer.
func decode(result rest.Result, into any) error {
	data, err := result.Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// do makes a request that reads, or a small one that may fail. It returns when ctx ends, or after
// Timeout, even if the request has not ended: client-go waits for a credential plugin without
// regard to the context (refreshCredsLocked, k8s.io/client-go/plugin/pkg/client/auth/exec v0.37.0).
func (c *Client) do(ctx context.Context, request *rest.Request) (rest.Result, error) {
	return c.within(ctx, c.Timeout, request)
}

// write is do for a request that webhooks may see.
func (c *Client) write(ctx context.Context, request *rest.Request) (rest.Result, error) {
	return c.within(ctx, patient*c.Timeout, request)
}

func (c *Client) within(ctx context.Context, timeout time.Duration, request *rest.Request) (rest.Result, error) {
	if c.background {
		select {
		case c.underWay <- struct{}{}:
		default:
			//guard: requests that hang in a credential plugin do not pile up
			return rest.Result{}, errLeft
		}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	done := make(chan rest.Result, 1)
	go func() {
		// client-go would wait as long as an answer of 429 demands. The caller decides whether to retry.
		result := request.MaxRetries(0).Do(ctx)
		if c.background {
			<-c.underWay
		}
		done <- result
	}()
	select {
	case result := <-done:
		return result, result.Error()
	case <-ctx.Done():
		return rest.Result{}, ctx.Err()
	}
}
