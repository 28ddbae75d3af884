package output

import (
	"encoding/json"
	"io"
)

// JSON writes a value for scripts: indented, followed by a newline, and with \u003c, \u003e and
// \u0026 in place of <, > and &.
func JSON(w io.Writer, v any) error { return indented(w).Encode(v) }

// JSONWithCommands is JSON for a value with commands of the shell: it keeps <, > and &.
func JSONWithCommands(w io.Writer, v any) error {
	encoder := indented(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

func indented(w io.Writer) *json.Encoder {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder
}
