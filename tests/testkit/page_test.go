package testkit

import (
	"os"
	"slices"
	"testing"
)

// TestSteps: commands stand with what they print, and not those of blocks that are not run.
func TestSteps(t *testing.T) {
	t.Parallel()
	const page = "# Page\n\n    left out\n\n## Title\n\n" +
		"    $ cat <<EOF | tee file\n    $ a\n    EOF\n    a\n    $ count \\\n      all\n    1\n    2\n    # no heading\n\n```sh\nls   the files\n```\n\n```yaml\nno: command\n```\n\n" +
		"Not run here: why.\n\n    rm -r /\n\n## Next\n"
	want := []Step{
		{"cat <<EOF | tee file\n$ a\nEOF", "a\n"},
		{"count \\\n  all", "1\n2\n# no heading\n"}, {"ls", ""},
	}
	if got, err := Steps(page, "Title"); err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if got := Headings(page); !slices.Equal(got, []string{"Page", "Title", "Next"}) {
		t.Errorf("headings %q", got)
	}
	if got, err := Commands(page, "Next"); err == nil {
		t.Errorf("%q; want an error for a heading without commands", got)
	}
}

// TestPrinted: three dots are the rest of a line, or lines, and the width of a column is nothing.
func TestPrinted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		shows, output string
		want          bool
	}{
		{"", "anything", true},
		{"a  1\nb\n", "a      1   \nb", true},
		{"a\n", "a\nb\n", false},
		{"a ... c\n", "a b c\n", true},
		{"a ... c\n", "a b\nc\n", false},
		{"a\n...\nc\n", "a\nb\nb\nc\n", true},
		{"a\n...\n", "a\n", true},
		{"...\nc\n", "b\nd\n", false},
		{"a.c (x)\n", "abc (x)\n", false},
	} {
		if got := (Step{Shows: c.shows}).Printed(c.output); got != c.want {
			t.Errorf("%q for %q is %v", c.output, c.shows, got)
		}
	}
}

// TestExamplePages: each part of the worked examples can be followed, which tests on nodes do.
func TestExamplePages(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"one-node", "pinned-pod", "low-latency"} {
		text, err := os.ReadFile("../../docs/examples/" + name + ".md")
		if err != nil {
			t.Fatal(err)
		}
		for _, title := range Headings(string(text)) {
			if _, err := Steps(string(text), title); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
