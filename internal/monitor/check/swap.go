package check

import (
	"context"
	"fmt"
	"os"
	"strings"

	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/unitname"
)

// swap warns if the partition may use swap, which eviction does not count.
func (c *checks) swap(context.Context) []Finding {
	limit, has := c.file(unitname.CgroupPath(unitname.System.Slice()), "memory.swap.max")
	if want := c.desired.Settings.SwapMax; want != nil && has {
		if limit != fmt.Sprint(*want) {
			return changing(
				Error, "systemctl daemon-reload; a MemorySwapMax= of your own wins, see systemctl cat "+unitname.System.Slice(),
				"%s: memory.swap.max is %s; %s asks for %d (%s)",
				unitname.System.Slice(), limit, kubeletconfig.SwapMaxKey, *want, kubeletconfig.SettingsPath,
			)
		}
		return saying(OK, "the partition uses at most %s bytes", limit)
	}
	data, err := os.ReadFile("/proc/swaps")
	if err != nil || strings.Count(strings.TrimSpace(string(data)), "\n") == 0 {
		return saying(OK, "the node has none")
	}
	if !has || limit == "0" {
		return saying(OK, "the partition uses none")
	}
	return changing(Warning,
		fmt.Sprintf("set %s=0 in %s and run systemctl daemon-reload, or swapoff -a", kubeletconfig.SwapMaxKey, kubeletconfig.SettingsPath),
		"the partition may use swap (memory.swap.max is %s) beside its memoryLimit, and eviction does not count it", limit)
}
