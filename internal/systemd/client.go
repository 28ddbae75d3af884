package systemd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"nodepartition/internal/cgroupfs"
)

// Options say whom to talk to and whom to tell. The zero value is the systemd of this machine, and nobody.
type Options struct {
	// Wake is called when slices or scopes below kubepods.slice may have come or gone, and after each connect.
	Wake func()
	// OnReloaded is called when systemd has reloaded its configuration or executed itself anew, and after each connect,
	// because it may have done so before.
	OnReloaded func()
	// OnConnected is called with true when there is a connection to systemd and with false when it is gone.
	OnConnected func(up bool)

	// Documentation is an address for the units that are made, Documentation= of systemd.unit(5).
	Documentation string
	// Timeout is for each method, on top of the deadline of its context; 0 is DefaultTimeout.
	Timeout time.Duration
	// Cgroups is where the cgroups of the units are; empty is cgroupfs.Mount.
	Cgroups cgroupfs.FS
	// BusAddress is a D-Bus address; empty is the system bus.
	BusAddress string
	// PrivateAddress is the D-Bus address of systemd itself, for when there is no bus; empty is systemd's private socket.
	PrivateAddress string
	// ControlDir is where systemd keeps what SetUnitProperties sets until the next boot; empty is where it is.
	ControlDir string
}

const (
	// DefaultTimeout is how long a method takes at most, but for Reload. Creating a slice takes milliseconds.
	DefaultTimeout = 5 * time.Second

	systemBus      = "unix:path=/run/dbus/system_bus_socket"
	privateSocket  = "unix:path=/run/systemd/private"
	runtimeControl = "/run/systemd/system.control"
)

// ErrNotConnected says that neither the bus nor systemd's own socket could be reached.
var ErrNotConnected = errors.New("no connection to systemd")

// Client is a connection to systemd's manager that Run keeps up. Its methods may be called from any goroutine; they wait
// for a connection where there is none, until their time is over.
type Client struct {
	options Options
	calls   atomic.Uint64
	notices notices

	mu      sync.Mutex
	conn    *connection   // nil while there is none
	changed chan struct{} // closed when conn changes
	lastErr error         // why there is none
}

// New returns a client that does nothing until Run is called.
func New(o Options) *Client {
	setDefault(&o.Timeout, DefaultTimeout)
	setDefault(&o.Cgroups, cgroupfs.FS(cgroupfs.Mount))
	setDefault(&o.BusAddress, systemBus)
	setDefault(&o.PrivateAddress, privateSocket)
	setDefault(&o.ControlDir, runtimeControl)
	setNoop(&o.Wake)
	setNoop(&o.OnReloaded)
	if o.OnConnected == nil {
		o.OnConnected = func(bool) {}
	}
	return &Client{options: o, changed: make(chan struct{}), notices: newNotices()}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func setNoop(f *func()) {
	if *f == nil {
		*f = func() {}
	}
}

// Calls counts the method calls that were sent, those to the bus itself at connect included.
func (c *Client) Calls() uint64 { return c.calls.Load() }

// Connected reports whether there is a connection. It may be gone when the caller looks.
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

// connection waits for a connection. It is not the one that failed a moment ago, which Run may not have noticed yet.
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

// notConnected says why there is no connection, and why it is not waited for any more.
func (c *Client) notConnected(cause error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lastErr == nil {
		return fmt.Errorf("%w: %w", ErrNotConnected, cause)
	}
	return fmt.Errorf("%w: %w: %w", ErrNotConnected, cause, c.lastErr)
}

// do has f make its calls on a connection. When it is lost on the way, or systemd is not on the bus because it executes
// itself anew, f is called again: it must bear that some of what it asked for is done.
func (c *Client) do(ctx context.Context, f func(context.Context, *connection) error) error {
	return c.doFor(ctx, c.options.Timeout, f)
}

// doFor is do for what takes another time than most.
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
