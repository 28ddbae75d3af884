package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// guardsFile lists the guards. The comments are above their lines.
const (
	guardsFile = "tests/mutants/guards"
	comment    = "//guard: "
)

// testTimeout ends tests that hang without a guard.
const testTimeout = "5m"

// guard is a line of code that keeps a rare case from doing harm, and the change that removes it.
type guard struct {
	name  string
	file  string   // of its comment
	lines int      // that it has
	tests []string // the packages of which a test has to fail without it
	new   []string // the lines in place of it
}

// readGuards reads the list: blocks with an empty line between them. A block has the name, the
// number of lines if it is not one, the packages if they are not that of the file, and the lines in
// their place, with "+" before each. Each name has its comment in the Go files below root, once.
func readGuards(root string) ([]guard, error) {
	data, err := os.ReadFile(filepath.Join(root, guardsFile))
	if err != nil {
		return nil, err
	}
	files, err := commented(root)
	if err != nil {
		return nil, err
	}
	var guards []guard
	var problems []error
	for block := range strings.SplitSeq(strings.TrimSpace(string(data)), "\n\n") {
		if strings.HasPrefix(block, "#") {
			continue
		}
		lines := strings.Split(block, "\n")
		g := guard{name: lines[0], lines: 1}
		if found := files[g.name]; len(found) != 1 {
			problems = append(problems, fmt.Errorf("%q: its comments are in %q; want one", comment+g.name, found))
			continue
		}
		g.file = files[g.name][0]
		delete(files, g.name)
		for _, line := range lines[1:] {
			if text, isNew := strings.CutPrefix(line, "+"); isNew {
				g.new = append(g.new, text)
				continue
			}
			for _, word := range strings.Fields(line) {
				if n, err := strconv.Atoi(word); err == nil {
					g.lines = n
				} else {
					g.tests = append(g.tests, word)
				}
			}
		}
		if len(g.tests) == 0 {
			g.tests = []string{"./" + filepath.Dir(g.file)}
		}
		guards = append(guards, g)
	}
	for name, found := range files {
		problems = append(problems, fmt.Errorf("%q: %s has no entry once", found, comment+name))
	}
	return guards, errors.Join(problems...)
}

// commented returns the files that have the comment of a guard, by its name.
func commented(root string) (map[string][]string, error) {
	files := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		for line := range strings.Lines(string(source)) {
			if guard, is := strings.CutPrefix(strings.TrimSpace(line), comment); is {
				files[guard] = append(files[guard], name)
			}
		}
		return err
	})
	return files, err
}

// without returns the source of its file without the guard, and without the comments of all.
func (g guard) without(source string) string {
	var lines []string
	at := 0
	for line := range strings.SplitSeq(source, "\n") {
		name, is := strings.CutPrefix(strings.TrimSpace(line), comment)
		switch {
		case !is:
			lines = append(lines, line)
		case name == g.name:
			at = len(lines)
		}
	}
	return strings.Join(slices.Replace(lines, at, at+g.lines, g.new...), "\n")
}

