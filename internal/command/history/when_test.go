package history

import (
	"testing"
	"time"
)

func TestParseTime(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("", 2*3600)
	now := time.Date(2026, 11, 20, 10, 30, 0, 0, zone)
	for text, want := range map[string]time.Time{
		"2h":                   now.Add(-2 * time.Hour),
		"0s":                   now,
		"3d":                   now.Add(-72 * time.Hour),
		"1.5d":                 now.Add(-36 * time.Hour),
		"03:12":                time.Date(2026, 11, 20, 3, 12, 0, 0, zone),
		"10:30":                now,
		"23:59":                time.Date(2026, 11, 19, 23, 59, 0, 0, zone), // of yesterday
		"23:59:30":             time.Date(2026, 11, 19, 23, 59, 30, 0, zone),
		"2026-11-18":           time.Date(2026, 11, 18, 0, 0, 0, 0, zone),
		"2026-11-18 03:12":     time.Date(2026, 11, 18, 3, 12, 0, 0, zone),
		"2026-11-18T03:12":     time.Date(2026, 11, 18, 3, 12, 0, 0, zone),
		"2026-11-18T03:12:00Z": time.Date(2026, 11, 18, 5, 12, 0, 0, zone),
	} {
		if got, err := ParseTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1h", "soon", "25:00", "12", "-3d", "2026-13-01", "200000d", "2h3d"} {
		if got, err := ParseTime(text, now); err == nil {
			t.Errorf("%q: %s", text, got)
		}
	}
}
