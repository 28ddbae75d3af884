package check

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/state"
	units "node-partition.io/node-partition/pkg/slices"
)

// oldestSystemd is the minimum that README names. 249 of Ubuntu 22.04 sets no SYSTEMD_SCOPE for
// generators.
const oldestSystemd = 252

// ourUnits lists the units whose failure keeps the configuration from being applied, beside the
// slices of partitions.
var ourUnits = []string{
	units.ApplyPath,
	units.ApplyService,
	units.LateService,
	units.AwaitPath,
	units.AwaitService,
	units.AwaitSectionPath,
	units.AwaitSectionService,
	units.WatchPath,
	units.WatchService,
	units.ReadService,
	units.ControllersService,
	partition.MonitorService,
}

// slices returns the slices of the partitions that the node may have.
func (c *checks) slices() []string {
	names := make([]string, 0, len(c.desired.Names))
	for _, name := range c.desired.Names {
		names = append(names, name.Slice())
	}
	return names
}

func (c *checks) systemd(ctx context.Context) []state.Finding {
	properties, err := c.options.Node.Systemd.Show(ctx, "Version")
	if err != nil {
		return saying(state.Warning, "%v", err)
	}
	version := properties[0]["Version"]
	digits := strings.TrimLeft(version, "v")
	if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = digits[:end]
	}
	var found []state.Finding
	if number, err := strconv.Atoi(digits); err == nil && number < oldestSystemd {
		found = append(
			found,
			changing(state.Error, "use a distribution that has it", "systemd %s: want %d or later", version, oldestSystemd)...)
	}
	units, err := c.options.Node.Systemd.Show(ctx, "Id,LoadState,ActiveState,Result", append(c.slices(), ourUnits...)...)
	if err != nil {
		return append(found, saying(state.Warning, "%v", err)...)
	}
	for _, u := range units {
		switch {
		case u["ActiveState"] == "failed":
			found = append(
				found,
				changing(
					state.Error,
					fmt.Sprintf(
						"systemctl status %s shows why; then systemctl reset-failed %s && systemctl start %s",
						u["Id"], u["Id"], u["Id"],
					),
					"%s has failed (%s)",
					u["Id"],
					u["Result"],
				)...)
		case u["LoadState"] == "masked":
			found = append(found, changing(state.Warning, "systemctl unmask "+u["Id"], "%s is masked", u["Id"])...)
		}
	}
	if found == nil {
		found = saying(state.OK, "systemd %s, and none of our units has failed", version)
	}
	return found
}

// oomd warns if systemd-oomd may kill in the partition: it kills whole cgroups below one that it
// watches, by rules of its own. systemd before 261 has no OOMRules.
func (c *checks) oomd(ctx context.Context) []state.Finding {
	watched := append([]string{"systemd-oomd.service", "-.slice", partition.Default.Slice()}, c.slices()...)
	properties := []string{"ManagedOOMSwap", "ManagedOOMMemoryPressure", "OOMRules"}
	units, err := c.options.Node.Systemd.Show(ctx, "Id,ActiveState,"+strings.Join(properties, ","), watched...)
	if err != nil {
		return nil // reported by the check systemd
	}
	var by []string
	for _, u := range units {
		if u["Id"] == watched[0] && u["ActiveState"] != "active" {
			return saying(state.OK, "does not kill in the partition: it does not run")
		}
		for _, property := range properties {
			if value := u[property]; u["Id"] != watched[0] && value != "" && value != "auto" {
				by = append(by, u["Id"]+" has "+property+"="+value)
			}
		}
	}
	if by == nil {
		return saying(state.OK, "does not kill in the partition")
	}
	return changing(
		state.Warning, "set these properties to auto with systemctl set-property, remove OOMRules= from the units, or stop systemd-oomd",
		"%s: systemd-oomd may kill pods of the partition, in a different order", strings.Join(by, ", "),
	)
}
