package recommend

import (
	"fmt"

	"nodepartition/internal/bytesize"
	"nodepartition/internal/hostfs"
	"nodepartition/pkg/slices/config"
)

// The bounds of a memoryLimit that is a percentage.
const (
	fieldLimitMin = "memoryLimitMin"
	fieldLimitMax = "memoryLimitMax"
)

// mebi is the step to which a threshold is rounded up.
const mebi = 1 << 20

// asShare writes the recommended limit as a percentage of the node's memory if the present section
// has one: its file may be the file of nodes of other sizes, too.
func (a *Advice) asShare(root hostfs.FS, leastThreshold uint64) {
	c, _ := config.Load(string(root)) // a section that is not valid has no share, and a warning
	p := c.Partition(a.Partition)
	if p == nil || p.Share == nil {
		return
	}
	bytes := a.MemoryLimit.Bytes
	percentage, ok := p.Share.Percentage(bytes)
	if !ok {
		a.warn("the present memoryLimit is a percentage, and the recommended one is not below the node's memory of %s",
			bytesize.Text(p.Share.OfBytes))
		return
	}
	a.Section[fieldLimit] = percentage
	a.MemoryLimit.Why = append(a.MemoryLimit.Why, fmt.Sprintf("as a percentage, as in the present section: %s of this node's %s",
		percentage, bytesize.Text(p.Share.OfBytes)))
	a.thresholdOfShare(leastThreshold)
	a.widen(fieldLimitMin, p.Share.MinBytes, p.Share.MinBytes > bytes)
	a.widen(fieldLimitMax, p.Share.MaxBytes, p.Share.MaxBytes > 0 && p.Share.MaxBytes < bytes)
}

// thresholdOfShare replaces the threshold in bytes: beside a limit that is a percentage it would be
// too little on larger nodes, and all of the limit on a small one. The default needs no field. It
// follows the limit, and a percentage would lack its lower bound on smaller nodes.
func (a *Advice) thresholdOfShare(least uint64) {
	limit, hard := a.MemoryLimit.Bytes, a.EvictionHard
	if hard.Bytes < config.DefaultThreshold(limit, least)+mebi {
		delete(a.Section, fieldHard)
		hard.Why = append(hard.Why, "not in the section: the default follows memoryLimit, which is a percentage, on nodes of all sizes")
		return
	}
	percentage, ok := config.ThresholdPercentage(limit, hard.Bytes)
	if !ok {
		return // never: a recommended threshold is at most half of the limit
	}
	a.Section[fieldHard] = map[string]string{signal: percentage}
	hard.Why = append(hard.Why, fmt.Sprintf("as a percentage, as memoryLimit: %s of %s", percentage, bytesize.Text(a.MemoryLimit.Bytes)))
}

// widen replaces a bound that would count in place of the recommended limit.
func (a *Advice) widen(field string, bound uint64, counts bool) {
	if !counts {
		return
	}
	a.Section[field] = quantity(a.MemoryLimit.Bytes)
	a.warn("%s is %s in the recommendation, and was %s, which would count in place of the percentage; other nodes with the file get it, too",
		field, bytesize.Text(a.MemoryLimit.Bytes), bytesize.Text(bound))
}
