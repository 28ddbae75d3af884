// Command mutants measures how many changes to a package's code its tests notice. go-gremlins
// changes the package's code at one place after another, a mutant each, and runs the package's
// tests. A mutant that they let pass has survived.
//
//	go run ./tests/mutants [-least PERCENT] [-guards REGEXP] PACKAGE[:FILE,FILE...]...
//
// With -guards it first removes the guards that tests/mutants/guards lists and whose names match,
// one after another. A guard whose absence no test notices, or that has no comment, is an error.
//
// PACKAGE is a folder of this module. If no files are given, all of them are changed. The package's
// tests run as in "make test-unit", with -short.
//
// A mutant counts as killed if a test fails or does not end, and as alive if the tests pass,
// whether they reach the place or not: "not covered" is a part of the survivors. A mutant that does
// not compile does not count. If the share of killed mutants in any package is below the least
// percentage, the exit status is 1.
//
// Gremlins alone counts a mutant that does not compile as killed, because "go test" has one exit
// status for both, and does not try a mutant outside of the covered code. Therefore this program
// runs between gremlins and "go": see goCommand.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/tools/cover"
)

const gremlins = "github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0"

func main() {
	if filepath.Base(os.Args[0]) == "go" {
		os.Exit(goCommand(os.Args[1:]))
	}
	least := flag.Int("least", 95, "the least percentage of killed mutants of each package")
	guards := flag.String("guards", "", "the names of the guards to remove, as a regular expression")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	noticed, err := true, error(nil)
	if *guards != "" {
		noticed, err = runGuards(ctx, *guards)
	}
	enough := true
	if err == nil && (*guards == "" || flag.NArg() > 0) {
		enough, err = run(ctx, flag.Args(), *least)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
	if err != nil || !noticed || !enough {
		os.Exit(1)
	}
}

func run(ctx context.Context, targets []string, least int) (enough bool, err error) {
	if len(targets) == 0 {
		return false, errors.New("want packages, such as pkg/slices")
	}
	known, err := readExplained("tests/mutants/explained")
	if err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	install := exec.CommandContext(ctx, "go", "install", gremlins)
	install.Env = append(os.Environ(), "GOBIN="+dir)
	install.Stderr = os.Stderr
	if err := install.Run(); err != nil {
		return false, fmt.Errorf("building %s: %w", gremlins, err)
	}
	enough = true
	for _, text := range targets {
		start := time.Now()
		target, err := parseTarget(text)
		if err != nil {
			return false, err
		}
		mutants, err := target.mutate(ctx, dir)
		if err != nil {
			return false, fmt.Errorf("%s: %w", target.pkg, err)
		}
		if !report(target, mutants, known, least, time.Since(start)) {
			enough = false
		}
	}
	return enough, nil
}

// target is a package and its files to change.
type target struct {
	pkg  string   // a folder of the module
	skip []string // its files that stay unchanged
}

func parseTarget(text string) (target, error) {
	pkg, list, some := strings.Cut(text, ":")
	t := target{pkg: filepath.Clean(pkg)}
	found, err := filepath.Glob(filepath.Join(t.pkg, "*.go"))
	if err != nil {
		return target{}, err
	}
	if len(found) == 0 {
		return target{}, fmt.Errorf("%s: there are no Go files", pkg)
	}
	if !some {
		return t, nil
	}
	wanted := strings.Split(list, ",")
	for _, name := range wanted {
		if !slices.Contains(found, filepath.Join(t.pkg, name)) {
			return target{}, fmt.Errorf("%s: no file %s", pkg, name)
		}
	}
	for _, path := range found {
		if name := filepath.Base(path); !slices.Contains(wanted, name) {
			t.skip = append(t.skip, name)
		}
	}
	return t, nil
}

// mutant is one change and its outcome.
type mutant struct {
	File         string
	Line, Column int
	Type         string
	Status       string // gremlins' word for the outcome
	covered      bool
	source       string // its line
}

// mutate runs gremlins. dir has its program, and receives its output.
func (t target) mutate(ctx context.Context, dir string) ([]mutant, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	realGo, err := exec.LookPath("go")
	if err != nil {
		return nil, err
	}
	bin := filepath.Join(dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return nil, err
	}
	if err := os.Symlink(self, filepath.Join(bin, "go")); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	profile, output := filepath.Join(dir, "profile"), filepath.Join(dir, "output.json")
	args := []string{
		"unleash", "--workers", "1", "--invert-logical", "--output", output,
		// On a busy machine a slow test must not make a killed mutant.
		"--timeout-coefficient", "5",
		"--exclude-files", "/", // packages below this one
	}
	for _, name := range t.skip {
		args = append(args, "--exclude-files", "^"+name+"$")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "gremlins"), append(args, t.pkg)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Env = append(
		os.Environ(),
		"PATH="+bin+":"+os.Getenv("PATH"),
		envGo+"="+realGo,
		envProfile+"="+profile,
		envPackage+"="+t.pkg,
	)
	files, err := os.MkdirTemp(memoryDir, "mutants-")
	if err != nil {
		files, err = os.MkdirTemp(dir, "files-")
	}
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(files) // those of runs that gremlins ended
	cmd.Env = append(cmd.Env, envFiles+"="+files)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("gremlins: %w", err)
	}
	data, err := os.ReadFile(output)
	if err != nil {
		return nil, err
	}
	defer os.Remove(output)
	mutants, err := parseOutput(data)
	if err != nil {
		return nil, err
	}
	blocks, err := cover.ParseProfiles(profile)
	if err != nil {
		return nil, err
	}
	for i := range mutants {
		m := &mutants[i]
		m.covered = covered(blocks, m)
		m.File = filepath.Join(t.pkg, m.File)
		if m.source, err = sourceLine(m.File, m.Line); err != nil {
			return nil, err
		}
	}
	return mutants, nil
}

