package slices

import (
	"nodepartition/pkg/slices/config"
)

// Plan is what the configuration and the node ask for. It is plain data: equal input gives an equal plan.
type Plan struct {
	// Config is what the operator asks for.
	Config *config.Config
	// Units are the unit files and drop-ins to write, sorted by path.
	Units []UnitFile
	// Apply says that the partition runs, so that ApplyService has to see to it that its limits reach the kernel. Whether
	// they have changed does not matter: what systemd has loaded, and lost again, is not seen from here.
	Apply bool
	// Warnings are those of Config, and remarks about the units; each says what happens next.
	Warnings []string
}

// NewPlan decides what the units are.
func NewPlan(in *Input) *Plan {
	plan := &Plan{Config: in.config, Apply: in.running}
	if in.keptWarning != "" {
		plan.Warnings = append(plan.Warnings, in.keptWarning)
	}
	plan.Warnings = append(plan.Warnings, in.config.Warnings...)
	if in.deferral != nil {
		plan.Warnings = append(plan.Warnings, in.deferral.Warning)
	}
	if !in.config.Off {
		plan.Units = units(in)
	}
	return plan
}
