package evict

import "testing"

// TestMeasureBurst: the burst is never below minBurst, which a loop of an earlier design assumed.
func TestMeasureBurst(t *testing.T) {
	burst, err := MeasureBurst(2)
	if err != nil || burst < minBurst || burst > maxBurst {
		t.Errorf("%g, %v; want %d to %d", burst, err, minBurst, maxBurst)
	}
	if more, err := MeasureBurst(1 << 20); err != nil || more != maxBurst {
		t.Errorf("with a million CPUs: %g, %v; want %d", more, err, maxBurst)
	}
	t.Logf("%.1f GiB/s", burst/(1<<30))
}
