package text

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"4Gi": 4 << 30, "1e3": 1000, "1E3": 1000, "2E": 2e18, "0.5Gi": 1 << 29, "1500m": 2} {
		if got, err := ParseQuantity(text); err != nil || got.Value() != want {
			t.Errorf("%s: %v, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "1x", "1e999", "1e-999", strings.Repeat("1", 41)} {
		if got, err := ParseQuantity(text); err == nil {
			t.Errorf("%q: %v; want an error", text, got)
		}
	}
}
