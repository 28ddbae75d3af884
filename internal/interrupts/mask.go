package interrupts

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"
)

const (
	// maxCPUs is the highest number of CPUs that Linux can be built for.
	maxCPUs = 8192
	// groupBits is the number of CPUs between two commas of a mask.
	groupBits = 32
)

// ParseMask parses a mask of CPUs in the kernel's form: hexadecimal, with a comma between each 32
// CPUs, and the lowest CPU at the end (bitmap_parse, lib/bitmap-str.c; irqbalance has a copy).
func ParseMask(text string) (cpuset.CPUSet, error) {
	groups := strings.Split(text, ",")
	if len(groups) > maxCPUs/groupBits {
		return cpuset.New(), fmt.Errorf("has more than %d CPUs", maxCPUs)
	}
	slices.Reverse(groups)
	var cpus []int
	for i, group := range groups {
		bits, err := strconv.ParseUint(group, 16, groupBits)
		if err != nil {
			return cpuset.New(), errors.New("is not a mask of CPUs; want hexadecimal digits, with a comma before each group of eight")
		}
		for cpu := i * groupBits; bits != 0; cpu, bits = cpu+1, bits>>1 {
			if bits&1 != 0 {
				cpus = append(cpus, cpu)
			}
		}
	}
	return cpuset.New(cpus...), nil
}

// formatMask returns the mask of CPUs.
func formatMask(cpus cpuset.CPUSet) string {
	list := cpus.List()
	if len(list) == 0 {
		return strings.Repeat("0", groupBits/4)
	}
	groups := make([]uint32, list[len(list)-1]/groupBits+1)
	for _, cpu := range list {
		groups[len(groups)-1-cpu/groupBits] |= 1 << (cpu % groupBits)
	}
	texts := make([]string, 0, len(groups))
	for _, group := range groups {
		texts = append(texts, fmt.Sprintf("%08x", group))
	}
	return strings.Join(texts, ",")
}

// without returns a mask with as many digits, in which CPUs are missing. The kernel writes all
// masks of a node with the same number of digits.
func without(mask string, cpus cpuset.CPUSet) string {
	out := []byte(mask)
	first := 0 // the CPU of the lowest bit of a digit
	group := 0 // may have fewer digits than eight: bitmap_parse takes "1,0"
	for i := len(out) - 1; i >= 0; i-- {
		if out[i] == ',' {
			group += groupBits
			first = group
			continue
		}
		digit, _ := strconv.ParseUint(string(out[i]), 16, 4) // ParseMask has read the mask
		for bit := range 4 {
			if cpus.Contains(first + bit) {
				digit &^= 1 << bit
			}
		}
		out[i] = strconv.FormatUint(digit, 16)[0]
		first += 4
	}
	return string(out)
}
