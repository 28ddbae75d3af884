package cluster

import (
	"fmt"
	"testing"
	"time"
)

var start = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

var (
	killed = Occurrence{Reason: "SystemPartitionOOM", Message: "killed"}
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

// TestTableRate: a fault each second makes a few requests soon, and then one in five minutes, which
// has the whole count. Another fault is not delayed.
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
	if requests < 15 || requests > 25 {
		t.Errorf("%d requests in an hour; want one in five minutes, and some at the start", requests)
	}
	if last < 3300 {
		t.Errorf("the last count is %d; want all occurrences until then", last)
	}
	end := start.Add(time.Hour - time.Second)
	if _, wait := table.next(end); wait <= 0 || wait > maxSeriesPause {
		t.Errorf("waits %s; want until the next is allowed", wait)
	}
	table.add(full, end)
	if got := take(table, end); len(got) != 1 {
		t.Errorf("%v; want that another fault is not delayed", got)
	}
}

// TestTableFull: what the API server has makes room for more, and what it does not have is kept.
func TestTableFull(t *testing.T) {
	t.Parallel()
	table := newTable()
	fault := func(n int) Occurrence {
		return Occurrence{Reason: "SystemPartitionOOM", Message: fmt.Sprint(n)}
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
	if next, wait := table.next(start); next != nil || wait != 0 {
		t.Errorf("%+v, %s; want nothing", next, wait)
	}
}

// TestTableRefused: faults whose events are refused are paced, too, and leave room for others.
func TestTableRefused(t *testing.T) {
	t.Parallel()
	table := newTable()
	requests := 0
	for second := range 3600 {
		now := start.Add(time.Duration(second) * time.Second)
		table.add(killed, now)
		if next, _ := table.next(now); next != nil {
			requests++
			table.drop(next, now)
		}
	}
	if requests > 25 {
		t.Errorf("%d requests in an hour", requests)
	}
	for n := range 10 * maxSeries {
		fault := Occurrence{Reason: "x", Message: fmt.Sprint(n)}
		now := start.Add(time.Hour + time.Duration(n)*time.Second)
		if !table.add(fault, now) {
			t.Fatalf("%d: no room", n)
		}
		if next, _ := table.next(now); next != nil {
			table.drop(next, now)
		}
	}
	if len(table.series) > maxSeries {
		t.Errorf("%d series; want at most %d", len(table.series), maxSeries)
	}
}
