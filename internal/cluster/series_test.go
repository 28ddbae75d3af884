package cluster

import (
	"fmt"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/kubeapi"
)

var start = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

var (
	dns    = kubeapi.Pod{UID: "1", Namespace: "kube-system", Name: "dns"}
	killed = Occurrence{Pod: dns, Reason: "SystemPartitionOOM", Message: "killed"}
	full   = Occurrence{Reason: "SystemPartitionFull", Message: "no candidate"}
)

// take sends all that may be sent, and returns the counts.
func take(t *table, now time.Time) []int {
	var counts []int
	for {
		next, _ := t.next(now)
		if next == nil {
			return counts
		}
		counts = append(counts, next.count)
		t.sent(next, now)
	}
}

// TestTableRate: a fault each second makes 25 requests at once, and then one in five minutes, which
// has the whole count. Another object is not delayed.
func TestTableRate(t *testing.T) {
	t.Parallel()
	table := newTable()
	requests, last := 0, 0
	for second := range 3600 {
		now := start.Add(time.Duration(second) * time.Second)
		table.add(killed, now)
		for _, count := range take(table, now) {
			requests++
			last = count
		}
	}
	if requests < burst+11 || requests > burst+12 {
		t.Errorf("%d requests in an hour; want %d at once and one in five minutes", requests, burst)
	}
	if last < 3300 {
		t.Errorf("the last count is %d; want all occurrences until then", last)
	}
	end := start.Add(time.Hour - time.Second)
	if _, wait := table.next(end); wait <= 0 || wait > refill+time.Second {
		t.Errorf("waits %s; want until the next is allowed", wait)
	}
	table.add(full, end)
	if got := take(table, end); len(got) != 1 {
		t.Errorf("%v; want that the node is not delayed", got)
	}
}

// TestTableFull: what the API server has makes room for more, and what it does not have is kept.
func TestTableFull(t *testing.T) {
	t.Parallel()
	table := newTable()
	fault := func(n int) Occurrence {
		return Occurrence{Pod: kubeapi.Pod{UID: fmt.Sprint(n)}, Reason: "SystemPartitionOOM", Message: "killed"}
	}
	for n := range maxSeries {
		if !table.add(fault(n), start.Add(time.Duration(n)*time.Second)) {
			t.Fatalf("%d: no room", n)
		}
	}
	later := start.Add(time.Hour)
	if table.add(fault(maxSeries), later) {
		t.Error("there is room, and none was sent")
	}
	if !table.add(fault(0), later) {
		t.Error("an occurrence of a known fault takes no room")
	}
	next, _ := table.next(later)
	table.sent(next, later)
	if !table.add(fault(maxSeries), later) || len(table.series) != maxSeries {
		t.Errorf("no room, or %d series; want that the one that was sent makes room", len(table.series))
	}
	if got := len(take(table, later)); got != maxSeries {
		t.Errorf("%d were kept; want %d", got, maxSeries)
	}
}

// TestTableForget: the API server keeps events for an hour. A fault that comes back later is a new
// event, and one that waits for the API server is not forgotten.
func TestTableForget(t *testing.T) {
	t.Parallel()
	table := newTable()
	table.add(killed, start)
	take(table, start)
	table.add(full, start)
	later := start.Add(2 * time.Hour)
	table.add(killed, later)
	table.add(full, later)
	for range 2 {
		next, _ := table.next(later)
		want := series{fault: killed, first: later, count: 1}
		if next.fault == full {
			want = series{fault: full, first: start, count: 2}
		}
		if next.count != want.count || next.sent != 0 || !next.first.Equal(want.first) {
			t.Errorf("%+v; want %+v", next, want)
		}
		table.sent(next, later)
	}
}

// TestTableDrop: a refused event is not sent again before the fault comes back.
func TestTableDrop(t *testing.T) {
	t.Parallel()
	table := newTable()
	table.add(killed, start)
	table.add(killed, start)
	next, _ := table.next(start)
	table.add(killed, start) // while the request is under way
	if lost := table.drop(next, start); lost != 2 {
		t.Errorf("%d lost; want 2", lost)
	}
	if next, _ = table.next(start); next == nil || next.count != 1 || next.sent != 0 {
		t.Fatalf("%+v; want the third, which was not refused", next)
	}
	table.drop(next, start)
	if next, wait := table.next(start); next != nil || wait != 0 || len(table.series) != 0 {
		t.Errorf("%+v, %s, %d series; want nothing", next, wait, len(table.series))
	}
}

// TestTableBuckets: pods whose events are refused leave nothing behind.
func TestTableBuckets(t *testing.T) {
	t.Parallel()
	table := newTable()
	for n := range 10 * maxSeries {
		now := start.Add(time.Duration(n) * refill)
		table.add(Occurrence{Pod: kubeapi.Pod{UID: fmt.Sprint(n)}, Reason: "x"}, now)
		next, _ := table.next(now)
		table.drop(next, now)
	}
	if len(table.buckets) > maxSeries || len(table.series) != 0 {
		t.Errorf("%d buckets and %d series; want at most %d and none", len(table.buckets), len(table.series), maxSeries)
	}
}
