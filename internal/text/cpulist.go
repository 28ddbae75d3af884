package text

import (
	"errors"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"
)

// maxCPUs is the highest number of CPUs that Linux can be built for: NR_CPUS, at most 8192
// (arch/x86/Kconfig, MAXSMP). Other architectures have less.
const maxCPUs = 8192

// ParseCPUs parses the list format of cpuset(7), such as 0-3,8. cpuset.Parse makes an entry for
// every CPU of every range, so ParseCPUs bounds the ranges first.
func ParseCPUs(list string) (cpuset.CPUSet, error) {
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
