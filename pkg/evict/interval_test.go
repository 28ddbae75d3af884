package evict

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestInterval(t *testing.T) {
	for _, test := range []struct {
		distance, margin uint64
		growth           float64
		want             time.Duration
	}{
		{0, 0, 0, shortest},
		{1 << 20, 0, 0, shortest},
		{512 << 20, 0, 0, 25 * time.Millisecond},
		{512 << 20, 512 << 20, 0, 50 * time.Millisecond},
		{0, 512 << 20, 0, 25 * time.Millisecond},
		{2 << 30, 0, 0, longest},
		{math.MaxUint64, math.MaxUint64, 0, longest},
		{math.MaxUint64, 0, math.MaxFloat64, shortest},
		// Growth that was seen is to be caught before the threshold.
		{512 << 20, 512 << 20, burst, 25 * time.Millisecond},
		{512 << 20, 512 << 20, burst / 8, 50 * time.Millisecond},
		{512 << 20, 0, math.Inf(1), shortest},
		{512 << 20, 0, -1e12, 25 * time.Millisecond},
	} {
		if got := Interval(test.distance, test.margin, test.growth); got != test.want {
			t.Errorf("Interval(%d, %d, %g) is %s, want %s", test.distance, test.margin, test.growth, got, test.want)
		}
	}
}

func TestIntervalIsInTime(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	// amount has all sizes alike.
	amount := func(most float64) float64 { return math.Exp2(random.Float64() * math.Log2(most)) }
	for range 100_000 {
		distance, margin, growth := uint64(amount(1<<40)), uint64(amount(1<<38)), amount(1<<38)
		d := Interval(distance, margin, growth)
		if d < shortest || d > longest {
			t.Fatalf("Interval(%d, %d, %g) is %s, want %s to %s", distance, margin, growth, d, shortest, longest)
		}
		if farther := Interval(distance+uint64(amount(1<<40)), margin, growth); farther < d {
			t.Fatalf("farther from the threshold than %d is %s, and that is %s", distance, farther, d)
		}
		if faster := Interval(distance, margin, growth+amount(1<<38)); faster > d {
			t.Fatalf("growth above %g gives %s, and that %s", growth, faster, d)
		}
		// However still it was, what starts to grow at up to burst is looked at ahead times before the limit, or fits into the
		// shortest interval; a nanosecond is lost to rounding.
		speed := min(amount(burst), burst)
		if grown := speed * (d - time.Nanosecond).Seconds(); grown > max(float64(distance+margin)/ahead, speed*shortest.Seconds()) {
			t.Fatalf("%d from the threshold, and growing by %g a second, it comes %g far in %s", distance, speed, grown, d)
		}
		// What goes on as it was seen to grow is looked at ahead times before the threshold.
		if grown := growth * (d - time.Nanosecond).Seconds(); grown > max(float64(distance)/ahead, growth*shortest.Seconds()) {
			t.Fatalf("%d from the threshold, and growing by %g a second as before, it comes %g far in %s", distance, growth, grown, d)
		}
	}
}

// TestLooksBeforeTheLimit follows partitions from look to look: each is seen between its threshold and its limit, however it grows, unless
// the threshold is less than what grows in the shortest interval.
func TestLooksBeforeTheLimit(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for range 2000 {
		left, seen := float64(random.IntN(4<<30)), 0.0
		margin := 2*burst*shortest.Seconds() + float64(random.IntN(256<<20))
		looks := 0
		for left > 0 && looks < 10_000 {
			speed := random.Float64() * burst
			d := Interval(uint64(left), uint64(margin), seen)
			if left -= speed * d.Seconds(); left < -margin {
				t.Fatalf("at the limit after %d looks, with a margin of %g", looks, margin)
			}
			seen = speed
			looks++
		}
		if left > 0 {
			t.Fatalf("still %g from the threshold after %d looks", left, looks)
		}
	}
}
