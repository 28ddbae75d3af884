package daemon

import (
	"errors"
	"net"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/podmove/nri"
)

// TestNRIState: NRI is switched off where its socket has refused connections for a minute. A
// runtime that has taken the connection and synchronizes no plugin, for as long as a container has
// its grace period, is waited for.
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
	_, refused := net.Dial("unix", socket)
	for name, test := range map[string]struct {
		errs []error
		want podmove.NRIState
	}{
		"refused":              {[]error{refused}, podmove.Unavailable},
		"synchronizes nobody":  {nil, podmove.Awaited},
		"closes, then refuses": {[]error{errors.New("closed"), refused}, podmove.Unavailable},
		"refuses, then closes": {[]error{refused, errors.New("closed")}, podmove.Awaited},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &monitor{plugin: &nri.Plugin{}, options: Options{Options: node.Options{NRI: socket}}}
				m.recordConnection("runtime", true)
				<-time.After(time.Hour)
				for _, err := range test.errs {
					m.nriFailed(err)
				}
				if got := m.nri(); got != podmove.Awaited {
					t.Errorf("%v at once", got)
				}
				<-time.After(nriPatience + 1)
				if got := m.nri(); got != test.want {
					t.Errorf("%v after a minute, want %v", got, test.want)
				}
			})
		})
	}
}
