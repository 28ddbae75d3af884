package kubeapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// watchLength is the shortest time after which the API server ends a watch, and twice that the
// longest, as for client-go's reflectors (minWatchTimeout, k8s.io/client-go/tools/cache v0.37.0).
// The clients of a cluster do not begin again all at once.
const watchLength = 5 * time.Minute

// watchSlack is the time for which a watch may exceed what the API server was asked for. After that
// its connection counts as dead.
const watchSlack = 30 * time.Second

// watchEvent is a change, or a bookmark. Object is as the API server has sent it.
type watchEvent struct {
	Type   watch.EventType `json:"type"`
	Object json.RawMessage `json:"object"`
}

// follow makes a request a watch, and calls each with its events. It returns nil when the API
// server ends the watch, which it does after some minutes, and else the error of the request, of an
// event or of each.
func (c *Client) follow(ctx context.Context, request *rest.Request, each func(watchEvent) error) error {
	most := watchLength + rand.N(watchLength)
	//guard: a watch whose connection is dead ends
	ctx, cancel := context.WithTimeout(ctx, most+watchSlack)
	defer cancel()
	body, err := c.open(ctx, request.
		Param("watch", "true").
		Param("timeoutSeconds", strconv.Itoa(int(most/time.Second))))
	if err != nil {
		return err
	}
	defer body.Close()
	if err := readEvents(body, each); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// readEvents reads the events of a watch. The error is io.EOF at their end.
func readEvents(body io.Reader, each func(watchEvent) error) error {
	events := json.NewDecoder(body)
	for {
		var event watchEvent
		if err := events.Decode(&event); err != nil {
			return err
		}
		if event.Type == watch.Error {
			var status metav1.Status
			if err := json.Unmarshal(event.Object, &status); err != nil {
				return err
			}
			return apierrors.FromObject(&status)
		}
		if err := each(event); err != nil {
			return err
		}
	}
}

// maxLeft bounds the requests of a client that were given up, and go on all the same.
const maxLeft = 4

// errLeft is the error of a request beyond maxLeft.
var errLeft = errors.New("earlier requests have not ended")

// open begins to read an answer that goes on. It returns when ctx ends, and with the error of a
// request without an answer after Timeout, also if a credential plugin hangs, as do does.
func (c *Client) open(ctx context.Context, request *rest.Request) (io.ReadCloser, error) {
	//guard: watches that hang in a credential plugin do not pile up
	if c.left.Load() >= maxLeft {
		return nil, errLeft
	}
	ctx, cancel := context.WithCancel(ctx)
	type answer struct {
		body io.ReadCloser
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		// client-go would wait as long as an answer of 429 demands. The caller decides whether to retry.
		body, err := request.MaxRetries(0).Stream(ctx)
		answered <- answer{body, err}
	}()
	//guard: a watch that does not begin ends
	timer := time.NewTimer(c.Timeout)
	defer timer.Stop()
	var err error
	select {
	case a := <-answered:
		if a.err != nil {
			cancel()
			return nil, a.err
		}
		return opened{a.body, cancel}, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = context.DeadlineExceeded
	}
	cancel()
	c.left.Add(1)
	go func() {
		if a := <-answered; a.body != nil {
			_ = a.body.Close() // too late
		}
		c.left.Add(-1)
	}()
	return nil, err
}

// opened is the body of an answer. Close ends its request.
type opened struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (o opened) Close() error {
	o.cancel()
	return o.ReadCloser.Close()
}
