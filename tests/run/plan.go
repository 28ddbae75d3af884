package main

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os/exec"
	"regexp"
	"slices"
	"strings"
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
		names, err := testsIn(p.files)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if choose.chooses(name) {
				planned = append(planned, test{p.path, name})
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
	path  string
	files []string // with tests
}

func list(ctx context.Context, tags string, patterns []string) ([]listed, error) {
	const format = `{{$dir := .Dir}}{{.ImportPath}}{{range .TestGoFiles}}{{"\t"}}{{$dir}}/{{.}}{{end}}` +
		`{{range .XTestGoFiles}}{{"\t"}}{{$dir}}/{{.}}{{end}}`
	args := append([]string{"list", "-f", format, "-tags=" + tags}, patterns...)
	out, err := exec.CommandContext(ctx, "go", args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("go list of %s: %w", strings.Join(patterns, " "), err)
	}
	var packages []listed
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		packages = append(packages, listed{fields[0], fields[1:]})
	}
	return packages, nil
}

// testsIn returns the tests in files of one package, by the rules of go test. It does not look at
// parameters: go test does not build a function with the name of a test and other parameters.
func testsIn(files []string) ([]string, error) {
	var parsed []*ast.File
	var names []string
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, f)
		for _, d := range f.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && isTest.MatchString(f.Name.Name) && f.Name.Name != "TestMain" {
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

// isTest matches names of tests: TestX is one, Testx is not.
var isTest = regexp.MustCompile(`^(Test|Fuzz)(\P{Ll}.*)?$`)
