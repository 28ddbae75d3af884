// Package prose tests that comments and documents have no construction that a newcomer has to read
// twice, and no line that is too long.
package prose

import (
	"bufio"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
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
		"defined by a pronoun", regexp.MustCompile(`\b(is|are|was) (what|where|how|who|whose|those|that of)\b`),
		"a verb: returns, reports whether, reads, holds, lists",
	},
	{
		"tells whether", regexp.MustCompile(`\b[Tt]ells? (that|whether|what|how|who|of)\b`),
		"reports whether",
	},
	{
		"code that hears", regexp.MustCompile(`\b[Hh]ears?\b`),
		"is notified of, is called with",
	},
	{
		"word for word", regexp.MustCompile(`\b(belongs? into|stands? in (the|its|a)|in this moment|anew|for want of|goes by|go by|nobody)\b`),
		"belongs to, is in, now, again, without, follows, no pod, no candidate",
	},
}

// sentence is a piece of prose and where it is.
type sentence struct {
	file string
	line int
	text string
}

func TestConstructions(t *testing.T) {
	prose := all(t)
	for _, c := range constructions {
		var found []sentence
		for _, s := range prose {
			for range c.pattern.FindAllString(s.text, -1) {
				found = append(found, s)
			}
		}
		judge(t, c.name, c.better, found)
	}
}

func TestWidth(t *testing.T) {
	var long []sentence
	for _, s := range all(t) {
		if utf8.RuneCountInString(s.text) > width {
			long = append(long, s)
		}
	}
	judge(t, "lines of prose of more than "+strconv.Itoa(width)+" characters", "shorter lines", long)
}

// judge fails for what was found.
func judge(t *testing.T, name, better string, found []sentence) {
	t.Helper()
	for _, s := range found {
		t.Errorf("%s:%d: %s: %s; write %s", s.file, s.line, name, s.text, better)
	}
}

// all returns the prose of the repository: comments of Go files, and documents without tables and
// code.
func all(t *testing.T) []sentence {
	t.Helper()
	var prose []sentence
	root := "../.."
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		switch {
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "testdata" || entry.Name() == "bin" || name == "tests/prose" || name == "tests/lab/sources"):
			return filepath.SkipDir
		case entry.IsDir():
			return nil
		}
		switch filepath.Ext(name) {
		case ".go":
			lines, err := comments(path)
			prose = append(prose, named(name, lines)...)
			return err
		case ".md":
			lines, err := document(path)
			prose = append(prose, named(name, lines)...)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(prose) < 1000 {
		t.Fatalf("%d lines of prose: this test does not find them any more", len(prose))
	}
	return prose
}

func named(file string, lines []sentence) []sentence {
	for i := range lines {
		lines[i].file = file
	}
	return lines
}

// comments returns the lines of the comments of a Go file. Directives are none.
func comments(path string) ([]sentence, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var lines []sentence
	for _, group := range file.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "//go:") || strings.HasPrefix(c.Text, "//nolint") {
				continue
			}
			first := files.Position(c.Pos())
			for i, line := range strings.Split(c.Text, "\n") {
				column := 0
				if i == 0 {
					column = first.Column - 1 // a tab is one character
				}
				lines = append(lines, sentence{line: first.Line + i, text: strings.Repeat(" ", column) + line})
			}
		}
	}
	return lines, nil
}

// document returns the lines of a Markdown file that are neither in a table nor code.
func document(path string) ([]sentence, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var lines []sentence
	code := false
	scan := bufio.NewScanner(file)
	for n := 1; scan.Scan(); n++ {
		line := scan.Text()
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
			continue
		}
		if code || strings.HasPrefix(line, "|") || strings.HasPrefix(line, "    ") {
			continue
		}
		lines = append(lines, sentence{line: n, text: line})
	}
	if err := scan.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return lines, nil
}
