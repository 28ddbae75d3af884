package node

import "nodepartition/internal/meminfo"

// MemoryCapacity returns the memory of the node in bytes. If it cannot be read, MemoryCapacity
// returns 0, and all estimates of requests are 0.
func MemoryCapacity() uint64 {
	total, _ := meminfo.Total("/")
	return uint64(total)
}
