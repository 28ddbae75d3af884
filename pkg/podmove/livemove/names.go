package livemove

import "strings"

// validScope reports whether a name is valid for a scope of a runtime. The name becomes part of
// paths.
func validScope(name string) bool {
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune(":-_.\\", r):
		default:
			return false
		}
	}
	return strings.HasSuffix(name, ".scope") && !strings.HasPrefix(name, ".")
}
