package slices

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
)

// MemoryAvailable is the one eviction signal of the partition, named as the kubelet names its own.
const MemoryAvailable = "memory.available"

// Threshold says below which margin of available memory the partition evicts. The zero value is the default:
// 5 % of the limit, at least 32 MiB.
type Threshold struct {
	// Bytes is the margin, where given as a quantity.
	Bytes int64
	// Percent is the margin in percent of memoryLimit, where given so.
	Percent float64
	// Never is set by 0% and 100%, which switch a threshold off (parseThresholdStatement,
	// pkg/kubelet/eviction/helpers.go).
	Never bool
}

// parseThreshold parses a quantity or a percentage for a partition of limit bytes.
func parseThreshold(raw json.RawMessage, limit int64) (Threshold, error) {
	const want = "want a quantity below memoryLimit, such as 100Mi, or a percentage of it, such as 5%"
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return Threshold{}, errors.New("is not a string; " + want)
	}
	number, isPercent := strings.CutSuffix(text, "%")
	if !isPercent {
		bytes, err := parseBytes(raw)
		if err != nil {
			return Threshold{}, err
		}
		if bytes >= limit {
			return Threshold{}, errors.New("is not below memoryLimit, so that the partition would always evict; " + want)
		}
		return Threshold{Bytes: bytes}, nil
	}
	if text == "0%" || text == "100%" {
		return Threshold{Never: true}, nil
	}
	percent, err := strconv.ParseFloat(number, 32)
	// ParseFloat takes "NaN" and "Inf" for numbers.
	if err != nil || math.IsNaN(percent) || math.IsInf(percent, 0) {
		return Threshold{}, errors.New("is not a percentage; " + want)
	}
	if percent <= 0 || percent >= 100 {
		return Threshold{}, errors.New("is not between 0% and 100%; " + want)
	}
	return Threshold{Percent: percent}, nil
}
