package installer

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/internal/installer/record"
)

// Message is a file that a caller and the host have open. It has the order first, and then the
// answer. Only its caller has a name for it, and the host removes that when it has the lock of the
// node: whoever dies, no message is left.
type Message struct{ file *os.File }

// message returns the name of a message's file.
func message(id string) string { return "message-" + id + ".json" }

type messageContent struct {
	Order  record.Order    `json:"order"`
	Answer *record.Outcome `json:"answer,omitempty"`
}

// Ask makes the message of a call. Its lock is held for as long as the caller lives. The caller
// holds that of the node, too: a message that is not locked is one of a call that is gone.
func (s Store) Ask(id string, o record.Order) (Message, error) {
	m, err := s.openMessage(id, os.O_CREATE|os.O_EXCL)
	if err == nil {
		err = unix.Flock(int(m.file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil {
		err = m.write(messageContent{Order: o})
	}
	return m, err
}

// Take opens the message of a call on the host, and returns the order. Its name stays while the
// host waits for the lock of the node: Clean sees by it that somebody waits.
func (s Store) Take(id string) (Message, record.Order, error) {
	m, err := s.openMessage(id, 0)
	c := messageContent{}
	if err == nil {
		c, err = m.read()
	}
	return m, c.Order, err
}

// Forget removes the name of a message.
func (s Store) Forget(id string) error { return s.Remove(s.In(message(id))) }

// forgetDead removes the messages whose callers are gone, and reports whether others wait.
func (s Store) forgetDead() (others bool, err error) {
	names, err := s.Root.Names(s.Folder, maxEntries)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		id, isMessage := strings.CutPrefix(strings.TrimSuffix(name, ".json"), "message-")
		if !isMessage {
			continue
		}
		m, err := s.openMessage(id, 0)
		if err != nil {
			continue // it was taken just now
		}
		//guard: the message of a call that waits is removed
		if unix.Flock(int(m.file.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			err = s.Forget(id)
		} else {
			others = true
		}
		if err := errors.Join(err, m.Close()); err != nil {
			return false, err
		}
	}
	return others, nil
}

func (s Store) openMessage(id string, flags int) (Message, error) {
	path, err := s.Root.Path(s.In(message(id)))
	if err != nil {
		return Message{}, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW|flags, 0o600)
	return Message{file}, err
}

// errGone means that nobody waits for the answer.
var errGone = record.Because(record.Timeout, "the call was given up: its pod or its terminal is gone")

// WhileRequested returns a context that ends when the caller does.
func (m Message) WhileRequested(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		var err error
		for {
			if err = unix.Flock(int(m.file.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
				break
			}
		}
		cancel(errors.Join(errGone, err))
	}()
	return ctx, cancel
}

// Reply writes the answer, which Answer returns.
func (m Message) Reply(o record.Outcome) error { return m.write(messageContent{Answer: &o}) }

// Answer returns the answer, nil if there is none.
func (m Message) Answer() *record.Outcome {
	c, err := m.read()
	if err != nil {
		return nil
	}
	return c.Answer
}

// Close ends the call.
func (m Message) Close() error { return m.file.Close() }

func (m Message) write(c messageContent) error {
	data, err := json.Marshal(c)
	if err == nil {
		err = m.file.Truncate(0)
	}
	if err == nil {
		_, err = m.file.WriteAt(data, 0)
	}
	return err
}

func (m Message) read() (c messageContent, err error) {
	data, err := io.ReadAll(io.NewSectionReader(m.file, 0, maxState))
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	return c, err
}
