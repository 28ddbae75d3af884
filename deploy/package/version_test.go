package main

import (
	"testing"
	"time"
)

func TestParseVersion(t *testing.T) {
	last := time.Date(2026, 11, 25, 13, 1, 22, 0, time.UTC)
	for described, want := range map[string]string{
		"v0.1.0":                        "0.1.0",
		"v0.1.0-rc.1":                   "0.1.0~rc.1",
		"v0.1.0-5-g3f1fd6b":             "0.1.0+5.g3f1fd6b",
		"v0.1.0-rc.1-12-g3f1fd6b":       "0.1.0~rc.1+12.g3f1fd6b",
		"v0.1.0-dirty":                  "0.1.0+dirty",
		"v0.1.0-5-g3f1fd6b-dirty":       "0.1.0+5.g3f1fd6b.dirty",
		"3f1fd6b":                       "0.0.0~git20261125130122.3f1fd6b",
		"v10.20.30":                     "10.20.30",
		"3f1fd6b1aa-dirty":              "0.0.0~git20261125130122.3f1fd6b1aa+dirty",
		"v0.2.0-alpha.1-3-g3f1fd6b123f": "0.2.0~alpha.1+3.g3f1fd6b123f",
	} {
		if v, err := parseVersion(described, last); err != nil || v.String() != want {
			t.Errorf("%s: %q, %v; want %q", described, v, err, want)
		}
	}
	for _, described := range []string{"", "unknown", "0.1.0", "v0.1", "v0.1.0 1", "release-1"} {
		if v, err := parseVersion(described, last); err == nil {
			t.Errorf("%q: %q and no error", described, v)
		}
	}
}
