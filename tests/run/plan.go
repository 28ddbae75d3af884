package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// test is a test at the top of a package: a test, a fuzz test, whose seeds run, or an example with
// an output.
type test struct {
	pkg, name string
}

// plan finds the tests to run.
func plan(ctx context.Context, o options) ([]test, error) {
	choose, err := newChoice(o.run, o.skip)
	if err != nil {
		return nil, err
	}
	packages, err := list(ctx, o.tags, o.packages)
	if err != nil {
		return nil, err
	}
	var planned []test
	for _, p := range packages {
		for _, files := range [][]string{p.TestGoFiles, p.XTestGoFiles} {
			names, err := testsIn(p.Dir, files)
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				if choose.chooses(name) {
					planned = append(planned, test{p.ImportPath, name})
				}
			}
		}
	}
	if len(planned) == 0 {
		return nil, fmt.Errorf("%s: no test with the tags %q that -run=%q matches and -skip=%q does not",
			strings.Join(o.packages, " "), o.tags, o.run, o.skip)
	}
	return planned, nil
}

// packagesOf returns the packages of these tests. Other packages need not be built.
func packagesOf(tests []test) []string {
	var packages []string
	for _, t := range tests {
		if !slices.Contains(packages, t.pkg) {
			packages = append(packages, t.pkg)
		}
	}
	return packages
}

// listed is a package in the output of go list.
type listed struct {
	Dir, ImportPath           string
	TestGoFiles, XTestGoFiles []string
}

func list(ctx context.Context, tags string, patterns []string) ([]listed, error) {
	args := append([]string{"list", "-json=Dir,ImportPath,TestGoFiles,XTestGoFiles", "-tags=" + tags}, patterns...)
	out, err := exec.CommandContext(ctx, "go", args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("go list of %s: %w", strings.Join(patterns, " "), err)
	}
	var packages []listed
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages, nil
		}
		if err != nil {
			return nil, fmt.Errorf("go list of %s: %w", strings.Join(patterns, " "), err)
		}
		packages = append(packages, p)
	}
}

// testsIn returns the tests in files of one package, by the rules of go test.
func testsIn(dir string, files []string) ([]string, error) {
	var parsed []*ast.File
	var names []string
	for _, file := range files {
		f, err := parser.ParseFile(
			token.NewFileSet(),
			filepath.Join(dir, file),
			nil,
			parser.ParseComments|parser.SkipObjectResolution,
		)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, f)
		for _, d := range f.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && isTest(f) {
				names = append(names, f.Name.Name)
			}
		}
	}
	for _, example := range doc.Examples(parsed...) {
		// One without an output is built, and does not run.
		if example.Output != "" || example.EmptyOutput {
			names = append(names, "Example"+example.Name)
		}
	}
	return names, nil
}

func isTest(f *ast.FuncDecl) bool {
	if f.Recv != nil || f.Type.TypeParams.NumFields() > 0 || f.Type.Params.NumFields() != 1 {
		return false
	}
	return hasPrefix(f.Name.Name, "Test") && takes(f, "T") || hasPrefix(f.Name.Name, "Fuzz") && takes(f, "F")
}

// hasPrefix reports whether name is one of a test: TestX is, Testx is not.
func hasPrefix(name, prefix string) bool {
	rest, found := strings.CutPrefix(name, prefix)
	first, _ := utf8.DecodeRuneInString(rest)
	return found && (rest == "" || !unicode.IsLower(first))
}

// takes distinguishes a TestMain, which takes a *testing.M, from a test.
func takes(f *ast.FuncDecl, name string) bool {
	pointer, ok := f.Type.Params.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	selector, ok := pointer.X.(*ast.SelectorExpr)
	return ok && selector.Sel.Name == name
}
