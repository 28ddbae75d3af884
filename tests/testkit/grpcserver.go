package testkit

import (
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
)

// ListenGRPC serves at the socket path until stop is called, or the test ends.
func ListenGRPC(t *testing.T, path string, register func(*grpc.Server)) (stop func()) {
	t.Helper()
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	return ServeGRPC(t, listener, register)
}

// ServeGRPC serves at a listener until stop is called, or the test ends.
func ServeGRPC(t *testing.T, listener net.Listener, register func(*grpc.Server)) (stop func()) {
	t.Helper()
	server := grpc.NewServer()
	register(server)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // it ends with Stop
	}()
	stop = sync.OnceFunc(func() {
		server.Stop()
		<-done
	})
	t.Cleanup(stop)
	return stop
}
