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
	o := Options{Log: slog.New(slog.NewTextHandler(&log, nil))}
	l := &newListening(o, func() { count++ }).served
	lines := func(want int) {
		t.Helper()
		if text := log.String(); strings.Count(text, "\n") != want {
			t.Errorf("want %d lines in %q", want, text)
		}
	}
	l.note(nil) // as it should be
	lines(0)
	inUse := errors.New("in use")
	l.note(inUse)
	l.note(inUse)
	lines(1)
	if !errors.Is(l.Err(), inUse) || count != 2 {
		t.Errorf("%v, counted %d times", l.Err(), count)
	}
	l.note(nil)
	lines(2)
	if l.Err() != nil || count != 2 {
		t.Errorf("%v, counted %d times", l.Err(), count)
	}
}
