//go:build style

package style

import (
	"regexp"
	"strings"
	"testing"

	"node-partition.io/node-partition/tests/testkit"
)

// meant holds words that codespell takes for others, by the beginning of the files that have them.
var meant = map[string]string{
	"aks":       "", // Azure's service
	"debians":   "", // 12 and 13
	"nd":        "", // the macro for a page's description
	"bu":        "", // Butane's files
	"caf":       "internal/command/status/status_test.go",
	"stopp":     "tests/lab/cri.go",
	"localed":   "tests/lab/look.go",
	"availabel": "internal/budget/warnings_test.go",
}

// hit matches a line of codespell: file, line, word and the words that it may stand for.
var hit = regexp.MustCompile(`(?m)^(.+):\d+: (\S+) ==> .+$`)

// inner matches a capital in a word, which is a name in Go.
var inner = regexp.MustCompile(`[a-z][A-Z]`)

// TestSpelling: codespell finds nothing in the texts of the repository. Sums and what others have
// written are left out.
func TestSpelling(t *testing.T) {
	t.Parallel()
	codespell := testkit.NeedProgram(t, "codespell", "codespell")
	spell := func(files ...string) string {
		// Without its errors: that a file is binary is one.
		out, _ := run(t, codespell, append([]string{"--check-hidden"}, files...)...)
		return out
	}
	files := tracked(t, ":!*/third-party-licenses", ":!*/testdata/fuzz/*", ":!*.sum", ":!tests/style/spelling_test.go")
	var found []string
	for _, m := range hit.FindAllStringSubmatch(spell(files...), -1) {
		prefix, ok := meant[strings.ToLower(m[2])]
		if !inner.MatchString(m[2]) && (!ok || !strings.HasPrefix(m[1], prefix)) {
			found = append(found, m[0])
		}
	}
	faults := spell(wrong(t, "a", "the teh\n")) //nolint:misspell // on purpose
	clean(t, strings.Join(found, "\n"), faults, "teh ==>")
}
