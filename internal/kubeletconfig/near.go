package kubeletconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"node-partition.io/node-partition/internal/text"
)

// nearMisses warns of a section under a similar name: the kubelet ignores an unknown field, and so
// do we.
func (l *loader) nearMisses(doc document) {
	for _, name := range slices.Sorted(maps.Keys(doc.fields)) {
		if isNearlySection(name) {
			l.config.Warnings = append(l.config.Warnings, fmt.Sprintf(
				"%s: unknown field %s, ignoring; known are %s", doc.path, text.Quote(name), strings.Join(sectionFields(), " and ")))
		}
	}
}

// isNearlySection reports whether a field is probably a section with a typing error. No field of
// the kubelet's begins as a section does up to its second word, or has the word in it.
func isNearlySection(name string) bool {
	if slices.Contains(sectionFields(), name) {
		return false
	}
	name = strings.ToLower(name)
	return strings.Contains(name, "partition") ||
		strings.HasPrefix(name, "systemp") || strings.HasPrefix(name, "workloadp")
}
