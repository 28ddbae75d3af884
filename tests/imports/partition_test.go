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

// The names by which a program means one partition and no other.
const (
	oneName   = "System"
	firstName = "First"
)

// maxFirst is the number of places that mean the first partition: files, figures and texts that do
// not name a partition, because they are older than other partitions. It only falls.
const maxFirst = 22

// TestOnePartition: only the configuration knows the system partition by its name. All else is
// given the name of a partition.
func TestOnePartition(t *testing.T) {
	first := 0
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
				switch {
				case use.Sel.Name == firstName:
					first++
				case !strings.Contains(filepath.ToSlash(path), "pkg/slices/config/"):
					t.Errorf("%s: unitname.%s: take the name of the partition as a parameter", fset.Position(use.Pos()), oneName)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if first != maxFirst {
		t.Errorf("%d places mean the first partition; maxFirst is %d: lower it, or take the name of the partition as a parameter",
			first, maxFirst)
	}
}

// partitionNames returns the uses of unitname.System and unitname.First in a file.
func partitionNames(file *ast.File) []*ast.SelectorExpr {
	var found []*ast.SelectorExpr
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && (s.Sel.Name == oneName || s.Sel.Name == firstName) {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "unitname" {
				found = append(found, s)
			}
		}
		return true
	})
	return found
}
