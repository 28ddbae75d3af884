package output

import (
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"
)

// Terminal has the abilities of a terminal. The zero value is a file or a pipe.
type Terminal struct {
	// Width is the number of columns, 0 for no end.
	Width int
	// Moves means that the cursor can be moved, and Colours that colours are wanted.
	Moves, Colours bool
}

// TerminalOf returns the abilities of a file. Another value than a file is not one, and TERM=dumb
// has no abilities. Colours are not wanted with NO_COLOR (no-color.org).
func TerminalOf(file any) Terminal {
	f, ok := file.(term.File)
	name := os.Getenv("TERM")
	if !ok || !term.IsTerminal(f.Fd()) || name == "" || name == "dumb" {
		return Terminal{}
	}
	width, _, err := term.GetSize(f.Fd())
	if err != nil {
		width = 0
	}
	return Terminal{Width: width, Moves: true, Colours: os.Getenv("NO_COLOR") == ""}
}

// The styles of text. They repeat what words say.
var (
	Alarm   = ansi.Style{}.Bold().ForegroundColor(ansi.Red)
	Caution = ansi.Style{}.ForegroundColor(ansi.Yellow)
	Good    = ansi.Style{}.ForegroundColor(ansi.Green)
	faint   = ansi.Style{}.Faint()
)

// Severities has the styles of the words by which lines say how bad something is.
var Severities = map[string]ansi.Style{
	"error": Alarm, "warning": Caution, "ignored": faint, "left out": faint,
}

// Write writes lines for a person. On a terminal each is wrapped (Wrap), and the word of styles
// that a line begins with has its style there. To a file or a pipe Write writes the text as it is.
func Write(w io.Writer, text string, styles map[string]ansi.Style) error {
	on := TerminalOf(w)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = on.paint(on.Wrap(line), styles)
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n"))
	return err
}

// paint returns a line in which the word of styles that it begins with has its style.
func (t Terminal) paint(line string, styles map[string]ansi.Style) string {
	for word, style := range styles {
		rest, begins := strings.CutPrefix(line, word)
		if t.Colours && begins && strings.IndexAny(rest, " :") == 0 {
			return style.Styled(word) + rest
		}
	}
	return line
}

// Readable is the width of a text that is written to be read, wherever it goes.
const Readable = 80

const (
	// narrow is the least width for which lines are wrapped and not left to the terminal.
	narrow = 30
	// standIn stands in place of a hyphen, where ansi.Wordwrap would break an option.
	standIn = "\ue000"
)

// Wrap returns a line in as many lines as the terminal needs. They continue where its second column
// begins, behind two spaces or more, or else where the text of the line begins, behind the mark of
// a list. A word is not broken, so that it can be copied.
func (t Terminal) Wrap(line string) string {
	if t.Width < narrow || ansi.StringWidth(line) <= t.Width {
		return line
	}
	rest := strings.TrimPrefix(strings.TrimLeft(line, " "), "- ")
	if gap := strings.Index(rest, "  "); gap > 0 {
		second := strings.TrimLeft(rest[gap:], " ")
		if ansi.StringWidth(line)-ansi.StringWidth(second) <= t.Width/2 {
			rest = second
		}
	}
	head := strings.TrimSuffix(line, rest)
	indent := ansi.StringWidth(head)
	held := strings.ReplaceAll(rest, "-", standIn)
	wrapped := strings.ReplaceAll(ansi.Wordwrap(held, t.Width-indent, ""), standIn, "-")
	return head + strings.ReplaceAll(wrapped, "\n", "\n"+strings.Repeat(" ", indent))
}
