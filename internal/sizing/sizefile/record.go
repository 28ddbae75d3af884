// Package sizefile keeps what a partition has used, from which package sizing computes its limit:
// /var/lib/node-partition/sizes/PARTITION.json.
package sizefile

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/sizing"
)

const (
	version = 1
	// day and month are the lengths of Minutes and of Hours, and maxMembers that of Members: the file
	// has at most 64 KiB.
	day        = 24 * 60
	month      = 30 * 24
	maxMembers = 40
	// settled is the time in minutes after which a member has started.
	settled = 60
)

// Record is what a partition has used. It counts minutes, and has one time of the clock, the end of
// the last minute: where the clock is set, the whole record moves with it, and no minute is lost or
// in the future. Amounts are in bytes.
type Record struct {
	Version   int            `json:"version"`
	Partition partition.Name `json:"partition"`
	// Began is the time of the first Add by the clock of then. It never moves: records with the same
	// one are states of one record.
	Began time.Time `json:"began"`
	// To is the end of the last minute.
	To time.Time `json:"to"`
	// Lacks says what the record does not have of the last thirty days, "" for nothing.
	Lacks string `json:"lacks,omitempty"`
	// Minutes has the largest usage of each minute of the last day, the newest last; 0 for a minute
	// that was not measured.
	Minutes []uint64 `json:"minutes"`
	// Hours has the last thirty days, the newest last. Passed is the number of minutes of the last
	// hour that have passed.
	Hours  []Hour `json:"hours"`
	Passed int    `json:"passed"`
	// RequestBytes is the sum of the memory requests of the members, at last.
	RequestBytes uint64 `json:"requestBytes"`
	// Members has the members by owner, across their restarts: those that have used most.
	Members map[string]Member `json:"members"`

	// seen is the time of the last Add, by the clock; zero before the first.
	seen time.Time
}

// Hour has the largest values of an hour, and its measured minutes.
type Hour struct{ Used, Minutes, Members, Largest uint64 }

// Member is what one member has used: after its first hour, at last, and at most.
type Member struct {
	Minutes int    `json:"minutes"`
	First   uint64 `json:"first"`
	Last    uint64 `json:"last"`
	Peak    uint64 `json:"peak"`
}

// Minute is what was measured in a minute.
type Minute struct {
	// Used is the largest usage as eviction counts it, with that of members outside.
	Used uint64
	// Members is the number of members, wherever they are, and RequestBytes the sum of their requests.
	Members      int
	RequestBytes uint64
	// Usage has the usage of members by owner; of an owner with several the largest.
	Usage map[string]uint64
}

// Add adds a minute that ends at a time of the clock and began took before, by a clock that nobody
// sets.
func (r *Record) Add(at time.Time, took time.Duration, m Minute) {
	//guard: the record counts by the clock that can be set
	at = at.Round(0) // without the reading of the clock that nobody sets
	r.set(at, took)
	if r.To.IsZero() {
		r.Began, r.To = at, at.Add(-time.Minute)
	}
	// A monitor that is started again and again goes on with its last minute.
	passed := int(max(0, (at.Sub(r.To)+time.Minute/2)/time.Minute))
	if passed > month*60 {
		*r = Record{
			Version: version, Partition: r.Partition, Began: r.Began, To: at.Add(-time.Minute), seen: r.seen,
			Lacks: fmt.Sprintf("what was used until %s is older than thirty days", r.To.Format(time.DateOnly)),
		}
		passed = 1
	}
	r.To = r.To.Add(time.Duration(passed) * time.Minute)
	for range passed {
		r.pass()
	}
	r.measured(m)
}

// set moves the record where the clock was set: in this run by as much, and before it so far that
// nothing is in the future.
func (r *Record) set(at time.Time, took time.Duration) {
	if !r.seen.IsZero() {
		//guard: a clock that is set moves the record
		if by := at.Sub(r.seen) - took; by.Abs() >= time.Minute {
			r.To = r.To.Add(by)
		}
	}
	r.seen = at
	//guard: nothing that was measured is in the future
	if r.To.After(at.Add(time.Minute)) {
		r.To = at.Add(-time.Minute)
	}
}

// pass begins the next minute.
func (r *Record) pass() {
	r.Minutes = last(append(r.Minutes, 0), day)
	if len(r.Hours) == 0 || r.Passed == 60 {
		r.Hours, r.Passed = last(append(r.Hours, Hour{}), month), 0
	}
	if len(r.Hours) == month {
		r.Lacks = ""
	}
	r.Passed++
}

func last[T any](list []T, most int) []T {
	if len(list) > most {
		return list[len(list)-most:]
	}
	return list
}

// measured adds what was measured to the last minute.
func (r *Record) measured(m Minute) {
	if m.Used == 0 {
		return
	}
	if len(r.Minutes) == 0 {
		r.pass()
	}
	minute, hour := &r.Minutes[len(r.Minutes)-1], &r.Hours[len(r.Hours)-1]
	if *minute == 0 {
		hour.Minutes++
	}
	*minute = max(*minute, m.Used)
	hour.Used, hour.Members = max(hour.Used, m.Used), max(hour.Members, uint64(m.Members))
	r.RequestBytes = m.RequestBytes
	for owner, of := range r.Members {
		of.Last = 0 // unless it is there
		r.Members[owner] = of
	}
	for owner, used := range m.Usage {
		hour.Largest = max(hour.Largest, used)
		r.note(owner, used)
	}
}

