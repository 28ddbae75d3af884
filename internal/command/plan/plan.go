package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"node-partition.io/node-partition/internal/budget"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/pkg/slices/config"
)

// Options holds the flags of the command plan.
type Options struct {
	// Node is the node that is planned.
	Node host.Node
	// Capacity is the capacity of another node, nil for this one. With it, no pods and no cgroups are
	// read.
	Capacity *node.Capacity
	// Files lists configuration files to use in place of the node's: the first is the kubelet's, and
	// the others are merged over it. It is empty for the configuration of this node.
	Files []string
	// PodsAPI is the socket of the kubelet's Pods API.
	PodsAPI string
}

// Plan holds the output of the command plan. Its JSON is for scripts: new versions add fields and
// do not change them.
type Plan struct {
	budget.Budget
	// Configuration is the configuration that the budget is computed from, with the files of the
	// sections.
	Configuration node.KubeletOrigin `json:"configuration"`
	// Usage lists the slices that are there. It is absent for another node.
	Usage []Usage `json:"usage,omitempty"`
	// Problems lists the reasons why the generator refuses the section.
	Problems []string `json:"problems,omitempty"`

	// Invalid is the error that Problems lists, nil without one.
	Invalid error `json:"-"`
}

// Read computes the budget. If the section is not valid, the plan has the values that are, and
// Invalid.
func Read(ctx context.Context, o Options) (Plan, error) {
	var p Plan
	kubelet, err := node.ReadKubeletSettings(o.Node.Root, o.Files)
	if err != nil {
		return p, err
	}
	p.Configuration = kubelet.From
	for _, file := range []string{kubelet.Section.System.File, kubelet.Section.Workloads.File} {
		if file != "" && !slices.Contains(p.Configuration.Files, file) {
			p.Configuration.Files = append(p.Configuration.Files, file)
		}
	}
	capacity := o.Capacity
	if capacity == nil {
		if capacity, err = node.ReadCapacity(o.Node, kubelet.RootDir); err != nil {
			return p, missingCapacity(o.Node, err)
		}
	}
	in := kubelet.Input(capacity)
	notes := kubelet.Notes
	draft, invalid := config.Draft(kubelet.Section, capacity.Size)
	partitions := draft.Partitions
	notes = append(notes, draft.Warnings...)
	if invalid != nil {
		for _, problem := range config.Problems(invalid) {
			p.Problems = append(p.Problems, problem.Error())
		}
		partitions = withLimits(partitions, invalid)
	}
	if len(partitions) > 0 && kubelet.Off && o.Capacity == nil {
		partitions = nil
		notes = append(notes, fmt.Sprintf("%s=0 on the kernel command line switches the partition off", config.OffSwitch))
	}
	in.Partitions = node.BudgetPartitions(partitions, draft.Workloads)
	if o.Capacity == nil && !o.Node.Foreign {
		node.CountMembers(ctx, o.Node.Cgroups, o.PodsAPI, draft.Members(), in.Partitions)
	}
	if o.Capacity == nil {
		notes = append(notes, unread(o.Node)...)
		p.Usage = readUsage(o.Node.Cgroups, in.Partitions)
		in.HostBytes = hostBytes(p.Usage)
	}
	if p.Budget, err = budget.Compute(in); err != nil {
		return p, err
	}
	p.Invalid = invalid
	p.Warnings = append(append([]string{}, notes...), p.Warnings...)
	return p, nil
}

// withLimits returns the partitions without those whose limit could not be read: a figure of theirs
// would be a healthy one of no partition.
func withLimits(partitions []config.Partition, invalid error) []config.Partition {
	return slices.DeleteFunc(slices.Clone(partitions), func(p config.Partition) bool {
		return p.Limit == 0 && slices.ContainsFunc(config.Problems(invalid), func(err error) bool {
			var at *config.Problem
			return errors.As(err, &at) && strings.HasPrefix(at.Field, config.SectionPath(p.Name)+".memoryLimit")
		})
	})
}

// refused lists the files that have what is not valid.
func (p *Plan) refused() []string {
	var files []string
	for _, problem := range config.Problems(p.Invalid) {
		var at *config.Problem
		if errors.As(problem, &at) && !slices.Contains(files, at.File) {
			files = append(files, at.File)
		}
	}
	return files
}

// unread returns notes on what a plan of another node leaves out.
func unread(n host.Node) []string {
	err := n.Answers()
	if err == nil {
		return nil
	}
	notes := []string{
		fmt.Sprintf("pods of the partition: %v", err),
		"storage: not read: the file system of --root may be another than the node's",
	}
	if err := n.NoCgroups(); err != nil {
		notes = append(notes, err.Error())
	}
	return notes
}

// missingCapacity returns an error of reading the capacity. That of another node can be given.
func missingCapacity(n host.Node, err error) error {
	if n.Foreign {
		return fmt.Errorf("%w: it is not among the files of --root; give it with --capacity", err)
	}
	return err
}
