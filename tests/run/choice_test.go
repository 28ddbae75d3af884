package main

import "testing"

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
