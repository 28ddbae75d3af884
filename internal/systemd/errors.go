package systemd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/godbus/dbus/v5"
)

var (
	// ErrNoUnit says that systemd has no such unit, or that it is not running.
	ErrNoUnit = errors.New("no such unit")
	// ErrUnitExists says that there is a unit of that name already.
	ErrUnitExists = errors.New("unit exists")
	// ErrPopulated says that a slice has processes and is not stopped for that.
	ErrPopulated = errors.New("slice has processes")

	errLost = errors.New("the connection was lost")
)

// connectError says why neither way led to systemd.
type connectError struct{ Bus, Direct error }

func (e *connectError) Error() string {
	return fmt.Sprintf("%v; and without the bus: %v", e.Bus, e.Direct)
}

func (e *connectError) Unwrap() []error { return []error{e.Bus, e.Direct} }

// interrupted reports whether a call may not have reached systemd, or its answer not us. Seen while systemd executes itself
// anew: NoReply for calls under way; then, until it is back, what dbus-daemon says of a name that it cannot start.
func interrupted(err error, conn *connection) bool {
	var socket *net.OpError // a reset, for instance, which the bus leaves when it ends with messages unread
	if !conn.open() || errors.Is(err, dbus.ErrClosed) || errors.Is(err, io.EOF) || errors.Is(err, errLost) || errors.As(err, &socket) {
		return true
	}
	var e dbus.Error
	if !errors.As(err, &e) {
		return false
	}
	const bus = "org.freedesktop.DBus.Error."
	switch e.Name {
	case bus + "NoReply", bus + "Disconnected", bus + "NameHasNoOwner", bus + "ServiceUnknown", bus + "TimedOut", bus + "Timeout":
		return true
	}
	return strings.HasPrefix(e.Name, bus+"Spawn.")
}

// named makes errors of systemd that callers act upon errors of ours, and says what was done to which unit.
func named(what, unit string, err error) error {
	switch {
	case err == nil:
		return nil
	case isError(err, "org.freedesktop.systemd1.UnitExists"):
		err = fmt.Errorf("%w: %w", ErrUnitExists, err)
	case isError(err, "org.freedesktop.systemd1.NoSuchUnit"):
		err = fmt.Errorf("%w: %w", ErrNoUnit, err)
	case errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrNotConnected):
		err = fmt.Errorf("systemd does not answer: %w", err)
	}
	return fmt.Errorf("%s %s: %w", what, unit, err)
}
