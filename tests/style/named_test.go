package style

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// named matches a test that a document names as code, up to a slash before one of its parts.
var named = regexp.MustCompile("`(Test[A-Z]\\w*)(?:/[^`]*)?`")

// TestNamedTests: each test that a document names as the one that shows something, and each of
// tests/long, is in the tree.
func TestNamedTests(t *testing.T) {
	t.Parallel()
	const root = "../.."
	tests, names := map[string]bool{}, map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "testdata" || name == "bin"):
			return filepath.SkipDir
		case strings.HasSuffix(name, "_test.go"):
			return addTests(tests, path)
		case filepath.Ext(name) == ".md":
			data, err := os.ReadFile(path)
			for _, m := range named.FindAllStringSubmatch(string(data), -1) {
				names[m[1]] = name
			}
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, document := range names {
		if !tests[name] {
			t.Errorf("%s names %s, which is not in the tree", document, name)
		}
	}
	long, err := os.ReadFile(root + "/tests/long")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(long)) {
		pattern, _, _ := strings.Cut(strings.TrimSpace(line), "/")
		if strings.HasPrefix(pattern, "Test") && !slices.ContainsFunc(slices.Collect(maps.Keys(tests)), func(name string) bool {
			matches, err := path.Match(pattern, name)
			return err == nil && matches
		}) {
			t.Errorf("tests/long: no test has the name %s", pattern)
		}
	}
	if len(names) == 0 {
		t.Error("no tests are named: this test does not find them any more")
	}
}

// addTests adds the tests of a file, with any build tag.
func addTests(tests map[string]bool, path string) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
			tests[f.Name.Name] = true
		}
	}
	return nil
}
