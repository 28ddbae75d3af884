package recommend

import (
	"strconv"
	"testing"
)

// BenchmarkCompute measures two weeks of 32 pods, two of which leak, with a limit that is raised.
func BenchmarkCompute(b *testing.B) {
	pods := []pod{{"backup", 0, 10, false, nightly(20, 3000)}, {"l1", 0, 10, false, leak(20, 5, 0)}, {"l2", 0, 10, false, leak(20, 3, 0)}}
	for len(pods) < 32 {
		pods = append(pods, pod{"p" + strconv.Itoa(len(pods)), 0, 100, false, daily(50, 90)})
	}
	list := history(14*day, oneBoot, nil, pods...)
	b.ResetTimer()
	for b.Loop() {
		compute(list)
	}
}

// BenchmarkComputeCrowd measures two weeks of 500 pods, and a leak that no limit keeps from harming
// others.
func BenchmarkComputeCrowd(b *testing.B) {
	list := crowd(64 << 10)
	b.ResetTimer()
	for b.Loop() {
		withoutLeaks(list)
	}
}
