package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/tests/fakeapi"
	"node-partition.io/node-partition/tests/testkit"
)

// apiFunc implements API.
type apiFunc func(ctx context.Context, ask func(context.Context, *kubeapi.Client, string) error) error

func (f apiFunc) Try(ctx context.Context, ask func(context.Context, *kubeapi.Client, string) error) error {
	return f(ctx, ask)
}

// of returns an API of a cluster.
func of(t *testing.T, c *fakeapi.Cluster) API {
	t.Helper()
	client, err := kubeapi.New(c.NewKubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	return apiFunc(func(ctx context.Context, ask func(context.Context, *kubeapi.Client, string) error) error {
		return ask(ctx, client, fakeapi.Node)
	})
}

// counted is a call of Count.
type counted struct {
	result Result
	n      int
}

// recording runs a recorder until the test ends.
func recording(t *testing.T, api API) (r *Recorder, counts chan counted, lines *testkit.Buffer) {
	t.Helper()
	counts, lines = make(chan counted, 100), &testkit.Buffer{}
	r = NewRecorder(api, lines.Logger(), func(result Result, n int) { counts <- counted{result, n} })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	})
	return r, counts, lines
}

// TestRecorder: a repeated fault is one event whose count grows, on the node.
func TestRecorder(t *testing.T) {
	t.Parallel()
	c := fakeapi.New(t, httptest.NewServer)
	r, counts, lines := recording(t, of(t, c))
	want := func(expected counted) {
		t.Helper()
		if got := <-counts; got != expected {
			t.Errorf("counted %v; want %v", got, expected)
		}
	}
	r.Record(killed)
	want(counted{Created, 1})
	r.Record(killed)
	want(counted{Repeated, 1})
	r.Record(full)
	want(counted{Created, 1})
	events := c.Happened()
	if len(events) != 2 {
		t.Fatalf("%d events; want 2", len(events))
	}
	if e := events[0]; e.Count != 2 || e.InvolvedObject.Kind != "Node" || e.InvolvedObject.Name != fakeapi.Node || e.Namespace != "default" ||
		e.Reason != killed.Reason || e.Message != killed.Message || e.Type != "Warning" || e.Source.Host != fakeapi.Node {
		t.Errorf("%+v; want two about the node", e)
	}
	if e := events[1]; e.Count != 1 || e.Reason != full.Reason {
		t.Errorf("%+v; want one", e)
	}
	if lines.String() != "" {
		t.Errorf("log %s", lines)
	}
}

// TestRecorderExpired: an event that the API server has dropped is created again.
func TestRecorderExpired(t *testing.T) {
	t.Parallel()
	c := fakeapi.New(t, httptest.NewServer)
	r, counts, _ := recording(t, of(t, c))
	r.Record(killed)
	<-counts
	c.Answer(fakeapi.PatchEvent, http.StatusNotFound)
	r.Record(killed)
	<-counts
	if events := c.Happened(); len(events) != 2 || events[1].Count != 2 {
		t.Errorf("%+v; want a second one with the whole count", events)
	}
}

// TestRecorderForbidden: a user without the rights gets one line in the log. Faults are counted,
// and the next is tried again, so that a grant has an effect.
func TestRecorderForbidden(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		request string
		created int
	}{
		"create": {fakeapi.PostNodeEvent, 0},
		"patch":  {fakeapi.PatchEvent, 1},
	} {
		c := fakeapi.New(t, httptest.NewServer)
		c.Answer(test.request, http.StatusForbidden)
		r, counts, lines := recording(t, of(t, c))
		results := make([]Result, 0, 3)
		for range 2 {
			r.Record(killed)
			results = append(results, (<-counts).result)
		}
		if n := slices.Index(append(results, Dropped), Dropped); n != test.created || slices.Contains(results, Repeated) {
			t.Errorf("%s: %v; want %d created, and the others dropped", name, results, test.created)
		}
		if text := lines.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "an event could not be created") ||
			!strings.Contains(text, "create and patch of events") {
			t.Errorf("%s: log %q; want once why, and what to grant", name, text)
		}
		c.Answer(test.request, 0)
		r.Record(killed)
		if got := <-counts; got.result == Dropped {
			t.Errorf("%s: dropped after the rights were granted", name)
		}
	}
}

// TestRecorderUnreachable: while the API server does not answer, faults are counted and the
// attempts get rare. One request afterwards has them all. An equal failure is logged once an hour.
func TestRecorderUnreachable(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{kubeapi.ErrUnreachable, kubeapi.ErrCredentials, kubeapi.ErrNoClient} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			attempts, away := 0, true
			api := apiFunc(func(context.Context, func(context.Context, *kubeapi.Client, string) error) error {
				mu.Lock()
				defer mu.Unlock()
				attempts++
				if away {
					return fmt.Errorf("API server: %w: refused", failure)
				}
				return nil
			})
			r, counts, lines := recording(t, api)
			for range 50 * 60 {
				r.Record(killed)
				<-time.After(time.Second)
			}
			mu.Lock()
			tried := attempts
			away = false
			mu.Unlock()
			if least := map[bool]int{true: 200, false: 10}[errors.Is(failure, kubeapi.ErrNoClient)]; tried < least || tried > 2*least+100 {
				t.Errorf("%v: %d attempts in 50 minutes; want pauses that grow to minutes, and that cost no request without a client", failure, tried)
			}
			if got := <-counts; got != (counted{Created, 1}) {
				t.Errorf("%v: counted %v; want one created", failure, got)
			}
			if text := lines.String(); errors.Is(failure, kubeapi.ErrNoClient) {
				// A node without a cluster is no fault.
				if text != "" {
					t.Errorf("log %q of a node without a cluster", text)
				}
			} else if strings.Count(text, "\n") != 1 || !strings.Contains(text, "events wait for the API server") {
				t.Errorf("%v: log %q; want one line", failure, text)
			}
			synctest.Wait()
			r.mu.Lock()
			defer r.mu.Unlock()
			if s := r.table.series[killed]; s.sent != 50*60 {
				t.Errorf("%v: sent a count of %d; want all", failure, s.sent)
			}
		})
	}
}

// TestRecorderMessage: the API server refuses long messages and ones with several lines are hard to
// read.
func TestRecorderMessage(t *testing.T) {
	t.Parallel()
	r := NewRecorder(nil, nil, func(Result, int) {})
	r.Record(Occurrence{Reason: "x", Message: "a\nb" + strings.Repeat("c", 5000)})
	for f := range r.table.series {
		if len(f.Message) > 1024 || strings.Contains(f.Message, "\n") {
			t.Errorf("message of %d bytes: %.20q", len(f.Message), f.Message)
		}
	}
}
