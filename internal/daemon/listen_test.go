package daemon

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// TestListeningRepeatedFailure: only the first failure and the recovery are logged.
func TestListeningRepeatedFailure(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	o := Options{Log: slog.New(slog.NewTextHandler(&log, nil))}
	l := &newListening(o).served
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
	if !errors.Is(l.Err(), inUse) {
		t.Error(l.Err())
	}
	l.note(nil)
	lines(2)
	if l.Err() != nil {
		t.Error(l.Err())
	}
}
