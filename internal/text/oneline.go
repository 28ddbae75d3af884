package text

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// This file makes one line of foreign text, such as file names, values of a configuration and
// answers of other programs. The result has no control character of ASCII, and so neither a second
// line nor an escape sequence.

// maxInMessage is the number of bytes of a value that an error message repeats. A record of the
// kernel log holds about 1,000 bytes in all (PRINTKRB_RECORD_MAX is 1024, kernel 6.12).
const maxInMessage = 80

// Quote returns s for an error message: quoted, in ASCII, and cut if it is long.
func Quote(s string) string {
	return strconv.QuoteToASCII(cut(s, maxInMessage))
}

// ASCII returns s for an error message without quotes. It puts a space in place of each character
// that is not printable ASCII, and cuts s if it is long.
func ASCII(s string) string {
	return replace(cut(s, maxInMessage), ' ', func(r rune) bool { return r < ' ' || r > '~' })
}

// Record returns s for a log whose records take a limited number of bytes. It cuts s to most bytes,
// and puts a question mark in place of each control character of ASCII and of each byte that is not
// UTF-8.
func Record(s string, most int) string {
	return replace(cut(s, most), '?', func(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError })
}

// Terminal returns s for a terminal, in full. It removes white space around s, and puts "; "
// between its lines and a question mark in place of each other control character, also from
// Latin-1.
func Terminal(s string) string {
	return replace(strings.ReplaceAll(strings.TrimSpace(s), "\n", "; "), '?', unicode.IsControl)
}

// cut returns the first bytes of s, followed by "..." if there were more.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}

// replace returns s with another character in place of each unfit one. It puts U+FFFD in place of
// each byte that is not UTF-8.
func replace(s string, with rune, unfit func(rune) bool) string {
	return strings.Map(func(r rune) rune {
		if unfit(r) {
			return with
		}
		return r
	}, s)
}
