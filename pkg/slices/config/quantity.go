package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"

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

// maxCPUs is the highest number of CPUs that Linux can be built for: NR_CPUS, at most 8192
// (arch/x86/Kconfig, MAXSMP). Other architectures have less.
const maxCPUs = 8192

// parseCPUs parses the list format of cpuset(7), such as 0-3,8. cpuset.Parse makes an entry for
// every CPU of every range, so parseCPUs bounds the ranges first.
func parseCPUs(list string) (cpuset.CPUSet, error) {
	const want = `want a list such as "0-3,8"`
	total := 0
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		lo, errLo := strconv.ParseUint(first, 10, 64)
		hi, errHi := strconv.ParseUint(last, 10, 64)
		if max(lo, hi) >= maxCPUs { // also beyond 64 bits: ParseUint returns the largest
			return cpuset.New(), errors.New(
				"names CPUs beyond " + strconv.Itoa(maxCPUs-1) + ", the last one Linux can have; " + want,
			)
		}
		if errLo != nil || errHi != nil || lo > hi {
			return cpuset.New(), errors.New("is not a list of CPUs; " + want)
		}
		if total += int(hi - lo + 1); total > 4*maxCPUs {
			return cpuset.New(), errors.New("names the same CPUs again and again; " + want)
		}
	}
	cpus, err := cpuset.Parse(list)
	if err != nil {
		return cpuset.New(), errors.New("is not a list of CPUs; " + want)
	}
	return cpus, nil
}
