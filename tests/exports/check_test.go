package exports

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// source is the only file of a package.
type source struct{ path, text string }

// imported is an importer of the packages that were type-checked before.
type imported map[string]*types.Package

func (i imported) Import(path string) (*types.Package, error) { return i[path], nil }

// load type-checks packages, each of which may import those before it.
func load(t *testing.T, sources ...source) []*packages.Package {
	t.Helper()
	loaded := make([]*packages.Package, 0, len(sources))
	before := imported{}
	for _, s := range sources {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, s.path+".go", s.text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
		config := types.Config{Importer: before}
		pkg, err := config.Check(module+s.path, files, []*ast.File{file}, info)
		if err != nil {
			t.Fatal(err)
		}
		before[pkg.Path()] = pkg
		loaded = append(loaded, &packages.Package{
			Name: pkg.Name(), Fset: files, Types: pkg, TypesInfo: info, Syntax: []*ast.File{file},
		})
	}
	return loaded
}

func TestCheck(t *testing.T) {
	for name, test := range map[string]struct {
		a, b string // b imports a
		want string
	}{
		"function that is used":           {"func Live() {}", "var _ = a.Live", ""},
		"function without a user":         {"func Dead() {}", "var _ = a.Live; type x = int", "Dead"},
		"field of the same name":          {"func Dead() {}\ntype T struct{ Dead int }", "var _ a.T", "Dead"},
		"type of an unexported field":     {"type Dead struct{}\ntype T struct{ x Dead }", "var _ a.T", "Dead"},
		"type of an exported field":       {"type Live struct{}\ntype T struct{ X []*Live }", "var _ a.T", ""},
		"type of a parameter":             {"type Live struct{}\nfunc F(map[string]Live) {}", "var _ = a.F", ""},
		"constraint of a type parameter":  {"type Live interface{ ~int }\nfunc F[T Live]() {}", "var _ = a.F[int]", ""},
		"signature of an unused function": {"type Dead int\nfunc Other(Dead) {}", "", "Dead Other"},
		"recursive type":                  {"type Dead struct{ Next *Dead }", "", "Dead"},
		"method, and a field elsewhere":   {"type T int\nfunc (T) Dead() {}", "type u struct{ Dead int }\nvar _ = u{}.Dead\nvar _ a.T", "T).Dead"},
		"method of an interface":          {"type T int\nfunc (T) Live() {}", "type i interface{ Live() }\nvar _ i = a.T(0)", ""},
		"method of an unexported type":    {"type t int\nfunc (t) M() {}\nvar V t", "var _ = a.V", ""},
		"variable named like the import":  {"func Dead() {}\nfunc Live() {}", "var _ = a.Live\nfunc f(a struct{ Dead int }) { _ = a.Dead }", "Dead"},
		"constants of one declaration":    {"const (\nOne = 1\nTwo = 2\n)", "var _ = a.Two", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := "package b\n"
			if strings.Contains(test.b, "a.") {
				b += "import \"" + module + "a\"\n"
			}
			a := "package a\n" + test.a
			if strings.Contains(test.b, "a.Live") && !strings.Contains(test.a, "func Live") {
				a += "\nfunc Live() {}"
			}
			unused, _ := check(load(t, source{"a", a}, source{"b", b + test.b}))
			names := make([]string, 0, len(unused))
			for _, u := range unused {
				names = append(names, u.name[strings.LastIndexByte(u.name, '/')+len("a.")+1:])
			}
			if want := strings.Fields(test.want); !slices.Equal(names, want) {
				t.Errorf("without a user: %q, want %q", names, want)
			}
		})
	}
}

// TestCheckExternalTest: a package's own external test is no user.
func TestCheckExternalTest(t *testing.T) {
	unused, _ := check(load(t,
		source{"a", "package a\nfunc Dead() {}"},
		source{"a_test", "package a_test\nimport \"" + module + "a\"\nvar _ = a.Dead"},
	))
	if len(unused) != 1 {
		t.Errorf("without a user: %+v, want Dead", unused)
	}
}
