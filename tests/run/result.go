package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"gotest.tools/gotestsum/testjson"
)

// result is the outcome of all tests.
type result struct {
	passed, failed, skipped int
	failures                []failure
	skips                   []test
	problems                []string // not in the output of a test
	slowest                 []outcome
	ci                      bool
}

// failure is a failed test, or a failed package without a test's name, and the reason.
type failure struct {
	test
	said []string
}

func (p *progress) result(execution *testjson.Execution, o options, waitErr error) result {
	r := result{ci: o.ci}
	ran := map[test]bool{}
	for _, e := range p.ended {
		shown := p.lines.counts(e.name)
		ran[e.test] = true
		switch {
		case e.action == testjson.ActionSkip:
			r.skipped++
			r.skips = append(r.skips, e.test)
		case e.action == testjson.ActionFail && shown:
			r.failed++
		case shown:
			r.passed++
		}
	}
	for _, f := range testjson.FilterFailedUnique(execution.Failed()) {
		t := test{f.Package, f.Test.Name()}
		if t.name == "" {
			r.failed++
		}
		r.failures = append(r.failures, failure{t, execution.OutputLines(f)})
	}
	if said := execution.Errors(); len(said) > 0 { // packages that are not built
		r.failures = append(r.failures, failure{test{name: "outside the tests"}, said})
	}
	for _, pkg := range packagesOf(p.planned) {
		var missing []string
		for _, t := range p.planned {
			if t.pkg == pkg && !ran[t] {
				missing = append(missing, t.name)
			}
		}
		if len(missing) > 0 {
			r.failed += len(missing)
			r.problems = append(
				r.problems,
				fmt.Sprintf("%s: %s: %s", short(pkg), why(execution.Package(pkg)), strings.Join(missing, ", ")),
			)
		}
	}
	for _, name := range o.want {
		passed := func(e outcome) bool { return e.action == testjson.ActionPass && isBelow(e.name, name) }
		if !slices.ContainsFunc(p.ended, passed) {
			r.failed++
			r.problems = append(r.problems, fmt.Sprintf("no test on %s has passed: -want names it", name))
		}
	}
	for _, a := range unmatched(o, p.ended) {
		r.failed++
		r.problems = append(r.problems, fmt.Sprintf("no test or subtest %s has run: -run names it", a))
	}
	if r.failed == 0 && waitErr != nil {
		r.failed++
		r.problems = append(r.problems, fmt.Sprintf("go test: %v", waitErr))
	}
	r.slowest = slowest(p.ended, p.lines, 10)
	return r
}

// why returns the reason why tests of a package did not run.
func why(p *testjson.Package) string {
	switch {
	case p == nil || p.Result() == "":
		return "the tests were over before these ran"
	case p.Result() == testjson.ActionFail:
		return "its package failed before these ran"
	}
	return "its package ended without these: does its TestMain call m.Run?"
}

// unmatched returns the alternatives of -run that match no test or subtest that has ended, for
// -each. plan has compiled them before.
func unmatched(o options, ended []outcome) []string {
	c, err := newChoice(o.run, "")
	if err != nil || !o.each {
		return nil
	}
	var none []string
	for _, a := range c.run {
		if !slices.ContainsFunc(ended, func(e outcome) bool { return a.matches(e.name) }) {
			none = append(none, a.pattern)
		}
	}
	return none
}

// isBelow reports whether a test is a subtest of this name, at any depth.
func isBelow(test, name string) bool {
	return slices.Contains(strings.Split(test, "/")[1:], name)
}

// slowest returns the slowest of the counted tests, without those whose subtests are counted.
func slowest(ended []outcome, l lines, n int) []outcome {
	parents := map[test]bool{}
	var all []outcome
	for _, o := range ended {
		if parent, _, found := strings.Cut(o.name, "/"); found && l.counts(o.name) {
			parents[test{o.pkg, parent}] = true
		}
	}
	for _, o := range ended {
		if l.counts(o.name) && !parents[o.test] {
			all = append(all, o)
		}
	}
	slices.SortStableFunc(all, func(a, b outcome) int { return cmp.Compare(b.took, a.took) })
	return all[:min(n, len(all))]
}

// ok reports whether no test failed and, in CI, none was skipped.
func (r result) ok() bool {
	return r.failed == 0 && (r.skipped == 0 || !r.ci)
}

func (r result) print(out io.Writer) {
	for _, f := range r.failures {
		fmt.Fprintf(out, "\nFAILED %s\n", f.test)
		printOutput(out, f.said)
	}
	if len(r.problems) > 0 || len(r.skips) > 0 {
		fmt.Fprintln(out)
	}
	for _, p := range r.problems {
		fmt.Fprintln(out, "FAILED", p)
	}
	for _, s := range r.skips {
		verdict := ""
		if r.ci {
			verdict = ": a failure, because CI is set"
		}
		fmt.Fprintf(out, "skipped %s%s\n", s, verdict)
	}
	if len(r.slowest) > 0 {
		fmt.Fprintln(out, "\nslowest")
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for _, o := range r.slowest {
		fmt.Fprintf(w, "%.1f s\t%s\n", o.took.Seconds(), o.test)
	}
	_ = w.Flush() // ignored, as for all output
	fmt.Fprintf(out, "\n%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
}
