package text

import "k8s.io/apimachinery/pkg/api/resource"

// MaxMilliCPU bounds a number of thousandths of a CPU. More than a million CPUs cannot be had, and
// sums of them would overflow.
const MaxMilliCPU = 1_000_000_000

// MilliCPU returns a quantity of CPU in thousandths, at most MaxMilliCPU, rounded up as the API
// server does. A static pod may request any number.
func MilliCPU(q resource.Quantity) int64 {
	if q.CmpInt64(MaxMilliCPU/1000) > 0 {
		return MaxMilliCPU
	}
	return q.MilliValue()
}
