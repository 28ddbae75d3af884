package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/text"
)

const cpusetField = "cpuset"

// pinnedElsewhere returns a warning for each type that has other CPUs in OpenShift's pinning file
// than in its section. The section counts, and CRI-O may follow the file.
func pinnedElsewhere(config *kubeletconfig.Merged, all sections) []string {
	var list []string
	for _, one := range slices.Sorted(maps.Keys(config.Pinning.CPUs)) {
		name := partition.Name(one)
		section, ok := all[name]
		if !ok || config.SectionFileWith(SectionPath(name)) == config.Pinning.File {
			continue
		}
		if section.isTypeAlone() {
			name = partition.System
		}
		var cpus string
		_ = json.Unmarshal(all[name][cpusetField], &cpus) // another type is an error of the section
		if pinned := config.Pinning.CPUs[one]; !sameCPUs(pinned, cpus) {
			path := SectionPath(name) + "." + cpusetField
			list = append(list, fmt.Sprintf(
				"%s: %s.%s: %s: %s: %s is %s, and counts; want the same list in both",
				config.Pinning.File, text.ASCII(one), cpusetField, quote(pinned),
				config.SectionFileWith(path), path, quote(cpus),
			))
		}
	}
	return list
}

// sameCPUs reports whether two lists have the same CPUs. Lists that cannot be parsed are compared
// as they are written.
func sameCPUs(a, b string) bool {
	first, err := cpuset.Parse(a)
	second, otherErr := cpuset.Parse(b)
	if err != nil || otherErr != nil {
		return a == b
	}
	return first.Equals(second)
}
