package partition

import (
	"strings"
	"testing"
)

// TestAskOf: exactly one target with the one effect is followed.
func TestAskOf(t *testing.T) {
	t.Parallel()
	const value = `{"effect":"PreferredDuringScheduling"}`
	for name, test := range map[string]struct {
		annotations map[string]string
		want        Ask
	}{
		"none":               {map[string]string{"other": "x"}, Ask{}},
		"one":                {map[string]string{"target.workload.openshift.io/management": value}, Ask{Type: "management"}},
		"spaces in it":       {map[string]string{"target.workload.openshift.io/a": " {\n \"effect\" : \"PreferredDuringScheduling\" } "}, Ask{Type: "a"}},
		"no effect":          {map[string]string{"target.workload.openshift.io/a": "{}"}, Ask{Type: "a"}},
		"required":           {map[string]string{"target.workload.openshift.io/a": `{"effect":"RequiredDuringScheduling"}`}, Ask{Flaw: FlawBadAnnotation}},
		"another key":        {map[string]string{"target.workload.openshift.io/a": `{"effect":"PreferredDuringScheduling","cpuset":"0"}`}, Ask{Flaw: FlawBadAnnotation}},
		"only another key":   {map[string]string{"target.workload.openshift.io/a": `{"cpuset":"0"}`}, Ask{Flaw: FlawBadAnnotation}},
		"not a string":       {map[string]string{"target.workload.openshift.io/a": `{"effect":1}`}, Ask{Flaw: FlawBadAnnotation}},
		"empty":              {map[string]string{"target.workload.openshift.io/a": ""}, Ask{Flaw: FlawBadAnnotation}},
		"null":               {map[string]string{"target.workload.openshift.io/a": "null"}, Ask{Flaw: FlawBadAnnotation}},
		"a list":             {map[string]string{"target.workload.openshift.io/a": "[]"}, Ask{Flaw: FlawBadAnnotation}},
		"no type":            {map[string]string{"target.workload.openshift.io/": value}, Ask{Flaw: FlawBadAnnotation}},
		"too long":           {map[string]string{"target.workload.openshift.io/a": value + strings.Repeat(" ", 1<<10)}, Ask{Flaw: FlawBadAnnotation}},
		"a type of 64 bytes": {map[string]string{"target.workload.openshift.io/" + strings.Repeat("a", 64): value}, Ask{Flaw: FlawBadAnnotation}},
		"two": {
			map[string]string{"target.workload.openshift.io/a": value, "target.workload.openshift.io/b": value}, Ask{Flaw: FlawTwoTypes},
		},
	} {
		if got := AskOf(test.annotations); got != test.want {
			t.Errorf("%s: %+v; want %+v", name, got, test.want)
		}
	}
}
