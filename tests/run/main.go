// Command run runs "go test" and prints what gotestsum prints: a line for each package or test that
// has ended, and what has failed again at the end. The last line counts tests and subtests.
//
//	go run ./tests/run [-C FOLDER] [-tests] [-want trixie,crio] [-run PATTERN] -- GO-TEST-ARGUMENT...
//
// In addition to go test it fails if no test has run that -run names, if a package has ended
// without its tests, if a kind of node that -want names was covered by no test, and, where the
// variable CI is set, if a test was skipped.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"gotest.tools/gotestsum/testjson"
)

// options holds the command line.
type options struct {
	tests  bool     // a line for each test
	run    string   // as of go test
	want   []string // subtests, each of which must pass in at least one test
	ci     bool     // a skipped test is a failure
	goTest []string // arguments of go test
}

func main() {
	o := options{ci: os.Getenv("CI") != ""}
	flag.Func("C", "run tests of the module in this `folder`, as of go", os.Chdir)
	flag.BoolVar(&o.tests, "tests", false, "a line for each test and not for each package")
	flag.StringVar(&o.run, "run", "", "run tests that match this `pattern`, as of go test")
	flag.Func("want", "a subtest of each of these `names`, separated by commas or white space, has to pass", func(names string) error {
		o.want = strings.Fields(strings.ReplaceAll(names, ",", " "))
		return nil
	})
	flag.Parse()
	o.goTest = flag.Args()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := run(ctx, o, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "tests/run:", err)
	}
	if !ok {
		os.Exit(1)
	}
}

// run reports whether all tests succeeded. An error is about their environment.
func run(ctx context.Context, o options, out io.Writer) (bool, error) {
	args := []string{"test", "-json"}
	if o.run != "" {
		args = append(args, "-run="+o.run)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, o.goTest...)...)
	// An interrupted run stops its machines first, so it needs time.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	format := "pkgname-and-test-fails"
	if o.tests {
		format = "testname"
	}
	look := testjson.FormatOptions{Icons: "text", HideEmptyPackages: true}
	execution, err := testjson.ScanTestOutput(testjson.ScanConfig{
		Stdout: stdout, Stderr: stderr, IgnoreNonJSONOutputLines: true,
		Handler: handler{testjson.NewEventFormatter(out, format, look), out},
		Stop:    func() { _ = cmd.Process.Kill() }, // it may have ended
	})
	waitErr := cmd.Wait()
	if err != nil {
		return false, fmt.Errorf("reading the output of %v: %w", cmd.Args, err)
	}
	testjson.PrintSummary(out, execution, testjson.SummarizeAll)
	problems := problemsOf(execution, o)
	for _, p := range problems {
		fmt.Fprintln(out, "FAILED", p)
	}
	failed, skipped := len(execution.Failed()), len(execution.Skipped())
	passed := execution.Total() - failed - skipped
	if failed += len(problems); failed == 0 && waitErr != nil { // packages that are not built
		failed++
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", max(0, passed), failed, skipped)
	return failed == 0 && (skipped == 0 || !o.ci), nil
}

// handler prints events in a format, and go test's output beside them.
type handler struct {
	format testjson.EventFormatter
	out    io.Writer
}

// Event implements testjson.EventHandler.
func (h handler) Event(event testjson.TestEvent, execution *testjson.Execution) error {
	return h.format.Format(event, execution)
}

// Err implements testjson.EventHandler.
func (h handler) Err(text string) error {
	_, err := fmt.Fprintln(h.out, text)
	return err
}

// problemsOf returns what is wrong beside the tests that have failed.
func problemsOf(execution *testjson.Execution, o options) []string {
	var problems, passed []string
	deepest := -1
	for _, name := range execution.Packages() {
		p := execution.Package(name)
		if p.Result() == testjson.ActionPass && p.Total == 0 && o.run == "" && !slices.ContainsFunc(o.goTest, isSkip) {
			problems = append(problems, name+" has ended without a test: does its TestMain call m.Run?")
		}
		for _, c := range p.TestCases() {
			deepest = max(deepest, strings.Count(c.Test.Name(), "/"))
		}
		for _, c := range p.Passed {
			passed = append(passed, strings.Split(c.Test.Name(), "/")[1:]...)
		}
	}
	// An alternative of several may have fewer levels.
	levels := strings.Count(o.run, "/")
	if strings.Contains(o.run, "|") {
		levels = 0
	}
	if deepest < levels && len(execution.Failed()) == 0 {
		problems = append(problems, fmt.Sprintf("no test or subtest %s has run", o.run))
	}
	for _, name := range o.want {
		if !slices.Contains(passed, name) {
			problems = append(problems, fmt.Sprintf("no test on %s has passed: -want names it", name))
		}
	}
	return problems
}

func isSkip(arg string) bool { return strings.HasPrefix(arg, "-skip") }
