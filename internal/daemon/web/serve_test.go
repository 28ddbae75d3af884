package web

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a net.Listener whose connections are pipes, which testing/synctest can wait for.
type pipes struct {
	connections chan net.Conn
	closed      chan struct{}
	close       func()
}

func newPipes() *pipes {
	closed := make(chan struct{})
	return &pipes{make(chan net.Conn), closed, sync.OnceFunc(func() { close(closed) })}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.connections:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.close(); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9948} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.connections <- server
	return client
}

// serve starts a server. It returns a function that stops it and the channel with its error.
func serve(t *testing.T, p net.Listener, handler http.HandlerFunc) (stop func(), result chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	result = make(chan error, 1)
	go func() { result <- Serve(ctx, p, handler) }()
	return cancel, result
}

// latePipes accepts a connection, and returns it after it was closed.
type latePipes struct {
	*pipes
	release chan struct{}
}

func (p latePipes) Accept() (net.Conn, error) {
	conn, err := p.pipes.Accept()
	if err == nil {
		<-p.release
	}
	return conn, err
}

// TestServeShutdownAnswersAccepted: a connection has an answer that was accepted at the moment of
// the end, and one whose request comes after it.
func TestServeShutdownAnswersAccepted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := latePipes{newPipes(), make(chan struct{})}
		stop, result := serve(t, p, func(w http.ResponseWriter, _ *http.Request) {
			<-time.After(time.Second)
			_, _ = io.WriteString(w, "done")
		})
		conn := p.dial()
		answer := make(chan string, 1)
		go func() {
			<-time.After(time.Second)
			_, _ = io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
			body, _ := io.ReadAll(conn)
			answer <- string(body)
		}()
		synctest.Wait()
		stop()
		synctest.Wait() // the listener is closed
		close(p.release)
		if err := <-result; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		select {
		case body := <-answer:
			if !strings.HasSuffix(body, "done") {
				t.Errorf("answered %q", body)
			}
		default:
			t.Error("the server has ended before it has answered")
		}
	})
}

func TestServeShutdownEndlessAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		begun := make(chan struct{})
		stop, result := serve(t, p, func(_ http.ResponseWriter, r *http.Request) {
			close(begun)
			<-r.Context().Done()
		})
		conn := p.dial()
		go func() { _, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") }()
		<-begun
		start := time.Now()
		stop()
		if err := <-result; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if took := time.Since(start); took != grace {
			t.Errorf("took %v, want %v", took, grace)
		}
		if n, _ := io.Copy(io.Discard, conn); n != 0 { // ends when the server closes
			t.Errorf("%d bytes of an answer that was not made", n)
		}
	})
}

func TestServeSlowHeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		stop, result := serve(t, p, func(http.ResponseWriter, *http.Request) { t.Error("answered half a request") })
		conn := p.dial()
		start := time.Now()
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, conn) // ends when the server closes
		if took := time.Since(start); took < headerTimeout || took > 2*headerTimeout {
			t.Errorf("closed after %v, want %v", took, headerTimeout)
		}
		stop()
		if err := <-result; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}
