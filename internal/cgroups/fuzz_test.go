package cgroups

import (
	"math/bits"
	"strconv"
	"strings"
	"testing"
)

// FuzzCPUMax: systemd's quota for each second is never below that of cpu.max.
func FuzzCPUMax(f *testing.F) {
	for _, seed := range []string{"max 100000", "20000 100000", "1 1000000", "18446744073709 1", "0 0", "-1 1", "max", "1  2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		perSecond, period, err := parseCPUMax(text)
		if err != nil || perSecond == Unlimited {
			return
		}
		quota, err := strconv.ParseUint(strings.Fields(text)[0], 10, 64)
		if err != nil {
			t.Fatalf("%q: %d of %d", text, perSecond, period)
		}
		if hi, lo := bits.Mul64(perSecond, period); hi == 0 && lo < quota*1_000_000 && quota*1_000_000 > lo+period {
			t.Errorf("%q: %d µs per second is less", text, perSecond)
		}
	})
}
