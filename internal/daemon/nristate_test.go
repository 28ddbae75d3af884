package daemon

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/podmove/nri"
)

// TestNRIState: NRI is switched off where its socket has refused connections for a minute, while
// the runtime answers.
func TestNRIState(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "nri.sock")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		m := &monitor{plugin: &nri.Plugin{}, options: Options{Options: node.Options{NRI: socket}}}
		m.recordConnection("runtime", true)
		<-time.After(time.Hour)
		if got := m.nri(); got != podmove.Awaited {
			t.Errorf("%v without an attempt", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = nri.Serve(ctx, socket, m.plugin, func(error) {}) }()
		<-time.After(nriPatience - time.Second)
		if got := m.nri(); got != podmove.Awaited {
			t.Errorf("%v before a minute of refusals", got)
		}
		<-time.After(2 * time.Second)
		if got := m.nri(); got != podmove.Unavailable {
			t.Errorf("%v after a minute of refusals", got)
		}
		m.recordConnection("runtime", true)
		if got := m.nri(); got != podmove.Awaited {
			t.Errorf("%v after the runtime has started again", got)
		}
	})
}
