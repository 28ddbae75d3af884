package partition

import (
	"path"
	"strings"
)

// IsPlainPath reports whether an absolute path can be written into a unit unchanged. In SourcePath=
// and in conditions a percent sign is a specifier, a backslash an escape, and a line feed a new
// setting.
func IsPlainPath(name string) bool {
	const special = "/._@:+,=~-"
	return strings.HasPrefix(name, "/") && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune(special, r)
	})
}

// PlainPath returns name if it can be written into a unit unchanged, and otherwise the nearest
// directory above it that can.
func PlainPath(name string) string {
	name = path.Join("/", name)
	for !IsPlainPath(name) {
		name = path.Dir(name)
	}
	return name
}
