package config

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestParseBytes(t *testing.T) {
	for _, test := range []struct {
		raw  string
		want uint64
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
		{`"` + strings.Repeat("0", 39) + `1"`, 1, ""},
		{`"` + strings.Repeat("0", 40) + `1"`, 0, "not a quantity"},
		{`""`, 0, "not a quantity"},
		{`" 1Gi"`, 0, "not a quantity"},
		{`"1Gi "`, 0, "not a quantity"},
		{`"1 Gi"`, 0, "not a quantity"},
		{`"1GB"`, 0, "not a quantity"},
		{`"1..2"`, 0, "not a quantity"},
		{`"Gi"`, 0, "not a quantity"},
		{`"+.m"`, 0, "not a quantity"},
		{`null`, 0, "not a quantity"},
		{`{}`, 0, "not a quantity"},
		{`["1Gi"]`, 0, "not a quantity"},
		{``, 0, "not a quantity"},
	} {
		got, err := parseBytes(json.RawMessage(test.raw), 1)
		if got != test.want || !matches(err, test.err) {
			t.Errorf("parseBytes(%s): %d, %v; want %d, %q", test.raw, got, err, test.want, test.err)
		}
	}
}

func TestParseThreshold(t *testing.T) {
	for _, test := range []struct {
		raw     string
		bytes   uint64
		percent float64
		err     string
	}{
		{`"100Mi"`, 100 << 20, 0, ""},
		{`"5%"`, 0, 5, ""},
		{`"0.5%"`, 0, 0.5, ""},
		{`"0%"`, 0, 0, ""},
		{`"100%"`, 0, 0, ""},
		{`"0.0%"`, 0, 0, "between"},
		{`"-5%"`, 0, 0, "between"},
		{`"100.5%"`, 0, 0, "between"},
		{`"NaN%"`, 0, 0, "not a percentage"},
		{`"Inf%"`, 0, 0, "not a percentage"},
		{`"1e1%"`, 0, 0, "not a percentage"},
		{`"0x1p3%"`, 0, 0, "not a percentage"},
		{`"%"`, 0, 0, "not a percentage"},
		{`"5%%"`, 0, 0, "not a percentage"},
		{`"0"`, 0, 0, "above zero"},
		{`5`, 0, 0, "not a string"},
		{`null`, 0, 0, "not a quantity"},
	} {
		got, err := parseThreshold(json.RawMessage(test.raw))
		if !matches(err, test.err) || err == nil && (got.bytes != test.bytes || got.percent != test.percent || got.text != test.raw) {
			t.Errorf("parseThreshold(%s): %+v, %v; want %d, %g, %q", test.raw, got, err, test.bytes, test.percent, test.err)
		}
	}
}

// TestAt: percentages and the default follow the limit.
func TestAt(t *testing.T) {
	const mi, gi = 1 << 20, 1 << 30
	for _, test := range []struct {
		hard        amount
		limit, want uint64
	}{
		{amount{}, 4 * gi, 214748368}, // 5 % in 32 bits, as the kubelet computes it
		{amount{}, 640 * mi, 33554432},
		{amount{}, 641 * mi, 33606861},
		{amount{}, 64 * mi, 32 * mi},
		{amount{}, 40 * mi, 20 * mi},
		{amount{}, 32 * mi, 16 * mi},
		{amount{}, 1, 0},
		{amount{bytes: 100 * mi, text: "a"}, gi, 100 * mi},
		{amount{percent: 10, text: "a"}, gi, 107374184},
		{amount{percent: 10, text: "a"}, 1000, 100},
		{amount{percent: 0.5, text: "a"}, 1999, 9},
		{amount{percent: 50, text: "a"}, 1 << 62, 1 << 61},
		{amount{percent: 1, text: "a"}, 10, 0},
		{amount{text: "a"}, gi, 0},
	} {
		p := Partition{amounts: amounts{hard: test.hard, soft: amount{percent: 50}, burst: amount{percent: 50}}}
		if got := p.At(test.limit); got.Hard != test.want || got.Limit != test.limit || got.Soft != test.limit/2 || got.Burst != test.limit/2 {
			t.Errorf("%+v of %d: %+v; want %d", test.hard, test.limit, got, test.want)
		}
	}
	if got := DefaultThreshold(gi, 64*mi); got != 64*mi {
		t.Errorf("%d with an error of 64 MiB", got)
	}
	if got := DefaultThreshold(100*mi, 64*mi); got != 50*mi {
		t.Errorf("%d of 100 MiB with an error of 64 MiB", got)
	}
}

func TestParseAmountZero(t *testing.T) {
	for _, test := range []struct {
		raw     string
		bytes   uint64
		percent float64
		err     string
	}{
		{`"0"`, 0, 0, ""},
		{`0`, 0, 0, ""},
		{`"0Mi"`, 0, 0, ""},
		{`"1Mi"`, 1 << 20, 0, ""},
		{`"2%"`, 0, 2, ""},
		{`"-1"`, 0, 0, "must not be negative"},
		{`"0%"`, 0, 0, "between"},
		{`"1e-50%"`, 0, 0, "not a percentage"},
		{`"100%"`, 0, 0, "between"},
		{`{}`, 0, 0, "not a quantity"},
	} {
		got, err := parseAmount(json.RawMessage(test.raw), 0, "")
		if got.bytes != test.bytes || got.percent != test.percent || !matches(err, test.err) {
			t.Errorf("parseAmount(%s): %+v, %v; want %d, %g, %q", test.raw, got, err, test.bytes, test.percent, test.err)
		}
	}
}

func TestParseGracePeriod(t *testing.T) {
	for _, test := range []struct {
		raw  string
		want time.Duration
		err  string
	}{
		{`"30s"`, 30 * time.Second, ""},
		{`"1m30s"`, 90 * time.Second, ""},
		{`"1ns"`, 1, ""},
		{`"2540400h"`, 2540400 * time.Hour, ""},
		{`"2562048h"`, 0, "not a duration"}, // more than 2^63-1 ns
		{`"0s"`, 0, "above zero"},
		{`"0"`, 0, "above zero"},
		{`"-1s"`, 0, "above zero"},
		{`"30"`, 0, "not a duration"},
		{`"1d"`, 0, "not a duration"},
		{`""`, 0, "not a duration"},
		{`30`, 0, "not a string"},
	} {
		got, err := parseGracePeriod(json.RawMessage(test.raw))
		if got != test.want || !matches(err, test.err) {
			t.Errorf("parseGracePeriod(%s): %v, %v; want %v, %q", test.raw, got, err, test.want, test.err)
		}
	}
}

// matches reports whether err contains want; with an empty want, whether err is nil.
func matches(err error, want string) bool {
	if want == "" || err == nil {
		return want == "" && err == nil
	}
	return strings.Contains(err.Error(), want)
}
