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
		{`"1e1%"`, Threshold{}, "not a percentage"},
		{`"0x1p3%"`, Threshold{}, "not a percentage"},
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

func TestThresholdOf(t *testing.T) {
	const mi, gi = 1 << 20, 1 << 30
	for _, test := range []struct {
		threshold   Threshold
		limit, want int64
		ok          bool
	}{
		{Threshold{}, 4 * gi, 214748368, true}, // 5 % in 32 bits, as the kubelet computes it
		{Threshold{}, 640 * mi, 33554432, true},
		{Threshold{}, 641 * mi, 33606861, true},
		{Threshold{}, 64 * mi, 32 * mi, true},
		{Threshold{}, 40 * mi, 20 * mi, true},
		{Threshold{}, 32 * mi, 16 * mi, true},
		{Threshold{}, 1, 0, true},
		{Threshold{Bytes: 100 * mi}, gi, 100 * mi, true},
		{Threshold{Percent: 10}, gi, 107374184, true},
		{Threshold{Percent: 10}, 1000, 100, true},
		{Threshold{Percent: 0.5}, 1999, 9, true},
		{Threshold{Percent: 50}, 1 << 62, 1 << 61, true},
		{Threshold{Percent: 1}, 10, 0, true},
		{Threshold{Never: true}, gi, 0, false},
	} {
		if got, ok := test.threshold.Of(test.limit); got != test.want || ok != test.ok {
			t.Errorf("%+v of %d: %d, %v; want %d, %v", test.threshold, test.limit, got, ok, test.want, test.ok)
		}
	}
}

func TestParseAmountZero(t *testing.T) {
	for _, test := range []struct {
		raw  string
		want amount
		err  string
	}{
		{`"0"`, amount{}, ""},
		{`0`, amount{}, ""},
		{`"0Mi"`, amount{}, ""},
		{`"1Mi"`, amount{bytes: 1 << 20}, ""},
		{`"2%"`, amount{percent: 2}, ""},
		{`"-1"`, amount{}, "must not be negative"},
		{`"0%"`, amount{}, "between"},
		{`"1e-50%"`, amount{}, "not a percentage"},
		{`"100%"`, amount{}, "between"},
		{`{}`, amount{}, "not a quantity"},
	} {
		got, err := parseAmount(json.RawMessage(test.raw), 0, "")
		if got != test.want || !matches(err, test.err) {
			t.Errorf("parseAmount(%s): %+v, %v; want %+v, %q", test.raw, got, err, test.want, test.err)
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
