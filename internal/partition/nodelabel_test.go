package partition

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// TestVersionValue: each version is a value that the API server takes.
func TestVersionValue(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"0.1.0": "0.1.0", "v0.2.0-rc.1-5-gabcdef0": "v0.2.0-rc.1-5-gabcdef0", "0.1.0~rc1+dirty": "0.1.0_rc1_dirty", "(devel)": "devel", "": "", "é": "",
		strings.Repeat("1", 80): strings.Repeat("1", 63), strings.Repeat("1", 62) + "--": strings.Repeat("1", 62),
	} {
		got := VersionValue(version)
		if got != want || len(validation.IsValidLabelValue(got)) > 0 {
			t.Errorf("%q: %q; want %q", version, got, want)
		}
	}
}

func TestSectionValue(t *testing.T) {
	t.Parallel()
	for digest, want := range map[string]string{strings.Repeat("0123", 16): "012301230123", "": ""} {
		if got := SectionValue(digest); got != want {
			t.Errorf("%q: %q; want %q", digest, got, want)
		}
	}
}

// TestNames: each name is one that the API server takes.
func TestNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{VersionLabel, SectionLabel} {
		if problems := validation.IsQualifiedName(name); len(problems) > 0 {
			t.Errorf("%s: %q", name, problems)
		}
	}
}
