package web

import (
	"errors"
	"strings"
	"testing"
	"time"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/samples"
	"nodepartition/internal/thresholds"
	"nodepartition/pkg/evict"
)

// memoryOf returns a partition of 1000 MiB of which so many MiB are available.
func memoryOf(available uint64, change func(*evict.Report)) memoryView {
	r := evict.Report{
		Time: time.Now(), Available: available * mi, Memory: cgroupfs.MemoryReading{Current: (1000 - available) * mi, Max: 1000 * mi},
		Thresholds: thresholds.Thresholds{Limit: 1000 * mi, Hard: 100 * mi},
	}
	if change != nil {
		change(&r)
	}
	return newMemoryView(r, time.Now())
}

// TestJudgeMemory: what the verdict says of the memory of a partition.
func TestJudgeMemory(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		memory memoryView
		level  level
		text   string
	}{
		"much left":                   {memoryOf(500, nil), good, ""},
		"less than twice, far enough": {memoryOf(150, nil), good, ""},
		"nearly full":                 {memoryOf(149, nil), warning, "nearly full: 49Mi until an eviction"},
		"far above a small threshold": {memoryOf(40, func(r *evict.Report) { r.Hard = 10 * mi }), good, ""},
		"at the threshold":            {memoryOf(100, nil), warning, "nearly full: 0 until an eviction"},
		"below it":                    {memoryOf(99, nil), bad, "short of memory: 1Mi beyond the hard threshold"},
		"crossed, and a little back":  {memoryOf(105, func(r *evict.Report) { r.Crossed = evict.Hard }), bad, "short of memory: 5Mi until an eviction"},
		"soft crossed":                {memoryOf(160, func(r *evict.Report) { r.Crossed, r.Soft = evict.Soft, 200*mi }), bad, "short of memory: 40Mi beyond the soft threshold, 60Mi until an eviction at once"},
		"soft alone":                  {memoryOf(160, func(r *evict.Report) { r.Hard, r.Soft = 0, 200*mi }), bad, "short of memory: 40Mi beyond the soft threshold"},
		"soft nearer":                 {memoryOf(240, func(r *evict.Report) { r.Soft = 200 * mi }), warning, "nearly full: 40Mi until the soft threshold, 140Mi until an eviction at once"},
		"far above the nearer one":    {memoryOf(260, func(r *evict.Report) { r.Soft = 200 * mi }), good, ""},
		"below both":                  {memoryOf(90, func(r *evict.Report) { r.Soft = 200 * mi }), bad, "short of memory: 10Mi beyond the hard threshold"},
		"no threshold":                {memoryOf(1, func(r *evict.Report) { r.Hard = 0 }), good, ""},
		"no limit":                    {memoryOf(0, func(r *evict.Report) { r.Limit, r.Memory.Max = cgroupfs.Unlimited, cgroupfs.Unlimited }), good, ""},
		"no candidate": {
			memoryOf(50, func(r *evict.Report) { r.Crossed, r.NoCandidate = evict.Hard, true }), bad, "no pod of it can be evicted: the kernel will kill",
		},
		"memory that stays": {
			memoryOf(50, func(r *evict.Report) { r.Crossed, r.NoCandidate, r.Held = evict.Hard, true, evict.HoldStays }), bad, "that ending processes does not free",
		},
	} {
		v := view{Pass: moment{Time: time.Now()}, Partitions: []partitionView{{Name: "telemetry", Memory: test.memory}}}
		got := judge(v, nil, nil)
		if got.Level != test.level || test.text != "" && !strings.Contains(got.Text, "Partition telemetry") || !strings.Contains(got.Text, test.text) || len(got.More) > 0 {
			t.Errorf("%s: %+v; want %s, %q", name, got, test.level, test.text)
		}
	}
}

// TestJudgeSources: a node may work as it should without NRI and the Pods API.
func TestJudgeSources(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]level{"systemd": warning, "runtime": warning, "kubelet": good, "nri": good} {
		v := view{Pass: moment{Time: time.Now()}, Partitions: []partitionView{{Memory: memoryOf(500, nil)}}, Sources: []source{{Name: name, Missing: missing[name]}}}
		if got := judge(v, nil, nil); got.Level != want || missing[name] == "" {
			t.Errorf("without %s: %+v, want %s", name, got, want)
		}
	}
}

