// Package exports tests that an exported name has a user outside its package. Fields are exempt: a
// struct that another package reads is exported whole.
package exports

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	root   = "../.."
	module = "nodepartition/"
)

// folders have the packages that others import. The one of tests/lab is the lab's own.
var folders = []string{"cmd", "internal", "pkg", "tests"}

// implemented lists the methods of other projects' interfaces: nothing of ours calls them.
var implemented = []string{
	"Error", "String", "Unwrap", "Is", "Format", "Write", "Close", // the standard library's
	"MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText",
	"ServeHTTP", "Handle", "Enabled", "WithAttrs", "WithGroup", "Len", "Less", "Swap",
	"Describe", "Collect", "Gather", // of Prometheus
	"DeliverSignal",            // of godbus
	"Debugf", "Infof", "Warnf", // of NRI
	"Configure", "Synchronize", "Shutdown", "RunPodSandbox", "UpdateContainer", "UpdatePodSandbox",
	"StopPodSandbox",
	"RemovePodSandbox", "CreateContainer", "StartContainer", "PostStartContainer", "StopContainer", "RemoveContainer",
}

// export is an exported name and where it is declared.
type export struct {
	pkg, name string
	// method means that its users name it behind a dot, or declare an interface with it.
	method bool
	// set is the position of the declaration of several constants, of which each belongs to the
	// others: a set of values is exported whole.
	set      token.Pos
	position token.Position
}

// tree holds the names that the packages declare and use.
type tree struct {
	files   *token.FileSet
	exports []export
	// qualified has the packages that use a name with its package before it, by import path and name.
	qualified map[[2]string]bool
	// methods has the packages in which a name is behind a dot, or in an interface.
	methods map[string]map[string]bool
	// declared has the names that the exported declarations of a package mention: types that a user
	// gets without naming them.
	declared map[[2]string]bool
}

func TestExports(t *testing.T) {
	tr := tree{
		files: token.NewFileSet(), qualified: map[[2]string]bool{}, methods: map[string]map[string]bool{},
		declared: map[[2]string]bool{},
	}
	for _, folder := range folders {
		tr.walk(t, folder)
	}
	if len(tr.exports) < 500 {
		t.Fatalf("%d exported names: this test does not find them any more", len(tr.exports))
	}
	used := map[token.Pos]bool{}
	for _, e := range tr.exports {
		used[e.set] = used[e.set] || tr.used(e)
	}
	for _, e := range tr.exports {
		if !tr.used(e) && (e.set == token.NoPos || !used[e.set]) {
			name, _ := filepath.Rel(root, e.position.Filename)
			t.Errorf("%s:%d: %s has no user outside its package: make it unexported", name, e.position.Line, e.name)
		}
	}
}

// used reports whether another package names the export.
func (tr *tree) used(e export) bool {
	if !e.method {
		return tr.qualified[[2]string{e.pkg, e.name}] || tr.declared[[2]string{e.pkg, e.name}]
	}
	if slices.Contains(implemented, e.name) {
		return true
	}
	users := tr.methods[e.name]
	return len(users) > 1 || len(users) == 1 && !users[e.pkg]
}

func (tr *tree) walk(t *testing.T, folder string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, folder), func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "testdata":
			return filepath.SkipDir
		case entry.IsDir():
			_, err := os.Stat(filepath.Join(name, "go.mod"))
			if err == nil {
				return filepath.SkipDir // another module
			}
			return nil
		case filepath.Ext(name) != ".go":
			return nil
		}
		file, err := parser.ParseFile(tr.files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(name))
		if err != nil {
			return err
		}
		pkg := module + filepath.ToSlash(dir)
		if strings.HasSuffix(file.Name.Name, "_test") {
			pkg += "_test" // the examples and tests from outside
		}
		tr.uses(pkg, file)
		if !strings.HasSuffix(name, "_test.go") && file.Name.Name != "main" {
			tr.declares(pkg, file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// uses records what a file names of other packages.
func (tr *tree) uses(pkg string, file *ast.File) {
	imported := map[string]string{}
	for _, spec := range file.Imports {
		target, _ := strconv.Unquote(spec.Path.Value) // the parser has seen that it is a string
		name := path.Base(target)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imported[name] = target
	}
	method := func(name string) {
		if tr.methods[name] == nil {
			tr.methods[name] = map[string]bool{}
		}
		tr.methods[name][pkg] = true
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && imported[x.Name] != "" {
				tr.qualified[[2]string{imported[x.Name], n.Sel.Name}] = true
			} else {
				method(n.Sel.Name)
			}
		case *ast.InterfaceType:
			for _, m := range n.Methods.List {
				for _, name := range m.Names {
					method(name.Name)
				}
			}
		}
		return true
	})
}

// declares records the exported names of a file.
func (tr *tree) declares(pkg string, file *ast.File) {
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if !decl.Name.IsExported() {
				continue
			}
			tr.add(export{pkg: pkg, name: decl.Name.Name, method: decl.Recv != nil}, decl.Name)
			tr.mentions(pkg, decl.Type)
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				tr.spec(pkg, decl, spec)
			}
		}
	}
}

func (tr *tree) spec(pkg string, decl *ast.GenDecl, spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		set := token.NoPos
		if decl.Tok == token.CONST && decl.Lparen.IsValid() {
			set = decl.Pos()
		}
		for _, name := range spec.Names {
			if name.IsExported() {
				tr.add(export{pkg: pkg, name: name.Name, set: set}, name)
				tr.mentions(pkg, spec.Type)
			}
		}
	case *ast.TypeSpec:
		if !spec.Name.IsExported() {
			return
		}
		tr.add(export{pkg: pkg, name: spec.Name.Name}, spec.Name)
		tr.mentions(pkg, spec.Type)
	}
}

func (tr *tree) add(e export, at *ast.Ident) {
	e.position = tr.files.Position(at.Pos())
	tr.exports = append(tr.exports, e)
}

// mentions records the names of the own package in a declaration.
func (tr *tree) mentions(pkg string, n ast.Node) {
	if n == nil {
		return
	}
	ast.Inspect(n, func(n ast.Node) bool {
		if name, ok := n.(*ast.Ident); ok && name.IsExported() {
			tr.declared[[2]string{pkg, name.Name}] = true
		}
		return true
	})
}
