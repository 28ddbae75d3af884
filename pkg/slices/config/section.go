package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/text"
)

// section holds the fields of the section of a partition.
type section map[string]json.RawMessage

type sections map[partition.Name]section

// maxWorkloads bounds the number of partitions beside the system partition. Each has three slices,
// an evictor, and its own series.
const maxWorkloads = 16

// SectionPath returns the path of the section of a partition in the configuration, such as
// workloadPartitions.telemetry.
func SectionPath(p partition.Name) string {
	if p == partition.System {
		return kubeletconfig.SectionField
	}
	return workloadPath(p)
}

// workloadPath returns the path of an entry of workloadPartitions, which may have the name of the
// system partition, and is refused then.
func workloadPath(name partition.Name) string {
	return kubeletconfig.WorkloadsField + "." + string(name)
}

// names returns the partitions that have a section, the system partition first.
func (s sections) names() []partition.Name {
	var names []partition.Name
	if _, ok := s[partition.System]; ok {
		names = append(names, partition.System)
	}
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if name != partition.System {
			names = append(names, name)
		}
	}
	return names
}

// HasField reports whether a section has a field.
func (c *Config) HasField(field string) bool {
	for _, fields := range c.sections {
		if fields[field] != nil {
			return true
		}
	}
	return false
}

func (s sections) workloads() sections {
	others := maps.Clone(s)
	delete(others, partition.System)
	return others
}

// decodeSections splits the sections of a configuration into their fields. The system partition has
// none, which means switched off, if its section is missing, null or {}. A workload partition that
// is null has none. The error lists every problem. A section with one is left out.
func decodeSections(config *kubeletconfig.Merged) (sections, error) {
	found := sections{}
	var list problems
	if fields, ok := decodeSection(config, partition.System, config.System.JSON, &list); ok && len(fields) > 0 {
		found[partition.System] = fields
	}
	workloads := decodeWorkloads(config, &list)
	for _, name := range slices.Sorted(maps.Keys(workloads)) {
		path := workloadPath(name)
		if err := checkWorkload(name); err != nil {
			list.add(config.SectionFileWith(path), text.ASCII(path), "", "%v", err)
			continue
		}
		if fields, ok := decodeSection(config, name, workloads[name], &list); ok {
			found[name] = fields
		}
	}
	return found, list.err()
}

// decodeWorkloads returns the sections of the workload partitions that are not null.
func decodeWorkloads(config *kubeletconfig.Merged, list *problems) map[partition.Name]json.RawMessage {
	raw := config.Workloads.JSON
	if len(raw) == 0 {
		return nil
	}
	var workloads map[partition.Name]json.RawMessage
	if err := json.Unmarshal(raw, &workloads); err != nil {
		list.add(config.Workloads.File, kubeletconfig.WorkloadsField, shown(raw),
			"is not an object; want e.g. {telemetry: {memoryLimit: 1Gi, namespaces: [telemetry]}}")
		return nil
	}
	maps.DeleteFunc(workloads, func(_ partition.Name, v json.RawMessage) bool { return isNull(v) })
	if len(workloads) > maxWorkloads {
		list.add(config.Workloads.File, kubeletconfig.WorkloadsField, "",
			"has %d partitions; want at most %d", len(workloads), maxWorkloads)
		return nil
	}
	return workloads
}

// errSystem refuses a workload partition with the name of the system partition.
var errSystem = errors.New("is the name of the system partition; want the section " + kubeletconfig.SectionField +
	", or another name")

// checkWorkload returns an error if no workload partition may have the name.
func checkWorkload(name partition.Name) error {
	if name == partition.System {
		return errSystem
	}
	return name.Check()
}

// decodeSection splits a section into its fields. It reports false for one that is missing, null or
// not an object.
func decodeSection(
	config *kubeletconfig.Merged, name partition.Name, raw json.RawMessage, list *problems,
) (section, bool) {
	if len(raw) == 0 || isNull(raw) {
		return nil, false
	}
	var fields section
	if err := json.Unmarshal(raw, &fields); err != nil {
		example := "{memoryLimit: 4Gi, namespaces: [kube-system]}"
		if name != partition.System {
			example = "{memoryLimit: 1Gi, namespaces: [" + string(name) + "]}"
		}
		path := SectionPath(name)
		list.add(config.SectionFileWith(path), path, shown(raw), "is not an object; want e.g. %s", example)
		return nil, false
	}
	// A null is an absent field, here as in the rest of the kubelet's configuration. A field that is
	// not known stays, for its warning.
	known := knownFields(name)
	maps.DeleteFunc(fields, func(field string, v json.RawMessage) bool {
		return isNull(v) && slices.Contains(known, field)
	})
	return fields, true
}

func isNull(raw json.RawMessage) bool { return bytes.Equal(raw, []byte("null")) }
