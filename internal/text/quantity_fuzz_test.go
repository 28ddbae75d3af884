package text

import (
	"math"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"
)

// FuzzQuantity: what is accepted has the value that Kubernetes gives it, and can be compared, and
// written if it fits into 64 bits.
func FuzzQuantity(f *testing.F) {
	for _, seed := range []string{"500m", "4Gi", "1e99", "-1e-99", "1e99999999", "0x1", "1E", "1Ei", ".5k", "+1", "1000000P", "-1000000P"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := ParseQuantity(text)
		if err != nil {
			return
		}
		if q.CmpInt64(math.MaxInt64) > 0 || q.CmpInt64(math.MinInt64) < 0 {
			return // 1000000P is written as 1 (apimachinery 0.37.0)
		}
		again, err := resource.ParseQuantity(q.String())
		if err != nil || again.Cmp(q) != 0 {
			t.Errorf("%q is %s, and that is %s, %v", text, q.String(), again.String(), err)
		}
	})
}

// FuzzCPUs: an accepted list has the CPUs that the kubelet reads, and none beyond those of Linux.
func FuzzCPUs(f *testing.F) {
	for _, seed := range []string{"0-3,8", "0", "", "3-0", "0-99999999999", "1,1,1", "-1", "0-8191", "0x1", "+1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		got, err := ParseCPUs(list)
		if err != nil {
			return
		}
		want, err := cpuset.Parse(list)
		if err != nil || !got.Equals(want) {
			t.Errorf("%q: %s, the kubelet reads %s, %v", list, got, want, err)
		}
		if all := got.List(); len(all) > 0 && (all[0] < 0 || all[len(all)-1] >= maxCPUs) {
			t.Errorf("%q: %s", list, got)
		}
	})
}
