package systemd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

func TestInterruptedErrors(t *testing.T) {
	reset := &net.OpError{Op: "read", Net: "unix", Err: os.NewSyscallError("recvmsg", unix.ECONNRESET)}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{dbus.ErrClosed, true},
		{io.EOF, true},
		{errLost, true},
		{reset, true},
		{fmt.Errorf("x: %w", reset), true},
		{dbus.Error{Name: "org.freedesktop.DBus.Error.NoReply"}, true},
		{dbus.Error{Name: "org.freedesktop.DBus.Error.Spawn.ChildExited"}, true},
		{dbus.Error{Name: "org.freedesktop.DBus.Error.AccessDenied"}, false},
		{dbus.Error{Name: "org.freedesktop.systemd1.UnitExists"}, false},
		{context.DeadlineExceeded, false},
		{jobError("canceled"), false},
	} {
		conn := &connection{ctx: context.Background()}
		if got := interrupted(c.err, conn); got != c.want {
			t.Errorf("interrupted(%v) = %t", c.err, got)
		}
	}
}

func TestNamed(t *testing.T) {
	for _, c := range []struct {
		err  error
		is   error
		says string
	}{
		{dbus.Error{Name: "org.freedesktop.systemd1.UnitExists", Body: []any{"it is there"}}, ErrUnitExists, "starting a.slice: unit exists: it is there"},
		{dbus.Error{Name: "org.freedesktop.systemd1.NoSuchUnit", Body: []any{"it is not"}}, ErrNoUnit, "starting a.slice: no such unit: it is not"},
		{context.DeadlineExceeded, context.DeadlineExceeded, "starting a.slice: systemd does not answer: context deadline exceeded"},
		{jobError("canceled"), jobError("canceled"), "starting a.slice: systemd's job ended with \"canceled\""},
	} {
		err := named("starting", "a.slice", c.err)
		if !errors.Is(err, c.is) || !strings.HasPrefix(err.Error(), c.says) {
			t.Errorf("%v; want %s", err, c.says)
		}
	}
	if named("starting", "a.slice", nil) != nil {
		t.Error("no error is one")
	}
}
