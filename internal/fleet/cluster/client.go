// Package cluster is the part of the API server that the dispatcher of a roll uses: nodes, Jobs,
// their pods, one Lease and one ConfigMap.
package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"

	"nodepartition/internal/kubeanswer"
)

// userAgent identifies the dispatcher to the API server, and is the manager of the fields that it
// writes.
const userAgent = "partition-fleet"

// RequestTimeout bounds a request. Priority and fairness of an API server that is busy may delay
// one for seconds.
const RequestTimeout = 15 * time.Second

// Client calls the API server for one release.
type Client struct {
	rest   *rest.RESTClient
	server string
	place  Place
	// connections tracks the open connections; nil if the configuration has its own transport.
	connections *connrotation.ConnectionTracker
	// left counts the watches that were given up before they began, and whose requests go on.
	left atomic.Int32

	mu       sync.Mutex
	requests map[string]int
}

// Place says where the objects of a release are.
type Place struct {
	// Namespace has the Jobs and the ConfigMap, and LockNamespace the Lease. All releases of a cluster
	// have the same LockNamespace.
	Namespace, LockNamespace string
	// ConfigMap owns the Jobs: they are collected with it.
	ConfigMap string
}

// New prepares a client. It connects on first use.
func New(config *rest.Config, place Place) (*Client, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = userAgent
	config.APIPath, config.GroupVersion = "/api", &v1.SchemeGroupVersion
	// The scheme is for the status of a request that is refused.
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, v1.SchemeGroupVersion)
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	// The dispatcher makes one request after another.
	config.QPS = -1
	// The default writes warnings to standard error.
	config.WarningHandlerWithContext = rest.NoWarnings{}
	c := &Client{server: config.Host, place: place, requests: map[string]int{}}
	if config.Transport == nil {
		dialer := connrotation.NewDialer((&net.Dialer{Timeout: RequestTimeout, KeepAlive: RequestTimeout}).DialContext)
		config.Dial, c.connections = dialer.DialContext, dialer.ConnectionTracker
	}
	var err error
	if c.rest, err = rest.RESTClientFor(config); err != nil {
		return nil, fmt.Errorf("API server %s: %w", config.Host, err)
	}
	return c, nil
}

// Requests returns the number of requests so far by what they were, such as "create jobs".
func (c *Client) Requests() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.requests)
}

func (c *Client) count(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests[what]++
}

// do makes a request and decodes the answer into an object, unless that is nil. what is the verb
// and the resource, as a right names them, and name is the object's.
func (c *Client) do(ctx context.Context, what, name string, request *rest.Request, into any) error {
	c.count(what)
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	// client-go would wait as long as an answer of 429 demands. The caller decides whether to retry.
	result := request.SetHeader("Accept", "application/json").MaxRetries(0).Do(ctx)
	err := result.Error()
	if err == nil && into != nil {
		var answer []byte
		if answer, err = result.Raw(); err == nil {
			err = json.Unmarshal(answer, into)
		}
	}
	if kubeanswer.None(err) && c.connections != nil {
		// The next request, and the watches, must not wait for a dead connection, which Go's health check
		// finds after 45 s (configureHTTP2Transport, k8s.io/apimachinery/pkg/util/net v0.37.0).
		c.connections.CloseAll()
	}
	return c.failed(what, name, err)
}
