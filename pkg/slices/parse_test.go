package slices

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestParseBytes(t *testing.T) {
	for _, test := range []struct {
		raw  string
		want int64
		err  string
	}{
		{`"4Gi"`, 4 << 30, ""},
		{`"1.5Gi"`, 3 << 29, ""},
		{`"0.1Gi"`, 0, "whole number"},
		{`536870912`, 512 << 20, ""},
		{`5e8`, 500000000, ""},
		{`"500M"`, 500000000, ""},
		{`"1E"`, 1e18, ""},
		{`"9223372036854775807"`, 1<<63 - 1, ""},
		{`"9223372036854775808"`, 0, "beyond 2^63-1"},
		{`"10E"`, 0, "beyond 2^63-1"},
		{`"1e99"`, 0, "beyond 2^63-1"},
		{`"1e100"`, 0, "not a quantity"},
		{`"0"`, 0, "above zero"},
		{`"-1"`, 0, "above zero"},
		{`"+1Mi"`, 1 << 20, ""},
		{`"100m"`, 0, "whole number"},
		{`""`, 0, "not a quantity"},
		{`" 1Gi"`, 0, "not a quantity"},
		{`"1Gi "`, 0, "not a quantity"},
		{`"1 Gi"`, 0, "not a quantity"},
		{`"1GB"`, 0, "not a quantity"},
		{`"1..2"`, 0, "not a quantity"},
		{`null`, 0, "not a quantity"},
		{`{}`, 0, "not a quantity"},
		{`["1Gi"]`, 0, "not a quantity"},
		{``, 0, "not a quantity"},
	} {
		got, err := parseBytes(json.RawMessage(test.raw))
		if got != test.want || !matches(err, test.err) {
			t.Errorf("parseBytes(%s): %d, %v; want %d, %q", test.raw, got, err, test.want, test.err)
		}
	}
}

func TestParseCPUs(t *testing.T) {
	for _, test := range []struct{ list, want, err string }{
		{"0", "0", ""},
		{"0-3,8", "0-3,8", ""},
		{"3,2,1,0", "0-3", ""},
		{"1,1,1", "1", ""},
		{"8191", "8191", ""},
		{"8192", "", "beyond 8191"},
		{"0-18446744073709551615", "", "beyond 8191"},
		{"0-18446744073709551616", "", "beyond 8191"},
		{"3-1", "", "not a list"},
		{"1-", "", "not a list"},
		{"-1", "", "not a list"},
		{"1,,2", "", "not a list"},
		{"1,", "", "not a list"},
		{"0-3:1/2", "", "not a list"},
		{"+1", "", "not a list"},
		{"0x1", "", "not a list"},
		{" 1", "", "not a list"},
		{"1_0", "", "not a list"},
		{"٣", "", "not a list"},
		{strings.Repeat("0-8191,", 4) + "0", "", "again and again"},
	} {
		got, err := parseCPUs(test.list)
		if got.String() != test.want || !matches(err, test.err) {
			t.Errorf("parseCPUs(%q): %v, %v; want %q, %q", test.list, got, err, test.want, test.err)
		}
	}
}

func TestParseThreshold(t *testing.T) {
	const limit = 1 << 30
	for _, test := range []struct {
		raw  string
		want Threshold
		err  string
	}{
		{`"100Mi"`, Threshold{Bytes: 100 << 20}, ""},
		{`"5%"`, Threshold{Percent: 5}, ""},
		{`"0.5%"`, Threshold{Percent: 0.5}, ""},
		{`"0%"`, Threshold{Never: true}, ""},
		{`"100%"`, Threshold{Never: true}, ""},
		{`"0.0%"`, Threshold{}, "between"},
		{`"-5%"`, Threshold{}, "between"},
		{`"100.5%"`, Threshold{}, "between"},
		{`"NaN%"`, Threshold{}, "not a percentage"},
		{`"Inf%"`, Threshold{}, "not a percentage"},
		{`"%"`, Threshold{}, "not a percentage"},
		{`"5%%"`, Threshold{}, "not a percentage"},
		{`"1Gi"`, Threshold{}, "not below memoryLimit"},
		{`"0"`, Threshold{}, "above zero"},
		{`5`, Threshold{}, "not a string"},
		{`null`, Threshold{}, "not a quantity"},
	} {
		got, err := parseThreshold(json.RawMessage(test.raw), limit)
		if got != test.want || !matches(err, test.err) {
			t.Errorf("parseThreshold(%s): %+v, %v; want %+v, %q", test.raw, got, err, test.want, test.err)
		}
	}
}

// matches reports whether err is nil where nothing is wanted, and else holds what is wanted.
func matches(err error, want string) bool {
	if want == "" || err == nil {
		return want == "" && err == nil
	}
	return strings.Contains(err.Error(), want)
}
