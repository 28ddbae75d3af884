package slices

import "fmt"

// Plan is what the configuration and the node ask for. It is plain data: equal input gives an equal plan.
type Plan struct {
	// Partition is the valid configuration; nil where there is no partition to make.
	Partition *Partition
	// Units are the unit files and drop-ins to write, sorted by path.
	Units []UnitFile
	// Apply says that the slices of a partition that runs have changed, and ApplyService has to see to it.
	Apply bool
	// Yields is set where the kubelet makes the partition itself, and says so for the operator.
	Yields string
	// Warnings are remarks that did not stop us; each says what happens next.
	Warnings []string
}

// NewPlan decides what the units are. Where it returns an error, nothing of the configuration is applied; the
// error joins one *Problem for each thing that is wrong.
func NewPlan(in *Input) (*Plan, error) {
	plan := &Plan{Warnings: in.config.Warnings}
	if in.off {
		return plan, nil
	}
	if in.section != nil {
		switch on := in.config.Kubelet.FeatureGates[Gate]; {
		case on:
			plan.Yields = fmt.Sprintf("%s: featureGates: %s is on: the kubelet makes the system partition itself, leaving it alone",
				in.config.FileWith("featureGates"), Gate)
		default:
			p, warnings, err := newPartition(in.config, in.section, in.node)
			plan.Warnings = append(plan.Warnings, warnings...)
			if err != nil {
				return plan, err
			}
			plan.Partition = p
		}
	}
	plan.Units = units(plan.Partition, in)
	plan.Apply = in.running && slicesChanged(in.before, plan.Units)
	return plan, nil
}

// slicesChanged reports whether the slices differ from those of the output in place, or whether a change of that
// output was never applied.
func slicesChanged(before map[string]string, after []UnitFile) bool {
	if _, pending := before[applyFlag]; pending {
		return true
	}
	contents := map[string]string{}
	for _, file := range after {
		contents[file.Path] = file.Content
	}
	for _, slice := range []string{SystemSlice, BurstableSlice, BestEffortSlice} {
		if before[slice] != contents[slice] {
			return true
		}
	}
	return false
}
