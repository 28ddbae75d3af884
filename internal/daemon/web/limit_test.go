package web

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// caller is a client that keeps its connection.
type caller struct {
	net.Conn
	answers *bufio.Reader
}

func (p *pipes) call() caller {
	conn := p.dial()
	return caller{conn, bufio.NewReader(conn)}
}

// ask sends a request, and returns the text of the answer.
func (c caller) ask(path string) (string, error) {
	if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		return "", err
	}
	answer, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}

// TestServeFlood: of a client that opens connections and keeps them, few stay open: those whose
// last request is not long ago. Each new one has an answer.
func TestServeFlood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		stop, result := serve(t, p, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
		callers := make([]caller, 3*maxConnections)
		for i := range callers {
			callers[i] = p.call()
			for _, asks := range []caller{callers[i], callers[0]} { // the first one is in use
				if text, err := asks.ask("/"); err != nil || text != "ok" {
					t.Fatalf("connection %d: %q, %v", i, text, err)
				}
			}
		}
		synctest.Wait()
		open := 0
		for _, c := range callers {
			_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				open++
			}
		}
		if open != maxConnections {
			t.Errorf("%d connections are open, want %d", open, maxConnections)
		}
		stop()
		if err := <-result; err != nil {
			t.Error(err)
		}
	})
}

// comesFrom is a connection from an address.
type comesFrom struct {
	net.Conn
	address string
}

func (c comesFrom) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(c.address), Port: 1}
}

// TestLimitedVictim: the connection that gives way is one of the source with most connections, and
// none with a password as long as there is another.
func TestLimitedVictim(t *testing.T) {
	t.Parallel()
	p := newPipes()
	l := limit(p)
	closed := func(c *connection) bool {
		select {
		case <-c.gone:
			return true
		default:
			return false
		}
	}
	var all []*connection
	accept := func(address string) *connection {
		t.Helper()
		client, server := net.Pipe()
		go func() { p.connections <- comesFrom{server, address} }()
		accepted, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close(); _ = accepted.Close() })
		all = append(all, connectionOf(accepted))
		for _, c := range all {
			if closed(c) {
				_ = c.Close() // as the server does when a read fails
			}
		}
		return connectionOf(accepted)
	}
	known := accept("127.0.0.1")
	known.trusted.Store(true)
	elsewhere := accept("10.0.0.9")
	network := accept("fd00:0:0:1::1")
	local := make([]*connection, 0, maxConnections)
	for i := range maxConnections {
		local = append(local, accept(fmt.Sprintf("127.0.%d.%d", i%7, i%200+1)))
	}
	for _, c := range []*connection{known, elsewhere, network} {
		if closed(c) {
			t.Errorf("%s has given way to loopback addresses", c.RemoteAddr())
		}
	}
	for i, c := range local {
		if closed(c) != (i < 3) {
			t.Errorf("connection %d of loopback addresses: closed is %t", i, closed(c))
		}
	}
	for i := range maxConnections { // a machine has many addresses of its prefix
		accept(fmt.Sprintf("fd00:0:0:1::%x", i+2))
	}
	if closed(elsewhere) || closed(known) || !closed(network) {
		t.Error("another connection than the oldest of the network has given way")
	}
	if n := len(l.open); n != maxConnections {
		t.Errorf("%d connections are open", n)
	}
}

// TestLimitedComputesInTurn: what a source has sent before its first request is computed one
// connection after the other, and of another source at the same time. A connection that gives way
// does not wait.
func TestLimitedComputesInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		l := limit(p)
		var clients []net.Conn
		accept := func(address string) *connection {
			client, server := net.Pipe()
			clients = append(clients, client)
			go func() {
				p.connections <- comesFrom{server, address}
				_, _ = io.WriteString(client, "hello")
			}()
			accepted, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			return connectionOf(accepted)
		}
		read := func(c *connection) chan error {
			done := make(chan error, 1)
			go func() {
				_, err := c.Read(make([]byte, 10))
				done <- err
			}()
			synctest.Wait()
			return done
		}
		first, second, third, other := accept("127.0.0.1"), accept("127.0.0.2"), accept("127.0.0.3"), accept("10.0.0.1")
		if err := <-read(first); err != nil {
			t.Error(err)
		}
		waits, leaves := read(second), read(third)
		if len(waits)+len(leaves) > 0 {
			t.Error("a handshake is computed beside another one of the same source")
		}
		if err := <-read(other); err != nil {
			t.Error(err)
		}
		_ = third.Close()
		if err := <-leaves; err == nil {
			t.Error("a closed connection has read")
		}
		go func() { _, _ = io.Copy(io.Discard, clients[0]) }()
		if _, err := first.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		if err := <-waits; err != nil {
			t.Error(err)
		}
		for _, c := range []*connection{first, second, other} {
			_ = c.Close()
		}
		if len(l.places) != 0 || len(l.sources) != 0 || len(l.open) != 0 {
			t.Errorf("left are %d places, %d sources, %d connections", len(l.places), len(l.sources), len(l.open))
		}
	})
}

