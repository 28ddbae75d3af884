package kubeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// watchFor is the shortest time after which the API server ends a watch, and twice that the
// longest, as for client-go's reflectors (minWatchTimeout, k8s.io/client-go/tools/cache v0.37.0).
// The nodes of a cluster do not begin again all at once.
const watchFor = 5 * time.Minute

// watchSlack is the time for which a watch may exceed what the API server was asked for. After that
// its connection counts as dead.
const watchSlack = 30 * time.Second

// WatchNode calls seen with a node as the API server has it: at first, if the node exists, and
// after each change. It calls seen with nil when the node is deleted. It returns nil when the API
// server ends the watch, which it does after some minutes. The node may have changed once more
// then.
//
// A kubelet's user may watch its own node, if the selector names that alone
// (AuthorizeNodeWithSelectors, plugin/pkg/auth/authorizer/node, v1.37.0). The first state may be
// older than the last write: resourceVersion 0 reads the API server's cache. Later ones follow.
func (c *Client) WatchNode(ctx context.Context, node string, seen func(*Node)) error {
	length := watchFor + rand.N(watchFor)
	ctx, cancel := context.WithTimeout(ctx, length+watchSlack)
	defer cancel()
	body, err := c.open(ctx, c.rest.Get().Resource("nodes").
		Param("watch", "true").
		Param("fieldSelector", "metadata.name="+node).
		Param("resourceVersion", "0").
		Param("timeoutSeconds", strconv.Itoa(int(length/time.Second))))
	if err == nil {
		defer body.Close()
		if err = readNodes(body, seen); errors.Is(err, io.EOF) {
			return nil
		}
	}
	if fromNoAPIServer(err) {
		return c.about("watch nodes", "node", node, fmt.Errorf("%w: %w", ErrUnreachable, err))
	}
	return c.failed("watch nodes", "node", node, err)
}

// open begins to read an answer that goes on. It returns when ctx ends, and with the error of a
// request without an answer after Timeout, also if a credential plugin hangs: see do.
func (c *Client) open(ctx context.Context, request *rest.Request) (io.ReadCloser, error) {
	if c.underWay.left.Load() >= maxLeft {
		return nil, errLeft
	}
	ctx, cancel := context.WithCancelCause(ctx)
	type answer struct {
		body io.ReadCloser
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		body, err := request.MaxRetries(0).Stream(ctx)
		answered <- answer{body, err}
	}()
	timer := time.NewTimer(c.Timeout)
	defer timer.Stop()
	var err error
	select {
	case a := <-answered:
		if a.err != nil {
			cancel(nil)
			if unanswered(a.err) {
				c.closeConnections()
			}
			return nil, a.err
		}
		return opened{a.body, cancel}, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = context.DeadlineExceeded
	}
	cancel(err)
	c.closeConnections()
	c.underWay.left.Add(1)
	go func() {
		if a := <-answered; a.body != nil {
			_ = a.body.Close() // too late
		}
		c.underWay.left.Add(-1)
	}()
	return nil, err
}

// opened is the body of an answer. Close ends its request.
type opened struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (o opened) Close() error {
	o.cancel(nil)
	return o.ReadCloser.Close()
}

// readNodes reads the events of a watch. The error is io.EOF at their end.
func readNodes(body io.Reader, seen func(*Node)) error {
	events := json.NewDecoder(body)
	for {
		var event struct {
			Type   watch.EventType `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := events.Decode(&event); err != nil {
			return err
		}
		switch event.Type {
		case watch.Added, watch.Modified:
			var object nodeObject
			if err := json.Unmarshal(event.Object, &object); err != nil {
				return err
			}
			node := object.node()
			seen(&node)
		case watch.Deleted:
			seen(nil)
		case watch.Error:
			var status metav1.Status
			if err := json.Unmarshal(event.Object, &status); err != nil {
				return err
			}
			return apierrors.FromObject(&status)
		}
	}
}
