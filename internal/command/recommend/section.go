package recommend

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"sigs.k8s.io/yaml"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/text"
	"node-partition.io/node-partition/pkg/slices/config"
)

// beside holds what the file of a recommended section has besides: the file replaces each of the
// two sections of the configuration as a whole.
type beside struct {
	// system is systemPartition beside a workload partition, and workloads is workloadPartitions
	// beside the system partition; nil if the file does not have them.
	system, workloads json.RawMessage
	// others lists the other partitions of workloadPartitions beside a workload partition.
	others map[string]json.RawMessage
}

// The fields of the section that are replaced. The threshold stays as it is: the limit was computed
// with it, and the default follows the limit.
const (
	fieldLimit      = "memoryLimit"
	fieldLimitMin   = "memoryLimitMin"
	fieldLimitMax   = "memoryLimitMax"
	fieldNamespaces = "namespaces"
)

// section puts the recommended limit into the present section.
func (a *Advice) section(root host.Root) error {
	fields := a.present(root)
	if a.isSystem() && fields[fieldNamespaces] == nil {
		fields[fieldNamespaces] = []string{"kube-system"}
		a.warn("there is no section with namespaces: the recommendation has kube-system")
	}
	fields[fieldLimit] = quantity(a.LimitBytes)
	a.asPercentage(root, fields)
	if a.isSystem() {
		a.SystemPartition = fields
	} else {
		a.WorkloadPartitions = map[partition.Name]map[string]any{a.Partition: fields}
	}
	text, err := a.document()
	if err != nil {
		return err
	}
	if _, err := config.LoadWith(string(root), "the recommendation", text); err != nil {
		for _, problem := range config.Problems(err) {
			// A bundle does not have what the section depends on.
			if !errors.Is(problem, fs.ErrNotExist) {
				a.warn("try would refuse it: %v", problem)
			}
		}
	}
	return nil
}

// isSystem reports whether the limit is for the system partition.
func (a *Advice) isSystem() bool { return a.Partition == partition.First }

// present reads the fields of the present section, and what its file has besides.
func (a *Advice) present(root host.Root) map[string]any {
	fields := map[string]any{}
	present, err := kubeletconfig.Load(root)
	var own json.RawMessage
	switch {
	case err != nil:
	case a.isSystem():
		own = present.System.JSON
		if present.Workloads.Overrides {
			a.beside.workloads = present.Workloads.JSON
		}
	default:
		err = unmarshal(present.Workloads.JSON, &a.beside.others)
		own = a.beside.others[string(a.Partition)]
		if present.System.Overrides {
			a.beside.system = present.System.JSON
		}
	}
	if err == nil {
		err = unmarshal(own, &fields)
	}
	switch {
	case err != nil:
		a.warn("the present section is not valid, and not a part of the recommendation: %v", err)
	case len(own) == 0 && !a.isSystem():
		a.warn("%s.%s is not in the configuration: the section has the recommended limit alone", kubeletconfig.WorkloadsField, a.Partition)
	}
	if fields == nil {
		fields = map[string]any{}
	}
	return fields
}

// unmarshal reads JSON into what to points to, if there is any.
func unmarshal(text json.RawMessage, to any) error {
	if len(text) == 0 {
		return nil
	}
	return json.Unmarshal(text, to)
}

// document returns the configuration with the section, and with what else the file has that it
// replaces.
func (a *Advice) document() ([]byte, error) {
	fields := map[string]any{"apiVersion": kubeletconfig.APIVersion, "kind": kubeletconfig.Kind}
	if a.isSystem() {
		fields[kubeletconfig.SectionField] = a.SystemPartition
		if a.beside.workloads != nil {
			fields[kubeletconfig.WorkloadsField] = a.beside.workloads
		}
		return yaml.Marshal(fields)
	}
	workloads := map[string]any{}
	for name, section := range a.beside.others {
		workloads[name] = section
	}
	workloads[string(a.Partition)] = a.WorkloadPartitions[a.Partition]
	fields[kubeletconfig.WorkloadsField] = workloads
	if a.beside.system != nil {
		fields[kubeletconfig.SectionField] = a.beside.system
	}
	return yaml.Marshal(fields)
}

// asPercentage writes the recommended limit as a percentage of the node's memory if the present
// section has one: its file may be the file of nodes of other sizes, too.
func (a *Advice) asPercentage(root host.Root, fields map[string]any) {
	c, _ := config.Load(string(root)) // a section that is not valid has no share, and a warning
	p := c.Partition(a.Partition)
	if p == nil || p.Share == nil {
		return
	}
	bytes := a.LimitBytes
	percentage, ok := p.Share.Percentage(bytes)
	if !ok {
		a.warn("the present memoryLimit is a percentage, and the recommended one is not below the node's memory of %s",
			text.Bytes(p.Share.OfBytes))
		return
	}
	fields[fieldLimit] = percentage
	a.widen(fields, fieldLimitMin, p.Share.MinBytes, p.Share.MinBytes > bytes)
	a.widen(fields, fieldLimitMax, p.Share.MaxBytes, p.Share.MaxBytes > 0 && p.Share.MaxBytes < bytes)
}

// widen replaces a bound that would count in place of the recommended limit.
func (a *Advice) widen(fields map[string]any, field string, bound uint64, counts bool) {
	if !counts {
		return
	}
	fields[field] = quantity(a.LimitBytes)
	a.warn("%s is %s in the recommendation, and was %s, which would count in place of the percentage; other nodes with the file get it, too",
		field, text.Bytes(a.LimitBytes), text.Bytes(bound))
}

// quantity returns bytes, which are whole mebibytes, as a quantity.
func quantity(bytes uint64) string { return fmt.Sprintf("%dMi", bytes>>20) }
