package text

import (
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// errNotQuantity is returned if the text is not a quantity, or is too long.
var errNotQuantity = errors.New("is not a quantity")

// ParseQuantity parses a quantity such as 500m or 4Gi.
func ParseQuantity(text string) (resource.Quantity, error) {
	if !bounded(text) {
		return resource.Quantity{}, errNotQuantity
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}, errNotQuantity
	}
	return q, nil
}

// bounded reports whether a text may be passed to resource.Quantity, whose comparisons compute
// powers of ten. A comparison of "1e99999999" does not end within 20 s (apimachinery 0.37.0). An
// exponent of two digits is enough for every number of bytes.
func bounded(text string) bool {
	const maxDigits, maxExponent = 40, 2
	_, exponent, ok := strings.Cut(strings.ToLower(text), "e")
	return len(text) <= maxDigits && (!ok || len(strings.Trim(exponent, "+-")) <= maxExponent)
}