// TestInTurn: passwords are compared one at a time for each source. A connection that has shown the
// password does not wait, and one that gave way is not compared.
func TestInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := limit(newPipes())
		from := &peer{computing: make(chan struct{}, 1)}
		var compared atomic.Int32
		finish := make(chan struct{})
		handler := inTurn(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			compared.Add(1)
			<-finish
		}))
		ask := func(trusted bool) *connection {
			client, server := net.Pipe()
			t.Cleanup(func() { _ = client.Close(); _ = server.Close() })
			c := &connection{Conn: server, of: l, source: from, gone: make(chan struct{})}
			c.trusted.Store(trusted)
			request, err := http.NewRequestWithContext(withConnection(t.Context(), c), http.MethodGet, "/", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			go handler.ServeHTTP(nil, request)
			synctest.Wait()
			return c
		}
		ask(false)
		waits := ask(false)
		if n := compared.Load(); n != 1 {
			t.Errorf("%d are compared at once", n)
		}
		ask(true)
		if n := compared.Load(); n != 2 {
			t.Error("a client that is known waits for strangers")
		}
		close(waits.gone)
		close(finish)
		synctest.Wait()
		if n := compared.Load(); n != 2 {
			t.Errorf("%d are compared, and one of them has given way", n)
		}
	})
}

// TestServeDeafReaders: clients that ask for many series and do not read keep no other client
// from having them.
func TestServeDeafReaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		series := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "memory"}, []string{"pod"})
		registry.MustRegister(series)
		for i := range 6000 {
			series.WithLabelValues(fmt.Sprintf("some-pod-with-a-name-%d", i)).Set(1)
		}
		handler := Handler(Options{Gatherer: registry, Partitions: func() []Partition { return nil }, Reports: newFake()})
		p := newPipes()
		stop, result := serve(t, p, handler.ServeHTTP)
		for range 100 {
			if _, err := io.WriteString(p.dial(), "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		begin := time.Now()
		if text, err := p.call().ask("/metrics"); err != nil || len(text) < 6000*40 {
			t.Errorf("%d bytes, %v", len(text), err)
		}
		if took := time.Since(begin); took > 0 {
			t.Errorf("answered after %s", took)
		}
		stop()
		if err := <-result; err != nil {
			t.Error(err)
		}
	})
}

// TestKept: however often metrics are asked for, they are read once in a second. Who asks seldom
// has the present ones, compressed or not.
func TestKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		made := 0
		handler := encoded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			made++
			w.WriteHeader(http.StatusAccepted)
			fmt.Fprint(w, made, r.Header.Get("Accept-Encoding"), r.Method)
		}))
		for range 1000 {
			do(t, handler, http.MethodGet, "http://localhost/metrics")
		}
		if made != keptBurst+1 {
			t.Errorf("made %d times", made)
		}
		for range 3 {
			before := made
			<-time.After(keptAge)
			if status, _, text := do(t, handler, http.MethodHead, "http://localhost/metrics"); status != 202 || text != fmt.Sprint(before+1, "identityGET") {
				t.Errorf("%d %s; want %d anew", status, text, before+1)
			}
		}
	})
}

// TestWebConfigHTTP1: a connection has one request at a time, whatever a client offers.
func TestWebConfigHTTP1(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "web.yml")
	certificate(t, folder, "node")
	write(t, file, withTLS+withUser)
	ctx, stop := context.WithCancel(t.Context())
	up, ended := make(chan error, 1), make(chan error)
	l := Listener{
		Address: free(t), Handler: newFake().handler(t), Config: file, Sockets: new(sockets), Log: slog.New(slog.DiscardHandler),
		Changed: func(err error) { up <- err },
	}
	go func() { ended <- l.Run(ctx) }()
	defer func() { stop(); <-ended }()
	if err := <-up; err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", l.Address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if spoken := conn.ConnectionState().NegotiatedProtocol; spoken != "http/1.1" {
		t.Errorf("speaks %s", spoken)
	}
	client := caller{conn, bufio.NewReader(conn)}
	for range 3 { // without the password, and the connection stays
		if text, err := client.ask("/report"); err != nil || text != "Unauthorized\n" {
			t.Errorf("%q, %v", text, err)
		}
	}
}
