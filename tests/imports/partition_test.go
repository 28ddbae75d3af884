package imports

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// oneName is the name by which a program means the system partition and no other.
const oneName = "System"

// TestOnePartition: only the configuration, and what a node follows beside a kubelet that makes the
// system partition itself, know that partition by its name. All else is given the name of one.
func TestOnePartition(t *testing.T) {
	for _, dir := range []string{"cmd", "internal", "pkg"} {
		err := filepath.WalkDir("../../"+dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, path, nil, 0)
			if err != nil {
				return err
			}
			for _, use := range partitionNames(file) {
				if path := filepath.ToSlash(path); !strings.Contains(path, "pkg/slices/config/") && !strings.HasSuffix(path, "internal/node/config.go") {
					t.Errorf("%s: partition.%s: take the name of the partition as a parameter", fset.Position(use.Pos()), oneName)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// partitionNames returns the uses of partition.System in a file.
func partitionNames(file *ast.File) []*ast.SelectorExpr {
	var found []*ast.SelectorExpr
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == oneName {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "partition" {
				found = append(found, s)
			}
		}
		return true
	})
	return found
}