func parseOutput(data []byte) ([]mutant, error) {
	var output struct {
		Files []struct {
			Name      string   `json:"file_name"`
			Mutations []mutant `json:"mutations"`
		} `json:"files"`
	}
	if err := json.Unmarshal(data, &output); err != nil {
		return nil, fmt.Errorf("what gremlins writes: %w", err)
	}
	var mutants []mutant
	for _, file := range output.Files {
		for _, m := range file.Mutations {
			m.File = file.Name
			mutants = append(mutants, m)
		}
	}
	slices.SortFunc(mutants, func(a, b mutant) int {
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		return 1000*(a.Line-b.Line) + a.Column - b.Column
	})
	return mutants, nil
}

// covered reports whether the tests reach the place of m. Go counts statements, so it returns false
// for a constant of a package.
func covered(profiles []*cover.Profile, m *mutant) bool {
	for _, p := range profiles {
		if filepath.Base(p.FileName) != m.File {
			continue
		}
		for _, b := range p.Blocks {
			after := m.Line > b.StartLine || m.Line == b.StartLine && m.Column >= b.StartCol
			before := m.Line < b.EndLine || m.Line == b.EndLine && m.Column < b.EndCol
			if after && before && b.Count > 0 {
				return true
			}
		}
	}
	return false
}

func sourceLine(path string, line int) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(strings.Split(string(data), "\n")[line-1]), nil
}

// report prints the outcome of a package's mutants, and reports whether enough were killed.
func report(t target, mutants []mutant, known map[string]string, least int, took time.Duration) bool {
	var killed, timedOut, lived, notCovered, notViable int
	for _, m := range mutants {
		switch m.Status {
		case "KILLED":
			killed++
			continue
		case "TIMED OUT":
			timedOut++
		case "NOT VIABLE":
			notViable++
			continue
		default:
			lived++
			if !m.covered {
				notCovered++
			}
		}
		why, ok := known[m.key()]
		if !ok {
			why = "not explained"
		}
		if m.Status == "TIMED OUT" {
			why = "the tests did not end"
		}
		fmt.Printf("%s:%d:%d: %s %s: %s\n\t%s\n", m.File, m.Line, m.Column, m.Type, strings.ToLower(m.Status), why, m.source)
	}
	all := killed + timedOut + lived
	fmt.Printf(
		"%s: %d mutants, killed %d (%d of them did not end), lived %d (%d of them not covered), %d did not compile: %.1f %% killed, in %v\n",
		t.pkg, all, killed+timedOut, timedOut, lived, notCovered, notViable,
		100*float64(killed+timedOut)/float64(max(all, 1)), took.Round(time.Second),
	)
	return 100*(killed+timedOut) >= least*all
}

