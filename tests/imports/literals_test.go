package imports

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The files that have the places of the running node: the only literal of its root, the only
// literal of its cgroup mount, and the only call that makes it.
const (
	rootFile  = "internal/host/host.go"
	mountFile = "internal/partition/mount.go"
	mainFile  = "cmd/partition-monitor/main.go"
)

// TestOneRoot: whoever reads a node is told which one. A literal would read the machine that runs
// the program, whatever --root says.
func TestOneRoot(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for _, top := range []string{"cmd/partition-monitor", "internal", "pkg"} {
		err := filepath.WalkDir(filepath.Join("../..", top), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, path, nil, 0)
			if err != nil {
				return err
			}
			name := strings.TrimPrefix(filepath.ToSlash(path), "../../")
			for _, found := range places(file) {
				seen[found.allowed]++
				if name != found.allowed {
					t.Errorf("%s: %s: pass the node on (internal/host); %s alone has it", fset.Position(found.pos), found.what, found.allowed)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{rootFile, mountFile, mainFile} {
		if seen[file] == 0 {
			t.Errorf("%s has no place of the node: this test does not find it any more", file)
		}
	}
}

// place is an expression that names the running node.
type place struct {
	pos     token.Pos
	what    string
	allowed string // the file that may have it
}

// places returns the expressions of a file that name the running node. The slash that separates
// names is not one: it is an argument of a function for texts or paths, or an operand.
func places(file *ast.File) []place {
	var found []place
	var parents []ast.Node
	ast.Inspect(file, func(n ast.Node) bool {
		if n == nil {
			parents = parents[:len(parents)-1]
			return true
		}
		switch e := n.(type) {
		case *ast.BasicLit:
			value, _ := strconv.Unquote(e.Value)
			switch {
			case e.Kind != token.STRING:
			case value == "/sys/fs/cgroup" || strings.HasPrefix(value, "/sys/fs/cgroup/"):
				found = append(found, place{e.Pos(), "the mount of the cgroups", mountFile})
			case value == "/" && !separates(parents[len(parents)-1]):
				found = append(found, place{e.Pos(), "the root", rootFile})
			}
		case *ast.SelectorExpr:
			switch text := selector(e); text {
			case "cgroups.Mount":
				found = append(found, place{e.Pos(), text, rootFile})
			case "host.This":
				found = append(found, place{e.Pos(), text, mainFile})
			}
		}
		parents = append(parents, n)
		return true
	})
	return found
}

// separates reports whether a slash in n separates names.
func separates(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		return true
	case *ast.CallExpr:
		function, ok := n.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		pkg, _, _ := strings.Cut(selector(function), ".")
		return slices.Contains([]string{"strings", "path", "filepath"}, pkg)
	}
	return false
}

// selector returns a selector of a package as text, empty for another one.
func selector(e *ast.SelectorExpr) string {
	if name, ok := e.X.(*ast.Ident); ok {
		return name.Name + "." + e.Sel.Name
	}
	return ""
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		`var a = host.Root("/")`:                       rootFile,
		`const a = "/"`:                                rootFile,
		`func f() { config.Load("/") }`:                rootFile,
		`var a = strings.Split("a/b", "/")`:            "",
		`var a = "a" + "/" + "b"`:                      "",
		`var a = "/sys/fs/cgroup/kubepods.slice"`:      mountFile,
		`var a = options{Cgroups: cgroups.Mount}`:      rootFile,
		`func f() { status.Read(ctx, host.This(), o)}`: mainFile,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "a.go", "package a\n"+source, 0)
		if err != nil {
			t.Fatal(err)
		}
		found := places(file)
		if want == "" && len(found) > 0 || want != "" && (len(found) != 1 || found[0].allowed != want) {
			t.Errorf("%s: %+v; want %q", source, found, want)
		}
	}
}
