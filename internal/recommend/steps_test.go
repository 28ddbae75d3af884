package recommend

import (
	"strings"
	"testing"
	"time"
)

// stairs uses more from each of some times on, and keeps it.
func stairs(base, step float64, at ...time.Duration) shape {
	return func(since time.Duration) (float64, string) {
		bytes := base
		for _, t := range at {
			if since >= t {
				bytes += step
			}
		}
		return bytes, "a"
	}
}

// TestTrendsSteps: usage that grows in a few steps and stays there, such as that of a partition to
// which pods are added, is no leak. A leak of each night is one.
func TestTrendsSteps(t *testing.T) {
	t.Parallel()
	nights := make([]time.Duration, 0, 7)
	for n := range 7 {
		nights = append(nights, time.Duration(n)*day+3*time.Hour)
	}
	for name, test := range map[string]struct {
		length time.Duration
		uses   shape
		leaks  int
	}{
		"one step":               {7 * day, stairs(200, 200, 3*day), 0},
		"two steps":              {7 * day, stairs(200, 200, 3*day, 140*time.Hour), 0},
		"three steps":            {7 * day, stairs(200, 100, 2*day, 4*day, 6*day), 0},
		"two steps of a day":     {day, stairs(200, 200, 10*time.Hour, 20*time.Hour), 0},
		"two steps of ten hours": {10 * time.Hour, stairs(100, 100, 4*time.Hour, 7*time.Hour), 0},
		"two steps of six hours": {6 * time.Hour, stairs(100, 100, 2*time.Hour, 4*time.Hour), 0},
		"a step each night":      {7 * day, stairs(100, 50, nights...), 1},
		"twelve hours of a leak": {12 * time.Hour, leak(50, 10, 0), 1},
		"a day of a leak":        {day, leak(50, 10, 0), 1},
		"seven hours of a leak":  {7 * time.Hour, leak(50, 10, 0), 1},
	} {
		if got := trends(series(test.length, test.uses)); len(got) != test.leaks {
			t.Errorf("%s: %d leaks; want %d", name, len(got), test.leaks)
		}
	}
}

// TestComputeAddedPods: pods that were added during the week are used memory, and no leak: the
// limit has room for all pods of the last day, whether the history names them or not.
func TestComputeAddedPods(t *testing.T) {
	t.Parallel()
	late := func(at time.Duration) shape { return stairs(0, 200, at) }
	list := history(7*day, oneBoot, nil, pod{"a", 0, 0, false, flat(200)}, pod{"b", 0, 0, false, late(3 * day)}, pod{"c", 0, 0, false, late(140 * time.Hour)})
	for _, members := range []bool{true, false} {
		if !members {
			for i := range list {
				list[i].Members = nil
			}
		}
		r := compute(list)
		last := list[len(list)-1].Partition.UsedPeakBytes
		if len(r.Leaks) > 0 || r.MemoryLimit.Bytes < last+r.EvictionHard.Bytes {
			t.Errorf("members %t: limit %dMi, in use %dMi; %d leaks: %s", members, r.MemoryLimit.Bytes/mebi, last/mebi, len(r.Leaks), strings.Join(r.MemoryLimit.Why, "; "))
		}
	}
}
