package testkit

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

const example = "# Title\n\n" +
	"    first --flag           what it shows\n    second   # and why\n\nText\n    that is indented, and goes on.\n\n" +
	"1. A list:\n\n       third | fourth\n\n" +
	"## The `code` of it, and more\n\n" +
	"```sh\n# what it does\ncat >a <<EOF\nkey:\n  sub:   value\nEOF\nlong \\\n  --flag\n```\n\n" +
	"```yaml\nno: command\n```\n\n```console\n$ shown --once\nits output\n```\n\n" +
	"[a](other.md#part), [b](https://example.org/c.md)\n\n" +
	"## Empty\n\nNothing to run.\n\n## Open\n\n    cat <<'END'\n    a\n\n" +
	"## Twice\n\n    a\n\n```\n# no heading\n```\n\n## Twice\n\n    b\n"

func TestCommands(t *testing.T) {
	t.Parallel()
	for title, want := range map[string][]string{
		"Title": {"first --flag", "second", "third | fourth"},
		"The `code` of it, and more": {
			"cat >a <<EOF\nkey:\n  sub:   value\nEOF", "long \\\n  --flag", "shown --once",
		},
	} {
		if got, err := Commands(example, title); err != nil || !slices.Equal(got, want) {
			t.Errorf("below %q: %q, %v; want %q", title, got, err, want)
		}
	}
	for title, want := range map[string]string{
		"Empty": "want a block", "Open": "want a line END", "Twice": "2 headings", "no heading": "0 headings",
	} {
		if got, err := Commands(example, title); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("below %q: %q, %v; want an error with %q", title, got, err, want)
		}
	}
}

func TestAnchors(t *testing.T) {
	t.Parallel()
	want := []string{"empty", "open", "the-code-of-it-and-more", "title", "twice"}
	if got := slices.Sorted(maps.Keys(Anchors(example))); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestLinks(t *testing.T) {
	t.Parallel()
	if got, want := Links(example), []string{"other.md#part"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
