package output

import (
	"encoding/json"
	"io"

	"sigs.k8s.io/yaml"
)

// JSON writes a value for scripts: indented, followed by a newline, and with commands of the shell
// as they are typed.
func JSON[T any](w io.Writer, v T) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// YAML writes a value with the fields of its JSON.
func YAML[T any](w io.Writer, v T) error {
	text, err := yaml.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}
