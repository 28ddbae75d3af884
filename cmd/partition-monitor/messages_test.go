package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"node-partition.io/node-partition/tests/testkit"
)

// sources parses the Go files below roots, without tests.
func sources(t *testing.T, roots ...string) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files[path], err = parser.ParseFile(token.NewFileSet(), path, nil, 0)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// literal returns the value of an expression of string literals, without its other operands.
func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if s, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return s
		}
	case *ast.BinaryExpr:
		return literal(e.X) + literal(e.Y)
	}
	return ""
}

// troubleshooting returns the pages about messages without the backquotes of code.
func troubleshooting(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	for _, page := range testkit.Files(t, "../../docs/troubleshooting/*.md") {
		text.WriteString(page)
	}
	return strings.ReplaceAll(text.String(), "`", "")
}

// head returns a message without the text after a colon or a semicolon, which a page may leave out:
// its row has the remedy.
func head(message string) string {
	before, _, _ := strings.Cut(strings.ReplaceAll(message, ";", ":"), ":")
	return before
}

// TestLogMessagesAreDocumented: docs/troubleshooting has each message that the monitor logs.
func TestLogMessagesAreDocumented(t *testing.T) {
	t.Parallel()
	page := troubleshooting(t)
	found := 0
	for path, file := range sources(t, ".", "../../internal/command", "../../internal/daemon", "../../internal/node", "../../internal/journallog") {
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || method.Sel.Name != "Error" && method.Sel.Name != "Warn" && method.Sel.Name != "Info" {
				return true
			}
			message := literal(call.Args[0])
			if message == "" {
				return true // another type's method, or a message from elsewhere
			}
			found++
			if !strings.Contains(page, head(message)) {
				t.Errorf("%s: docs/troubleshooting does not have %q", path, message)
			}
			return true
		})
	}
	if found == 0 {
		t.Error("no messages in the source: this test does not find them any more")
	}
}

// TestPickedMessagesAreDocumented: docs/troubleshooting has each text of the files that pick a
// message from several before they log it. It is no literal argument of a log's methods.
func TestPickedMessagesAreDocumented(t *testing.T) {
	t.Parallel()
	const shortest = 5 // words of a message; keys, and parts of a message, have fewer
	page := troubleshooting(t)
	var rows []string
	for line := range strings.Lines(page) {
		cell, isRow := strings.CutPrefix(line, "| ")
		if cell, _, _ = strings.Cut(cell, " |"); isRow && len(strings.Fields(cell)) >= shortest {
			rows = append(rows, cell)
		}
	}
	for path, file := range sources(t, "../../internal/daemon/evictlog.go", "../../internal/daemon/placementevents.go") {
		found := 0
		ast.Inspect(file, func(node ast.Node) bool {
			e, ok := node.(ast.Expr)
			if !ok {
				return true
			}
			text := literal(e)
			if len(strings.Fields(strings.TrimLeft(text, "; "))) < shortest {
				return true
			}
			found++
			// A row may have the beginning alone, or, as above, all before a colon or a semicolon.
			if !slices.ContainsFunc(rows, func(row string) bool { return strings.HasPrefix(text, row) }) && !strings.Contains(page, head(text)) {
				t.Errorf("%s: docs/troubleshooting does not have %q", path, text)
			}
			return false
		})
		if found == 0 {
			t.Errorf("%s: no messages: this test does not find them any more", path)
		}
	}
}

// placeholder matches the variable parts of a message in a row of the page.
var placeholder = regexp.MustCompile(`\d+|\.\.\.|\b[A-Z][A-Z_]{3,}\b|\bN\b|\bM\b|=`)

// TestDocumentedMessagesExist: each message of the pages is in our source, or in others.
func TestDocumentedMessagesExist(t *testing.T) {
	t.Parallel()
	var ours strings.Builder
	for _, file := range sources(t, "../../cmd", "../../pkg", "../../internal") {
		ast.Inspect(file, func(node ast.Node) bool {
			if e, ok := node.(ast.Expr); ok {
				if s := literal(e); s != "" {
					ours.WriteString(s + "\n")
					_, isSum := e.(*ast.BinaryExpr)
					return !isSum
				}
			}
			return true
		})
	}
	code := regexp.MustCompile(`%[a-z]`).ReplaceAllString(ours.String(), "...")
	// Messages of systemd and of the kernel, and rows that describe messages.
	others := []string{"Condition check resulted in", "too many levels of symbolic links", "no such file or directory", "a path below /sys/fs/cgroup"}
	inTable, rows := false, 0
	for line := range strings.Lines(troubleshooting(t)) {
		if !strings.HasPrefix(line, "|") {
			inTable = false
			continue
		}
		cell := strings.TrimSpace(strings.Split(line, "|")[1])
		if strings.HasPrefix(cell, "message") || cell == "text" {
			inTable = true
			continue
		}
		if !inTable || strings.HasPrefix(cell, "---") {
			continue
		}
		rows++
		known := false
		for _, part := range placeholder.Split(cell, -1) {
			for _, piece := range strings.FieldsFunc(part, func(r rune) bool {
				return r == ';' || r == ':' || r == ',' || r == '(' || r == ')' || r == '[' || r == ']'
			}) {
				if piece = strings.TrimSpace(piece); len(piece) > 7 && strings.Contains(code, piece) {
					known = true
				}
			}
		}
		for _, other := range others {
			known = known || strings.Contains(cell, other)
		}
		if !known {
			t.Errorf("docs/troubleshooting has the message %q, which is in no source", cell)
		}
	}
	if rows == 0 {
		t.Error("no rows of messages: this test does not find them any more")
	}
}
