package style

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// width is the longest line of a comment or a document, in characters.
const width = 100

// unwrapped matches lines that stay in one piece: a row and an example of a document, what make
// help prints, and what controller-gen reads.
var unwrapped = regexp.MustCompile(`^(\||    |## [a-z0-9-]+: |\t*// \+kubebuilder:)`)

// TestWidth reads whole lines of comments. The width of code with a comment after it is the
// linter's (lll).
func TestWidth(t *testing.T) {
	t.Parallel()
	const root = "../.."
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "testdata" || name == "bin" || name == "tests/lab/sources"):
			return filepath.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		source, err := os.ReadFile(path)
		sign := "#"
		switch {
		case strings.HasPrefix(filepath.Base(name), "zz_generated."):
			return err
		case filepath.Ext(name) == ".go":
			sign = "//"
		case filepath.Ext(name) == ".md", strings.HasPrefix(name, "units/"):
			sign = ""
		case name == "Makefile", strings.HasPrefix(filepath.Ext(name), ".y"), strings.HasPrefix(string(source), "#!"):
		default:
			return err
		}
		code := false
		for i, line := range strings.Split(string(source), "\n") {
			fenced := sign == "" && strings.HasPrefix(strings.TrimSpace(line), "```")
			code = code != fenced
			isProse := strings.HasPrefix(strings.TrimLeft(line, "\t @"), sign) && !code && !unwrapped.MatchString(line)
			if n := utf8.RuneCountInString(line); isProse && n > width {
				t.Errorf("%s:%d: %d characters, at most %d: %s", name, i+1, n, width, line)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
