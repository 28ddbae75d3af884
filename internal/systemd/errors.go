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
	// ErrNoUnit means that systemd has no such unit, or that the unit is inactive.
	ErrNoUnit = errors.New("no such unit")
	// ErrUnitExists means that there is already a unit of that name.
	ErrUnitExists = errors.New("unit exists")
	// ErrPopulated means that a slice has processes and therefore is not stopped.
	ErrPopulated = errors.New("slice has processes")

	errLost = errors.New("the connection was lost")
)

// interrupted reports whether a call may not have reached systemd, or its answer may not have
// reached us. While systemd re-executes, calls under way end with NoReply. Then, until systemd is
// back, calls end with dbus-daemon's errors for a name that it cannot start.
func interrupted(err error, conn *connection) bool {
	var socket *net.OpError // such as the reset by a bus that ends with unread messages
	if !conn.open() || errors.Is(err, dbus.ErrClosed) || errors.Is(err, io.EOF) || errors.Is(err, errLost) ||
		errors.As(err, &socket) {
		return true
	}
	var e dbus.Error
	if !errors.As(err, &e) {
		return false
	}
	const bus = "org.freedesktop.DBus.Error."
	switch e.Name {
	case bus + "NoReply",
		bus + "Disconnected",
		bus + "NameHasNoOwner",
		bus + "ServiceUnknown",
		bus + "TimedOut",
		bus + "Timeout":
		return true
	}
	return strings.HasPrefix(e.Name, bus+"Spawn.")
}

// The names of systemd's errors that are acted upon.
const (
	unitExists = busName + ".UnitExists"
	noSuchUnit = busName + ".NoSuchUnit"
)

// isError reports whether systemd or the bus answered with the error of a name.
func isError(err error, name string) bool {
	var e dbus.Error
	return errors.As(err, &e) && e.Name == name
}

// named wraps err with the action and the unit. It turns systemd's errors that callers act upon
// into errors of this package.
func named(what, unit string, err error) error {
	switch {
	case err == nil:
		return nil
	case isError(err, unitExists):
		err = fmt.Errorf("%w: %w", ErrUnitExists, err)
	case isError(err, noSuchUnit):
		err = fmt.Errorf("%w: %w", ErrNoUnit, err)
	case errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, errNotConnected):
		err = fmt.Errorf("systemd does not answer: %w", err)
	}
	return fmt.Errorf("%s %s: %w", what, unit, err)
}
