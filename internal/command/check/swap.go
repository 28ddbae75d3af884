package check

import (
	"context"
	"fmt"
	"strings"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/state"
)

// swap warns if a partition may use swap, which eviction does not count.
func (c *checks) swap(context.Context) []state.Finding {
	found := make([]state.Finding, 0, len(c.desired.Names))
	for _, name := range c.desired.Names {
		var want *uint64
		if p := c.desired.Partition(name); p != nil {
			want = p.SwapMax
		}
		found = append(found, c.swapOf(name, want)...)
	}
	return found
}

// swapOf checks one partition, which may use want bytes of swap; nil for no bound.
func (c *checks) swapOf(name partition.Name, want *uint64) []state.Finding {
	slice := name.Slice()
	limit, has := c.file(partition.CgroupPath(slice), "memory.swap.max")
	if want != nil && has {
		if limit != fmt.Sprint(*want) {
			return changing(
				state.Error, "systemctl daemon-reload; a MemorySwapMax= of your own wins, see systemctl cat "+slice,
				"%s: memory.swap.max is %s; %s asks for %d (%s)",
				slice, limit, kubeletconfig.SwapMaxKey, *want, kubeletconfig.SettingsPath,
			)
		}
		return saying(state.OK, "%s uses at most %s bytes", slice, limit)
	}
	data, err := c.options.Node.Root.ReadFile("/proc/swaps", maxSysfs)
	if err != nil && c.options.Node.Answers() != nil {
		return saying(state.Warning, "not known: %v", err)
	}
	if err != nil || strings.Count(strings.TrimSpace(string(data)), "\n") == 0 {
		return saying(state.OK, "the node has none")
	}
	if !has || limit == "0" {
		return saying(state.OK, "%s uses none", slice)
	}
	change := fmt.Sprintf("set %s=0 in %s and run systemctl daemon-reload, or swapoff -a", kubeletconfig.SwapMaxKey, kubeletconfig.SettingsPath)
	if name != partition.First { // the setting is about that one alone
		change = "systemctl set-property " + slice + " MemorySwapMax=0, or swapoff -a"
	}
	return changing(state.Warning, change,
		"%s may use swap (memory.swap.max is %s) in addition to its memoryLimit, and eviction does not count it", slice, limit)
}
