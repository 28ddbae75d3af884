package slices

import (
	"slices"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/slices/config"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// Plan holds the units to write and the remarks on them. It is plain data: equal input gives an
// equal plan.
type Plan struct {
	// Config is the configuration that the plan follows.
	Config *config.Config
	// Units lists the unit files and drop-ins to write, sorted by path.
	Units []UnitFile
	// Decision holds the part of the plan for the monitor. Its zero value decides nothing: the
	// configuration is not valid.
	Decision decision.Decision
	// Apply means that a partition is active, or another unit that has limits, so that ApplyService
	// has to make them reach the kernel. It does not depend on whether the limits have changed: the
	// plan cannot see what systemd has loaded and lost again.
	Apply bool
	// Waits says which path unit begins to wait for what. It is empty if none does.
	Waits string
	// Warnings holds the warnings of Config, and remarks about the units. Each says what happens next.
	Warnings []string
}

// NewPlan returns the plan for an input.
func NewPlan(in *Input) *Plan {
	//guard: the first partition of a boot takes its CPUs from services
	plan := &Plan{Config: in.config, Apply: in.anyRuns() || in.restrictsRunning() || !in.hostCPUs.IsEmpty()}
	if in.keptWarning != "" {
		plan.Warnings = append(plan.Warnings, in.keptWarning)
	}
	plan.Warnings = append(plan.Warnings, in.config.Warnings...)
	for _, name := range in.names {
		if d := in.deferrals[name]; d != nil {
			plan.Warnings = append(plan.Warnings, d.Warning)
		}
	}
	if in.valid {
		plan.Decision = decision.New(in.config, in.deferrals, in.removed())
	}
	plan.Waits = waits(in)
	plan.Units = units(in)
	return plan
}

// present lists the partitions to make, and those that are active although they are not to be made.
func (in *Input) present() []partition.Name {
	return append(partitionNames(in.config.Partitions), in.removed()...)
}

func (in *Input) anyRuns() bool {
	return slices.ContainsFunc(in.names, func(name partition.Name) bool { return in.running[name] })
}
