package text

import "strconv"

// Counted returns a number of things for people, whose plural has an s.
func Counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
