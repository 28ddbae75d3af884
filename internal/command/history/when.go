package history

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// layouts lists the forms of a time, from the longest to the shortest.
var layouts = []string{
	time.RFC3339, "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02", "15:04:05", "15:04",
}

// ParseTime parses a time: a duration before now such as 2h or 3d, a time of the last 24 hours such
// as 03:12, or a date with or without a time, in the time zone of now.
func ParseTime(text string, now time.Time) (time.Time, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		const most = 36500 // a century
		if n, err := strconv.ParseFloat(days, 64); err == nil && n >= 0 && n <= most {
			return now.Add(-time.Duration(n * float64(24*time.Hour))), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range layouts {
		t, err := time.ParseInLocation(layout, text, now.Location())
		if err != nil {
			continue
		}
		if strings.HasPrefix(layout, "15") { // a time of the last 24 hours
			t = time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, now.Location())
			if t.After(now) {
				t = t.AddDate(0, 0, -1)
			}
		}
		return t, nil
	}
	return time.Time{}, errors.New("want a time such as 03:12 or 2026-11-20 03:12, or a duration such as 2h or 3d")
}
