// Package section makes node-partition.yaml of the section of a NodePartition, and judges it as
// partition-monitor validate does.
package section

import (
	"fmt"

	"node-partition.io/node-partition/internal/installer/record"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/pkg/slices/config"
	"node-partition.io/node-partition/rollout/api/v1alpha1"
)

// Section is a file for nodes.
type Section struct {
	// Text is the content of /etc/kubernetes/node-partition.yaml. It is the same for each order of the
	// fields.
	Text string
	// Hash is the SHA-256 of Text, in hexadecimal digits.
	Hash string
	// Namespaces has the namespaces of the system partition.
	Namespaces []string
	// Warnings has what partition-monitor validate warns of, such as a field that is not known.
	Warnings []string
}

// name is the file in messages: its problems are fields of spec.section.
const name = "spec.section"

// Of returns the section of a NodePartition, or why the generator or the installer would refuse it,
// one problem a line. What depends on the node is judged there.
func Of(spec v1alpha1.NodePartitionSpec) (Section, error) {
	// an API server does not judge again what an update leaves as it is
	if err := record.CheckTrial(spec.Rollout.Trial.Duration); err != nil {
		return Section{}, fmt.Errorf("spec.rollout.trial: %w", err)
	}
	text, merged, err := kubeletconfig.LoadSection(name, spec.Section.Raw)
	if err != nil {
		return Section{}, err
	}
	found, err := config.Validate(merged, config.Size{})
	if err != nil {
		return Section{}, err
	}
	s := Section{Text: string(text), Hash: merged.OverrideDigest(), Warnings: found.Warnings}
	for _, p := range found.Partitions {
		s.Namespaces = append(s.Namespaces, p.Namespaces...)
	}
	return s, nil
}
