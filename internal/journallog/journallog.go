// Package journallog writes log records to the systemd journal, with their attributes as fields and
// in the text.
package journallog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"syscall"

	slogjournal "github.com/systemd/slog-journal"
	"golang.org/x/sys/unix"
)

// New returns a logger. It writes to the journal, with fields, if systemd has connected our
// standard error to it, and otherwise writes text to standard error.
func New(stderr *os.File, level slog.Level) *slog.Logger {
	if connectedToJournal(stderr, os.Getenv("JOURNAL_STREAM")) {
		return NewJournal(stderr, level)
	}
	return slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
}

// NewJournal returns a logger for a program whose parent discards its standard error. It writes to
// the journal, with fields, and to standard error if there is no journal.
func NewJournal(stderr *os.File, level slog.Level) *slog.Logger {
	journal, err := slogjournal.NewHandler(&slogjournal.Options{Level: level, ReplaceAttr: journalField})
	if err != nil {
		return slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	}
	return slog.New(readable{Handler: journal})
}

// connectedToJournal compares standard error with JOURNAL_STREAM, device:inode, as systemd.exec(5)
// recommends: the variable alone is also inherited by programs with another output.
func connectedToJournal(stderr *os.File, stream string) bool {
	device, inode, ok := strings.Cut(stream, ":")
	if !ok {
		return false
	}
	info, err := stderr.Stat()
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && strconv.FormatUint(stat.Dev, 10) == device && strconv.FormatUint(stat.Ino, 10) == inode
}

// MessageID is the key of the journal's own field for the kind of a message
// (systemd.journal-fields(7)).
const MessageID = "MESSAGE_ID"

// journalField converts the key of an attribute to a field name that the journal accepts.
func journalField(_ []string, a slog.Attr) slog.Attr {
	if a.Key == MessageID {
		return a
	}
	a.Key = "PARTITION_" + strings.ToUpper(strings.ReplaceAll(a.Key, "-", "_"))
	return a
}

// readable adds the attributes to the message: journalctl and systemctl status show nothing else.
type readable struct {
	slog.Handler
	attrs []slog.Attr
}

func (h readable) Handle(ctx context.Context, r slog.Record) error {
	var text strings.Builder
	text.WriteString(r.Message)
	add := func(a slog.Attr) bool {
		if a.Key != MessageID {
			writeAttr(&text, a)
		}
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	awaitRoom(journalSocket)
	said := slog.NewRecord(r.Time, r.Level, text.String(), r.PC)
	r.Attrs(func(a slog.Attr) bool { said.AddAttrs(a); return true })
	return h.Handler.Handle(ctx, said)
}

func (h readable) WithAttrs(attrs []slog.Attr) slog.Handler {
	return readable{h.Handler.WithAttrs(attrs), append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)}
}

func writeAttr(w io.Writer, a slog.Attr) {
	value := a.Value.Resolve().String()
	if strings.ContainsAny(value, " \"\n=") {
		value = strconv.Quote(value)
	}
	fmt.Fprintf(w, " %s=%s", a.Key, value)
}

const journalSocket = "/run/systemd/journal/socket"

// awaitRoom waits until the queue of a datagram socket has room, or is not there. The kernel wakes
// who polls a connected socket. The socket of slog-journal is not connected: where the queue is
// full, a write fails, the kernel frees its buffer, and that counts as room for the next write. So
// Go's runtime would try again and again, with a whole CPU (seen with kernel 6.12).
func awaitRoom(path string) {
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(socket)
	if unix.Connect(socket, &unix.SockaddrUnix{Name: path}) != nil {
		return // the write fails, too
	}
	for {
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(socket), Events: unix.POLLOUT}}, -1); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
