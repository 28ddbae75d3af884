package kubeletconfig

import (
	"fmt"
	"maps"
	"slices"

	"nodepartition/internal/nearest"
	"nodepartition/internal/oneline"
)

// nearMisses warns of a section under a similar name: the kubelet ignores an unknown field, and so
// do we.
func (l *loader) nearMisses(doc document) {
	for _, name := range slices.Sorted(maps.Keys(doc.fields)) {
		if near := nearest.Name(name, sectionFields()...); near != "" {
			l.config.Warnings = append(l.config.Warnings,
				fmt.Sprintf("%s: unknown field %s, ignoring; is %s meant?", doc.path, oneline.Quote(name), near))
		}
	}
}
