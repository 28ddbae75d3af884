package history

import (
	"testing"
	"time"
)

// FuzzTime: a duration is before now, and a time of day is in the last day, also where clocks are
// set to summer time.
func FuzzTime(f *testing.F) {
	for _, seed := range []string{"2h", "3d", "-1h", "1e3d", "NaNd", "03:12", "23:59:59", "2026-11-20 03:12", "2026-11-20T03:12:00+01:00"} {
		f.Add(seed)
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, now := range []time.Time{
			time.Date(2026, 11, 23, 15, 0, 0, 0, time.UTC), time.Date(2026, 3, 29, 3, 30, 0, 0, berlin), time.Date(2026, 10, 25, 2, 30, 0, 0, berlin),
		} {
			got, err := ParseTime(text, now)
			if err != nil {
				continue
			}
			if _, err := time.ParseDuration(text); err == nil && got.After(now) {
				t.Errorf("%q at %v: %v is later", text, now, got)
			}
			if _, err := time.Parse("15:04", text); err == nil && (got.After(now) || now.Sub(got) > 25*time.Hour) {
				t.Errorf("%q at %v: %v is not in the last day", text, now, got)
			}
		}
	})
}
