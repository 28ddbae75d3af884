package prose

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// kind is a kind of text.
type kind string

// The kinds of text that are read.
const (
	comments     kind = "Go comments"
	testComments kind = "Go comments in tests"
	literals     kind = "Go strings" // of the programs: messages, help, usage
	paragraphs   kind = "Markdown"
	tables       kind = "Markdown tables"
	manuals      kind = "manual pages"
	units        kind = "units and settings"
	scripts      kind = "comments of scripts"
)

var kinds = []kind{comments, testComments, literals, paragraphs, tables, manuals, units, scripts}

// text is a paragraph, a comment or a string, and where it is.
type text struct {
	kind  kind
	file  string
	line  int      // of the first line
	lines []string // as they are in the file, without code before a comment
}

// skipped lists the folders that have no prose of this project.
var skipped = map[string]bool{".git": true, "bin": true, "testdata": true, "tests/prose": true, "tests/lab/sources": true}

// all returns the texts of the repository.
func all(t *testing.T) []text {
	t.Helper()
	const root = "../.."
	var found []text
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (skipped[entry.Name()] || skipped[name]):
			return filepath.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		texts, err := read(name, source)
		found = append(found, texts...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds {
		if len(only(found, k)) < 10 {
			t.Fatalf("%d texts are %s: this test does not find them any more", len(only(found, k)), k)
		}
	}
	return found
}

// only returns the texts of some kinds.
func only(texts []text, kinds ...kind) []text {
	var some []text
	for _, s := range texts {
		for _, k := range kinds {
			if s.kind == k {
				some = append(some, s)
			}
		}
	}
	return some
}

// read returns the texts of a file.
func read(name string, source []byte) ([]text, error) {
	switch {
	case filepath.Ext(name) == ".go":
		return goTexts(name, source)
	case filepath.Ext(name) == ".md":
		return markdown(name, source), nil
	case strings.HasPrefix(name, "man/"):
		return split(name, source, func(line string) kind {
			if manualBreak.MatchString(line) {
				return ""
			}
			return manuals
		}), nil
	case strings.HasPrefix(name, "units/"), strings.HasPrefix(name, "deploy/sysext/"), strings.HasPrefix(name, "deploy/sysupdate/"):
		return split(name, source, func(string) kind { return units }), nil
	case name == "Makefile", strings.HasPrefix(filepath.Ext(name), ".y"), bytes.HasPrefix(source, []byte("#!")):
		return split(name, source, func(line string) kind {
			if comment := strings.TrimLeft(line, "\t @"); !strings.HasPrefix(comment, "#") {
				return ""
			}
			return scripts
		}), nil
	}
	return nil, nil
}

// manualBreak is a macro between two paragraphs.
var manualBreak = regexp.MustCompile(`^\.(Pp|It|Sh|Ss|Bl|El|Bd|Ed)\b`)

// split returns the paragraphs of a file: lines of one kind that follow each other. The kind of a
// line that is not prose is empty.
func split(name string, source []byte, kindOf func(line string) kind) []text {
	var found []text
	last := kind("")
	for i, line := range strings.Split(string(source), "\n") {
		k := kindOf(line)
		if strings.Trim(line, "# \t") == "" {
			k = ""
		}
		switch k {
		case "":
		case last:
			paragraph := &found[len(found)-1]
			paragraph.lines = append(paragraph.lines, line)
		default:
			found = append(found, text{kind: k, file: name, line: i + 1, lines: []string{line}})
		}
		last = k
	}
	return found
}

// markdown returns the paragraphs and tables of a document.
func markdown(name string, source []byte) []text {
	code := false
	return split(name, source, func(line string) kind {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		code = code != fence
		switch {
		case code, fence, strings.HasPrefix(line, "    "):
			return ""
		case strings.HasPrefix(line, "|"):
			return tables
		}
		return paragraphs
	})
}

// goTexts returns the comments of a Go file, and the strings of one that is part of a program.
func goTexts(name string, source []byte) ([]text, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	test := strings.HasPrefix(name, "tests/") || strings.HasSuffix(name, "_test.go")
	var found []text
	for _, group := range file.Comments {
		comment := text{kind: comments, file: name, line: files.Position(group.Pos()).Line}
		if test {
			comment.kind = testComments
		}
		for _, c := range group.List {
			column := files.Position(c.Pos()).Column - 1 // a tab is one character
			if strings.HasPrefix(c.Text, "//go:") || strings.HasPrefix(c.Text, "//nolint") {
				c.Text = ""
			}
			lines := strings.Split(strings.Repeat(" ", column)+c.Text, "\n")
			comment.lines = append(comment.lines, lines...)
		}
		found = append(found, comment)
	}
	if test {
		return found, nil
	}
	ast.Inspect(file, func(node ast.Node) bool {
		if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			value, _ := strconv.Unquote(literal.Value)
			line := files.Position(literal.Pos()).Line
			found = append(found, text{literals, name, line, strings.Split(value, "\n")})
		}
		return true
	})
	return found, nil
}
