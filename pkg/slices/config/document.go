package config

import (
	"reflect"
	"strings"
)

// Document is the content of kubeletconfig.OverridePath, as types: the known fields, the JSON
// schema of the file and node-partition(5) are made from them. The checker itself reads each field
// from its JSON, because a problem names the field and its value.
//
// The comments of the fields are the descriptions in the schema and in the manual page.
type Document struct {
	// The version of the kubelet's configuration, whose form the file has.
	APIVersion apiVersion `json:"apiVersion"`
	// The kind of the kubelet's configuration, whose form the file has.
	Kind kind `json:"kind"`
	// The partition for system pods (KEP-5894). An empty section switches it off.
	SystemPartition *systemSection `json:"systemPartition,omitempty"`
	// The other partitions and workload types, by name.
	WorkloadPartitions map[partitionName]*workloadSection `json:"workloadPartitions,omitempty"`
}

// systemSection has the fields that each partition has.
type systemSection struct {
	// The limit of the memory: a quantity such as 4Gi, above zero and below the node's memory, or a
	// percentage of the node's memory such as 12%. Without one the partition only sets CPU weights and
	// reports usage, and nothing is limited or evicted.
	MemoryLimit limitText `json:"memoryLimit,omitempty"`
	// The least limit, if memoryLimit is a percentage.
	MemoryLimitMin quantityText `json:"memoryLimitMin,omitempty"`
	// The largest limit, if memoryLimit is a percentage.
	MemoryLimitMax quantityText `json:"memoryLimitMax,omitempty"`
	// The most memory that the node may lend beyond memoryLimit while it has more to spare: a
	// quantity, or a percentage of memoryLimit. Evictions begin later by as much as is lent, and the
	// limit of the kernel is the sum of both. Without it nothing is lent. It needs memoryLimit and
	// evictionHard, and goes without memoryHigh. Nothing is lent where the kubelet does not serve its
	// Pods API. Plan without it.
	MemoryBurst limitText `json:"memoryBurst,omitempty"`
	// The memory above which the kernel slows the partition down and reclaims its page cache, which
	// gives eviction time: a quantity below memoryLimit, or a percentage of it. Without it this is
	// off. It should be above the usage at which eviction begins: below that usage the partition stays
	// slow, and nothing ends it.
	MemoryHigh limitText `json:"memoryHigh,omitempty"`
	// The CPUs of the partition, such as "0-3,8". All CPUs without it. If the kubelet has
	// reservedSystemCPUs, it is a part of those. With the static CPU manager it requires
	// reservedSystemCPUs, and a missing cpuset causes a warning.
	CPUSet cpuList `json:"cpuset,omitempty"`
	// Whether all other pods are kept off cpuset.
	Exclusive bool `json:"exclusive,omitempty"`
	// The namespaces whose pods are members, each once. The system partition needs at least one.
	Namespaces []namespaceName `json:"namespaces,omitempty"`
	// The available memory below which a pod is evicted at once: a quantity below memoryLimit, or a
	// percentage of it. 0% and 100% switch it off. Without it, it is 5%, and at least 32Mi or 512Ki
	// for each online CPU. That minimum is never more than half of memoryLimit.
	EvictionHard *thresholdSignal `json:"evictionHard,omitempty"`
	// The available memory below which a pod is evicted after evictionSoftGracePeriod: as
	// evictionHard, and more than there.
	EvictionSoft *thresholdSignal `json:"evictionSoft,omitempty"`
	// How long evictionSoft has to be met: a duration above zero. It is required with evictionSoft.
	EvictionSoftGracePeriod *periodSignal `json:"evictionSoftGracePeriod,omitempty"`
	// The most seconds that a pod gets to end because of evictionSoft, unless its own grace period is
	// shorter. A pod gets two seconds at least. Without it a pod gets its own grace period.
	EvictionMaxPodGracePeriod *seconds `json:"evictionMaxPodGracePeriod,omitempty"`
	// How much more than the threshold evictions make available. The threshold and the minimum
	// together are below memoryLimit.
	EvictionMinimumReclaim *reclaimSignal `json:"evictionMinimumReclaim,omitempty"`
}

// workloadSection has the fields of a partition beside the system partition, and of a workload
// type.
type workloadSection struct {
	systemSection
	// "system" if the pods that ask for the type are members of the system partition.
	Partition otherPartition `json:"partition,omitempty"`
	// The namespaces whose pods are members if they ask for the type.
	AllowedNamespaces []namespaceName `json:"allowedNamespaces,omitempty"`
	// Whether every pod that asks for the type is a member. Only for a cluster with the policies of
	// partition-monitor render admission, which let no pod ask without an annotation of its namespace.
	// False without it.
	NamespaceAnnotation *bool `json:"namespaceAnnotation,omitempty"`
	// Whether the Node has the resource NAME.workload.openshift.io/cores. Without it, true
	// if the partition has a cpuset, and otherwise false.
	Advertise *bool `json:"advertise,omitempty"`
}

// The types of values. The schema has the form of each by its name.
type (
	apiVersion     string
	kind           string
	partitionName  string
	namespaceName  string
	otherPartition string
	// quantityText is a number of bytes, and limitText one or a percentage. Both may be numbers.
	quantityText string
	limitText    string
	cpuList      string
	seconds      int32
	// thresholdText is a quantity or a percentage in quotes, and reclaimText may also be a number.
	thresholdText string
	reclaimText   string
	durationText  string
)

// thresholdSignal, periodSignal and reclaimSignal are maps with the one signal of a partition.
type (
	thresholdSignal struct {
		// The only signal of a partition.
		Available thresholdText `json:"memory.available,omitempty"`
	}
	periodSignal struct {
		// A duration such as 1m30s.
		Available durationText `json:"memory.available,omitempty"`
	}
	reclaimSignal struct {
		// A quantity, or a percentage of memoryLimit.
		Available reclaimText `json:"memory.available,omitempty"`
	}
)

// fieldNames lists the names in JSON of the fields of a struct, with the fields of embedded
// structs.
func fieldNames[T any]() []string { return namesOf(reflect.TypeFor[T]()) }

func namesOf(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			names = append(names, namesOf(f.Type)...)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}
