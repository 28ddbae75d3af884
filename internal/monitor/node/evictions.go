package node

import (
	"errors"
	"fmt"
	"os"

	"nodepartition/pkg/evict"
	"nodepartition/pkg/slices/config"
)

// EvictionsFile holds the evictions in progress and the last ones.
const EvictionsFile = config.StateDir + "/monitor/evictions.json"

// ShortageFile holds what the next start of the service has to know of a shortage of memory.
const ShortageFile = config.StateDir + "/monitor/shortage.json"

// ReadEvictions reads what the service has written to EvictionsFile.
func ReadEvictions() (evict.History, error) {
	history, err := evict.Store(EvictionsFile).Read()
	if errors.Is(err, os.ErrPermission) {
		return history, fmt.Errorf("%w; it has to run as root", err)
	}
	return history, err
}
