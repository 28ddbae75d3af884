package config

import (
	"encoding/json"
	"errors"
	"time"
)

// memoryAvailable is the only eviction signal of the partition. It has the name of the kubelet's
// signal for the node.
const memoryAvailable = "memory.available"

// The default of evictionHard: a percentage of memoryLimit, and at least so many bytes.
const (
	defaultPercent = 5
	defaultLeast   = 32 << 20
)

// Threshold holds the margin of available memory below which the partition evicts. The zero value
// is the default: 5 % of the limit, at least 32 MiB, and at least Least.
type Threshold struct {
	// Bytes is the margin, if given as a quantity.
	Bytes int64
	// Percent is the margin in percent of memoryLimit, if given as a percentage.
	Percent float64
	// Least is a lower bound of the default in bytes, beside the 32 MiB: the error that the kernel's
	// counts may have.
	Least int64
	// Never means that the threshold is switched off, by 0% or 100% (parseThresholdStatement,
	// pkg/kubelet/eviction/helpers.go).
	Never bool
}

// Of returns the margin in bytes for a partition of limit bytes, and false for a threshold that is
// switched off.
//
// The default is at most half of the limit: with 32 MiB less, a limit of 40 MiB would hardly leave
// anything to use, and a limit of 32 MiB would always evict. This cap applies to limits below 64
// MiB, of which the configuration warns, and below twice Least.
func (t Threshold) Of(limit int64) (bytes int64, ok bool) {
	switch {
	case t.Never:
		return 0, false
	case t.Bytes > 0 || t.Percent > 0:
		return amount{t.Bytes, t.Percent}.of(limit), true
	default:
		return max(amount{percent: defaultPercent}.of(limit), min(max(defaultLeast, t.Least), limit/2)), true
	}
}

// ThresholdPercentage returns the least percentage of a limit, in steps of a hundredth, that is a
// threshold of bytes or more. It reports false if there is none below 100 %.
func ThresholdPercentage(limit, bytes int64) (text string, ok bool) {
	return leastPercentage(limit, bytes, func(percent float64) int64 { return amount{percent: percent}.of(limit) })
}

// SoftThreshold is a threshold that has to be met for GracePeriod before the partition evicts.
type SoftThreshold struct {
	Threshold
	// GracePeriod is above zero.
	GracePeriod time.Duration
}

// parseThreshold parses a quantity or a percentage for a partition of limit bytes.
func parseThreshold(raw json.RawMessage, limit int64) (Threshold, error) {
	const want = "want a quantity below memoryLimit, such as 100Mi, or a percentage of it, such as 5%"
	text, err := parseString(raw, want)
	if err != nil {
		return Threshold{}, err
	}
	if text == "0%" || text == "100%" {
		return Threshold{Never: true}, nil
	}
	a, err := parseAmount(raw, 1, want)
	if err != nil {
		return Threshold{}, err
	}
	if a.bytes >= limit {
		return Threshold{}, errors.New("is not below memoryLimit, so that the partition would always evict; " + want)
	}
	return Threshold{Bytes: a.bytes, Percent: a.percent}, nil
}

// parseGracePeriod parses the grace period of a soft threshold. The kubelet accepts zero and makes
// a hard threshold of it (isHardEvictionThreshold, pkg/kubelet/eviction/helpers.go). Here zero is
// refused, because the hard threshold has its own field.
func parseGracePeriod(raw json.RawMessage) (time.Duration, error) {
	const want = "want a duration such as 30s or 1m30s"
	text, err := parseString(raw, want)
	if err != nil {
		return 0, err
	}
	period, err := time.ParseDuration(text)
	if err != nil {
		return 0, errors.New("is not a duration; " + want)
	}
	if period <= 0 {
		return 0, errors.New("must be above zero; evictionHard evicts at once; " + want)
	}
	return period, nil
}

// parseString parses a string. The kubelet's fields of these names are maps of strings.
func parseString(raw json.RawMessage, want string) (string, error) {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", errors.New("is not a string; " + want)
	}
	return text, nil
}

// amount is a number of bytes, or a percentage of memoryLimit above 0 and below 100.
type amount struct {
	bytes   int64
	percent float64
}

// of returns the amount in bytes. It rounds as the kubelet does, whose percentages have 32 bits
// (parsePercentage in pkg/kubelet/eviction/helpers.go, GetThresholdQuantity in
// pkg/kubelet/eviction/api/types.go).
func (a amount) of(limit int64) int64 {
	if a.percent == 0 {
		return a.bytes
	}
	return int64(float64(limit) * float64(float32(a.percent)/100))
}

// parseAmount parses a percentage, or a quantity of least bytes or more.
func parseAmount(raw json.RawMessage, least int, want string) (amount, error) {
	number, isPercent := percentage(raw)
	if !isPercent {
		bytes, err := parseBytes(raw, least)
		return amount{bytes: int64(bytes)}, err
	}
	percent, err := parsePercent(number, 32, want)
	return amount{percent: percent}, err
}
