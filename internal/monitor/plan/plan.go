// Package plan reads what the budget of a node is computed from, and writes the budget for people
// and for scripts. It changes nothing.
package plan

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/cpuset"

	"nodepartition/internal/budget"
	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/hostfs"
	"nodepartition/pkg/slices/config"
)

// Options holds the flags of the command plan.
type Options struct {
	// Capacity is the capacity of another node, nil for this one. With it, no pods and no cgroups are
	// read.
	Capacity *Capacity
	// Files lists configuration files to use in place of the node's: the first is the kubelet's, and
	// the others are merged over it. It is empty for the configuration of this node.
	Files []string
	// PodsAPI is the socket of the kubelet's Pods API.
	PodsAPI string
}

// Capacity is the capacity of a node.
type Capacity struct {
	Resources v1.ResourceList
	CPUs      cpuset.CPUSet
}

// Plan holds the output of the command plan. Its JSON is for scripts: new versions add fields and
// do not change them.
type Plan struct {
	budget.Budget
	// Configuration is the configuration that the budget is computed from.
	Configuration Configuration `json:"configuration"`
	// Members is absent where the pods are not known.
	Members *budget.Members `json:"members,omitempty"`
	// Usage lists the slices that are there. It is absent for another node.
	Usage []Usage `json:"usage,omitempty"`
	// Problems lists the reasons why the generator refuses the section.
	Problems []string `json:"problems,omitempty"`

	// Invalid is the error that Problems lists, nil without one.
	Invalid error `json:"-"`
}

// root is the root of the node's files.
const root = hostfs.FS("/")

// Read computes the budget. If the section is not valid, the plan has the values that are, and
// Invalid.
func Read(ctx context.Context, o Options) (Plan, error) {
	var p Plan
	kubelet, err := readKubelet(o.Files)
	if err != nil {
		return p, err
	}
	p.Configuration = kubelet.from
	in := budget.Input{
		Kubelet: kubelet.fields, IgnoreEviction: kubelet.ignoreEviction, IgnoreReservedMemory: kubelet.ignoreReserved,
	}
	capacity := o.Capacity
	if capacity == nil {
		if capacity, err = readCapacity(root, kubelet.rootDir); err != nil {
			return p, err
		}
	}
	in.Capacity, in.CPUs = capacity.Resources, capacity.CPUs
	notes := kubelet.notes
	section, warnings, invalid := config.Draft(kubelet.section, in.Capacity.Memory().Value(), in.CPUs)
	notes = append(notes, warnings...)
	if invalid != nil {
		for _, problem := range config.Problems(invalid) {
			p.Problems = append(p.Problems, problem.Error())
		}
	}
	if section != nil && kubelet.off && o.Capacity == nil {
		section = nil
		notes = append(notes, fmt.Sprintf("%s=0 on the kernel command line switches the partition off", config.OffSwitch))
	}
	if section != nil {
		in.Partition = &budget.Partition{MemoryLimit: section.MemoryLimit, CPUs: section.CPUs}
	}
	if o.Capacity == nil {
		if section != nil {
			in.Members = readMembers(ctx, o.PodsAPI, section.Namespaces)
		}
		p.Usage = readUsage(cgroupfs.Mount)
		in.HostBytes = hostBytes(p.Usage)
	}
	if p.Budget, err = budget.Compute(in); err != nil {
		return p, err
	}
	p.Members, p.Invalid = in.Members, invalid
	p.Warnings = append(append([]string{}, notes...), p.Warnings...)
	return p, nil
}
