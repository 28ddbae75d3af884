package kubeapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// answers is what an API server does with a request.
type answers func(*http.Request) (*http.Response, error)

func (t answers) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// answeredBy returns a request that a answers answers.
func answeredBy(t answers) *rest.Request {
	base := &url.URL{Scheme: "http", Host: "api.example"}
	return rest.NewRequestWithClient(base, "", rest.ClientContentConfig{}, &http.Client{Transport: t}).Verb(http.MethodGet)
}

// body is the body of an answer, with the time at which it is closed.
type body struct {
	io.Reader
	closed atomic.Pointer[time.Time]
}

func (b *body) Close() error {
	now := time.Now()
	b.closed.Store(&now)
	return nil
}

func (b *body) answer() *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Body: b, Header: http.Header{"Content-Type": {"application/json"}}}
}

// following returns a client that waits a minute for an answer to begin.
func following() *Client { return &Client{Timeout: time.Minute, left: new(atomic.Int32)} }

// TestFollow: events come in their order, and what ends a watch is told from its failure.
func TestFollow(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	const two = `{"type":"ADDED","object":{}} {"type":"BOOKMARK","object":{}}`
	for name, test := range map[string]struct {
		text string
		want func(error) bool
		seen string
	}{
		"ends":            {two, func(err error) bool { return err == nil }, "ADDED BOOKMARK "},
		"is cut off":      {two + `{"type":`, func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }, "ADDED BOOKMARK "},
		"too old":         {two + `{"type":"ERROR","object":{"code":410,"reason":"Expired"}}`, apierrors.IsResourceExpired, "ADDED BOOKMARK "},
		"no status":       {`{"type":"ERROR","object":7}`, func(err error) bool { return err != nil }, ""},
		"no watch":        {"<html>", func(err error) bool { return err != nil }, ""},
		"a caller's word": {`{"type":"DELETED","object":{}}` + two, func(err error) bool { return errors.Is(err, refused) }, "DELETED "},
	} {
		b := &body{Reader: strings.NewReader(test.text)}
		var asked url.Values
		r := answeredBy(func(r *http.Request) (*http.Response, error) {
			asked = r.URL.Query()
			return b.answer(), nil
		})
		seen := ""
		err := following().follow(t.Context(), r, func(e watchEvent) error {
			if seen += string(e.Type) + " "; e.Type == "DELETED" {
				return refused
			}
			return nil
		})
		if !test.want(err) || seen != test.seen {
			t.Errorf("%s: %v, %q; want %q", name, err, seen, test.seen)
		}
		if b.closed.Load() == nil {
			t.Errorf("%s: the answer is not closed", name)
		}
		seconds, err := time.ParseDuration(asked.Get("timeoutSeconds") + "s")
		if err != nil || seconds < watchLength || seconds >= 2*watchLength || asked.Get("watch") != "true" {
			t.Errorf("%s: asked with %v", name, asked)
		}
	}
}

// TestFollowDead: a connection that is dead is given up after the API server should have ended the
// watch.
func TestFollowDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := answeredBy(func(r *http.Request) (*http.Response, error) {
			read, write := io.Pipe()
			context.AfterFunc(r.Context(), func() { _ = write.CloseWithError(r.Context().Err()) })
			return (&body{Reader: read}).answer(), nil
		})
		start := time.Now()
		err := following().follow(t.Context(), r, func(watchEvent) error { return nil })
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took < watchLength+watchSlack || took > 2*watchLength+watchSlack {
			t.Errorf("%v after %s", err, took)
		}
	})
}

// TestOpenHangs: a request that hangs whatever its context says is not waited for. It counts until
// it ends, and no more than a few are begun meanwhile. What it is given late is closed.
func TestOpenHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &body{Reader: strings.NewReader("")}
		c := following()
		var begun atomic.Int32
		hangs := func(until <-chan struct{}) answers {
			return func(*http.Request) (*http.Response, error) {
				begun.Add(1)
				<-until
				return b.answer(), nil
			}
		}
		end := make(chan struct{})
		plugin := hangs(end)
		for range maxLeft {
			start := time.Now()
			if _, err := c.open(t.Context(), answeredBy(plugin)); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute {
				t.Errorf("%v after %s", err, time.Since(start))
			}
		}
		if _, err := c.open(t.Context(), answeredBy(plugin)); !errors.Is(err, errLeft) || begun.Load() != maxLeft || c.left.Load() != maxLeft {
			t.Errorf("%v after %d requests, of which %d are left", err, begun.Load(), c.left.Load())
		}
		close(end)
		synctest.Wait()
		if c.left.Load() != 0 || b.closed.Load() == nil {
			t.Errorf("%d are left", c.left.Load())
		}
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, stop)
		end = make(chan struct{})
		start := time.Now()
		if _, err := c.open(ctx, answeredBy(hangs(end))); !errors.Is(err, context.Canceled) || time.Since(start) != time.Second {
			t.Errorf("%v after %s", err, time.Since(start))
		}
		close(end)
	})
}
