package state

import (
	"fmt"

	"nodepartition/internal/bytesize"
	"nodepartition/pkg/evict"
)

// The words in which the command status and the page say the same thing.

// Margin describes the memory of which available bytes are left, until the nearest threshold or
// beyond the hard one first. It is empty without a threshold.
func Margin(available, hard, soft uint64) string {
	var text string
	switch {
	case hard == 0 && soft == 0:
		return ""
	case available < hard:
		return bytesize.Text(hard-available) + " beyond the hard threshold"
	case soft <= hard:
		return bytesize.Text(available-hard) + " until an eviction"
	case available < soft:
		text = bytesize.Text(soft-available) + " beyond the soft threshold"
	default:
		text = bytesize.Text(available-soft) + " until the soft threshold"
	}
	if hard > 0 {
		text += ", " + bytesize.Text(available-hard) + " until an eviction at once"
	}
	return text
}

// Turn describes the turn of a pod in the order of evictions, after so many candidates.
func Turn(skip evict.Skip, after int) string {
	switch {
	case skip == evict.SkipWithinRequest, skip == evict.SkipStays:
		return "not now"
	case skip != "":
		return "never"
	case after == 0:
		return "next"
	}
	return fmt.Sprintf("%d.", after+1)
}