// note adds the usage of a member.
func (r *Record) note(owner string, used uint64) {
	of := r.Members[owner]
	if of.Minutes <= settled {
		of.Minutes, of.First = of.Minutes+1, used
	}
	of.Last, of.Peak = used, max(of.Peak, used)
	r.keep(owner, of)
}

// keep keeps a member. Of too many, the one that has used least goes.
func (r *Record) keep(owner string, of Member) {
	if r.Members == nil {
		r.Members = map[string]Member{}
	}
	r.Members[owner] = of
	//guard: a record has at most so many members
	if len(r.Members) > maxMembers {
		least := owner
		for name, other := range r.Members {
			if other.Peak < r.Members[least].Peak {
				least = name
			}
		}
		delete(r.Members, least)
	}
}

// Begin returns the time of the oldest figure, by the clock of now.
func (r *Record) Begin() time.Time {
	return r.To.Add(-time.Duration((len(r.Hours)-1)*60+r.Passed) * time.Minute)
}

// follow puts an older record before this one, which has begun without it.
func (r *Record) follow(older Record) {
	for range min(max(0, r.Begin().Sub(older.To)/time.Minute), month*60) {
		older.pass()
	}
	r.Minutes = last(append(older.Minutes, r.Minutes...), day)
	r.Hours = last(append(older.Hours, r.Hours...), month)
	r.Lacks, r.Began, r.Members = older.Lacks, older.Began, maps.Clone(r.Members)
	for owner, of := range older.Members {
		if now, ok := r.Members[owner]; ok {
			of.Last, of.Peak = now.Last, max(of.Peak, now.Peak)
		}
		r.keep(owner, of)
	}
}

// Advise returns the limit for what was used. threshold returns the threshold of a limit in bytes.
func (r *Record) Advise(threshold func(limit uint64) uint64) sizing.Advice {
	h := sizing.History{}
	minutes := uint64(0)
	for _, of := range r.Hours {
		if of.Minutes == 0 {
			continue
		}
		h.Hours = append(h.Hours, float64(of.Used))
		minutes += of.Minutes
		h.Members = max(h.Members, int(of.Members))
		h.Largest = max(h.Largest, float64(of.Largest))
	}
	h.Length = time.Duration(minutes) * time.Minute
	a := sizing.Advise(h, r.RequestBytes, threshold)
	if a.Leak != nil {
		a.Leak.Member = r.most(func(of Member) uint64 { return of.Last - min(of.First, of.Last) })
	}
	return a
}

// Largest returns the member that has used most, "" if it is not known which.
func (r *Record) Largest() string { return r.most(func(of Member) uint64 { return of.Peak }) }

// most returns the member with the largest value, "" if all are 0.
func (r *Record) most(value func(of Member) uint64) (name string) {
	most := uint64(0)
	for _, owner := range slices.Sorted(maps.Keys(r.Members)) {
		if is := value(r.Members[owner]); is > most {
			most, name = is, owner
		}
	}
	return name
}

// Day is what was used in the last day.
type Day struct {
	// PeakBytes is the largest usage, and PeakTime the end of its minute.
	PeakBytes uint64    `json:"peakBytes"`
	PeakTime  time.Time `json:"peakTime"`
	// Minutes is the number of minutes that were measured.
	Minutes int `json:"minutes"`
	// Hours has the largest usage of each hour, the newest first; 0 for one that was not measured.
	Hours [24]uint64 `json:"hours"`
}

// Length returns the time that was measured.
func (d *Day) Length() time.Duration { return time.Duration(d.Minutes) * time.Minute }

// Day returns what was used in the last day, nil if nothing was measured.
func (r *Record) Day() *Day {
	d := Day{}
	for i, used := range r.Minutes {
		if used > 0 {
			d.Minutes++
		}
		if used > d.PeakBytes {
			d.PeakBytes, d.PeakTime = used, r.At(i)
		}
		hour := &d.Hours[(len(r.Minutes)-1-i)/60]
		*hour = max(*hour, used)
	}
	if d.Minutes == 0 {
		return nil
	}
	return &d
}

// At returns the end of a minute of Minutes.
func (r *Record) At(i int) time.Time {
	return r.To.Add(-time.Duration(len(r.Minutes)-1-i) * time.Minute)
}

// Missing returns the time since the beginning of the record that was not measured.
func (r *Record) Missing() time.Duration {
	minutes := max(0, len(r.Hours)-1)*60 + r.Passed
	for _, of := range r.Hours {
		minutes -= int(of.Minutes)
	}
	return time.Duration(max(minutes, 0)) * time.Minute
}

// MarshalJSON writes a list: names would make the file twice as large.
func (h Hour) MarshalJSON() ([]byte, error) {
	return json.Marshal([...]uint64{h.Used, h.Minutes, h.Members, h.Largest})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (h *Hour) UnmarshalJSON(text []byte) error {
	var list [4]uint64
	err := json.Unmarshal(text, &list)
	h.Used, h.Minutes, h.Members, h.Largest = list[0], min(list[1], 60), min(list[2], math.MaxInt32), list[3]
	return err
}
