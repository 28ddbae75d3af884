package slices

import (
	"fmt"
	"slices"

	"nodepartition/internal/kubeletconfig"
)

// Plan is what the configuration and the node ask for. It is plain data: equal input gives an equal plan.
type Plan struct {
	// Partition is the valid configuration; nil where there is no partition to make.
	Partition *Partition
	// Units are the unit files and drop-ins to write, sorted by path.
	Units []UnitFile
	// Apply says that the partition runs, so that ApplyService has to see to it that its limits reach the kernel. Whether
	// they have changed does not matter: what systemd has loaded, and lost again, is not seen from here.
	Apply bool
	// Deferred says that the units keep the present limit of the running partition, and have no memoryHigh, because the new limit is
	// below what is used: partition-monitor has to evict first. Partition has what is configured all the same.
	Deferred bool
	// Yields is set where the kubelet makes the partition itself, and says so for the operator.
	Yields string
	// KubeletsFile is set where the section stands in the kubelet's own configuration, and says why it should not.
	KubeletsFile string
	// Warnings are remarks that did not stop us; each says what happens next.
	Warnings []string
}

// NewPlan decides what the units are. Where it returns an error, nothing of the configuration is applied; the
// error joins one *Problem for each thing that is wrong, and the plan has the units that are needed all the same.
func NewPlan(in *Input) (*Plan, error) {
	plan := &Plan{Warnings: in.config.Warnings, Apply: in.running}
	if in.keptWarning != "" {
		plan.Warnings = append(plan.Warnings, in.keptWarning)
	}
	var err error
	switch {
	case in.off:
		return plan, nil
	case in.section == nil:
	case in.config.Kubelet.FeatureGates[Gate]:
		plan.Yields = fmt.Sprintf("%s: featureGates: %s is on: the kubelet makes the system partition itself, leaving it alone",
			in.config.FileWith("featureGates"), Gate)
	default:
		var warnings []string
		plan.Partition, warnings, err = newPartition(in.config, in.section, in.node)
		plan.Warnings = slices.Concat(plan.Warnings, warnings)
		if err == nil && in.config.SectionFile != kubeletconfig.OverridePath {
			plan.KubeletsFile = fmt.Sprintf("%s: the section %s stands in the kubelet's own configuration: a kubelet that knows it does not start with it while its "+
				"feature gate %s is off, and kubeadm upgrade writes the file anew; move the section to %s",
				in.config.SectionFile, kubeletconfig.SectionField, Gate, kubeletconfig.OverridePath)
		}
		if err == nil && in.lowerLater(plan.Partition) {
			plan.Deferred = true
			plan.Warnings = append(plan.Warnings, in.lowerLaterWarning())
		}
	}
	// After an error, too: the rest of the configuration may come with a file system, and be what is missing.
	plan.Units = units(plan, in)
	return plan, err
}

// NoPlan is the plan of an input that could not be loaded: without units, but for those that wait
// for a configuration.
func NoPlan(in *Input) *Plan {
	plan := &Plan{Apply: in.running}
	plan.Units = units(plan, &Input{config: in.config})
	return plan
}
