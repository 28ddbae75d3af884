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

// asShare writes the recommended limit as a percentage of the node's memory if the present section
// has one: its file may be the file of nodes of other sizes, too.
func (a *Advice) asShare(root hostfs.FS) {
	c, _ := config.Load(string(root)) // a section that is not valid has no share, and a warning
	p := c.Partition(a.Partition)
	if p == nil || p.Share == nil {
		return
	}
	bytes := a.MemoryLimit.Bytes
	percentage, ok := p.Share.Percentage(int64(bytes))
	if !ok {
		a.warn("the present memoryLimit is a percentage, and the recommended one is not below the node's memory of %s",
			bytesize.Text(uint64(p.Share.OfBytes)))
		return
	}
	a.Section[fieldLimit] = percentage
	a.MemoryLimit.Why = append(a.MemoryLimit.Why, fmt.Sprintf("as a percentage, as in the present section: %s of this node's %s",
		percentage, bytesize.Text(uint64(p.Share.OfBytes))))
	a.widen(fieldLimitMin, p.Share.MinBytes, p.Share.MinBytes > int64(bytes))
	a.widen(fieldLimitMax, p.Share.MaxBytes, p.Share.MaxBytes > 0 && p.Share.MaxBytes < int64(bytes))
}

// widen replaces a bound that would count in place of the recommended limit.
func (a *Advice) widen(field string, bound int64, counts bool) {
	if !counts {
		return
	}
	a.Section[field] = quantity(a.MemoryLimit.Bytes)
	a.warn("%s is %s in the recommendation, and was %s, which would count in place of the percentage; other nodes with the file get it, too",
		field, bytesize.Text(a.MemoryLimit.Bytes), bytesize.Text(uint64(bound)))
}
