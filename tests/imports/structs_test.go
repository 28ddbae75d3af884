package imports

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// maxFields is the most that a struct may have where state is kept. One with more holds several
// ideas: make a part of each.
const maxFields = 15

// TestStructsSmall: no struct of the daemon, of placement and of eviction is a box for everything.
func TestStructsSmall(t *testing.T) {
	checked := 0
	for _, pattern := range []string{"internal/daemon/*.go", "internal/daemon/*/*.go", "pkg/podmove/*.go", "pkg/podmove/*/*.go", "pkg/evict/*.go"} {
		files, err := filepath.Glob("../../" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				if s, ok := spec.Type.(*ast.StructType); ok {
					checked++
					if fields := s.Fields.NumFields(); fields > maxFields {
						t.Errorf("%s: %s has %d fields; want at most %d", fset.Position(spec.Pos()), spec.Name.Name, fields, maxFields)
					}
				}
				return true
			})
		}
	}
	if checked < 50 {
		t.Errorf("only %d structs were looked at", checked)
	}
}
