package systemd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"node-partition.io/node-partition/internal/cgroups"
)

// Options holds the addresses and the callbacks of a Client. Without an address it is for the
// systemd of this machine.
type Options struct {
	// Wake is called when slices of pods, or scopes, may have come or gone, and after each connect. It
	// returns at once: no signal is read meanwhile.
	Wake func()
	// OnReloaded is called when systemd has reloaded its configuration or has re-executed. It is also
	// called after each connect, because systemd may have done so before. It returns at once.
	OnReloaded func()
	// OnConnected is called with true when a connection to systemd is made, and with false when it is
	// lost.
	OnConnected func(up bool)

	// Documentation is the URL in Documentation= of the units that are made (systemd.unit(5)).
	Documentation string
	// Timeout bounds each method, on top of the deadline of its context; 0 means defaultTimeout.
	Timeout time.Duration
	// Cgroups is the mount of the cgroups of the units; needed.
	Cgroups cgroups.FS
	// Path returns the path of a file of the node. Without Path a file has the name that it has there.
	Path func(name string) string
	// BusAddress is a D-Bus address; empty means the system bus.
	BusAddress string
	// PrivateAddress is the D-Bus address of systemd itself, used without a bus. Empty means systemd's
	// private socket.
	PrivateAddress string
	// ControlDir is the directory in which systemd keeps, until the next boot, the settings made with
	// SetUnitProperties. Empty means systemd's own.
	ControlDir string
}

const (
	// defaultTimeout bounds all methods but Reload. Creating a slice takes milliseconds.
	defaultTimeout = 5 * time.Second

	systemBus      = "/run/dbus/system_bus_socket"
	privateSocket  = "/run/systemd/private"
	runtimeControl = "/run/systemd/system.control"
)

// errNotConnected means that neither the bus nor systemd's own socket could be reached.
var errNotConnected = errors.New("no connection to systemd")

// Client is a connection to systemd's manager, which Run keeps up. Its methods may be called from
// any goroutine. Without a connection they wait for one, until their time is over.
type Client struct {
	options Options

	mu      sync.Mutex
	conn    *connection   // nil without a connection
	changed chan struct{} // closed when conn changes
	lastErr error         // why there is no connection
}

// New returns a client that does nothing until Run is called.
func New(o Options) *Client {
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	path := o.Path
	if path == nil {
		path = func(name string) string { return name }
	}
	o.BusAddress = cmp.Or(o.BusAddress, "unix:path="+path(systemBus))
	o.PrivateAddress = cmp.Or(o.PrivateAddress, "unix:path="+path(privateSocket))
	o.ControlDir = cmp.Or(o.ControlDir, path(runtimeControl))
	setNoop(&o.Wake)
	setNoop(&o.OnReloaded)
	if o.OnConnected == nil {
		o.OnConnected = func(bool) {}
	}
	return &Client{options: o, changed: make(chan struct{})}
}

// missed tells that signals may have been missed.
func (o *Options) missed() {
	o.OnReloaded()
	o.Wake()
}

func setNoop(f *func()) {
	if *f == nil {
		*f = func() {}
	}
}

// Connected reports whether there is a connection. The connection may be lost as soon as it
// returns.
func (c *Client) Connected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn != nil
}

func (c *Client) setConnection(conn *connection, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastErr = err
	if c.conn == conn {
		return
	}
	c.conn = conn
	close(c.changed)
	c.changed = make(chan struct{})
}

// connection waits for an open connection. It does not return one that has just failed, even if Run
// has not noticed yet.
func (c *Client) connection(ctx context.Context) (*connection, error) {
	for {
		c.mu.Lock()
		conn, changed := c.conn, c.changed
		c.mu.Unlock()
		if conn != nil && conn.open() {
			return conn, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, c.notConnected(context.Cause(ctx))
		}
	}
}

// notConnected returns an error with the reason for the missing connection, and the reason for not
// waiting any longer.
func (c *Client) notConnected(cause error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lastErr == nil {
		return fmt.Errorf("%w: %w", errNotConnected, cause)
	}
	return fmt.Errorf("%w: %w: %w", errNotConnected, cause, c.lastErr)
}

// do calls f with a connection. If the connection is lost meanwhile, or systemd is not on the bus
// because it re-executes, do calls f again. So f must work even if some of its calls have taken
// effect.
func (c *Client) do(ctx context.Context, f func(context.Context, *connection) error) error {
	return c.doFor(ctx, c.options.Timeout, f)
}

func (c *Client) doFor(ctx context.Context, timeout time.Duration, f func(context.Context, *connection) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	pause := retryPause()
	for {
		conn, err := c.connection(ctx)
		if err != nil {
			return err
		}
		err = f(ctx, conn)
		if err == nil || !interrupted(err, conn) {
			return err
		}
		if !sleep(ctx, pause.Step()) {
			return err
		}
	}
}
