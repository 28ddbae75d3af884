package node

import "nodepartition/internal/meminfo"

// MemoryCapacity returns the node's memory in bytes. It returns 0 where that cannot be read, which makes all estimates of requests 0.
func MemoryCapacity() uint64 {
	total, _ := meminfo.Total("/")
	return uint64(total)
}
