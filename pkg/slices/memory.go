package slices

import (
	"fmt"
	"os"
	"path/filepath"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/pkg/slices/config"
)

// keepMemory writes the memory that the shares of the plan are of, so that they are of the same for
// the rest of the boot. It does so before the units: a run that is killed in between has fixed what
// its units would have had.
func (o Output) keepMemory(plan *Plan) error {
	bytes := plan.Config.PercentageBytes()
	if bytes == 0 {
		return nil
	}
	path := filepath.Join(o.state, filepath.Base(config.MemoryFile))
	var kept config.BootedMemory
	if host.ReadState(path, &kept) == nil && kept.TotalBytes == bytes {
		return nil
	}
	err := os.MkdirAll(o.state, 0o755)
	if err == nil {
		err = host.WriteState(path, config.BootedMemory{TotalBytes: bytes}, 0o644)
	}
	if err != nil {
		return fmt.Errorf("keeping the size of the memory: %w", err)
	}
	return nil
}
