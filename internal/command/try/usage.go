package try

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/text"
	"node-partition.io/node-partition/pkg/slices/config"
)

// checkUsage refuses a limit below which pods would be evicted as soon as it is in force. A trial
// is for a section that may be wrong, and the pods that it evicts do not come back with its end. A
// partition that does not exist yet uses nothing.
func checkUsage(n host.Node, asked *node.Desired) error {
	for i := range asked.Partitions {
		if err := checkUsageOf(n.Cgroups, &asked.Partitions[i]); err != nil {
			return err
		}
	}
	return nil
}

// warnOfMembers warns of limits below what the pods use that a trial brings into its partitions:
// before the first trial there is no partition to compare with.
func warnOfMembers(ctx context.Context, n host.Node, asked *node.Desired) []string {
	partitions := node.BudgetPartitions(asked.Partitions, asked.Workloads)
	node.CountMembers(ctx, n.Cgroups, n.Path(kubelet.PodsSocket), asked.Members(), partitions)
	var warnings []string
	for i := range partitions {
		if warning := partitions[i].BelowUse(); warning != "" {
			warnings = append(warnings, warning)
		}
	}
	return warnings
}

func checkUsageOf(cgroups cgroups.FS, asked *config.Partition) error {
	limit := asked.Limit
	if limit == 0 {
		return nil
	}
	reading, err := cgroups.ReadMemory(partition.CgroupPath(asked.Name.Slice()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the usage of the partition cannot be compared with memoryLimit: %w; --force tries it nevertheless", err)
	}
	hard := asked.Hard
	if used := reading.Used(); used+hard > limit {
		return fmt.Errorf(
			"memoryLimit %s, with a threshold of %s, is below what the partition uses now, %s: pods would be evicted at once; "+
				"want %s or more (partition-monitor recommend), or --force",
			text.Bytes(limit), text.Bytes(hard), text.Bytes(used), text.Bytes(enough(asked, used)),
		)
	}
	return nil
}

// enough returns a limit in whole mebibytes that leaves used below its threshold. A threshold may
// be a percentage, which grows with the limit.
func enough(asked *config.Partition, used uint64) uint64 {
	const mebi, most = 1 << 20, 100
	limit := used
	for range most {
		limit = (used + asked.At(limit).Hard + mebi - 1) / mebi * mebi
	}
	return limit
}
