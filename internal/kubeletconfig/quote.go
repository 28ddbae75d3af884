package kubeletconfig

import (
	"strconv"
	"strings"
)

// maxQuoted is how much of a value an error message repeats. A record of the kernel log holds about
// 1,000 bytes in all (PRINTKRB_RECORD_MAX of kernel 6.12 is 1024).
const maxQuoted = 80

// Quote returns s for an error message: quoted, without control characters, and cut when it is long.
func Quote(s string) string {
	return strconv.QuoteToASCII(shorten(s))
}

// Printable returns s for an error message as it stands, in one line of ASCII, and cut when it is long.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, shorten(s))
}

// shorten cuts s to what a message can hold.
func shorten(s string) string {
	if len(s) <= maxQuoted {
		return s
	}
	return s[:maxQuoted] + "..."
}
