// Package nearest finds the name that a person has probably meant.
package nearest

import (
	"strings"
	"unicode"

	"github.com/xrash/smetrics"
)

// alike is the least similarity by Jaro and Winkler of two names of which one may be the other with
// letters in another order, which edits count twice.
const alike = 0.93

// Name returns the known name that an unknown one probably means: one that is written with other
// capitals, with dashes or underscores, with at most one letter in four wrong, or with letters in
// another order. It returns an empty string if there is none.
func Name(name string, known ...string) string {
	best, least := "", 0
	a := plainName(name)
	for _, k := range known {
		if len(name) > 2*len(k) || k == name {
			continue
		}
		b := plainName(k)
		distance := smetrics.WagnerFischer(a, b, 1, 1, 1)
		if distance > len(k)/4 && !isShuffled(a, b) {
			continue
		}
		if best == "" || distance < least {
			best, least = k, distance
		}
	}
	return best
}

// isShuffled reports whether a name is another one with letters in another order.
func isShuffled(a, b string) bool {
	return len(a) == len(b) && len(a) > 1 && smetrics.JaroWinkler(a, b, 0.7, 4) >= alike
}

// plainName returns a name in small letters without dashes and underscores. A strings.Replacer has
// a table of 6 KiB: with one for each pair of names the generator took a sixth more CPU time.
func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}

// Meant returns "; is X meant?" for the known name that is nearest, and an empty string if there is
// none.
func Meant(name string, known ...string) string {
	if near := Name(name, known...); near != "" {
		return "; is " + near + " meant?"
	}
	return ""
}
