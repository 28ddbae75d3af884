package evict

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestInterval(t *testing.T) {
	for _, test := range []struct {
		distance uint64
		growth   float64
		want     time.Duration
	}{
		{0, 0, shortest},
		{1 << 20, 0, shortest},
		{512 << 20, 0, 500 * time.Millisecond},
		{1 << 30, 0, longest},
		{math.MaxUint64, 0, longest},
		{math.MaxUint64, math.MaxFloat64, shortest},
		// Growth counts as soon as twice of it is faster than what is feared anyway.
		{512 << 20, burst / ahead, 500 * time.Millisecond},
		{512 << 20, burst, 250 * time.Millisecond},
		{512 << 20, 16 * burst, 15625 * time.Microsecond},
		{512 << 20, math.Inf(1), shortest},
		{512 << 20, -1e12, 500 * time.Millisecond},
	} {
		if got := Interval(test.distance, test.growth); got != test.want {
			t.Errorf("Interval(%d, %g) is %s, want %s", test.distance, test.growth, got, test.want)
		}
	}
}

func TestIntervalIsInTime(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	// amount has all sizes alike.
	amount := func(most float64) float64 { return math.Exp2(random.Float64() * math.Log2(most)) }
	for range 100_000 {
		distance, growth := uint64(amount(1<<40)), amount(1<<38)
		d := Interval(distance, growth)
		if d < shortest || d > longest {
			t.Fatalf("Interval(%d, %g) is %s, want %s to %s", distance, growth, d, shortest, longest)
		}
		if farther := Interval(distance+uint64(amount(1<<40)), growth); farther < d {
			t.Fatalf("farther from the threshold than %d is %s, and that is %s", distance, farther, d)
		}
		if faster := Interval(distance, growth+amount(1<<38)); faster > d {
			t.Fatalf("growth above %g gives %s, and that %s", growth, faster, d)
		}
		// However still it was, what starts to grow at up to burst comes no farther than the threshold, or what fits into the shortest
		// interval; a nanosecond is lost to rounding.
		speed := min(amount(burst), burst)
		if grown := speed * (d - time.Nanosecond).Seconds(); grown > max(float64(distance), speed*shortest.Seconds()) {
			t.Fatalf("%d from the threshold, and growing by %g a second, it comes %g far in %s", distance, speed, grown, d)
		}
		// What goes on as it was seen to grow is looked at ahead times.
		if grown := growth * (d - time.Nanosecond).Seconds(); grown > max(float64(distance)/ahead, growth*shortest.Seconds()) {
			t.Fatalf("%d from the threshold, and growing by %g a second as before, it comes %g far in %s", distance, growth, grown, d)
		}
	}
}

// TestLooksBeforeTheThreshold follows partitions from look to look: none is past the threshold by more than what grows in the
// shortest interval, unless it speeds up beyond what is feared.
func TestLooksBeforeTheThreshold(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for range 2000 {
		left, seen := float64(random.IntN(4<<30)), 0.0
		looks := 0
		for left > 0 && looks < 10_000 {
			speed := random.Float64() * burst
			d := Interval(uint64(left), seen)
			if left -= speed * d.Seconds(); left < -burst*shortest.Seconds() {
				t.Fatalf("%g past the threshold after %d looks", -left, looks)
			}
			seen = speed
			looks++
		}
		if left > 0 {
			t.Fatalf("still %g from the threshold after %d looks", left, looks)
		}
	}
}
