package render

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/slices/config"
)

// Workload is a workload type of the configuration.
type Workload struct {
	partition.Workload
	// CPUs is the list of CPUs of its partition, empty for all.
	CPUs string
	// MayAsk lists the namespaces whose pods may ask by the configuration.
	MayAsk []string
}

// Workloads returns the types of the node's configuration by name, and only the given names if
// there are any.
func Workloads(n host.Node, names []string) ([]Workload, error) {
	c, err := config.Load(string(n.Root))
	if err != nil {
		return nil, err
	}
	return selected(ofConfig(c), names)
}

// selected returns the types with one of the given names; all types if there are none.
func selected(all []Workload, names []string) ([]Workload, error) {
	if len(all) == 0 {
		return nil, errNone
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(w Workload) bool { return w.Type == name }) {
			return nil, fmt.Errorf("--type=%s: %s has no such type; want one of %s", name, kubeletconfig.WorkloadsField, typesOf(all))
		}
	}
	return slices.DeleteFunc(all, func(w Workload) bool {
		return len(names) > 0 && !slices.Contains(names, w.Type)
	}), nil
}

// errNone is the error for a node without a type.
var errNone = errors.New("the configuration has no workload type: want a section " + kubeletconfig.WorkloadsField +
	", see docs/workload-partitions.md")

func ofConfig(c *config.Config) []Workload {
	all, rules := make([]Workload, 0, len(c.Workloads)), c.Members()
	for _, w := range c.Workloads {
		found := Workload{Workload: w, MayAsk: rules.MayAsk(w)}
		if p := c.Partition(w.Partition); p != nil {
			found.CPUs = p.CPUs.String()
		}
		all = append(all, found)
	}
	return all
}

func typesOf(all []Workload) string {
	names := make([]string, 0, len(all))
	for _, w := range all {
		names = append(names, w.Type)
	}
	return strings.Join(names, ", ")
}
