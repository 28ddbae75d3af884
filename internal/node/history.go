package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"nodepartition/internal/samples"
)

// HistoryDir is the folder of the history, below a folder in ReadWritePaths= of the unit.
const HistoryDir = "/var/lib/node-partition/history"

// ReadHistory reads a history. An error says how to get one.
func ReadHistory(ctx context.Context, dir string) (samples.History, error) {
	h, err := samples.Read(ctx, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return h, fmt.Errorf("no history in %s: for one, mkdir -m 0700 %s, write --history into PARTITION_MONITOR_ARGS (/etc/default/node-partition), "+
			"and systemctl restart partition-monitor", dir, filepath.Dir(HistoryDir))
	case errors.Is(err, os.ErrPermission):
		return h, fmt.Errorf("%w; it has to run as root", err)
	}
	return h, err
}
