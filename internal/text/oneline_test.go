package text

import (
	"strings"
	"testing"
	"unicode"
)

func TestOneLineCharacters(t *testing.T) {
	t.Parallel()
	record := func(s string) string { return Record(s, 900) }
	for _, c := range []struct {
		what, text                      string
		quoted, ascii, record, terminal string
	}{
		{"nothing", "", `""`, "", "", ""},
		{"plain", "a b", `"a b"`, "a b", "a b", "a b"},
		{"quotes", `a"b\`, `"a\"b\\"`, `a"b\`, `a"b\`, `a"b\`},
		{"lines", "a\nb\r\nc", `"a\nb\r\nc"`, "a b  c", "a?b??c", "a; b?; c"},
		{"space around", " \ta\n", `" \ta\n"`, "  a ", " ?a?", "a"},
		{"an escape sequence", "\x1b[31ma", `"\x1b[31ma"`, " [31ma", "?[31ma", "?[31ma"},
		{"NUL and DEL", "a\x00\x7fb", `"a\x00\x7fb"`, "a  b", "a??b", "a??b"},
		{"a control character of Latin-1", "a\u009bb", `"a\u009bb"`, "a b", "a\u009bb", "a?b"},
		{"no ASCII", "ä日", `"\u00e4\u65e5"`, "  ", "ä日", "ä日"},
		{"no UTF-8", "a\xffb", `"a\xffb"`, "a b", "a?b", "a\ufffdb"},
		{"U+FFFD", "a\ufffdb", `"a\ufffdb"`, "a b", "a?b", "a\ufffdb"},
	} {
		for _, f := range []struct {
			name string
			make func(string) string
			want string
		}{{"Quote", Quote, c.quoted}, {"ASCII", ASCII, c.ascii}, {"Record", record, c.record}, {"Terminal", Terminal, c.terminal}} {
			if got := f.make(c.text); got != f.want {
				t.Errorf("%s: %s(%q) is %q, want %q", c.what, f.name, c.text, got, f.want)
			}
		}
	}
}

func TestOneLineLength(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 2000)
	for name, c := range map[string]struct{ got, want string }{
		"Quote":             {Quote(long), `"` + long[:80] + `..."`},
		"Quote of 80":       {Quote(long[:80]), `"` + long[:80] + `"`},
		"ASCII":             {ASCII(long), long[:80] + "..."},
		"ASCII of 80":       {ASCII(long[:80]), long[:80]},
		"Record":            {Record(long, 900), long[:900] + "..."},
		"Record of as many": {Record(long[:900], 900), long[:900]},
		"Record, cut in ä":  {Record("aä", 2), "a?..."},
		"Terminal":          {Terminal(long), long},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", name, c.got, c.want)
		}
	}
}

// FuzzOneLine: for any input the result is one line without control characters of ASCII.
func FuzzOneLine(f *testing.F) {
	f.Add("a\nb\x1b[2J\xff")
	f.Add(strings.Repeat("\u009b", 100))
	f.Fuzz(func(t *testing.T, s string) {
		for name, got := range map[string]string{"Quote": Quote(s), "ASCII": ASCII(s), "Record": Record(s, 100), "Terminal": Terminal(s)} {
			if strings.ContainsFunc(got, func(r rune) bool { return r <= unicode.MaxASCII && unicode.IsControl(r) }) {
				t.Errorf("%s(%q) is %q", name, s, got)
			}
		}
	})
}
