// Package terminal wraps and colours text for a person at a terminal, and leaves it as it is for
// files and pipes.
package terminal

import (
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

// Of returns the abilities of a file. Another value than a file is not one. Colours are not
// wanted with NO_COLOR (no-color.org), and TERM=dumb has no abilities but a width.
func Of(file any) Terminal {
	f, ok := file.(term.File)
	if !ok || !term.IsTerminal(f.Fd()) {
		return Terminal{}
	}
	width, _, err := term.GetSize(f.Fd())
	if err != nil {
		width = 0
	}
	name := os.Getenv("TERM")
	moves := name != "" && name != "dumb"
	return Terminal{Width: width, Moves: moves, Colours: moves && os.Getenv("NO_COLOR") == ""}
}

// The styles of text. They repeat what words say.
var (
	Alarm   = ansi.Style{}.Bold().ForegroundColor(ansi.Red)
	Caution = ansi.Style{}.ForegroundColor(ansi.Yellow)
	Faint   = ansi.Style{}.Faint()
)

// Paint returns a text in a style.
func (t Terminal) Paint(style ansi.Style, text string) string {
	if !t.Colours {
		return text
	}
	return style.Styled(text)
}

const (
	// narrow is the least width for which lines are wrapped and not left to the terminal.
	narrow = 30
	// standIn stands in place of a hyphen, where ansi.Wordwrap would break an option.
	standIn = "\ue000"
)

// Wrap returns a line in as many lines as the terminal needs, of which all but the first are
// indented. A word is not broken, so that it can be copied.
func (t Terminal) Wrap(line string, indent int) string {
	if t.Width < narrow || ansi.StringWidth(line) <= t.Width {
		return line
	}
	held := strings.ReplaceAll(line, "-", standIn)
	wrapped := strings.ReplaceAll(ansi.Wordwrap(held, t.Width-indent, ""), standIn, "-")
	return strings.ReplaceAll(wrapped, "\n", "\n"+strings.Repeat(" ", indent))
}
