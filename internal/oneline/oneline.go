// Package oneline makes one line of text that others wrote, as file names, values of a configuration and answers of other programs. In
// what it returns there is no control character of ASCII, and so neither a second line nor an escape sequence.
package oneline

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxInMessage is how many bytes of a value an error message repeats. A record of the kernel log holds about
// 1,000 bytes in all (PRINTKRB_RECORD_MAX of kernel 6.12 is 1024).
const maxInMessage = 80

// Quote returns s for an error message: quoted, in ASCII, and cut when it is long.
func Quote(s string) string {
	return strconv.QuoteToASCII(cut(s, maxInMessage))
}

// ASCII returns s for an error message without quotes, with a space for each character that is not printable ASCII, and cut when it
// is long.
func ASCII(s string) string {
	return replace(cut(s, maxInMessage), ' ', func(r rune) bool { return r < ' ' || r > '~' })
}

// Record returns s for a log whose records take a limited number of bytes: cut when it is longer than most bytes, with a question mark
// for each control character of ASCII and for each byte that is not UTF-8.
func Record(s string, most int) string {
	return replace(cut(s, most), '?', func(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError })
}

// Terminal returns s for a terminal, in full: without white space around it, with "; " between its lines and a question mark for each
// other control character, those of Latin-1 included.
func Terminal(s string) string {
	return replace(strings.ReplaceAll(strings.TrimSpace(s), "\n", "; "), '?', unicode.IsControl)
}

// cut returns the first bytes of s, and "..." where there were more.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}

// replace returns s with another character in place of each unfit one. It makes U+FFFD of each byte that is not UTF-8.
func replace(s string, with rune, unfit func(rune) bool) string {
	return strings.Map(func(r rune) rune {
		if unfit(r) {
			return with
		}
		return r
	}, s)
}
