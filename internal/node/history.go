package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"nodepartition/internal/oneline"
	"nodepartition/internal/samples"
	"nodepartition/internal/unitname"
)

// HistoryDir is the folder of the history, below a folder in ReadWritePaths= of the unit.
const HistoryDir = "/var/lib/node-partition/history"

// Shown returns the partition that a history is about, by the flag for it.
func Shown(partition unitname.PartitionName) unitname.PartitionName {
	return cmp.Or(partition, unitname.First)
}

// ReadHistory reads the history of a partition; "" means the system partition, whether or not the
// history has it. An error says how to get a history, or which partitions it has.
func ReadHistory(ctx context.Context, dir string, partition unitname.PartitionName) (samples.History, error) {
	h, err := readHistories(ctx, dir)
	if err == nil && partition != "" && !slices.Contains(h.Partitions, partition) {
		known := PartitionNames(h.Partitions)
		return h, fmt.Errorf("the history in %s has no partition %q; it has %s",
			dir, partition, cmp.Or(known, "none"))
	}
	if err != nil {
		return h, err
	}
	return h.Of(Shown(partition)), nil
}

// readHistories reads the history of all partitions. An error says how to get one.
func readHistories(ctx context.Context, dir string) (samples.History, error) {
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

// PartitionNames returns the names of partitions in a sentence.
func PartitionNames(names []unitname.PartitionName) string {
	texts := make([]string, 0, len(names))
	for _, name := range names {
		texts = append(texts, oneline.Terminal(string(name)))
	}
	return strings.Join(texts, ", ")
}
