package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// module creates a module of these files, and makes it the current folder.
func module(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module node-partition.io/node-partition\n\ngo 1.26\n"
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

// runIn runs tests of the current module and returns what it printed.
func runIn(t *testing.T, o options) (ok bool, out string) {
	t.Helper()
	var b strings.Builder
	ok, err := run(t.Context(), o, &b)
	if err != nil {
		t.Fatal(err)
	}
	return ok, b.String()
}

// wantLines compares whole output lines with patterns.
func wantLines(t *testing.T, out string, patterns ...string) {
	t.Helper()
	for _, p := range patterns {
		if !regexp.MustCompile(`(?m)^` + p + `$`).MatchString(out) {
			t.Errorf("no line matches %s", p)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
}

const good = `package good

import (
	"fmt"
	"testing"
)

func TestKinds(t *testing.T) {
	t.Run("trixie", func(t *testing.T) { t.Run("deep", func(*testing.T) {}) })
	t.Run("crio", func(*testing.T) {})
}

func TestSkips(t *testing.T) { t.Skip("why it is skipped") }

func FuzzSeeds(f *testing.F) { f.Add(1); f.Fuzz(func(*testing.T, int) {}) }

func Example_runs() {
	fmt.Println("said")
	// Output: said
}

func Example_isBuilt() { fmt.Println("said") }

func BenchmarkNothing(b *testing.B) {}
`

const tagged = `//go:build node

package good

import "testing"

func TestMain(m *testing.M) { m.Run() }

func TestNode(t *testing.T) {}
`

func TestRun(t *testing.T) {
	module(t, map[string]string{
		"good/good_test.go": good, "good/node_test.go": tagged,
	})
	ok, out := runIn(t, options{
		tags: "node", lines: bySubtest, want: []string{"trixie", "crio"}, packages: []string{"./..."},
	})
	if !ok {
		t.Error("it has failed")
	}
	wantLines(t, out,
		`passed  good TestKinds/trixie +[0-9.]+ s   0 of 5, \d+s so far`, `passed  good TestKinds .*1 of 5, .*`,
		`skipped good TestSkips .*2 of 5, .*`, ` +good_test.go:\d+: why it is skipped`, `skipped good TestSkips`,
		`passed  good FuzzSeeds .*`, `passed  good TestNode .*`, `passed  good Example_runs .*5 of 5, .*`, `slowest`,
		`[0-9.]+ s   good TestKinds/crio`, `7 passed, 0 failed, 1 skipped`)
	if !strings.HasSuffix(out, "\n7 passed, 0 failed, 1 skipped\n") || strings.Contains(out, "deep") {
		t.Errorf("output:\n%s", out)
	}

	ok, out = runIn(t, options{lines: byPackage, ci: true, skip: "Example", packages: []string{"./..."}, want: []string{"bookworm"}})
	if ok {
		t.Error("nothing has failed")
	}
	wantLines(t, out, `passed  good +[0-9.]+ s   3 of 3, .*`, `skipped good TestSkips: a failure, because CI is set`,
		`FAILED no test on bookworm has passed: -want names it`, `2 passed, 1 failed, 1 skipped`)

	if ok, out := runIn(t, options{lines: byTest, ci: true, run: "TestKinds/trixie", packages: []string{"./..."}}); !ok {
		t.Errorf("one subtest has failed:\n%s", out)
	}
	if _, err := run(t.Context(), options{run: "TestNobody", packages: []string{"./..."}}, t.Output()); err == nil {
		t.Error("no test, and no error")
	}
}

func TestRunFails(t *testing.T) {
	module(t, map[string]string{
		"fails/fails_test.go": `package fails

import "testing"

func TestFails(t *testing.T) {
	t.Run("crio", func(t *testing.T) { t.Run("deep", func(t *testing.T) { t.Error("what is wrong") }) })
	t.Run("trixie", func(t *testing.T) { t.Log("what is fine") })
}
`,
		"panics/panics_test.go": `package panics

import "testing"

func TestFirst(t *testing.T) {}
func TestPanics(t *testing.T) { panic("what is broken") }
func TestLast(t *testing.T) {}
`,
		"leaves/leaves_test.go": `package leaves

import "testing"

func TestMain(*testing.M) {}
func TestNever(t *testing.T) {}
`,
		"exits/exits_test.go": `package exits

import (
	"os"
	"testing"
)

func TestMain(*testing.M) { os.Exit(3) }
func TestNever(t *testing.T) {}
`,
		"unbuilt/unbuilt_test.go": `package unbuilt

import "testing"

func TestOne(t *testing.T) { notThere() }
func TestTwo(t *testing.T) {}
`,
	})
	ok, out := runIn(t, options{lines: bySubtest, packages: []string{"./..."}, want: []string{"crio", "trixie"}})
	if ok {
		t.Error("nothing has failed")
	}
	wantLines(t, out,
		`FAILED  fails TestFails/crio/deep .*`, ` +fails_test.go:\d+: what is wrong`, `FAILED  fails TestFails/crio .*`,
		`passed  fails TestFails/trixie .*`, `FAILED  panics TestPanics .*`, ` +panic: what is broken.*`,
		`FAILED panics: its package failed before these ran: TestLast`,
		`FAILED leaves: its package ended without these: does its TestMain call m.Run\?: TestNever`,
		`FAILED exits: its package failed before these ran: TestNever`,
		`unbuilt/unbuilt_test.go:\d+:\d+: undefined: notThere`, `FAILED unbuilt: its package failed before these ran: TestOne, TestTwo`,
		`FAILED no test on crio has passed: -want names it`)
	if !regexp.MustCompile(`\n2 passed, \d+ failed, 0 skipped\n$`).MatchString(out) {
		t.Errorf("output:\n%s", out)
	}
	if after := out[strings.LastIndex(out, "so far"):]; !strings.Contains(after, "what is wrong") ||
		!strings.Contains(after, "what is broken") || !strings.Contains(after, "undefined: notThere") {
		t.Errorf("the failures are not said again at the end:\n%s", after)
	}
}

func TestRunEndsWithItsTimeout(t *testing.T) {
	module(t, map[string]string{
		"hangs/hangs_test.go": `package hangs

import "testing"

func TestHangs(t *testing.T) { select {} }
func TestAfter(t *testing.T) {}
`,
	})
	ok, out := runIn(t, options{lines: byTest, packages: []string{"./..."}, goTest: []string{"-timeout=1s"}})
	if ok {
		t.Error("nothing has failed")
	}
	wantLines(t, out, `FAILED  hangs TestHangs .*`, ` +panic: test timed out after 1s`,
		`FAILED hangs: its package failed before these ran: TestAfter`)
}
