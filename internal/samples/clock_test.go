package samples

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestReadClockWasSet: a clock that is set on a running node neither loses minutes, nor lets them
// count twice, nor leaves them in the future or in the past.
func TestReadClockWasSet(t *testing.T) {
	t.Parallel()
	const length = 300
	for name, wrong := range map[string]func(n int) time.Duration{
		"never set":                nil,
		"back by eight hours":      func(n int) time.Duration { return at(n < 150, 8*time.Hour) },
		"forward by a day":         func(n int) time.Duration { return at(n < 150, -24*time.Hour) },
		"a day ahead for an hour":  func(n int) time.Duration { return at(n >= 100 && n < 160, 24*time.Hour) },
		"1970 after the boot":      func(n int) time.Duration { return at(n < 45, time.Unix(0, 0).Sub(start)) },
		"four minutes, not of ten": func(n int) time.Duration { return at(n < 151, 4*time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			r := open(t, dir)
			for n := range length {
				s := minute(n, uint64(100+n))
				s.Up = uint64(60 * (n + 5))
				if wrong != nil {
					s.Time = s.Time.Add(wrong(n))
					s.Partition.PeakTime = s.Time
				}
				if err := r.Add(s); err != nil {
					t.Fatal(err)
				}
			}
			// Without Close: the last minutes are not in a sample of ten.
			h := read(t, dir)
			if len(h.Minutes) < length-5 {
				t.Errorf("%d minutes", len(h.Minutes))
			}
			for i, s := range h.Minutes {
				if want := start.Add(time.Duration(i) * time.Minute); !s.Time.Equal(want) || !s.Partition.PeakTime.Equal(want) {
					t.Fatalf("minute %d is at %s, its peak at %s", i, s.Time, s.Partition.PeakTime)
				}
			}
			end := start.Add(length * time.Minute)
			for what, list := range map[string][]Sample{"coarse": h.Coarse(), "between": h.Between(start.Add(-time.Hour), end)} {
				seconds := uint32(0)
				for i, s := range list {
					seconds += s.Seconds
					if i > 0 && s.Time.Before(list[i-1].Time) || s.Time.Before(start) || s.Time.After(end) {
						t.Errorf("%s: %s", what, s.Time)
					}
				}
				if seconds > length*60 || seconds < (length-5)*60 {
					t.Errorf("%s: %d s of %d", what, seconds, length*60)
				}
			}
		})
	}
}

func at(is bool, d time.Duration) time.Duration {
	if is {
		return d
	}
	return 0
}

// TestMergeMaxima: ten minutes have the largest of each value, and what is known once stays known.
func TestMergeMaxima(t *testing.T) {
	t.Parallel()
	a, b := minute(0, 100), minute(1, 90)
	a.Node, b.Node = &Node{CPUs: 4, Pods: 9}, &Node{CPUs: 8, Pods: 7}
	a.Partition.Cache = &Cache{WorkingSetBytes: 3, FileMappedBytes: 2, InactiveFileBytes: 1}
	b.Partition.Cache = &Cache{WorkingSetBytes: 1, FileMappedBytes: 2, InactiveFileBytes: 3}
	a.Partition.Pods = &Pods{Members: 3, RequestBytes: 7, Waiting: 2, WaitingUsedBytes: 5, AllUsedBytes: 20, LeftBytes: 1}
	b.Partition.Pods = &Pods{Members: 4, RequestBytes: 6, WaitingWorkingSetBytes: 8, WaitingRequestBytes: 9, AllUsedBytes: 15, AllWorkingSetBytes: 4}
	s := merge(a, b)
	if *s.Node != (Node{CPUs: 8, Pods: 9}) || *s.Partition.Cache != (Cache{3, 2, 3}) {
		t.Errorf("%+v, %+v", s.Node, s.Partition.Cache)
	}
	want := Pods{
		Members: 4, RequestBytes: 7, Waiting: 2, WaitingUsedBytes: 5, WaitingWorkingSetBytes: 8, WaitingRequestBytes: 9,
		LeftBytes: 1, AllUsedBytes: 20, AllWorkingSetBytes: 4,
	}
	if *s.Partition.Pods != want {
		t.Errorf("%+v", s.Partition.Pods)
	}
	for name, one := range map[string]Sample{"before": merge(a, minute(1, 90)), "after": merge(minute(0, 100), a)} {
		if one.Node == nil || one.Partition.Cache == nil || one.Partition.Pods == nil {
			t.Errorf("%s: %+v", name, one)
		}
	}
}

// TestReadSlewedClock: a clock that was half a minute off keeps the times that it gave.
func TestReadSlewedClock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := open(t, dir)
	for n := range 20 {
		s := minute(n, 100)
		s.Up = uint64(60*n + 1 + 2*n)
		if err := r.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	if s := read(t, dir).Minutes[0]; !s.Time.Equal(start) {
		t.Errorf("at %s; want %s", s.Time, start)
	}
}

// TestReadEnds: a large history does not keep a command that is interrupted.
func TestReadEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := open(t, dir)
	add(t, r, 0, 20, 100)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if h, err := Read(ctx, dir); !errors.Is(err, context.Canceled) || len(h.Minutes) > 0 {
		t.Errorf("%d minutes, %v", len(h.Minutes), err)
	}
}
