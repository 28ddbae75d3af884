package evict

import (
	"math"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/thresholds"
)

func TestInterval(t *testing.T) {
	for _, test := range []struct {
		distance, margin uint64
		growth           float64
		want             time.Duration
	}{
		{0, 0, 0, minPollInterval},
		{1 << 20, 0, 0, minPollInterval},
		{512 << 20, 0, 0, 50 * time.Millisecond},
		{256 << 20, 256 << 20, 0, 50 * time.Millisecond},
		{0, 512 << 20, 0, 50 * time.Millisecond},
		{2 << 30, 0, 0, 200 * time.Millisecond},
		{16 << 30, 0, 0, maxPollInterval},
		{math.MaxUint64, math.MaxUint64, 0, maxPollInterval},
		{math.MaxUint64, 0, math.MaxFloat64, minPollInterval},
		// Growth at the measured rate is found before the threshold.
		{512 << 20, 512 << 20, maxBurst, 25 * time.Millisecond},
		{512 << 20, 512 << 20, maxBurst / 8, 100 * time.Millisecond},
		{16 << 30, 512 << 20, maxBurst / 8, maxPollInterval},
		{512 << 20, 0, math.Inf(1), minPollInterval},
		{512 << 20, 0, -1e12, 50 * time.Millisecond},
	} {
		if got := pollInterval(test.distance, test.margin, test.growth, maxBurst); got != test.want {
			t.Errorf("pollInterval(%d, %d, %g) is %s, want %s", test.distance, test.margin, test.growth, got, test.want)
		}
	}
}

// TestMargin computes the threshold that is needed so that growth that sets in just after a poll is
// found before the limit, wherever it begins. This is the simulation of docs/performance.md. It
// assumes a millisecond for reading and killing, many times the cost on a server.
func TestMargin(t *testing.T) {
	const cost = time.Millisecond
	caught := func(distance, margin, speed float64) bool {
		seen := 0.0
		for {
			d := pollInterval(uint64(max(distance, 0)), uint64(margin), seen, maxBurst)
			distance, seen = distance-speed*(d+cost/2).Seconds(), speed
			if distance < 0 {
				return margin+distance-speed*(rereadDelay+cost/2).Seconds() > 0
			}
		}
	}
	least := func(speed float64) (margin float64) {
		for margin = mi; ; margin += mi {
			all := true
			for distance := 0.0; distance < 32<<30 && all; distance += distance/64 + mi/16 {
				all = caught(distance, margin, speed)
			}
			if all {
				return margin
			}
		}
	}
	for _, test := range []struct {
		speed float64 // GiB/s
		most  float64 // MiB
	}{{0.25, 2}, {1, 8}, {2.5, 21}, {5, 45}, {7.5, 130}, {9, 380}} {
		got := least(test.speed*(1<<30)) / mi
		t.Logf("a growth of %g GiB/s is caught with a threshold of %g MiB", test.speed, got)
		if got > test.most {
			t.Errorf("a growth of %g GiB/s is caught with a threshold of %g MiB, want %g at most", test.speed, got, test.most)
		}
	}
}

// TestNextPollWhileHeld: growth is found before half of the available memory is used up while
// evictions are held back, and polls are rarer without growth.
func TestNextPollWhileHeld(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		state State
		grown uint64 // in 10 ms, so that 10 MiB are a GiB in a second
		most  time.Duration
	}{
		"files stay":              {State{Unreclaimable: map[string]uint64{"tmpfs": 400 * mi}}, 0, heldPollInterval / 4},
		"files stay, others grow": {State{Unreclaimable: map[string]uint64{"tmpfs": 400 * mi}}, 50 * mi, 8 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := snapshotOf(80, sized("tmpfs", 0, 400, 0), sized("a", 0, 500, 0))
			s.State = test.state
			d := Decide(s)
			w := watch{used: s.Memory.Used() - test.grown, polledAt: noon.Add(-10 * time.Millisecond)}
			if got := nextPoll(s, d, nil, w.grown(s.Now, s.Memory.Used()), maxBurst); d.Held == "" || got > test.most || test.grown == 0 && got < test.most {
				t.Errorf("held %q, the next poll is in %s, want %s", d.Held, got, test.most)
			}
		})
	}
}

