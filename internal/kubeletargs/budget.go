package kubeletargs

import (
	"encoding/csv"
	"strconv"
	"strings"
)

// Budget holds the flags that set reservations and thresholds. Given reports whether a flag is
// given: one that is given without a value overrides the configuration file, too.
type Budget struct {
	// KubeReserved is --kube-reserved, SystemReserved --system-reserved, and EvictionHard
	// --eviction-hard. Each is nil if it is not given, and replaces the whole field of the file.
	KubeReserved, SystemReserved, EvictionHard map[string]string
	// EnforceNodeAllocatable is --enforce-node-allocatable.
	EnforceNodeAllocatable []string
	// KubeReservedCgroup is --kube-reserved-cgroup, SystemReservedCgroup --system-reserved-cgroup, and
	// CPUManagerPolicy --cpu-manager-policy.
	KubeReservedCgroup, SystemReservedCgroup, CPUManagerPolicy string
	// MemoryManagerPolicy is --memory-manager-policy.
	MemoryManagerPolicy string
	// MaxPods is --max-pods.
	MaxPods int32
	// StorageIsolation is --local-storage-capacity-isolation.
	StorageIsolation bool

	given map[string]bool
}

// Given reports whether the command line has a flag, by its name without the dashes before it.
func (b *Budget) Given(name string) bool { return b.given[name] }

// flags returns a function for each flag, which is called with each value of it.
func (b *Budget) flags() map[string]func(string) {
	return map[string]func(string){
		"kube-reserved":            func(v string) { addPairs(&b.KubeReserved, v, "=") },
		"system-reserved":          func(v string) { addPairs(&b.SystemReserved, v, "=") },
		"eviction-hard":            func(v string) { addPairs(&b.EvictionHard, v, "<") },
		"enforce-node-allocatable": b.addEnforced,
		"kube-reserved-cgroup":     func(v string) { b.KubeReservedCgroup = v },
		"system-reserved-cgroup":   func(v string) { b.SystemReservedCgroup = v },
		"cpu-manager-policy":       func(v string) { b.CPUManagerPolicy = v },
		"memory-manager-policy":    func(v string) { b.MemoryManagerPolicy = v },
		// Given reports these. The budget does not use their values.
		"reserved-memory":            func(string) {},
		"eviction-soft":              func(string) {},
		"eviction-soft-grace-period": func(string) {},
		"max-pods": func(v string) {
			if n, err := strconv.ParseInt(v, 0, 32); err == nil {
				b.MaxPods = int32(n)
			}
		},
	}
}

// addPairs adds the pairs of a list such as cpu=1,memory=1Gi. Several flags add up
// (MapStringString and LangleSeparatedMapStringString of k8s.io/component-base/cli/flag). The
// kubelet does not start with a pair without a separator, so none is running with one.
func addPairs(pairs *map[string]string, list, separator string) {
	if *pairs == nil {
		*pairs = map[string]string{}
	}
	for pair := range strings.SplitSeq(list, ",") {
		if name, value, ok := strings.Cut(pair, separator); ok {
			(*pairs)[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
}

// addEnforced adds the values of one --enforce-node-allocatable, a line of CSV. Several flags add
// up (stringSlice of pflag).
func (b *Budget) addEnforced(list string) {
	if b.EnforceNodeAllocatable == nil {
		b.EnforceNodeAllocatable = []string{}
	}
	if values, err := csv.NewReader(strings.NewReader(list)).Read(); err == nil {
		b.EnforceNodeAllocatable = append(b.EnforceNodeAllocatable, values...)
	}
}
