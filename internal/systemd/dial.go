package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

const (
	busName    = "org.freedesktop.systemd1"
	objectPath = dbus.ObjectPath("/org/freedesktop/systemd1")
	manager    = busName + ".Manager"
)

// way is the route to systemd: over the bus, or directly to its own socket.
type way string

const (
	onBus  way = "bus"
	direct way = "direct"
)

// connection holds two D-Bus connections, as go-systemd does: one for calls, and one for signals.
type connection struct {
	api     *sd.Conn
	way     way
	filter  *signalFilter
	calls   *dbus.Conn
	signals *dbus.Conn

	ctx   context.Context // ends with the first of the two
	close context.CancelFunc
}

func (c *connection) open() bool { return c.ctx.Err() == nil }

// call calls a method of the manager that go-systemd does not offer.
func (c *connection) call(ctx context.Context, method string, args ...any) error {
	return c.calls.Object(busName, objectPath).CallWithContext(ctx, manager+"."+method, 0, args...).Err
}

// dial makes a connection that receives signals. It closes the connection if ctx ends before that
// is done, because go-systemd and godbus make their first calls without a deadline.
func (c *Client) dial(ctx context.Context, address string, by way) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	conn := &connection{way: by, filter: newSignalFilter(by, &c.options)}
	conn.ctx, conn.close = context.WithCancel(context.Background())
	inTime := context.AfterFunc(ctx, conn.close)

	err := setUp(ctx, conn, address)
	if !inTime() {
		err = errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		conn.close()
		return nil, fmt.Errorf("connecting to systemd at %s: %w", address, err)
	}
	return conn, nil
}

func setUp(ctx context.Context, conn *connection, address string) error {
	var err error
	conn.api, err = sd.NewConnection(func() (*dbus.Conn, error) {
		raw, err := dialRaw(conn, address)
		// go-systemd dials the connection for calls first.
		conn.calls, conn.signals = conn.signals, raw
		return raw, err
	})
	if err != nil {
		return err
	}
	if conn.way == direct {
		return nil // systemd sends its signals to all its peers, and no other program can
	}
	return listen(ctx, conn)
}

func dialRaw(conn *connection, address string) (*dbus.Conn, error) {
	raw, err := dbus.Dial(address, dbus.WithContext(conn.ctx), dbus.WithSignalHandler(conn.filter))
	if err != nil {
		return nil, err
	}
	context.AfterFunc(raw.Context(), conn.close)
	// A number, because looking up a name may send requests over the network.
	err = raw.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Getuid()))})
	if err == nil && conn.way == onBus {
		err = raw.Hello()
	}
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return raw, nil
}
