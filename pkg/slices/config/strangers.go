package config

import (
	"fmt"
	"slices"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
)

// maxStrangers bounds the number of warnings about fields.
const maxStrangers = 10

// strangers warns of fields beside the sections in the file that is for sections alone.
func strangers(k *kubeletconfig.Merged) []string {
	file, fields := k.Strangers()
	var warnings []string
	for i, name := range fields {
		if i == maxStrangers {
			return append(warnings, fmt.Sprintf("%s: %d more unknown fields, ignoring", file, len(fields)-maxStrangers))
		}
		warnings = append(warnings, file+": "+stranger(name))
	}
	return warnings
}

// stranger says where a field beside the sections belongs. One that a section has is indented
// wrongly.
func stranger(name string) string {
	inSection := slices.Contains(fieldNames[workloadSection](), name)
	isKubelets := slices.Contains(kubeletconfig.KubeletFields(), name)
	unknown := "unknown field " + quote(name) + ", ignoring; "
	switch {
	case inSection && isKubelets:
		return fmt.Sprintf("%s belongs in a section, indented below it, or in the kubelet's own configuration, ignoring it here", name)
	case isKubelets:
		return fmt.Sprintf("%s belongs in the kubelet's own configuration, ignoring it here", name)
	case slices.Contains(fieldNames[systemSection](), name):
		return unknown + "is " + SectionPath(partition.System) + "." + name + " meant? Indent it below its section"
	case inSection:
		return unknown + "is " + SectionPath("NAME") + "." + name + " meant? Indent it below its section"
	}
	return unknown + "known here are apiVersion, kind, " + kubeletconfig.SectionField + ", " + kubeletconfig.WorkloadsField
}
