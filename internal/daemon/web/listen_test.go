package web

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestListenerPortTaken: the listener waits while another process has the port, and serves when it
// is free.
func TestListenerPortTaken(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := taken.Addr().String()
	changes, result := make(chan error), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	l := Listener{
		Address: address, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ours") }),
		Changed: func(err error) {
			select {
			case changes <- err:
			case <-ctx.Done():
			}
		},
		Pause: time.Millisecond,
		Log:   slog.New(slog.DiscardHandler),
	}
	go func() { result <- l.Run(ctx) }()
	for range 3 {
		if err := <-changes; !errors.Is(err, unix.EADDRINUSE) {
			t.Fatalf("%v; want that the address is in use", err)
		}
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	for err = <-changes; errors.Is(err, unix.EADDRINUSE); { // one more may be sent already
		err = <-changes
	}
	if err != nil {
		t.Fatalf("%v; want that it is served", err)
	}
	answer, err := http.Get("http://" + address)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "ours" {
		t.Errorf("%q, %v", text, err)
	}
	stop()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("%v; want the end of its context", err)
	}
}

// TestCheckAddress: only addresses for which waiting is useless are refused.
func TestCheckAddress(t *testing.T) {
	t.Parallel()
	for address, good := range map[string]bool{
		"127.0.0.1:9948": true, ":9948": true, "[::1]:0": true, "192.0.2.1:9948": true, "localhost": false, "127.0.0.1:": true, "127.0.0.1:70000": false,
		"127.0.0.1:no-such-service": false, "::1:9948": false, "": false,
	} {
		if err := CheckAddress(t.Context(), address); (err == nil) != good {
			t.Errorf("%q: %v", address, err)
		}
	}
}
