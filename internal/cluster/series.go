package cluster

import (
	"time"

	"golang.org/x/time/rate"

	"node-partition.io/node-partition/internal/kubeapi"
)

// Occurrence is something that an operator looks for in the cluster. Equal faults are counted
// in one event, so Message holds no figure that changes each time.
type Occurrence struct {
	// Pod is the pod that it is about. The zero value means that it is about the node.
	Pod kubeapi.Pod
	// Reason is one word for programs, Message a sentence for people.
	Reason, Message string
}

// burst and refill limit the requests about one object as client-go's recorder does
// (defaultSpamBurst and defaultSpamQPS of k8s.io/client-go/tools/record v0.37.0): 25 at once, and
// then one in five minutes. Unlike there no occurrence is lost, because the next request has the
// whole count.
const (
	burst  = 25
	refill = 5 * time.Minute
)

const (
	// maxSeries bounds the series in memory. Each takes less than a kilobyte.
	maxSeries = 256
	// forgetAfter is the time for which the API server keeps events (--event-ttl). A fault that comes
	// back later is a new event.
	forgetAfter = time.Hour
)

// series is one event: the occurrences of equal faults.
type series struct {
	fault       Occurrence
	first, last time.Time
	// waiting is the time of the first occurrence that the API server does not have.
	waiting time.Time
	// count is the number of occurrences, and sent the count that the API server has, 0 before the
	// event is created.
	count, sent int
}

// table holds the series. It reads no clock.
type table struct {
	series  map[Occurrence]*series
	buckets map[kubeapi.Pod]*rate.Limiter
}

func newTable() *table {
	return &table{series: map[Occurrence]*series{}, buckets: map[kubeapi.Pod]*rate.Limiter{}}
}

// add counts a fault. It reports false if there is no room for its series, because the API server
// has not taken any of the others yet.
func (t *table) add(f Occurrence, now time.Time) bool {
	s := t.series[f]
	if s != nil && s.count == s.sent && now.Sub(s.last) > forgetAfter {
		delete(t.series, f)
		s = nil
	}
	if s == nil {
		if len(t.series) >= maxSeries && !t.makeRoom() {
			return false
		}
		s = &series{fault: f, first: now}
		t.series[f] = s
	}
	if s.count == s.sent {
		s.waiting = now
	}
	s.count++
	s.last = now
	return true
}

// makeRoom removes the series that has not occurred for the longest time, of those that the API
// server has. It reports false if there is none.
func (t *table) makeRoom() bool {
	var oldest *series
	for _, s := range t.series {
		if s.count == s.sent && (oldest == nil || s.last.Before(oldest.last)) {
			oldest = s
		}
	}
	if oldest == nil {
		return false
	}
	delete(t.series, oldest.fault)
	return true
}

// next returns a copy of the series that has waited longest of those that may be sent now. If none
// may, it returns the time until one may, 0 if none waits.
func (t *table) next(now time.Time) (found *series, wait time.Duration) {
	var longest *series
	for _, s := range t.series {
		if s.count == s.sent {
			continue
		}
		if tokens := t.bucket(s.fault.Pod, now).TokensAt(now); tokens < 1 {
			until := time.Duration((1-tokens)*float64(refill)) + time.Millisecond
			if wait == 0 || until < wait {
				wait = until
			}
			continue
		}
		if longest == nil || s.waiting.Before(longest.waiting) {
			longest = s
		}
	}
	if longest == nil {
		return nil, wait
	}
	copied := *longest
	return &copied, 0
}

// sent records that the API server has the count of a copy that next has returned.
func (t *table) sent(done *series, now time.Time) {
	t.bucket(done.fault.Pod, now).AllowN(now, 1)
	if s := t.series[done.fault]; s != nil {
		s.sent = done.count
		s.waiting = now
	}
}

// later records that a copy that next has returned could not be sent. The others come first now: a
// webhook may fail for one namespace alone.
func (t *table) later(failed *series, now time.Time) {
	if s := t.series[failed.fault]; s != nil {
		s.waiting = now
	}
}

// drop gives up the occurrences of a copy that next has returned, and returns their number.
func (t *table) drop(refused *series, now time.Time) int {
	t.bucket(refused.fault.Pod, now).AllowN(now, 1)
	lost := refused.count - refused.sent
	if s := t.series[refused.fault]; s != nil {
		s.count -= lost
		if s.count == 0 {
			delete(t.series, refused.fault)
		}
	}
	return lost
}

// bucket returns the bucket of an object. It removes the buckets of objects without a recent
// request.
func (t *table) bucket(about kubeapi.Pod, now time.Time) *rate.Limiter {
	if found := t.buckets[about]; found != nil {
		return found
	}
	if len(t.buckets) >= maxSeries {
		for pod, bucket := range t.buckets {
			if bucket.TokensAt(now) >= burst {
				delete(t.buckets, pod) // a new bucket is full, too
			}
		}
	}
	t.buckets[about] = rate.NewLimiter(rate.Every(refill), burst)
	return t.buckets[about]
}
