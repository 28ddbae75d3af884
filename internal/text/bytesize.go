package text

import (
	"math"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Bytes returns a number of bytes as Kubernetes writes it, above a mebibyte without a part of one,
// and above a kibibyte without a part of that.
func Bytes(bytes uint64) string {
	for _, unit := range []uint64{1 << 20, 1 << 10} {
		if bytes >= unit {
			bytes -= bytes % unit
			break
		}
	}
	return resource.NewQuantity(int64(min(bytes, math.MaxInt64)), resource.BinarySI).String()
}

// RoundBytes returns a number of bytes as Kubernetes writes it: exact if that is short, or else in
// whole mebibytes.
func RoundBytes(bytes int64) string {
	const short, mebi = len("16384Mi"), 1 << 20
	exact := resource.NewQuantity(bytes, resource.BinarySI).String()
	if len(exact) <= short {
		return exact
	}
	return strconv.FormatInt(bytes/mebi, 10) + "Mi"
}
