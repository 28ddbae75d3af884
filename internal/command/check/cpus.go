package check

import (
	"context"
	"slices"

	"nodepartition/internal/audit"
	"nodepartition/internal/node"
	"nodepartition/internal/node/snapshot"
	"nodepartition/pkg/slices/config"
)

// cpuManager warns of user pods on the partition's CPUs, and of members with others, which idle. It
// applies the rule of the command audit.
func (c *checks) cpuManager(ctx context.Context) []Finding {
	if !slices.ContainsFunc(c.desired.Partitions, func(p config.Partition) bool { return !p.CPUs.IsEmpty() }) {
		return saying(OK, "the partition has no dedicated CPUs")
	}
	if err := c.options.Node.Answers(); err != nil {
		return saying(Warning, "%v", err)
	}
	report, err := audit.Confirmed(func() (audit.Report, error) {
		s, err := snapshot.ReadCPUs(ctx, c.options.Node, c.options.PodsAPI)
		if err != nil {
			return audit.Report{}, err
		}
		return audit.PartitionCPUs(s), nil
	})
	if err != nil {
		if node.Served(ctx, c.options.PodsAPI) != nil {
			return nil // reported by the check pods
		}
		return saying(Warning, "%v", err)
	}
	var found []Finding
	for _, d := range report.Findings {
		found = append(found, changing(Warning, d.Cure, "%s is %s; expected %s: %s", d.Path, d.Value, d.Expected, d.Why)...)
	}
	if found == nil {
		found = saying(OK, "found no user pod on the partition's CPUs, and no member with others")
	}
	return found
}
