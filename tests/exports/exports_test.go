// Package exports tests that an exported name has a user outside its package. Fields are exempt: a
// struct that another package reads is exported whole. So are the constants of one declaration, of
// which another package reads one.
package exports

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

const module = "nodepartition/"

func TestExports(t *testing.T) {
	config := &packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedSyntax | packages.NeedTypes |
			packages.NeedTypesInfo | packages.NeedExportFile | packages.NeedForTest,
		Dir: "../..", Tests: true, BuildFlags: []string{"-tags=node"},
	}
	loaded, err := packages.Load(config, "./...")
	if err != nil {
		t.Fatal(err)
	}
	if packages.PrintErrors(loaded) > 0 {
		t.Fatal("the packages do not compile")
	}
	unused, exported := check(loaded)
	if exported < 500 {
		t.Fatalf("%d exported names: this test does not find them any more", exported)
	}
	for _, u := range unused {
		t.Errorf("%s: %s has no user outside its package: make it unexported", u.position, u.name)
	}
}

// finding is an exported name without a user.
type finding struct {
	name     string
	position token.Position
}

// check returns the exported names without a user, and the number of exported names. packages.Load
// returns a package several times, also as a part of its tests: names stand for their objects.
func check(loaded []*packages.Package) (unused []finding, exported int) {
	used := map[string]bool{}
	for _, p := range loaded {
		for _, object := range p.TypesInfo.Uses {
			if own(object) && path(object.Pkg()) != path(p.Types) {
				used[name(object)] = true
			}
		}
	}
	declared := map[string]types.Object{}
	position := map[string]token.Position{}
	sets := map[string][]string{}
	for _, p := range loaded {
		if p.Name == "main" || path(p.Types) != p.Types.Path() || p.ForTest != "" {
			continue
		}
		for _, object := range exports(p.Types) {
			declared[name(object)] = object
			position[name(object)] = p.Fset.Position(object.Pos())
		}
		for _, set := range constants(p) {
			for _, n := range set {
				sets[n] = set
			}
		}
	}
	interfaces := interfacesOf(loaded)
	implied := closure(declared, used)
	for n, object := range declared {
		switch {
		case used[n], implied[n], slices.ContainsFunc(sets[n], func(n string) bool { return used[n] }):
		case implements(object, interfaces):
		default:
			unused = append(unused, finding{n, position[n]})
		}
	}
	slices.SortFunc(unused, func(a, b finding) int { return strings.Compare(a.name, b.name) })
	return unused, len(declared)
}

// path returns the import path of a package, without the suffix of its external tests: they are no
// other package.
func path(p *types.Package) string { return strings.TrimSuffix(p.Path(), "_test") }

func own(o types.Object) bool {
	return o.Pkg() != nil && strings.HasPrefix(o.Pkg().Path(), module)
}

// name returns a name that is the same for each copy of an object.
func name(o types.Object) string {
	if f, ok := o.(*types.Func); ok {
		return f.Origin().FullName()
	}
	return o.Pkg().Path() + "." + o.Name()
}

// exports returns the exported objects of a package, and the exported methods of exported types.
func exports(p *types.Package) []types.Object {
	var all []types.Object
	for _, n := range p.Scope().Names() {
		object := p.Scope().Lookup(n)
		if object.Exported() {
			all = append(all, object)
		}
		named, ok := object.Type().(*types.Named)
		if _, isType := object.(*types.TypeName); !ok || !isType || !object.Exported() {
			continue
		}
		for method := range named.Methods() {
			if method.Exported() {
				all = append(all, method)
			}
		}
	}
	return all
}

// constants returns the names of the constants of each declaration.
func constants(p *packages.Package) [][]string {
	var sets [][]string
	for _, file := range p.Syntax {
		for _, decl := range file.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			var set []string
			for _, spec := range group.Specs {
				for _, ident := range spec.(*ast.ValueSpec).Names {
					set = append(set, name(p.TypesInfo.Defs[ident]))
				}
			}
			sets = append(sets, set)
		}
	}
	return sets
}

// closure returns the types that a user of a used name has in hand without naming them: those of
// its parameters, results and fields.
func closure(declared map[string]types.Object, used map[string]bool) map[string]bool {
	implied := map[string]bool{}
	var visit func(t types.Type, seen map[types.Type]bool)
	visit = func(t types.Type, seen map[types.Type]bool) {
		if seen[t] {
			return
		}
		seen[t] = true
		switch t := t.(type) {
		case *types.Named:
			if o := t.Obj(); own(o) {
				implied[name(o)] = true
				visit(t.Underlying(), seen)
			}
			for argument := range t.TypeArgs().Types() {
				visit(argument, seen)
			}
		case *types.Signature:
			for parameter := range t.TypeParams().TypeParams() {
				visit(parameter.Constraint(), seen)
			}
			visit(t.Params(), seen)
			visit(t.Results(), seen)
		case *types.Tuple:
			for v := range t.Variables() {
				visit(v.Type(), seen)
			}
		case *types.Struct:
			for field := range t.Fields() {
				if field.Exported() {
					visit(field.Type(), seen)
				}
			}
		case *types.Interface:
			for method := range t.Methods() {
				visit(method.Type(), seen)
			}
		case *types.Map:
			visit(t.Key(), seen)
			visit(t.Elem(), seen)
		case interface{ Elem() types.Type }: // pointer, slice, array, channel
			visit(t.Elem(), seen)
		}
	}
	for n, object := range declared {
		if used[n] {
			t := object.Type()
			if named, ok := t.(*types.Named); ok {
				t = named.Underlying() // a constant or a type: it implies what it consists of
				if _, isType := object.(*types.TypeName); !isType {
					t = named
				}
			}
			visit(t, map[types.Type]bool{})
		}
	}
	return implied
}

// interfacesOf returns the interfaces of all packages that are loaded or imported, by the names of
// their methods.
func interfacesOf(loaded []*packages.Package) map[string][]*types.Interface {
	all := map[string][]*types.Interface{}
	seen := map[*types.Package]bool{}
	var visit func(p *types.Package)
	visit = func(p *types.Package) {
		if seen[p] {
			return
		}
		seen[p] = true
		for _, n := range p.Scope().Names() {
			object, isType := p.Scope().Lookup(n).(*types.TypeName)
			if !isType {
				continue
			}
			if i, ok := object.Type().Underlying().(*types.Interface); ok {
				for method := range i.Methods() {
					all[method.Name()] = append(all[method.Name()], i)
				}
			}
		}
		for _, imported := range p.Imports() {
			visit(imported)
		}
	}
	for _, p := range loaded {
		visit(p.Types)
	}
	universe := types.Universe.Lookup("error").Type().Underlying().(*types.Interface)
	all["Error"] = append(all["Error"], universe)
	return all
}

// errorMethods lists the methods that package errors finds without a named interface.
var errorMethods = []string{"Unwrap", "Is", "As"}

// implements reports whether a method belongs to an interface that its type implements: its callers
// need not name it.
func implements(o types.Object, interfaces map[string][]*types.Interface) bool {
	method, ok := o.(*types.Func)
	if !ok || method.Signature().Recv() == nil {
		return false
	}
	receiver := method.Signature().Recv().Type()
	if slices.Contains(errorMethods, method.Name()) {
		return true
	}
	return slices.ContainsFunc(interfaces[method.Name()], func(i *types.Interface) bool {
		if _, isPointer := receiver.(*types.Pointer); !isPointer {
			return types.Implements(receiver, i) || types.Implements(types.NewPointer(receiver), i)
		}
		return types.Implements(receiver, i)
	})
}
