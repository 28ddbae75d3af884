// Package validate judges a file with sections of partitions as the generator would, on a machine
// that need not be a node. It changes nothing.
package validate

import (
	"errors"
	"fmt"
	"strings"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/pkg/slices/config"
)

// Options holds what the command validate is given.
type Options struct {
	// Name is the file in messages, and Data its content.
	Name string
	Data []byte
	// Size is the size of the node that the file is for. Its zero value is a node that is not
	// known.
	Size config.Size
	// Node is the node that the file is for, with its other files; nil for none. Size counts
	// without one.
	Node *host.Node
	// Strict makes problems of the warnings.
	Strict bool
}

// The kinds of files.
const (
	ours     = kubeletconfig.OverridePath
	kubelets = "the kubelet's own configuration"
	objects  = "spec.section of a NodePartition"
)

// File judges a file. It returns an error only if the node cannot be read.
func File(o Options) (state.Validation, error) {
	r := state.Validation{
		File: o.Name, Problems: []state.Problem{}, Warnings: []state.Problem{},
		Partitions: []state.Section{}, NotChecked: []string{},
	}
	var alone *kubeletconfig.Merged
	var err error
	section, remarks := kubeletconfig.SectionOf(o.Data)
	if section != nil {
		o.Data, alone, err = kubeletconfig.LoadSection(o.Name, section)
	} else {
		alone, err = kubeletconfig.LoadDocument(o.Name, o.Data)
	}
	for _, remark := range remarks {
		r.Warnings = append(r.Warnings, state.Problem{File: o.Name, Message: remark})
	}
	overrides := alone.System.Overrides || alone.Workloads.Overrides
	switch {
	case section != nil:
		r.As = objects
	case overrides:
		r.As = ours
	case len(alone.Files) > 0:
		r.As, r.AsItHas = kubelets, alone.OfKubelet()
	}
	found, size := &config.Config{Kubelet: alone}, o.Size
	var unread error
	if o.Node != nil {
		size, unread = config.SizeOf(o.Node.Root)
	}
	switch {
	case err != nil:
	case overrides && o.Node != nil:
		found, err = config.LoadWith(string(o.Node.Root), o.Name, o.Data)
	case unread != nil:
		return r, unread
	default:
		found, err = config.Validate(alone, size)
		r.NotChecked = notChecked(found, size, overrides)
	}
	if err != nil {
		for _, problem := range config.Problems(err) {
			r.Problems = append(r.Problems, problemOf(o.Name, problem))
		}
	}
	if section != nil {
		r.NotChecked = append(r.NotChecked, "what a NodePartition has beside spec.section, as monitorArgs (the controller, and each node)")
	}
	for _, warning := range warnings(found) {
		r.Warnings = append(r.Warnings, split(o.Name, warning))
	}
	if len(r.Problems) == 0 {
		r.Partitions = partitions(found.Partitions)
		if err := leave(&r, found, size); err != nil {
			r.NotChecked = append(r.NotChecked, "what is left for user pods: "+err.Error())
		}
	}
	if o.Strict {
		r.Problems, r.Warnings = append(r.Problems, r.Warnings...), []state.Problem{}
	}
	r.Valid = len(r.Problems) == 0
	return r, nil
}

// leave computes what the partitions leave on a node of a size, by the kubelet's settings in the
// same files, and warns if it is too little.
func leave(r *state.Validation, found *config.Config, size config.Size) error {
	if size.MemoryBytes == 0 || size.CPUs.IsEmpty() || len(found.Partitions) == 0 {
		return nil
	}
	partitions := node.BudgetPartitions(found.Partitions, found.Workloads)
	b, err := node.BudgetOf(found.Kubelet, node.NewCapacity(size), partitions)
	if err != nil {
		return err
	}
	r.Left = &state.Left{
		MemoryBytes: b.Remainder.MemoryBytes, OfMemoryBytes: int64(size.MemoryBytes), MilliCPU: b.Remainder.MilliCPU,
	}
	for _, short := range b.Short {
		r.Warnings = append(r.Warnings, split(r.File, short))
	}
	return nil
}

// warnings returns all remarks on a configuration.
func warnings(c *config.Config) []string {
	list := append([]string{}, c.Warnings...)
	for _, more := range []string{c.ManagedByKubelet, c.KubeletsFile} {
		if more != "" {
			list = append(list, more)
		}
	}
	if c.Off {
		list = append(list, config.OffSwitch+"=0 on the kernel command line of the node switches all partitions off: nothing else was checked")
	}
	return list
}

// notChecked lists what depends on a node that is not known. overrides means that the file is not
// the kubelet's.
func notChecked(c *config.Config, size config.Size, overrides bool) []string {
	list := []string{}
	if size.MemoryBytes == 0 && c.HasField("memoryLimit") {
		list = append(list, "memoryLimit: the node's memory (--capacity, or --root=/ on the node)")
	}
	if size.CPUs.IsEmpty() && c.HasField("cpuset") {
		list = append(list, "cpuset: the node's CPUs (--capacity)")
	}
	if overrides {
		return append(list, "the kubelet's configuration and "+kubeletconfig.SettingsPath+" (--root)")
	}
	return append(
		list, "the node's drop-ins, "+kubeletconfig.OverridePath+" and "+kubeletconfig.SettingsPath,
	)
}

func partitions(found []config.Partition) []state.Section {
	list := make([]state.Section, 0, len(found))
	for i := range found {
		p := &found[i]
		shown := state.Section{
			Name: string(p.Name), MemoryLimitBytes: p.Limit, EvictsBelowBytes: p.Nearest(), CPUs: p.CPUs.String(),
			Namespaces: append([]string{}, p.Namespaces...),
		}
		if s := p.Share; s != nil {
			shown.Share, shown.ShareOfBytes, shown.Bound = s.Text, s.OfBytes, s.Bound
		}
		list = append(list, shown)
	}
	return list
}

// problemOf returns a problem of the generator as a finding. file is the one that is validated.
func problemOf(file string, err error) state.Problem {
	var p *config.Problem
	if !errors.As(err, &p) {
		return split(file, err.Error())
	}
	message := p.Why
	if p.Value != "" {
		message = p.Value + ": " + message
	}
	return state.Problem{File: p.File, Field: p.Field, Message: message}
}

// split splits a message that begins with the file and perhaps a field.
func split(file, message string) state.Problem {
	f := state.Problem{File: file, Message: message}
	if rest, ok := strings.CutPrefix(message, file+": "); ok {
		f.Message = rest
	} else if other, rest, ok := strings.Cut(message, ": "); ok && strings.HasPrefix(other, "/") {
		f.File, f.Message = other, rest
	}
	field, rest, ok := strings.Cut(f.Message, ": ")
	if ok && (field == kubeletconfig.SectionField || field == kubeletconfig.WorkloadsField ||
		strings.HasPrefix(field, kubeletconfig.SectionField+".") || strings.HasPrefix(field, kubeletconfig.WorkloadsField+".")) {
		f.Field, f.Message = field, rest
	}
	return f
}

// textOf returns a problem as the generator logs it.
func textOf(f state.Problem) string {
	if f.Field == "" {
		return fmt.Sprintf("%s: %s", f.File, f.Message)
	}
	return fmt.Sprintf("%s: %s: %s", f.File, f.Field, f.Message)
}