// runGuards removes one guard after another whose name pattern matches, and reports whether a test
// has failed each time. An entry that cannot be tried is reported, and the next one is tried.
func runGuards(ctx context.Context, pattern string) (all bool, err error) {
	match, err := regexp.Compile(pattern)
	if err != nil {
		return false, err
	}
	guards, err := readGuards(".")
	if err != nil {
		return false, err
	}
	guards = slices.DeleteFunc(guards, func(g guard) bool { return !match.MatchString(g.name) })
	if len(guards) == 0 {
		return false, fmt.Errorf("%s: no name matches %q", guardsFile, pattern)
	}
	dir, err := os.MkdirTemp("", "guards-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	// A test that fails with all guards would be taken for one that notices.
	packages := map[string]bool{}
	for _, g := range guards {
		for _, pkg := range g.tests {
			packages[pkg] = true
		}
	}
	for pkg := range packages {
		if output, err := testWith(ctx, "", []string{pkg}); err != nil {
			return false, fmt.Errorf("%s: its tests fail with all guards: %w\n%s", pkg, err, output)
		}
	}
	all = tryGuards(ctx, os.Stdout, guards, func(g guard) ([]string, error) { return g.try(ctx, dir) })
	return all, ctx.Err()
}

// tryGuards writes what try found for each guard, and returns whether tests noticed all of them.
func tryGuards(ctx context.Context, w io.Writer, guards []guard, try func(guard) (killers []string, err error)) bool {
	survived, broken := 0, 0
	for _, g := range guards {
		start := time.Now()
		killers, err := try(g)
		if ctx.Err() != nil {
			return false
		}
		outcome := "noticed by " + strings.Join(killers, ", ")
		switch {
		case err != nil:
			broken++
			outcome = "ERROR: " + err.Error()
		case len(killers) == 0:
			survived++
			outcome = "SURVIVED: no test of " + strings.Join(g.tests, " ") + " fails without it"
		}
		fmt.Fprintf(w, "%s: %s: %s (%v)\n", g.file, g.name, outcome, time.Since(start).Round(time.Second))
	}
	fmt.Fprintf(w, "%d guards, %d survived, %d errors\n", len(guards), survived, broken)
	return survived == 0 && broken == 0
}

var (
	failure  = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	panicked = regexp.MustCompile(`(?m)^panic: `)
	unbuilt  = regexp.MustCompile(`(?m)^FAIL\t\S+ \[(build|setup) failed\]$`)
)

// try removes a guard in an overlay, which leaves the tree as it is, and returns what fails.
func (g guard) try(ctx context.Context, dir string) (killers []string, err error) {
	source, err := os.ReadFile(g.file)
	if err != nil {
		return nil, err
	}
	path, err := filepath.Abs(g.file)
	if err != nil {
		return nil, err
	}
	replacement, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {path: replacement}})
	if err != nil {
		return nil, err
	}
	err = errors.Join(os.WriteFile(replacement, []byte(g.without(string(source))), 0o644),
		os.WriteFile(overlay, list, 0o644))
	if err != nil {
		return nil, err
	}
	output, err := testWith(ctx, overlay, g.tests)
	if err == nil {
		return nil, nil
	}
	return verdict(output)
}

// verdict returns the tests that go test reports as failed, when it did not succeed. Only these
// notice a guard. Tests that did not end within the time have noticed nothing: on a busy machine
// they take as long with the guard.
func verdict(output string) (killers []string, err error) {
	if unbuilt.MatchString(output) {
		return nil, fmt.Errorf("does not compile: %s", output)
	}
	for _, found := range failure.FindAllStringSubmatch(output, -1) {
		killers = append(killers, found[1])
	}
	switch {
	case len(killers) > 0:
		return killers, nil
	case strings.Contains(output, "panic: test timed out"):
		return nil, fmt.Errorf("did not end within %s: run it again on a quiet machine", testTimeout)
	case panicked.MatchString(output):
		return []string{"tests that panicked"}, nil
	}
	return nil, fmt.Errorf("no test failed, and go test did: %s", output)
}

// testWith runs the tests of packages as "make test-unit" does, with the golden cases (build tag
// mutants), and without the seeds of fuzz tests. The overlay is in GOFLAGS, for the programs that
// tests build. The cache of results does not see it there.
func testWith(ctx context.Context, overlay string, packages []string) (output string, err error) {
	module, packages := inModule(packages)
	args := []string{
		"-C", module, "test", "-tags=mutants", "-short", "-vet=off", "-failfast", "-timeout=" + testTimeout, "-skip=^Fuzz",
	}
	cmd := exec.CommandContext(ctx, "go")
	if overlay != "" {
		args = append(args, "-count=1")
		cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay)
	}
	cmd.Args = append(cmd.Args, append(args, packages...)...)
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// inModule returns the folder of the module of packages, and the packages as that one names them.
// Those of rollout are a module of their own. A guard has packages of one module.
func inModule(packages []string) (module string, named []string) {
	const rollout = "./rollout/"
	if !strings.HasPrefix(packages[0], rollout) {
		return ".", packages
	}
	for _, pkg := range packages {
		named = append(named, "./"+strings.TrimPrefix(pkg, rollout))
	}
	return rollout, named
}
