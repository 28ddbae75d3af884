package sizing

import "slices"

// Leak is a usage that grows and does not return: a leak, a cache that fills, or a cluster that
// grows. The limit has room for what is in use, and not for what it will add. Amounts are in bytes.
type Leak struct {
	// From and To are the least usage of the first and of the last quarter of the hours.
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
	// Member is the member that has grown most, "" if it is not known.
	Member string `json:"member,omitempty"`
}

const (
	quarters = 4
	// leakHours is the least number of hours by which growth is judged.
	leakHours = 2 * quarters
	// leakBytes and leakPart are the least growth that matters, in bytes and as a divisor of the first
	// usage: a twentieth of memoryLimit and its least threshold are of that order.
	leakBytes = 32 * mebi
	leakPart  = 5
)

// leakOf finds growth by the least usage of each quarter, which peaks do not change: it rises from
// quarter to quarter, and in the last at least half as fast as on average. What fills up, and a
// program that starts, slow down.
func leakOf(hours []float64) *Leak {
	if len(hours) < leakHours {
		return nil
	}
	var least [quarters]float64
	for i := range least {
		least[i] = slices.Min(hours[i*len(hours)/quarters : (i+1)*len(hours)/quarters])
		if i > 0 && least[i] <= least[i-1] {
			return nil
		}
	}
	first, last := least[0], least[quarters-1]
	growth := last - first
	if growth < max(leakBytes, first/leakPart) || last-least[quarters-2] < growth/(quarters-1)/2 {
		return nil
	}
	return &Leak{From: uint64(first), To: uint64(last)}
}
