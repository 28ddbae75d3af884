package node

import (
	"nodepartition/internal/hostfs"
	"nodepartition/internal/sizing"
	"nodepartition/internal/sizing/sizefile"
	"nodepartition/internal/thresholds"
	"nodepartition/pkg/slices/config"
)

// Advise returns the memoryLimit for what a partition of the node at root has used. The threshold
// within it is that of the present section, and else the default for the CPUs of the node.
func Advise(root hostfs.FS, r *sizefile.Record) sizing.Advice {
	hard, soft := config.Threshold{Least: leastThreshold(root)}, config.Threshold{Never: true}
	c, _ := config.Load(string(root)) // a section that is not valid has no threshold
	if p := c.Partition(r.Partition); p != nil {
		hard = p.Eviction
		if p.EvictionSoft != nil {
			soft = p.EvictionSoft.Threshold
		}
	}
	return r.Advise(func(limit uint64) uint64 {
		hardBytes, _ := hard.Of(int64(limit))
		softBytes, _ := soft.Of(int64(limit))
		return uint64(thresholds.Nearest(hardBytes, softBytes))
	})
}
