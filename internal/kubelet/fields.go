package kubelet

import (
	"encoding/csv"
	"strconv"
	"strings"
)

// field is a field of the kubelet's configuration that a flag replaces as a whole.
type field struct {
	name string
	// add adds a value of the flag to what the flags before it have set. It returns nil for a value
	// with which the kubelet does not start.
	add func(before any, value string) any
}

// fields lists the flags that replace a field, of those that bear on the partition and on the
// budget of the node.
var fields = map[string]field{
	"cgroup-root":                      {"cgroupRoot", plainText},
	"cgroups-per-qos":                  {"cgroupsPerQOS", yesNo},
	"cpu-manager-policy":               {"cpuManagerPolicy", plainText},
	"cpu-manager-policy-options":       {"cpuManagerPolicyOptions", pairs("=")},
	"enforce-node-allocatable":         {"enforceNodeAllocatable", list},
	"eviction-hard":                    {"evictionHard", pairs("<")},
	"eviction-soft":                    {"evictionSoft", pairs("<")},
	"kube-reserved":                    {"kubeReserved", pairs("=")},
	"kube-reserved-cgroup":             {"kubeReservedCgroup", plainText},
	"local-storage-capacity-isolation": {"localStorageCapacityIsolation", yesNo},
	"memory-manager-policy":            {"memoryManagerPolicy", plainText},
	"reserved-cpus":                    {"reservedSystemCPUs", plainText},
	"system-reserved":                  {"systemReserved", pairs("=")},
	"system-reserved-cgroup":           {"systemReservedCgroup", plainText},
}

func plainText(_ any, value string) any { return value }

func yesNo(_ any, value string) any {
	if on, err := strconv.ParseBool(value); err == nil {
		return on
	}
	return nil
}

// pairs adds the pairs of a list such as cpu=1,memory=1Gi. Several flags add up
// (MapStringString and LangleSeparatedMapStringString of k8s.io/component-base/cli/flag). The
// kubelet does not start with a pair without a separator, so none is running with one.
func pairs(separator string) func(any, string) any {
	return func(before any, list string) any {
		all, ok := before.(map[string]string)
		if !ok {
			all = map[string]string{}
		}
		for pair := range strings.SplitSeq(list, ",") {
			if name, value, ok := strings.Cut(pair, separator); ok {
				all[strings.TrimSpace(name)] = strings.TrimSpace(value)
			}
		}
		return all
	}
}

// list adds the values of a line of CSV. Several flags add up (stringSlice of pflag).
func list(before any, line string) any {
	values, ok := before.([]string)
	if !ok {
		values = []string{}
	}
	more, _ := csv.NewReader(strings.NewReader(line)).Read()
	return append(values, more...)
}

// OtherTree returns the flag with which the pods are not in kubepods.slice at the top of the
// hierarchy, and no pod comes into the partition; "" if none is given. The kubelet puts kubepods
// below its cgroup root (NewQOSContainerManager, pkg/kubelet/cm/qos_container_manager_linux.go,
// v1.37.0).
func (f *Flags) OtherTree() string {
	root, _ := f.Fields["cgroupRoot"].(string)
	switch {
	//guard: a kubelet whose pods are in another tree is reported
	case strings.Trim(root, "/") != "":
		return "--cgroup-root=" + root
	case f.Fields["cgroupsPerQOS"] == false:
		return "--cgroups-per-qos=false"
	}
	return ""
}
