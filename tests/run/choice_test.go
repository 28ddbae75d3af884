package main

import (
	"slices"
	"testing"
)

func TestChoice(t *testing.T) {
	for _, test := range []struct {
		run, skip, name string
		want            bool
	}{
		{"", "", "TestA", true},
		{"TestA", "", "TestAlso", true},
		{"^TestA$", "", "TestAlso", false},
		{"TestB|TestA", "", "TestA", true},
		{"TestA/trixie", "", "TestA", true},
		{"TestB/one|TestA/two", "", "TestA", true},
		{"Test[/|]A", "", "TestA", false},
		{"Test(A/|B)", "", "TestB", true},
		{`Test\|A`, "", "TestA", false},
		{"]|TestA", "", "TestA", true},
		{"", "TestA", "TestA", false},
		{"", "TestA/trixie", "TestA", true}, // some of it runs
		{"", "TestB|^TestSoak", "TestSoak", false},
		{"TestA", "TestB", "TestA", true},
	} {
		c, err := newChoice(test.run, test.skip)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.chooses(test.name); got != test.want {
			t.Errorf("-run=%s -skip=%s: %s runs: %v, want %v", test.run, test.skip, test.name, got, test.want)
		}
	}
	for _, broken := range []string{"(", "a|[", `a\`} {
		if _, err := newChoice(broken, ""); err == nil {
			t.Errorf("-run=%s: no error", broken)
		}
		if _, err := newChoice("", broken); err == nil {
			t.Errorf("-skip=%s: no error", broken)
		}
	}
}

// TestUnmatched: with -each, a name that no test or subtest has any more is found.
func TestUnmatched(t *testing.T) {
	ended := []outcome{
		{test: test{"p", "TestA/trixie/one"}}, {test: test{"p", "TestA/trixie/one/a/b"}}, {test: test{"p", "TestA/trixie"}}, {test: test{"p", "TestA"}},
	}
	for run, want := range map[string][]string{
		"": nil, "TestA": nil, "^TestA$/^trixie$/^one$": nil, "TestA/crio": {"TestA/crio"}, "TestA/trixie/two|TestA": {"TestA/trixie/two"},
		"TestA/[^/]+/^one$|^TestB$": {"^TestB$"}, "TestA/trixie/one/a/c": {"TestA/trixie/one/a/c"}, "TestA/(crio|trixie)": nil,
	} {
		if got := unmatched(options{run: run, each: true}, ended); !slices.Equal(got, want) {
			t.Errorf("-run=%s: %q, want %q", run, got, want)
		}
		if got := unmatched(options{run: run}, ended); got != nil {
			t.Errorf("-run=%s without -each: %q", run, got)
		}
	}
}
