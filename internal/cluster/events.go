package cluster

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/text"
)

// Result is the result of an attempt to write something to the API server.
type Result string

const (
	// Created means a new event.
	Created Result = "created"
	// Repeated means a raised count of an event.
	Repeated Result = "repeated"
	// Dropped means an occurrence that was given up: the API server refused it, or too many others
	// waited.
	Dropped Result = "dropped"
)

// Results returns all results.
func Results() []Result { return []Result{Created, Repeated, Dropped} }

// Recorder records faults of partitions where operators of the cluster look: as Events on the node.
//
// It does not use client-go's recorder (k8s.io/client-go/tools/record v0.37.0). That drops an event
// after twelve attempts and the occurrences beyond its rate, reports neither, and adds 2.6 MB to
// the program and 1.7 MB to its resident memory.
// It keeps events while the API server does not answer.
type Recorder struct {
	api   API
	log   *slog.Logger
	count func(Result, int)

	some chan struct{} // has an element after a fault
	said Saying        // belongs to Run

	mu    sync.Mutex
	table *table
}

// NewRecorder returns a Recorder that sends nothing before Run. count is called with a result, and
// the number of events, or of occurrences that were dropped.
func NewRecorder(api API, log *slog.Logger, count func(Result, int)) *Recorder {
	return &Recorder{api: api, log: log, count: count, some: make(chan struct{}, 1), table: newTable()}
}

// maxMessage is below the limit of the API server (NoteLengthLimit, pkg/apis/core/validation,
// v1.37.0: 1024 bytes).
const maxMessage = 1000

// Record records a fault. It returns at once, and may be called from any goroutine.
func (r *Recorder) Record(f Occurrence) {
	f.Message = text.Record(f.Message, maxMessage)
	r.mu.Lock()
	added := r.table.add(f, time.Now())
	r.mu.Unlock()
	if !added {
		r.count(Dropped, 1)
		return
	}
	select {
	case r.some <- struct{}{}:
	default:
	}
}

// Run sends what was recorded until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	var retry kubeapi.Retry
	for ctx.Err() == nil {
		r.mu.Lock()
		next, later := r.table.next(time.Now())
		r.mu.Unlock()
		if next == nil {
			r.await(ctx, later)
			continue
		}
		err := r.send(ctx, *next)
		switch {
		case err == nil:
			r.done(next)
			retry = kubeapi.Retry{}
		case ctx.Err() != nil:
		case refused(err):
			r.mu.Lock()
			lost := r.table.drop(next, time.Now())
			r.mu.Unlock()
			r.said.Warn(r.log, err, "an event could not be created; the journal and the metrics have the same", "reason", next.fault.Reason)
			r.count(Dropped, lost) // after the line: who waits for it finds the cause in the log
		default:
			r.said.Warn(r.log, err, "events wait for the API server, trying again")
			select {
			case <-ctx.Done():
			case <-time.After(retry.After(err)):
			}
		}
	}
	return ctx.Err()
}

// await waits for a fault, or until later, if that is not zero.
func (r *Recorder) await(ctx context.Context, later time.Duration) {
	var timer <-chan time.Time
	if later > 0 {
		timer = time.After(later)
	}
	select {
	case <-ctx.Done():
	case <-r.some:
	case <-timer:
	}
}

func (r *Recorder) done(s *series) {
	r.mu.Lock()
	r.table.sent(s, time.Now())
	r.mu.Unlock()
	if s.sent == 0 {
		r.count(Created, 1)
		return
	}
	r.count(Repeated, 1)
}

// send creates the event of a series, or raises its count.
func (r *Recorder) send(ctx context.Context, s series) error {
	return r.api.Try(ctx, func(ctx context.Context, client *kubeapi.Client, node string) error {
		e := kubeapi.NewEvent(kubeapi.AboutNode(node), node, s.fault.Reason, s.fault.Message, s.first)
		e.Count, e.LastTimestamp = int32(s.count), metav1.NewTime(s.last)
		if s.sent > 0 {
			// The API server may have dropped it: it keeps an event for an hour.
			if err := client.RepeatEvent(ctx, e); !errors.Is(err, kubeapi.ErrGone) {
				return err
			}
		}
		return client.Event(ctx, e)
	})
}

// refused reports whether another attempt would fail, too.
func refused(err error) bool {
	for _, passing := range []error{kubeapi.ErrUnreachable, kubeapi.ErrCredentials, kubeapi.ErrNoClient} {
		if errors.Is(err, passing) {
			return false
		}
	}
	return true
}
