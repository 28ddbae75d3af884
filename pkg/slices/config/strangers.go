package config

import (
	"fmt"
	"slices"

	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/nearest"
	"nodepartition/internal/unitname"
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

// stranger says what a field beside the sections probably means. One that a section has is
// indented wrongly.
func stranger(name string) string {
	system, workload, kubelets := fieldNames[systemSection](), fieldNames[workloadSection](), kubeletconfig.KubeletFields()
	inSection, near := slices.Contains(workload, name), nearest.Name(name, workload...)
	isKubelets := slices.Contains(kubelets, name)
	switch {
	case inSection && isKubelets:
		return fmt.Sprintf("%s belongs in a section, indented below it, or in the kubelet's own configuration, ignoring it here", name)
	case isKubelets:
		return fmt.Sprintf("%s belongs in the kubelet's own configuration, ignoring it here", name)
	case inSection:
		near = name
	}
	unknown := "unknown field " + quote(name) + ", ignoring; "
	if slices.Contains(system, near) {
		return unknown + "is " + SectionPath(unitname.System) + "." + near + " meant? Indent it below its section"
	} else if near != "" {
		return unknown + "is " + SectionPath("NAME") + "." + near + " meant? Indent it below its section"
	}
	if near = nearest.Name(name, kubelets...); near != "" {
		return unknown + "is " + near + " meant? It belongs in the kubelet's own configuration"
	}
	return unknown + "known here are apiVersion, kind, " + kubeletconfig.SectionField + ", " + kubeletconfig.WorkloadsField
}
