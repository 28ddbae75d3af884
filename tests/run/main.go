// Command run runs tests and shows their progress: the outcome of each test, which tests run now
// and for how long, and how many are left. At the end it checks that every existing test has really
// run.
//
//	go run ./tests/run [-C FOLDER] [-tags node] [-lines subtest] [-want trixie,crio] PACKAGE...
//
// The last line of its output counts tests: those at the top and, with -lines subtest, those one
// level down. It also counts as failed a package that fails without one of its tests, a test that
// did not run, and a kind of node that -want names and that no test has covered. It counts as
// skipped a test further down that was skipped. If the variable CI is set, a skipped test fails the
// run.
//
// Why not gotestsum: it knows neither which tests exist, nor which ones run now, so it cannot
// report how many are left, and it takes an os.Exit(0) in a TestMain for a package without tests.
// Its strength is merging the output of "go test -json" if a test panics, times out or is not
// built. That is its package testjson, which this uses. This reads the tests' names from their
// source, and not from "go test -list", which links each test's program twice, and calls the very
// TestMain that may be wrong.
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
	"time"

	"gotest.tools/gotestsum/testjson"
)

// tellEvery is the interval of the lines that list the running tests.
const tellEvery = 30 * time.Second

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	if err != nil {
		os.Exit(2) // the flag package has printed the reason
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := run(ctx, o, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "tests/run:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// options holds the command line.
type options struct {
	tags, run, skip string
	goTest          []string // options that are passed to go test unchanged
	lines           lines
	want            []string // subtests, each of which must pass in at least one test
	each            bool     // each alternative of run must match a test that has run
	ci              bool     // a skipped test is a failure
	packages        []string
}

func parse(args []string, stderr io.Writer) (options, error) {
	o := options{lines: byTest, ci: os.Getenv("CI") != ""}
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: go run ./tests/run [OPTION]... PACKAGE...")
		flags.PrintDefaults()
	}
	flags.StringVar(&o.tags, "tags", "", "build `tags`, as of go test")
	flags.StringVar(&o.run, "run", "", "run tests that match this `pattern`, as of go test")
	flags.StringVar(&o.skip, "skip", "", "leave out tests that match this `pattern`, as of go test")
	flags.Func("C", "run tests of the module in this `folder`, as of go", os.Chdir)
	flags.Var(&o.lines, "lines", "a line for each package, test or `subtest` one level down (default test)")
	flags.Func(
		"want",
		"fail unless a subtest of each of these `names`, separated by commas or white space, has passed",
		func(value string) error {
			o.want = append(o.want, strings.Fields(strings.ReplaceAll(value, ",", " "))...)
			return nil
		},
	)
	flags.BoolVar(&o.each, "each", false, "fail unless each alternative of -run, as in TestA/trixie|TestB, has matched a test or subtest")
	for name, usage := range map[string]string{
		"p":        "run so many `packages` at once, as of go test",
		"parallel": "run so many `tests` of a package at once, as of go test",
		"timeout":  "end a package's tests after this `time`, as of go test",
		"count":    "run each test this `number` of times; 1 also where its result is cached, as of go test",
	} {
		flags.Func(name, usage, func(value string) error {
			o.goTest = append(o.goTest, "-"+name+"="+value)
			return nil
		})
	}
	flags.BoolFunc("race", "with the race detector, as of go test", func(string) error {
		o.goTest = append(o.goTest, "-race")
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	slices.Sort(o.goTest) // go test caches by its arguments
	if o.packages = flags.Args(); len(o.packages) == 0 {
		err := fmt.Errorf("no package: name at least one, such as ./tests/schema")
		fmt.Fprintln(stderr, err)
		return o, err
	}
	return o, nil
}

// run reports whether all tests succeeded. An error is about their environment.
func run(ctx context.Context, o options, out io.Writer) (bool, error) {
	planned, err := plan(ctx, o)
	if err != nil {
		return false, err
	}
	cmd := goCommand(ctx, o, planned)
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
	p := newProgress(out, o.lines, planned, time.Now())
	told := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(told)
		ticker := time.NewTicker(tellEvery)
		defer ticker.Stop()
		for {
			select {
			case now := <-ticker.C:
				p.tell(now)
			case <-stop:
				return
			}
		}
	}()
	execution, err := testjson.ScanTestOutput(testjson.ScanConfig{
		Stdout: stdout, Stderr: stderr, Handler: p, IgnoreNonJSONOutputLines: true,
		Stop: func() { _ = cmd.Process.Kill() }, // it may have ended
	})
	close(stop)
	<-told
	waitErr := cmd.Wait()
	if err != nil {
		return false, fmt.Errorf("reading the output of %v: %w", cmd.Args, err)
	}
	r := p.result(execution, o, waitErr)
	r.print(out)
	return r.ok(), nil
}

func goCommand(ctx context.Context, o options, planned []test) *exec.Cmd {
	args := append([]string{"test", "-json"}, o.goTest...)
	for _, option := range [][2]string{{"-tags", o.tags}, {"-run", o.run}, {"-skip", o.skip}} {
		if option[1] != "" {
			args = append(args, option[0]+"="+option[1])
		}
	}
	return exec.CommandContext(ctx, "go", append(args, packagesOf(planned)...)...)
}
