package output

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"
)

// clearScreen moves the cursor to the first line, and erases what is on the screen.
const clearScreen = "\x1b[H\x1b[2J"

// Redraw has write write in place of what a terminal shows, as watch(1) does. What the terminal has
// no rows for is left out and counted. To a file, a pipe or a terminal whose cursor does not move
// it is written as it is.
func Redraw(w io.Writer, write func(io.Writer) error) error {
	file, ok := w.(term.File)
	if !ok || !TerminalOf(file).Moves {
		return write(w)
	}
	s := screen{File: file}
	if err := write(&s); err != nil {
		return err
	}
	text := s.text.String()
	if width, height, err := term.GetSize(file.Fd()); err == nil && width > 0 && height > 0 {
		text = cut(text, width, height)
	}
	_, err := io.WriteString(w, clearScreen+text)
	return err
}

// screen holds what is written to a terminal until all of it is there.
type screen struct {
	term.File
	text bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) { return s.text.Write(p) }

// cut returns the lines that a screen of a size has room for. The cursor needs its last row, and
// the row before counts what is left out.
func cut(text string, width, height int) string {
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	fit, rows := 0, 0
	for i, line := range lines {
		rows += max(1, (ansi.StringWidth(line)+width-1)/width)
		if rows > height-1 {
			return strings.Join(lines[:fit], "") + fmt.Sprintf("%d lines more\n", len(lines)-fit)
		}
		if rows <= height-2 {
			fit = i + 1
		}
	}
	return text
}
