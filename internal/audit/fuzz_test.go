package audit

import (
	"fmt"
	"math"
	"testing"
)

// FuzzQuota: a quota that is parsed is the smallest percentage that is not below it.
func FuzzQuota(f *testing.F) {
	for _, seed := range []string{"max 100000", "150000 100000", "1 9223372036854775807", "1125899906842624 1", "-1 1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		percent, ok := parseQuota(text)
		if !ok || percent == noQuota {
			return
		}
		var micros, period int64
		if _, err := fmt.Sscanf(text, "%d %d", &micros, &period); err != nil {
			return // digits of another form
		}
		if want := int64(math.Ceil(float64(micros) * 100 / float64(period))); percent < 0 || micros < 1<<40 && percent != want {
			t.Errorf("%q is %d percent; want %d", text, percent, want)
		}
	})
}

// FuzzSpan: a span is not negative, and as long as its parts.
func FuzzSpan(f *testing.F) {
	for _, seed := range []string{"1min 500ms", "infinity", "1d 2h 3s 4us", "1000000000d 1000000000d", "1e9d", "NaNs", "0.4us"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		micros, ok := parseSpan(text)
		if !ok {
			return
		}
		if twice, ok := parseSpan(text + " " + text); micros < 0 || ok && twice != 2*micros {
			t.Errorf("%q is %d us, and twice %d us", text, micros, twice)
		}
	})
}
