package node

import (
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/sizing"
	"node-partition.io/node-partition/internal/sizing/sizefile"
	"node-partition.io/node-partition/pkg/slices/config"
)

// Advise returns the memoryLimit for what a partition of the node at root has used. The threshold
// within it is that of the present section, and else the default for the CPUs of the node.
func Advise(root host.Root, r *sizefile.Record) sizing.Advice {
	c, _ := config.Load(string(root)) // a section that is not valid has no threshold
	p := c.Partition(r.Partition)
	cpus, _ := config.OnlineCPUs(root) // none if they are not known
	return r.Advise(func(limit uint64) uint64 {
		if p == nil {
			return config.DefaultThreshold(limit, config.StatErrorBytes(cpus))
		}
		return p.At(limit).Nearest()
	})
}
