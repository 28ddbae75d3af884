package node

import (
	"errors"
	"fmt"
	"os"

	"nodepartition/internal/host"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
	"nodepartition/pkg/slices/config"
)

// EvictionFiles returns the files that hold the state of the eviction of a partition: the evictions
// in progress and the last ones, and what the next start of the service has to know of a shortage
// of memory. The files of the system partition have no name in theirs, as before there were others.
func EvictionFiles(n host.Node, partition unitname.PartitionName) evict.Files {
	name := ""
	if partition != unitname.First {
		name = "-" + string(partition)
	}
	const dir = config.StateDir + "/monitor/"
	return evict.Files{
		Store:    evict.Store(n.Path(dir + "evictions" + name + ".json")),
		Shortage: n.Path(dir + "shortage" + name + ".json"),
	}
}

// ReadEvictions reads the evictions of a partition that the service has written.
func ReadEvictions(n host.Node, partition unitname.PartitionName) (evict.History, error) {
	history, err := EvictionFiles(n, partition).Store.Read(partition)
	if errors.Is(err, os.ErrPermission) {
		return history, fmt.Errorf("%w; it has to run as root", err)
	}
	return history, err
}
