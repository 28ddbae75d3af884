package output

import (
	"io"
	"strings"
	"testing"
	"time"
)

func TestJSON(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		write func(io.Writer, any) error
		want  string
	}{
		"escaped":       {JSON, "{\n  \"cure\": \"a \\u0026\\u0026 b \\u003ec\"\n}\n"},
		"with commands": {JSONWithCommands, "{\n  \"cure\": \"a && b >c\"\n}\n"},
	} {
		var out strings.Builder
		if err := test.write(&out, map[string]string{"cure": "a && b >c"}); err != nil || out.String() != test.want {
			t.Errorf("%s: %q, %v; want %q", name, &out, err, test.want)
		}
	}
}

func TestTime(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 3, 12, 59, 0, time.Local)
	if got := Time(at.UTC()); got != "2026-11-20 03:12" {
		t.Errorf("%s; want the time of the node's zone, to the minute", got)
	}
}
