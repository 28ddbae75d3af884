package evict

import "testing"

// TestMeasureBurst: whatever the machine is, it is counted with no less than what a loop of an earlier design counted with.
func TestMeasureBurst(t *testing.T) {
	burst, err := MeasureBurst()
	if err != nil || burst < minBurst || burst > MaxBurst {
		t.Errorf("%g, %v; want %d to %d", burst, err, minBurst, MaxBurst)
	}
	t.Logf("%.1f GiB/s", burst/(1<<30))
}
