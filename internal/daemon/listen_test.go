package daemon

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// TestListeningRepeatedFailure: each failure is counted. Only the first one and the recovery are
// logged.
func TestListeningRepeatedFailure(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	count := 0
	l := &listening{address: "127.0.0.1:9948", log: slog.New(slog.NewTextHandler(&log, nil)), failed: func() { count++ }}
	lines := func(want int) {
		t.Helper()
		if text := log.String(); strings.Count(text, "\n") != want {
			t.Errorf("want %d lines in %q", want, text)
		}
	}
	l.changed(nil) // as it should be
	lines(0)
	inUse := errors.New("in use")
	l.changed(inUse)
	l.changed(inUse)
	lines(1)
	if !errors.Is(l.Err(), inUse) || count != 2 {
		t.Errorf("%v, counted %d times", l.Err(), count)
	}
	l.changed(nil)
	lines(2)
	if l.Err() != nil || count != 2 {
		t.Errorf("%v, counted %d times", l.Err(), count)
	}
}
