package budget

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// FuzzThreshold: a threshold is never negative, and one in percent no more than the capacity.
func FuzzThreshold(f *testing.F) {
	for _, seed := range []string{"10%", "0%", "100%", "99.9999999%", "NaN%", "%", "100Mi", "-1", "1e30", "12.5%%"} {
		f.Add(seed, int64(16<<30))
	}
	f.Fuzz(func(t *testing.T, text string, capacity int64) {
		if capacity < 0 || capacity > largest {
			return
		}
		q, err := parseThreshold(text, *resource.NewQuantity(capacity, resource.BinarySI))
		if err != nil {
			return
		}
		part := text[len(text)-1] == '%'
		if q.Sign() < 0 || part && q.CmpInt64(capacity) > 0 || !part && q.CmpInt64(largest) > 0 {
			t.Errorf("%q of %d is %s", text, capacity, &q)
		}
	})
}

// FuzzReserved: a reservation is not negative, and its sum with another one fits.
func FuzzReserved(f *testing.F) {
	for _, seed := range []string{"100m", "1", "0", "500Mi", "1e18", "-1", "9223372036854775807", "1n"} {
		f.Add("cpu", seed)
		f.Add("memory", seed)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		q, err := parseReserved(name, text)
		if err != nil {
			return
		}
		sum := q.DeepCopy()
		sum.Add(q)
		if q.Sign() < 0 || sum.Value() < q.Value() || sum.MilliValue() < q.MilliValue() && name == "cpu" {
			t.Errorf("%s %q is %s, twice %s", name, text, &q, &sum)
		}
	})
}
