package check

import (
	"context"

	"nodepartition/internal/monitor/audit"
	"nodepartition/internal/monitor/node"
)

// cpuManager warns of user pods on the partition's CPUs, and of members with others, which idle. It
// applies the rule of the command audit.
func (c *checks) cpuManager(ctx context.Context) []Finding {
	if p := c.desired.Partition; p == nil || p.CPUs.IsEmpty() {
		return saying(OK, "the partition has no CPUs of its own")
	}
	differences, err := audit.PartitionCPUs(ctx, audit.Options{PodsAPI: c.options.PodsAPI})
	if err != nil {
		if node.Served(ctx, c.options.PodsAPI) != nil {
			return nil // reported by the check pods
		}
		return saying(Warning, "%v", err)
	}
	var found []Finding
	for _, d := range differences {
		found = append(found, changing(Warning, d.Cure, "%s is %s; expected %s: %s", d.Path, d.Value, d.Expected, d.Why)...)
	}
	if found == nil {
		found = saying(OK, "found no user pod on the partition's CPUs, and no member with others")
	}
	return found
}
