package outcome

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestTermination: the first line has the reason, and the message fits the kubelet's limit.
func TestTermination(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("node one: %w", Because(Cgroupfs, "the driver is %s", "cgroupfs"))
	o := Of(Refused, err, "second\nline")
	if got, want := o.Termination(), "cgroupfs: node one: the driver is cgroupfs\nsecond; line"; got != want {
		t.Errorf("%q; want %q", got, want)
	}
	if got := Of(WentBack, errors.New("x")).Reason; got != Failed {
		t.Errorf("an error without a reason: %q", got)
	}
	if got := (Outcome{Sentences: []string{"kept"}}).Text(); got != "done: kept" {
		t.Errorf("%q", got)
	}
	long := Outcome{Status: Remains, Reason: Verify, Sentences: []string{strings.Repeat("ä", 3000)}}
	got := long.Termination()
	if len(got) > maxTermination || !utf8.ValidString(got) || !strings.HasSuffix(got, "log of the container)") {
		t.Errorf("%d bytes, %q", len(got), got[len(got)-60:])
	}
}
