package output

import (
	"io"
	"strings"
	"testing"
	"time"
)

// TestFormats: YAML has the fields of the JSON, whose commands of the shell can be copied.
func TestFormats(t *testing.T) {
	t.Parallel()
	type cure struct {
		Cure string `json:"cure"`
	}
	for want, write := range map[string]func(io.Writer, cure) error{
		"{\n  \"cure\": \"a && b >c\"\n}\n": JSON[cure], "cure: a && b >c\n": YAML[cure],
	} {
		var out strings.Builder
		if err := write(&out, cure{"a && b >c"}); err != nil || out.String() != want {
			t.Errorf("%q, %v; want %q", &out, err, want)
		}
	}
}

func TestTime(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 3, 12, 59, 0, time.Local)
	if got, want := Time(at.UTC()), "2026-11-20 03:12 "+at.Format("MST"); got != want {
		t.Errorf("%s; want %s, the time of the node's zone, to the minute", got, want)
	}
}
