package journallog

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// gate is a handler that writes while its channel is closed, and blocks before that.
type gate struct {
	slog.Handler
	open <-chan struct{}
}

func (g gate) Handle(ctx context.Context, r slog.Record) error {
	<-g.open
	return g.Handler.Handle(ctx, r)
}

func (g gate) WithAttrs(attrs []slog.Attr) slog.Handler {
	return gate{g.Handler.WithAttrs(attrs), g.open}
}

// TestQueue: while the log is not read, loggers return, and what finds no room is counted. When it
// is read again, the records come in their order, with the values of the time when they were
// logged, and a line says how many are missing.
func TestQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		open := make(chan struct{})
		q := NewQueue(gate{slog.NewTextHandler(&text, nil), open})
		log := slog.New(q).With("of", "us")
		log.Debug("not this")
		pods := []string{"one"}
		log.Info("first", "pods", pods)
		pods[0] = "changed"
		synctest.Wait() // the handler has it, and blocks
		const more = 10
		begin := time.Now()
		for i := range queued + more {
			log.Info("more", "n", i)
		}
		if took := time.Since(begin); took > 0 {
			t.Errorf("the loggers waited for %s", took)
		}
		if dropped := q.Dropped(); dropped != more {
			t.Errorf("%d dropped; want %d", dropped, more)
		}
		close(open)
		synctest.Wait()
		lines := strings.Split(strings.TrimSpace(text.String()), "\n")
		if len(lines) != 1+queued+1 {
			t.Fatalf("%d lines: %q", len(lines), lines)
		}
		for i, want := range map[int]string{
			0: "msg=first of=us pods=[one]", 1: "msg=more of=us n=0", queued: fmt.Sprintf("msg=more of=us n=%d", queued-1),
			queued + 1: fmt.Sprintf(`level=WARN msg="log records were dropped, because they were not read in time" records=%d`, more),
		} {
			if !strings.HasSuffix(lines[i], want) {
				t.Errorf("line %d: %q; want %q", i, lines[i], want)
			}
		}
		q.Close()
	})
}

// TestQueueClose: what was logged last is written before the program ends, which does not wait long
// for a log that is not read.
func TestQueueClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		q := NewQueue(slog.NewTextHandler(&text, nil))
		slog.New(q).Error("the end")
		q.Close()
		if !strings.Contains(text.String(), "the end") {
			t.Errorf("%q", text.String())
		}
		open := make(chan struct{})
		q = NewQueue(gate{slog.NewTextHandler(&text, nil), open})
		slog.New(q).Error("the end")
		begin := time.Now()
		q.Close()
		if took := time.Since(begin); took != lastWait {
			t.Errorf("the end took %s", took)
		}
		close(open)
	})
}

// TestQueueFullSocket: a datagram socket whose reader has stopped, which other programs have
// filled, blocks whoever writes to it. Through the queue it blocks no logger.
func TestQueueFullSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	journal, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	write, err := net.Dial("unixgram", path)
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	for err = nil; err == nil; { // until a write does not return
		if err = write.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err == nil {
			_, err = write.Write([]byte("MESSAGE=of another program\n"))
		}
	}
	if err := write.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	room := make(chan struct{})
	go func() {
		defer close(room)
		awaitRoom(path)
	}()
	select {
	case <-room:
		t.Error("a full queue has room")
	case <-time.After(100 * time.Millisecond):
	}
	q := NewQueue(slog.NewTextHandler(write, nil))
	log := slog.New(q)
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		for range 3 {
			log.Info("evicting a pod")
		}
	}()
	select {
	case <-returned:
	case <-time.After(10 * time.Second):
		t.Fatal("the loggers wait for the journal")
	}
	buffer := make([]byte, 4096)
	for got := 0; got < 3; {
		n, err := journal.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(buffer[:n]), "evicting a pod") {
			got++
		}
	}
	q.Close()
	<-room
	awaitRoom(path + ".none")
}
