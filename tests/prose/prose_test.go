// Package prose tests that comments, messages and documents have no construction that a newcomer
// has to read twice, and no line that is too long.
package prose

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// width is the longest line of prose, in characters.
const width = 100

// construction is a way of writing that this project does not use.
type construction struct {
	name    string
	pattern *regexp.Regexp
	// better names what to write in its place.
	better string
}

// constructions follow from the rule: name and active verb, one fact a sentence, the field's word
// (CONTRIBUTING.md).
var constructions = []construction{
	{
		"defined by a pronoun", words(`(is|are|was) (what|where|how|who|whose|those|that of)`),
		"a verb: returns, reports whether, reads, holds, lists",
	},
	{
		"tells whether", words(`[Tt]ells? (that|whether|what|how|who|of)`),
		"reports whether",
	},
	{
		"code that hears", words(`[Hh]ears?`),
		"is notified of, is called with",
	},
	{
		"word for word", words(`(belongs? into|stands? in (the|its|a)|in this moment|anew|for want of|goes by|go by|nobody)`),
		"belongs to, is in, now, again, without, follows, no pod, no candidate",
	},
}

// tics are constructions that are right at times, and were too many.
var tics = []construction{
	{"that of, those of", words(`(that|those) of`), "the noun again"},
	{"is no X", words(`([Tt]here )?(is|are|was|were) no \w+`), "is not a X, does not"},
	{"of its own", words(`of (its|their) own`), "separate, own, private"},
}

// right matches what the patterns of tics find and is not meant.
var right = words(`[Tt]here (is|are|was|were) no \w+|no (longer|more|less|later|earlier|larger|smaller|one)`)

// ceilings has the number of each of the tics that a kind of text has. It only falls.
var ceilings = map[kind][3]int{
	comments:     {4, 0, 12},
	testComments: {42, 29, 36},
	literals:     {2, 0, 2},
	paragraphs:   {5, 4, 20},
	tables:       {0, 0, 3},
	manuals:      {1, 0, 1},
	units:        {0, 0, 0},
	scripts:      {1, 0, 2},
}

// words compiles a pattern of whole words, between which a line may end.
func words(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`\b(` + strings.ReplaceAll(pattern, " ", `\s+`) + `)\b`)
}

func TestConstructions(t *testing.T) {
	texts := all(t)
	for _, c := range constructions {
		for _, m := range find(texts, c.pattern) {
			t.Errorf("%s:%d: %s: %q; write %s", m.file, m.line, c.name, m.words, c.better)
		}
	}
}

func TestTics(t *testing.T) {
	texts := all(t)
	for _, k := range kinds {
		ceiling, lower := ceilings[k], ceilings[k]
		for i, c := range tics {
			found := find(only(texts, k), c.pattern)
			lower[i] = min(lower[i], len(found))
			if len(found) <= ceiling[i] {
				continue
			}
			t.Errorf("%d times %q in %s, at most %d are allowed; write %s in the new one of:",
				len(found), c.name, k, ceiling[i], c.better)
			for _, m := range found {
				t.Logf("%s:%d: %q", m.file, m.line, m.words)
			}
		}
		if lower != ceiling {
			t.Errorf("%s have fewer tics: lower their ceilings from %d to %d", k, ceiling, lower)
		}
	}
}

func TestWidth(t *testing.T) {
	for _, s := range only(all(t), comments, testComments, paragraphs, units, scripts) {
		for i, line := range s.lines {
			if unwrapped.MatchString(line) {
				continue
			}
			if length := utf8.RuneCountInString(line); length > width {
				t.Errorf("%s:%d: %d characters, at most %d: %s", s.file, s.line+i, length, width, line)
			}
		}
	}
}

// unwrapped matches lines of a Makefile that stay in one piece: what make help prints, and a comment
// that is still to be wrapped.
var unwrapped = regexp.MustCompile(`^(## [a-z0-9-]+: |# Modules of their own)`)

// match is what a pattern has found.
type match struct {
	file  string
	line  int
	words string
}

// find returns the matches of a pattern in texts, with the words around them.
func find(texts []text, pattern *regexp.Regexp) []match {
	var found []match
	for _, s := range texts {
		plain := s.plain()
		for _, at := range pattern.FindAllStringIndex(plain, -1) {
			if right.MatchString(plain[at[0]:at[1]]) {
				continue
			}
			from, to := max(0, at[0]-30), min(len(plain), at[1]+30)
			line := s.line + strings.Count(plain[:at[0]], "\n")
			around := strings.Join(strings.Fields(plain[from:to]), " ")
			found = append(found, match{s.file, line, around})
		}
	}
	return found
}

// leader is what stands before the words of a line: a comment's sign, or a macro of a manual page.
var leader = regexp.MustCompile(`(?m)^(\s*(//|#+|\.[A-Z][a-z])[ \t]?)`)

// plain returns the lines of a text without their leaders.
func (s text) plain() string {
	return leader.ReplaceAllString(strings.Join(s.lines, "\n"), "")
}
