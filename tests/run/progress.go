package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"gotest.tools/gotestsum/testjson"
)

// lines selects the tests for which a line is printed when they have passed. A failed or skipped
// test always has one.
type lines string

const (
	byPackage lines = "package"
	byTest    lines = "test"
	bySubtest lines = "subtest"
)

func (l *lines) String() string { return string(*l) }

func (l *lines) Set(value string) error {
	if *l = lines(value); *l != byPackage && *l != byTest && *l != bySubtest {
		return fmt.Errorf("want %s, %s or %s", byPackage, byTest, bySubtest)
	}
	return nil
}

// counts reports whether a test is one of those that are counted.
func (l lines) counts(name string) bool {
	depth := strings.Count(name, "/")
	return depth == 0 || depth == 1 && l == bySubtest
}

// outcome is a test that has ended.
type outcome struct {
	test
	action testjson.Action // pass, fail or skip
	took   time.Duration
}

// progress follows the tests and prints the outcome of each. Two goroutines call it: one passes
// events, the other requests the list of running tests.
type progress struct {
	mu      sync.Mutex
	out     io.Writer
	lines   lines
	planned []test
	began   time.Time
	running map[test]time.Time // since when
	ended   []outcome
}

func newProgress(out io.Writer, l lines, planned []test, now time.Time) *progress {
	return &progress{out: out, lines: l, planned: planned, began: now, running: map[test]time.Time{}}
}

// Err prints go test's output beside its events, such as why a package is not built.
func (p *progress) Err(text string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := fmt.Fprintln(p.out, text)
	return err
}

// Event is called by testjson. The execution already contains the event.
func (p *progress) Event(e testjson.TestEvent, execution *testjson.Execution) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := test{e.Package, e.Test}
	switch {
	case e.Action == testjson.ActionBuild:
		fmt.Fprint(p.out, e.Output)
	case e.PackageEvent():
		p.packageEvent(e)
	case e.Action == testjson.ActionRun, e.Action == testjson.ActionCont:
		p.running[t] = e.Time
	case e.Action == testjson.ActionPause:
		delete(p.running, t)
	case e.Action.IsTerminal():
		p.end(e, execution.Package(e.Package))
	}
	return nil
}

func (p *progress) packageEvent(e testjson.TestEvent) {
	if !e.Action.IsTerminal() {
		return
	}
	if p.lines == byPackage || e.Action == testjson.ActionFail {
		fmt.Fprintf(p.out, "%s %-56s %7.1f s   %s\n", word(e.Action), short(e.Package), e.Elapsed, p.soFar(e.Time))
	}
}

func (p *progress) end(e testjson.TestEvent, in *testjson.Package) {
	t := test{e.Package, e.Test}
	now := e.Time
	if now.IsZero() { // testjson ended it
		now = time.Now()
	}
	// Elapsed is without parallel subtests, and negative if testjson ended the test. The time between
	// events is too short for cached results.
	took := time.Duration(e.Elapsed * float64(time.Second))
	if began, ok := p.running[t]; ok {
		took = max(took, now.Sub(began))
	}
	delete(p.running, t)
	p.ended = append(p.ended, outcome{t, e.Action, took})
	if e.Action == testjson.ActionPass && (p.lines == byPackage || !p.lines.counts(e.Test)) {
		return
	}
	fmt.Fprintf(p.out, "%s %-56s %7.1f s   %s\n", word(e.Action), t, took.Seconds(), p.soFar(now))
	if e.Action == testjson.ActionFail {
		printOutput(p.out, in.OutputLines(in.LastFailedByName(e.Test)))
	}
	if e.Action == testjson.ActionSkip {
		for _, skipped := range in.Skipped {
			if skipped.Test.Name() == e.Test {
				printOutput(p.out, in.OutputLines(skipped))
			}
		}
	}
}

// soFar counts tests at the top, whose number is known before they run.
func (p *progress) soFar(now time.Time) string {
	ended := 0
	for _, o := range p.ended {
		if !strings.Contains(o.name, "/") {
			ended++
		}
	}
	return fmt.Sprintf("%d of %d, %s so far", ended, len(p.planned), now.Sub(p.began).Round(time.Second))
}

// tell prints which tests are running, and for how long. Instead of a test with running subtests it
// prints the subtests.
func (p *progress) tell(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var running []string
	for t, since := range p.running {
		if !p.hasRunningSubtest(t) {
			running = append(running, fmt.Sprintf("%s %s", t, now.Sub(since).Round(time.Second)))
		}
	}
	slices.Sort(running)
	what := strings.Join(running, ", ")
	if what == "" {
		what = "no test, go builds"
	}
	fmt.Fprintf(p.out, "running %s; %s\n", what, p.soFar(now))
}

func (p *progress) hasRunningSubtest(t test) bool {
	for other := range p.running {
		if other.pkg == t.pkg && strings.HasPrefix(other.name, t.name+"/") {
			return true
		}
	}
	return false
}

func word(a testjson.Action) string {
	switch a {
	case testjson.ActionPass:
		return "passed "
	case testjson.ActionSkip:
		return "skipped"
	}
	return "FAILED "
}

// String returns the name of a test in the output.
func (t test) String() string {
	return strings.TrimSpace(short(t.pkg) + " " + t.name)
}

// short removes the name of our module.
func short(pkg string) string { return strings.TrimPrefix(pkg, "node-partition.io/node-partition/") }

// printOutput prints the output of a test, without the lines that ours replace.
func printOutput(out io.Writer, said []string) {
	for _, line := range said {
		if strings.HasPrefix(line, "=== ") {
			continue
		}
		fmt.Fprint(out, "    ", strings.TrimSuffix(line, "\n"), "\n")
	}
}
