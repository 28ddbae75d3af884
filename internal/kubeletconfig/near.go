package kubeletconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/xrash/smetrics"

	"nodepartition/internal/oneline"
)

// Near returns the known field that an unknown name probably means: one that is written with other
// capitals, with dashes or underscores, or with at most one letter in four wrong. It returns an
// empty string if there is none.
func Near(name string, known ...string) string {
	best, least := "", 0
	for _, k := range known {
		if len(name) > 2*len(k) || k == name {
			continue
		}
		distance := smetrics.WagnerFischer(plainName(name), plainName(k), 1, 1, 1)
		if distance <= len(k)/4 && (best == "" || distance < least) {
			best, least = k, distance
		}
	}
	return best
}

func plainName(name string) string {
	return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name))
}

// nearMisses warns of a section under a similar name: the kubelet ignores an unknown field, and so
// do we.
func (l *loader) nearMisses(doc document) {
	for _, name := range slices.Sorted(maps.Keys(doc.fields)) {
		if near := Near(name, sectionFields()...); near != "" {
			l.config.Warnings = append(l.config.Warnings,
				fmt.Sprintf("%s: unknown field %s, ignoring; is %s meant?", doc.path, oneline.Quote(name), near))
		}
	}
}
