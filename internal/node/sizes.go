package node

import (
	"os"

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
	return r.Advise(func(limit uint64) uint64 {
		if p == nil {
			return config.DefaultThreshold(limit, leastThreshold(root))
		}
		return p.At(limit).Nearest()
	})
}

// statErrorPages is the part of the least threshold for each CPU, in pages: twice what memory.stat
// may leave out (statErrorBytes, pkg/slices/config).
const statErrorPages = 2 * 64

// leastThreshold returns the lower bound in bytes of the default threshold for the CPUs of the node
// at root, beside the 32 MiB that each node has; 0 if they are not known.
func leastThreshold(root host.Root) uint64 {
	cpus, _ := OnlineCPUs(root)
	return uint64(cpus.Size() * os.Getpagesize() * statErrorPages)
}
