package text

import (
	"strings"
	"testing"
)

func TestParseCPUs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ list, want, err string }{
		{"0", "0", ""},
		{"0-3,8", "0-3,8", ""},
		{"3,2,1,0", "0-3", ""},
		{"1,1,1", "1", ""},
		{"8191", "8191", ""},
		{"8000-8191,8000-8191,8000-8191", "8000-8191", ""},
		{"8192", "", "beyond 8191"},
		{"0-18446744073709551615", "", "beyond 8191"},
		{"0-18446744073709551616", "", "beyond 8191"},
		{"3-1", "", "not a list"},
		{"1-", "", "not a list"},
		{"-1", "", "not a list"},
		{"1,,2", "", "not a list"},
		{"1,", "", "not a list"},
		{"0-3:1/2", "", "not a list"},
		{"18446744073709551616-1", "", "beyond 8191"},
		{"8191-8192", "", "beyond 8191"},
		{"+1", "", "not a list"},
		{"+1-2", "", "not a list"},
		{"0-+2", "", "not a list"},
		{"-", "", "not a list"},
		{"", "", "not a list"},
		{"0x1", "", "not a list"},
		{" 1", "", "not a list"},
		{"1_0", "", "not a list"},
		{"٣", "", "not a list"},
		{strings.Repeat("0-8191,", 3) + "0-8191", "0-8191", ""},
		{strings.Repeat("0-8191,", 3) + "8190-8191," + "0-8190", "", "again and again"},
		{strings.Repeat("0-8191,", 4) + "0", "", "again and again"},
	} {
		got, err := ParseCPUs(test.list)
		if got.String() != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("ParseCPUs(%q): %v, %v; want %q, %q", test.list, got, err, test.want, test.err)
		}
	}
}
