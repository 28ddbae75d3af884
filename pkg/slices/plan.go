package slices

import (
	"nodepartition/pkg/slices/config"
	"nodepartition/pkg/slices/decision"
)

// Plan holds the units to write and the remarks on them. It is plain data: equal input gives an
// equal plan.
type Plan struct {
	// Config is the configuration that the plan follows.
	Config *config.Config
	// Units lists the unit files and drop-ins to write, sorted by path.
	Units []UnitFile
	// Decision holds the part of the plan for the monitor. Its zero value says that the configuration
	// is not valid, and that there is no partition.
	Decision decision.Decision
	// Apply means that the partition is active, so that ApplyService has to make its limits reach the
	// kernel. It does not depend on whether the limits have changed: the plan cannot see what systemd
	// has loaded and lost again.
	Apply bool
	// Waits says which path unit begins to wait for what. It is empty if none does.
	Waits string
	// Warnings holds those of Config, and remarks about the units. Each says what happens next.
	Warnings []string
}

// NewPlan returns the plan for an input.
func NewPlan(in *Input) *Plan {
	plan := &Plan{Config: in.config, Apply: in.running}
	if in.keptWarning != "" {
		plan.Warnings = append(plan.Warnings, in.keptWarning)
	}
	plan.Warnings = append(plan.Warnings, in.config.Warnings...)
	if in.deferral != nil {
		plan.Warnings = append(plan.Warnings, in.deferral.Warning)
	}
	if in.valid {
		plan.Decision = decision.New(in.config, in.deferral)
	}
	plan.Waits = waits(in)
	plan.Units = units(in)
	return plan
}
