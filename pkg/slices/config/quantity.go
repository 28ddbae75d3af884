package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"node-partition.io/node-partition/internal/text"
)

// wantQuantity ends the errors about a quantity.
const wantQuantity = "want a quantity such as 512Mi or 4Gi"

// parseBytes parses a quantity of bytes, given as JSON number or string.
func parseBytes(raw json.RawMessage, least int) (uint64, error) {
	text := string(raw)
	if len(raw) > 0 && raw[0] == '"' {
		if err := json.Unmarshal(raw, &text); err != nil {
			return 0, errors.New("is not a string; " + wantQuantity)
		}
	}
	return parseQuantity(text, least)
}

// parseQuantity parses a quantity of bytes. The result is between least, which is 0 or 1, and
// math.MaxInt64.
func parseQuantity(content string, least int) (uint64, error) {
	// resource.Quantity takes "Gi" and "." for zero (apimachinery 0.37.0).
	if number := strings.TrimLeft(content, "+-."); number == "" || number[0] < '0' || number[0] > '9' {
		return 0, errors.New("is not a quantity; " + wantQuantity)
	}
	q, err := text.ParseQuantity(content)
	if err != nil {
		// Other programs write 4GB and 4GiB.
		bytes := strings.TrimSuffix(strings.TrimSuffix(content, "B"), "i") + "i"
		if _, unknown := text.ParseQuantity(bytes); unknown == nil && strings.HasSuffix(content, "B") {
			return 0, fmt.Errorf("%w; is %s meant?", err, bytes)
		}
		return 0, fmt.Errorf("%w; %s", err, wantQuantity)
	}
	if q.Sign() < least {
		return 0, errors.New([]string{"must not be negative; ", "must be above zero; "}[least] + wantQuantity)
	}
	// Quantity.Value wraps or saturates beyond int64 (it returns a negative number for
	// 9223372036854775808), so compare first.
	if q.CmpInt64(math.MaxInt64) > 0 {
		return 0, errors.New("is beyond 2^63-1 bytes; " + wantQuantity)
	}
	if bytes := q.Value(); q.CmpInt64(bytes) == 0 {
		return uint64(bytes), nil
	}
	return 0, errors.New("is not a whole number of bytes; " + wantQuantity)
}
