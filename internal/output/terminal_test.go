package output

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"node-partition.io/node-partition/tests/testkit"
)

// TestWrap: a line fits on the terminal, is indented where it continues, and keeps its words whole.
func TestWrap(t *testing.T) {
	t.Parallel()
	const line = "warning  nri: the runtime --without-this-option serves no NRI"
	for _, test := range []struct {
		width int
		line  string
		want  string
	}{
		{0, line, line},
		{20, line, line},
		{100, line, line},
		{40, line, "warning  nri: the runtime\n         --without-this-option serves no\n         NRI"},
		{40, "  - nri: the runtime --without-this-option serves  none", "  - nri: the runtime\n    --without-this-option serves  none"},
		{40, "/a/path/that/is/longer/than/the/whole/terminal", "/a/path/that/is/longer/than/the/whole/terminal"},
	} {
		if got := (Terminal{Width: test.width}).Wrap(test.line); got != test.want {
			t.Errorf("%d columns: %q; want %q", test.width, got, test.want)
		}
	}
}

// TestWrite: a terminal shows wrapped lines, whose first words say in colours how bad they are. A
// file has the text as it was written.
func TestWrite(t *testing.T) {
	const text = `error    slice: gone
         change: reload the units of systemd
warning  nri: the runtime serves no NRI
warnings: 1
ok      error: none

`
	for _, test := range []struct {
		term, noColor string
		want          string
	}{
		{"xterm", "", "\x1b[1;31merror\x1b[m    slice: gone\n         change: reload the\n         units of systemd\n" +
			"\x1b[33mwarning\x1b[m  nri: the runtime serves\n         no NRI\nwarnings: 1\nok      error: none\n\n"},
		{"xterm", "1", "error    slice: gone\n         change: reload the\n         units of systemd\n" +
			"warning  nri: the runtime serves\n         no NRI\nwarnings: 1\nok      error: none\n\n"},
		{"dumb", "", text},
		{"", "", text},
	} {
		t.Setenv("TERM", test.term)
		t.Setenv("NO_COLOR", test.noColor)
		tty, screen := testkit.OpenTerminal(t, 32)
		if err := errors.Join(Write(tty, text, Severities), tty.Close()); err != nil {
			t.Fatal(err)
		}
		if got := testkit.Shown(t, screen); got != test.want {
			t.Errorf("TERM=%s NO_COLOR=%s: %q; want %q", test.term, test.noColor, got, test.want)
		}
	}
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	var pipe bytes.Buffer
	if err := Write(&pipe, text, Severities); err != nil || pipe.String() != text {
		t.Errorf("%v, %q", err, &pipe)
	}
}

// TestRedraw: a terminal shows a text in place of the one before, as far as it has rows. A wide
// line takes several. Others get the text as it is.
func TestRedraw(t *testing.T) {
	const rows = 24
	line, wide := "a line\n", strings.Repeat("x", 33)+"\n"
	for term, test := range map[string]struct{ text, want string }{
		"dumb":  {strings.Repeat(line, 2*rows), strings.Repeat(line, 2*rows)},
		"xterm": {strings.Repeat(line, 2*rows), "\x1b[H\x1b[2J" + strings.Repeat(line, rows-2) + "26 lines more\n"},
		"vt100": {strings.Repeat(line, rows-1), "\x1b[H\x1b[2J" + strings.Repeat(line, rows-1)},
		"linux": {strings.Repeat(wide, rows), "\x1b[H\x1b[2J" + strings.Repeat(wide, rows/2-1) + "13 lines more\n"},
	} {
		t.Setenv("TERM", term)
		tty, screen := testkit.OpenTerminal(t, 32)
		err := Redraw(tty, func(w io.Writer) error {
			if (TerminalOf(w) == Terminal{}) != (term == "dumb") {
				t.Errorf("TERM=%s: what is drawn does not know the terminal", term)
			}
			return Write(w, test.text, nil)
		})
		if err := errors.Join(err, tty.Close()); err != nil {
			t.Fatal(err)
		}
		if got := testkit.Shown(t, screen); got != test.want {
			t.Errorf("TERM=%s: %q; want %q", term, got, test.want)
		}
	}
	var pipe bytes.Buffer
	err := Redraw(&pipe, func(w io.Writer) error { return Write(w, line, nil) })
	if err != nil || pipe.String() != line {
		t.Errorf("%v, %q", err, &pipe)
	}
}
