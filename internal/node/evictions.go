package node

import (
	"errors"
	"fmt"
	"os"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/slices/config"
)

// EvictionFile returns the file that holds the state of the eviction of a partition: the evictions
// in progress and the last ones, and what the next start of the service has to know of a shortage
// of memory. That of the system partition has no name in its own.
func EvictionFile(n host.Node, p partition.Name) evict.Store {
	name := ""
	if p != partition.First {
		name = "-" + string(p)
	}
	return evict.Store(n.Path(config.StateDir + "/monitor/evictions" + name + ".json"))
}

// readEvictions reads the evictions of a partition that the service has written.
func readEvictions(n host.Node, p partition.Name) (evict.History, error) {
	history, err := EvictionFile(n, p).Read()
	if errors.Is(err, os.ErrPermission) {
		return history, fmt.Errorf("%w; it has to run as root", err)
	}
	return history, err
}
