package packaging

import (
	"os/exec"
	"strings"
	"testing"
)

// TestVersion: deb and rpm order the versions of commits: one before a release is older than it,
// and one after it is newer. Anything else is refused.
func TestVersion(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1795611682")
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
		if got := command(t, "./version", described); got != want+"\n" {
			t.Errorf("%s: %q, want %q", described, got, want)
		}
	}
	for _, described := range []string{"", "unknown", "0.1.0", "v0.1", "v0.1.0 1", "release-1"} {
		out, err := exec.Command("./version", described).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "want a tag such as v0.1.0") {
			t.Errorf("%q: %s, %v", described, out, err)
		}
	}
}