// TestJudgeOrder: the worst is first, and nothing is lost.
func TestJudgeOrder(t *testing.T) {
	t.Parallel()
	v := view{Partitions: []partitionView{{Name: "a", Problem: "unread"}, {Name: "b", Memory: memoryOf(1, nil)}}}
	got := judge(v, nil, errors.Join(errors.New("one"), errors.New("two")))
	if got.Level != bad || !strings.HasPrefix(got.Text, "Partition b is short of memory: ") || len(got.More) != 4 {
		t.Errorf("%+v", got)
	}
	for i, want := range []string{"Partition a: unread", "Not ready: one", "Not ready: two", "The first pass over the pods has not ended."} {
		if got.More[i].Text != want || got.More[i].Level != warning {
			t.Errorf("%d: %+v, want %q", i, got.More[i], want)
		}
	}
}

func TestMomentAge(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.FixedZone("east", 7200))
	for ago, want := range map[time.Duration]string{
		-time.Hour: "in the future", -time.Second: "just now", 0: "just now", 2 * time.Second: "2 s ago", 119 * time.Second: "119 s ago",
		2 * time.Minute: "2 min ago", 119 * time.Minute: "119 min ago", 2 * time.Hour: "2 h ago", 47 * time.Hour: "47 h ago", 50 * time.Hour: "2 days ago",
	} {
		if got := (moment{now.Add(-ago), now}).Age(); got != want {
			t.Errorf("%s: %q, want %q", ago, got, want)
		}
	}
	if m := (moment{now, now}); m.Text() != "10:00:00 UTC" || m.Machine() != "2026-07-01T10:00:00Z" {
		t.Errorf("%q, %q", m.Text(), m.Machine())
	}
	if m := (moment{now.Add(-11 * time.Hour), now}); m.Text() != "2026-06-30 23:00:00 UTC" {
		t.Errorf("yesterday is %q", m.Text())
	}
}

// TestChart: a line breaks where samples are missing, and where there was no limit. Samples of
// other hours have no place.
func TestChart(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	at := func(minutes int, used, limit, hard uint64) samples.Sample {
		return samples.Sample{
			Time: now.Add(-time.Duration(minutes) * time.Minute), Seconds: 60,
			Partition: &samples.Usage{UsedPeakBytes: used, LimitBytes: limit, HardBytes: hard},
		}
	}
	if c := newChart([]samples.Sample{at(361, 1, 0, 0), at(-5, 1, 0, 0), {Time: now}}, now); c != nil {
		t.Errorf("%+v of no sample", c)
	}
	killed := at(61, 100, 200, 20)
	killed.Partition.KilledAtLimit = 2
	c := newChart([]samples.Sample{
		at(400, 9999, 9999, 0), at(121, 50, 0, 0), at(120, 50, 0, 0), at(119, 100, 200, 0), killed, at(60, 150, 200, 20), at(59, 150, 200, 20), at(0, 20, 200, 20),
	}, now)
	// A minute is 2 wide. 200 is 4 below the edge.
	for what, check := range map[string]struct{ got, want []string }{
		"used":      {c.Used, []string{"M476 91H480V62H482V120H476Z", "M596 62H598V33H602V120H596Z", "M718 108H720V120H718Z"}},
		"limit":     {c.Limit, []string{"M480 4H482", "M596 4H602", "M718 4H720"}},
		"threshold": {c.Threshold, []string{"M596 16H602", "M718 16H720"}},
	} {
		if strings.Join(check.got, " ") != strings.Join(check.want, " ") {
			t.Errorf("%s: %q, want %q", what, check.got, check.want)
		}
	}
	if c.Worst.Used != 150 || c.Worst.Margin() != "30" || len(c.Happened) != 1 || c.Happened[0] != 598 || c.Top != 200 {
		t.Errorf("%+v", c)
	}
	if len(c.Hours) != 3 || c.Hours[0].From.Hour() != "11:00 UTC" || c.Hours[0].Margin() != "30" || c.Hours[1].Events != 2 || c.Hours[2].Margin() != "no limit" {
		t.Errorf("%+v", c.Hours)
	}
	if p := (point{Used: 195, Limit: 200, Threshold: 20}); p.Margin() != "15 short" {
		t.Errorf("beyond the threshold: %s", p.Margin())
	}
	if p := (point{Used: 195}); p.Margin() != "no limit" {
		t.Errorf("without a limit: %s", p.Margin())
	}
}
