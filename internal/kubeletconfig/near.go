package kubeletconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/xrash/smetrics"

	"nodepartition/internal/oneline"
)

// Near returns which of the known names of fields is meant by one that is not among them: written
// with other capitals, with dashes or underscores, or with one letter in four wrong. Empty where
// none is.
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

// nearMisses warns of a section under another name: the kubelet passes over a field that it does
// not know, and so do we.
func (l *loader) nearMisses(doc document) {
	for _, name := range slices.Sorted(maps.Keys(doc.fields)) {
		if Near(name, SectionField) != "" {
			l.config.Warnings = append(l.config.Warnings,
				fmt.Sprintf("%s: unknown field %s, ignoring; is %s meant?", doc.path, oneline.Quote(name), SectionField))
		}
	}
}
