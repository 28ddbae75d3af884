package web

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
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

// TestServeFlood: beside a client that opens connections and keeps them, each new one has an
// answer, and one that was there before stays. Few stay open.
func TestServeFlood(t *testing.T) {
	t.Parallel()
	for _, asks := range []bool{true, false} {
		t.Run(fmt.Sprintf("asks=%t", asks), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPipes()
				stop, result := serve(t, p, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
				prometheus := p.call()
				answered(t, prometheus)
				callers := make([]caller, 3*maxEach)
				for i := range callers {
					callers[i] = p.call()
					if asks {
						answered(t, callers[i])
					}
				}
				answered(t, p.call())
				answered(t, prometheus)
				synctest.Wait()
				open := 0
				for _, c := range callers {
					_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
					if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
						open++
					}
				}
				if open < maxEach-1 || open > maxEach {
					t.Errorf("%d connections are open, want %d", open, maxEach)
				}
				stop()
				if err := <-result; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// answered waits until the server has noticed that the answer was read: until then the connection
// counts as one with a request.
func answered(t *testing.T, c caller) {
	t.Helper()
	if text, err := c.ask("/"); err != nil || text != "ok" {
		t.Fatalf("%q, %v", text, err)
	}
	synctest.Wait()
}

// TestLimitedStrangers: strangers leave places to connections that have shown a password, whose
// requests they do not end.
func TestLimitedStrangers(t *testing.T) {
	t.Parallel()
	l := newLimits()
	come := func(trusted bool, states ...http.ConnState) context.Context {
		client, server := net.Pipe()
		t.Cleanup(func() { _ = client.Close() })
		ctx := l.enter(t.Context(), server)
		ctx.Value(connectionKey{}).(*connection).trusted.Store(trusted)
		for _, state := range states {
			l.changed(server, state)
		}
		return ctx
	}
	stranger := come(false, http.StateActive)
	for range maxEach {
		come(false, http.StateActive, http.StateIdle)
	}
	for range maxEach - 1 {
		come(false, http.StateActive)
	}
	if stranger.Err() != nil {
		t.Error("a request has given way without need")
	}
	come(false, http.StateActive)
	if stranger.Err() == nil {
		t.Error("the oldest request has not given way")
	}
	if come(false, http.StateActive, http.StateIdle).Err() == nil {
		t.Error("one more connection of strangers is kept")
	}
	if come(true, http.StateActive, http.StateIdle).Err() != nil {
		t.Error("a connection with a password gave way to strangers")
	}
}

// TestInTurn: passwords are compared one at a time. A connection that has shown the password does
// not wait, and one that gave way is not compared.
func TestInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var compared atomic.Int32
		finish := make(chan struct{})
		handler := inTurn(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			compared.Add(1)
			<-finish
		}))
		ask := func(trusted bool) (leave func()) {
			c := new(connection)
			c.trusted.Store(trusted)
			ctx, cancel := context.WithCancel(context.WithValue(t.Context(), connectionKey{}, c))
			t.Cleanup(cancel)
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			go handler.ServeHTTP(nil, request)
			synctest.Wait()
			return cancel
		}
		ask(false)
		leave := ask(false)
		if n := compared.Load(); n != 1 {
			t.Errorf("%d are compared at once", n)
		}
		ask(true)
		if n := compared.Load(); n != 2 {
			t.Error("a client that is known waits for strangers")
		}
		leave()
		synctest.Wait()
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
		handler := Handler(Options{Gatherer: registry})
		p := newPipes()
		stop, result := serve(t, p, handler.ServeHTTP)
		for range 3 * maxEach {
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
	address := listening(t, file, newFake().handler(t))
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
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
