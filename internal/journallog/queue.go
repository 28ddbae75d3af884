package journallog

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	// queued bounds the records that wait. A reconcile of all pods of a node writes fewer.
	queued = 256
	// lastWait bounds Close.
	lastWait = time.Second
)

// Queue is a slog.Handler that never blocks: another goroutine gives the records to the handler
// behind it, in their order. journald reads slowly, or not at all, while its disk is busy, which is
// often while memory is short. Its socket is full then, and a write to it lasts until journald
// reads. What finds no room in the queue is dropped and counted.
type Queue struct {
	slog.Handler // behind the queue
	*queue
}

type queue struct {
	entries          chan entry
	dropped          atomic.Uint64
	closed, finished chan struct{}
}

// entry is a record with the handler that has the attributes of its logger.
type entry struct {
	handler slog.Handler
	record  slog.Record
}

// NewQueue returns a Queue in front of a handler.
func NewQueue(behind slog.Handler) Queue {
	q := Queue{behind, &queue{
		entries: make(chan entry, queued), closed: make(chan struct{}), finished: make(chan struct{}),
	}}
	go q.run(behind)
	return q
}

// Dropped returns the number of records that found no room.
func (q *queue) Dropped() uint64 { return q.dropped.Load() }

// Close writes what waits, for a second at most. What is logged after it may be lost.
func (q *queue) Close() {
	close(q.closed)
	select {
	case <-q.finished:
	case <-time.After(lastWait):
	}
}

func (q *queue) run(behind slog.Handler) {
	defer close(q.finished)
	said := uint64(0)
	write := func(e entry) {
		_ = e.handler.Handle(context.Background(), e.record) // as slog does with the error
		if dropped := q.Dropped(); dropped > said && len(q.entries) == 0 {
			slog.New(behind).Warn("log records were dropped, because they were not read in time", "records", dropped-said)
			said = dropped
		}
	}
	for {
		select {
		case e := <-q.entries:
			write(e)
			continue
		case <-q.closed:
		}
		for len(q.entries) > 0 { // this is the only reader
			write(<-q.entries)
		}
		return
	}
}

// Handle implements slog.Handler. It reads the values now, because their owners may change them.
func (q Queue) Handle(_ context.Context, r slog.Record) error {
	kept := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if a.Value = a.Value.Resolve(); a.Value.Kind() == slog.KindAny {
			a.Value = slog.StringValue(a.Value.String())
		}
		kept.AddAttrs(a)
		return true
	})
	select {
	case q.entries <- entry{q.Handler, kept}:
	default:
		q.dropped.Add(1)
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (q Queue) WithAttrs(attrs []slog.Attr) slog.Handler {
	return Queue{q.Handler.WithAttrs(attrs), q.queue}
}

// WithGroup implements slog.Handler.
func (q Queue) WithGroup(name string) slog.Handler { return Queue{q.Handler.WithGroup(name), q.queue} }
