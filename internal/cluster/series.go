package cluster

import (
	"maps"
	"time"
)

// Occurrence is a fault on the node that an operator looks for in the cluster. Equal faults are
// counted in one event, so Message holds no figure that changes each time.
type Occurrence struct {
	// Reason is one word for programs, Message a sentence for people.
	Reason, Message string
}

const (
	// maxSeries bounds the series in memory. Each takes less than a kilobyte.
	maxSeries = 256
	// maxSeriesPause is the longest time between two requests about one series. client-go's recorder
	// sends one in that time, too, after the first 25 (defaultSpamQPS, k8s.io/client-go/tools/record
	// v0.37.0), and loses the others: here the next request has the whole count.
	maxSeriesPause = 5 * time.Minute
)

// series is one event: the occurrences of equal faults.
type series struct {
	fault       Occurrence
	first, last time.Time
	// due is the time of the next request. pause is the time from that to the one after it, and
	// doubles.
	due   time.Time
	pause time.Duration
	// count is the number of occurrences, and sent the count that the API server has, 0 before the
	// event is created.
	count, sent int
}

// table holds the series. It reads no clock.
type table struct{ series map[Occurrence]*series }

func newTable() *table { return &table{series: map[Occurrence]*series{}} }

// add counts a fault. It reports false if there is no room for its series, because the API server
// has not taken any of the others yet.
func (t *table) add(f Occurrence, now time.Time) bool {
	s := t.series[f]
	if s == nil {
		if len(t.series) >= maxSeries {
			maps.DeleteFunc(t.series, func(_ Occurrence, s *series) bool { return s.count == s.sent })
		}
		if len(t.series) >= maxSeries {
			return false
		}
		s = &series{fault: f}
		t.series[f] = s
	}
	if s.count == s.sent && s.due.Before(now) {
		if now.Sub(s.due) > maxSeriesPause {
			s.pause = 0
		}
		s.due = now
	}
	if s.count == 0 {
		s.first = now
	}
	s.count++
	s.last = now
	return true
}

// next returns a copy of the series that has waited longest of those that may be sent now. If none
// may, it returns the time until one may, 0 if none waits.
func (t *table) next(now time.Time) (found *series, wait time.Duration) {
	var longest *series
	for _, s := range t.series {
		if s.count > s.sent && (longest == nil || s.due.Before(longest.due)) {
			longest = s
		}
	}
	switch {
	case longest == nil:
		return nil, 0
	case longest.due.After(now):
		return nil, longest.due.Sub(now)
	}
	copied := *longest
	return &copied, 0
}

// sent records that the API server has the count of a copy that next has returned.
func (t *table) sent(done *series, now time.Time) {
	if s := t.series[done.fault]; s != nil {
		s.sent = done.count
		s.rest(now)
	}
}

// drop gives up the occurrences of a copy that next has returned, and returns their number.
func (t *table) drop(refused *series, now time.Time) int {
	lost := refused.count - refused.sent
	if s := t.series[refused.fault]; s != nil {
		s.count -= lost
		s.rest(now)
	}
	return lost
}

// rest sets the times after a request.
func (s *series) rest(now time.Time) {
	s.due = now.Add(s.pause)
	s.pause = min(max(2*s.pause, time.Second), maxSeriesPause)
}