// key identifies a mutant even if its line moves.
func (m *mutant) key() string { return m.File + "|" + m.Type + "|" + m.source }

// readExplained reads the reasons why mutants survive that no test can kill: blocks of "FILE TYPE",
// the line of the source, and the reason, with an empty line between them.
func readExplained(path string) (map[string]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	known := map[string]string{}
	for block := range strings.SplitSeq(strings.TrimSpace(string(data)), "\n\n") {
		lines := strings.SplitN(block, "\n", 3)
		if strings.HasPrefix(block, "#") {
			continue
		}
		file, kind, ok := strings.Cut(lines[0], " ")
		if !ok || len(lines) != 3 {
			return nil, fmt.Errorf("%s: %q: want three lines: FILE TYPE, the line of the source, the reason", path, block)
		}
		known[file+"|"+kind+"|"+strings.TrimSpace(lines[1])] = strings.Join(strings.Fields(lines[2]), " ")
	}
	return known, nil
}

// Environment variables of goCommand.
const (
	envGo      = "MUTANTS_GO"      // the real one
	envProfile = "MUTANTS_PROFILE" // receives the profile of the covered code
	envPackage = "MUTANTS_PACKAGE"
	envFiles   = "MUTANTS_FILES" // the folder for the files of tests and their builds
)

// memoryDir is the folder for the tests' own files: hundreds for each mutant, which take most of
// the time on a disk.
const memoryDir = "/dev/shm"

// goCommand is "go" for gremlins, with four differences:
//   - It runs tests as "make test-unit" does, with the golden cases (build tag mutants), and
//     without the seeds of fuzz tests, which take as long as all else and notice little.
//   - It ends the tests when one has failed.
//   - If a mutant does not compile, it returns the exit status that gremlins expects then, 2.
//   - Its profile reports everything as covered, so that every mutant is tried. It stores the true
//     profile elsewhere.
func goCommand(args []string) int {
	isTest := len(args) > 0 && args[0] == "test"
	if isTest {
		args = append([]string{
			"test", "-v", "-tags=mutants", "-short", "-vet=off", "-ldflags=-s -w", "-skip=^Fuzz",
		}, args[1:]...)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	output := firstFailure{found: stop} // which cancels ctx
	cmd := exec.CommandContext(ctx, os.Getenv(envGo), args...)
	// A group of its own, so that the tests and what they started end with go.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if isTest {
		dir, err := os.MkdirTemp(os.Getenv(envFiles), "go-")
		if err != nil {
			fmt.Fprintln(os.Stderr, "mutants:", err)
			return 1
		}
		defer os.RemoveAll(dir) // a killed go leaves its build, killed tests their files
		cmd.Env = append(os.Environ(), "TMPDIR="+dir, "GOTMPDIR="+dir)
	}
	cmd.Stdout, cmd.Stderr = io.MultiWriter(os.Stdout, &output), os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case output.failed:
		return 1
	case errors.As(err, &exit) && strings.Contains(output.text.String(), "[build failed]"):
		return 2
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	if i := slices.Index(args, "-coverprofile"); err == nil && isTest && i > 0 {
		err = coverAll(args[i+1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		return 1
	}
	return 0
}

// firstFailure keeps the output of "go test -v", and calls found when the first test has failed:
// what fails one test often makes another wait for ever.
type firstFailure struct {
	text   bytes.Buffer
	failed bool
	found  func()
}

func (f *firstFailure) Write(data []byte) (int, error) {
	f.text.Write(data)
	if !f.failed && bytes.Contains(f.text.Bytes(), []byte("\n--- FAIL: ")) {
		f.failed = true
		f.found()
	}
	return len(data), nil
}

func coverAll(profile string) error {
	data, err := os.ReadFile(profile)
	if err != nil {
		return err
	}
	if err := os.WriteFile(os.Getenv(envProfile), data, 0o644); err != nil {
		return err
	}
	mode, _, _ := bytes.Cut(data, []byte("\n"))
	all := string(mode) + "\n"
	files, err := filepath.Glob(filepath.Join(os.Getenv(envPackage), "*.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		all += "node-partition.io/node-partition/" + file + ":1.1,1000000.1 1 1\n"
	}
	return os.WriteFile(profile, []byte(all), 0o644)
}