func TestNextPoll(t *testing.T) {
	t.Parallel()
	const burst = 2000 * mi // per second, so that 2 MiB are a millisecond
	soft, both := Settings{Thresholds: thresholds.Thresholds{Limit: 1000 * mi, Soft: 200 * mi}}, Settings{Thresholds: thresholds.Thresholds{Limit: 1000 * mi, Hard: 100 * mi, Soft: 200 * mi}}
	hard := Settings{Thresholds: thresholds.Thresholds{Limit: 1000 * mi, Hard: 100 * mi}}
	far := Settings{Thresholds: thresholds.Thresholds{Limit: 1000 * mi, Hard: 100 * mi, Soft: 600 * mi}}
	off, dryRun := hard, hard
	off.Off, dryRun.DryRun = true, true
	for name, test := range map[string]struct {
		config    Settings
		available uint64
		decision  Decision
		open      []execution
		want      time.Duration
	}{
		"above hard":                       {hard, 400 * mi, Decision{}, nil, 200 * time.Millisecond},
		"below hard":                       {hard, 60 * mi, Decision{Crossed: Hard}, nil, 30 * time.Millisecond},
		"above soft":                       {both, 500 * mi, Decision{}, nil, 200 * time.Millisecond},
		"at soft":                          {both, 200 * mi, Decision{}, nil, 50 * time.Millisecond},
		"below soft":                       {both, 160 * mi, Decision{Crossed: Soft}, nil, 80 * time.Millisecond},
		"above soft, no hard":              {soft, 400 * mi, Decision{}, nil, 100 * time.Millisecond},
		"switched off":                     {off, 400 * mi, Decision{}, nil, statInterval},
		"memory of a killed pod awaited":   {hard, 400 * mi, Decision{}, []execution{{phase: stopping}}, drainPollInterval},
		"memory of a stopped pod awaited":  {hard, 400 * mi, Decision{}, []execution{{phase: stopping, Eviction: Eviction{Verdict: Verdict{Grace: time.Second}}}}, heldPollInterval / 10},
		"memory of a stopped pod returned": {hard, 400 * mi, Decision{}, []execution{{phase: reclaimed, Eviction: Eviction{Verdict: Verdict{Grace: time.Second}}}}, 200 * time.Millisecond},
		"memory of a killed pod returned":  {hard, 400 * mi, Decision{}, []execution{{phase: reclaimed}}, 200 * time.Millisecond},
		"memory unknown":                   {hard, 400 * mi, Decision{Held: HoldUnknown}, nil, heldPollInterval / 10},
		"no candidate":                     {hard, 60 * mi, Decision{Crossed: Hard, NoCandidate: true}, nil, heldPollInterval},
		"no candidate at soft":             {both, 104 * mi, Decision{Crossed: Soft, NoCandidate: true}, nil, 52 * time.Millisecond},
		"no candidate at soft, near hard":  {both, 101 * mi, Decision{Crossed: Soft, NoCandidate: true}, nil, 50500 * time.Microsecond},
		"no candidate at soft, far above":  {far, 500 * mi, Decision{Crossed: Soft, NoCandidate: true}, nil, heldPollInterval},
		"no candidate at soft alone":       {soft, 10 * mi, Decision{Crossed: Soft, NoCandidate: true}, nil, heldPollInterval},
		"held":                             {hard, 60 * mi, Decision{Crossed: Hard, Held: HoldReclaiming}, nil, heldPollInterval},
		"dry run, crossed":                 {dryRun, 60 * mi, Decision{Crossed: Hard}, nil, heldPollInterval},
		"dry run, not crossed":             {dryRun, 400 * mi, Decision{}, nil, 200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Situation{Now: noon, Config: test.config, Memory: cgroups.MemoryReading{Current: 1000*mi - test.available, Max: 1000 * mi}}
			test.decision.Available = test.available
			if got := nextPoll(s, test.decision, test.open, 0, burst); got != test.want {
				t.Errorf("the next poll is in %s, want %s", got, test.want)
			}
		})
	}
}

// TestTogether: a short wait stays as it is. Another one ends together with the waits of other
// partitions, not later than asked. If it begins together with them it lasts half as long at least.
func TestTogether(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct{ now, wait, want time.Duration }{
		{1001 * ms, 2 * ms, 2 * ms},
		{1001 * ms, 15 * ms, 15 * ms},
		{1000 * ms, 16 * ms, 15_625_000},
		{1000 * ms, 124 * ms, 62_500_000},
		{1000 * ms, 125 * ms, 125 * ms},
		{1000 * ms, 249 * ms, 125 * ms},
		{1000 * ms, 250 * ms, 250 * ms},
		{1001 * ms, 250 * ms, 249 * ms},
		{1249 * ms, 250 * ms, 126 * ms}, // not at once
		{1300 * ms, 250 * ms, 200 * ms},
		{1300 * ms, time.Second, 700 * ms},
		{1500 * ms, time.Second, 500 * ms},
		{2000 * ms, time.Second, time.Second},
	} {
		if got := together(test.now, test.wait); got != test.want {
			t.Errorf("at %s a wait of %s takes %s, want %s", test.now, test.wait, got, test.want)
		}
	}
}
