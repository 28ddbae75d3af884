package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"nodepartition/internal/quantity"
)

// parseBytes parses a quantity of bytes, given as JSON number or string. The result is between
// least, which is 0 or 1, and math.MaxInt64.
func parseBytes(raw json.RawMessage, least int) (int64, error) {
	const want = "want a quantity such as 512Mi or 4Gi"
	text := string(raw)
	if len(raw) > 0 && raw[0] == '"' {
		if err := json.Unmarshal(raw, &text); err != nil {
			return 0, errors.New("is not a string; " + want)
		}
	}
	// resource.Quantity takes "Gi" and "." for zero (apimachinery 0.37.0).
	if number := strings.TrimLeft(text, "+-."); number == "" || number[0] < '0' || number[0] > '9' {
		return 0, errors.New("is not a quantity; " + want)
	}
	q, err := quantity.Parse(text)
	if err != nil {
		return 0, fmt.Errorf("%w; %s", err, want)
	}
	if q.Sign() < least {
		return 0, errors.New([]string{"must not be negative; ", "must be above zero; "}[least] + want)
	}
	// Quantity.Value wraps or saturates beyond int64 (it returns a negative number for
	// 9223372036854775808), so compare first.
	if q.CmpInt64(math.MaxInt64) > 0 {
		return 0, errors.New("is beyond 2^63-1 bytes; " + want)
	}
	if bytes := q.Value(); q.CmpInt64(bytes) == 0 {
		return bytes, nil
	}
	return 0, errors.New("is not a whole number of bytes; " + want)
}
